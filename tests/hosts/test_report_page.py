"""The report in a real browser: quiet, alone, readable at two widths, on paper and in the dark."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import made_summary
import pytest
from contrast import contrast
from made_campaign import HELLO, Layout, Truth, changed, make_campaign
from made_classes import ExactTruth
from playwright.sync_api import Browser, Page, expect

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.analysis.trial_views import study_trials
from iodyno.core.limiter import Evidence, Finding, Proof, Suspect, Verdict
from iodyno.report import write_report
from iodyno.report.html import page, write_page

NASTY = '<script>document.title = "taken"</script>"\'&'
FACTORS = [
    {"name": "connections", "levels": [1, 4, 32, 100, 1000], "together": {"window": [262144] * 4 + [32768]}},
    {"name": "size", "levels": [65536, 1024], "together": {}},
]


def points() -> list[tuple[dict[str, int], Truth]]:
    """Ten points; the cost grows with connections and with smaller messages."""
    return [
        (
            {"connections": connections, "window": 262144 if connections < 1000 else 32768, "size": size},
            changed(
                Truth(exact=ExactTruth(wander=0.05), times_spread=0.8),
                bytes_per_s=5e8,
                cost_ns_per_kib={"client": 300 + 0.3 * connections + 400_000 / size, "server": 300},
            ),
        )
        for connections in (1, 4, 32, 100, 1000)
        for size in (65536, 1024)
    ]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of fifty trials, with names that would break out of the page if they could."""
    hello = HELLO | {"host": HELLO["host"] | {"cpu_model": NASTY}}
    folder = make_campaign(
        tmp_path_factory.mktemp("report") / "c",
        points(),
        factors=FACTORS,
        layout=Layout(replicates=5, intervals=30, hello=hello),
        question=f"What does a KByte cost? {NASTY}",
        experiment_text=f"name: made # {NASTY}\n",
    )
    return write_report(folder)


@pytest.fixture(params=[400, 1400])
def shown(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": request.param, "height": 900})
    shown = context.new_page()
    shown.trouble = []  # type: ignore[attr-defined]
    shown.on("console", lambda message: shown.trouble.append(message.text))  # type: ignore[attr-defined]
    shown.on("pageerror", lambda error: shown.trouble.append(str(error)))  # type: ignore[attr-defined]
    shown.on("request", lambda asked: shown.trouble.append(asked.url) if _outside(asked.url) else None)  # type: ignore[attr-defined]
    shown.goto(report.as_uri())
    yield shown
    assert shown.trouble == []  # type: ignore[attr-defined]
    context.close()


def _outside(url: str) -> bool:
    return not url.startswith(("file:", "data:"))


def test_it_fits_the_width(shown: Page) -> None:
    for _ in range(2):
        wide, window = shown.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window
        shown.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")


def test_the_limiter_is_in_sight_however_many_columns_there_are(shown: Page) -> None:
    """The table takes the margins of a wide page, and its last column stays when the others are scrolled."""
    wide = "document.querySelector('#cost > .scroll')"
    shown.evaluate(f"{wide}.querySelector('table').style.minWidth = '3000px'")
    cell = shown.locator("#cost > .scroll tbody tr").first.locator("td").last
    left, right = shown.evaluate(f"(box => [box.left, box.right])({wide}.getBoundingClientRect())")
    window = shown.evaluate("document.documentElement.clientWidth")
    assert 0 <= left < right <= window
    box = cell.bounding_box()
    assert box is not None
    if window > 720:
        assert right - left > 1240, "the margins are taken"
        assert box["x"] + box["width"] <= right + 1
        # What it covers fades, so that no number seems to end there.
        assert "gradient" in cell.evaluate("each => getComputedStyle(each).backgroundImage")
        hosts = shown.locator("#cost > .scroll tr.hosts th").nth(1)
        assert hosts.evaluate("each => getComputedStyle(each).position") == "static"
    else:
        # There it would cover the numbers.
        assert box["x"] > right


def test_the_way_to_the_contents_covers_no_part_of_a_line(shown: Page) -> None:
    """It has the lower edge of the window for itself, from side to side."""
    shown.evaluate("scrollTo({top: 600, behavior: 'instant'})")
    there = "(document.elementFromPoint(x, innerHeight - 8) || document.body).className"
    width = shown.evaluate("document.documentElement.clientWidth")
    found = shown.evaluate(f"[2, {width / 2}, {width - 2}].map(x => {there})")
    assert all("to-contents" in name for name in found), found
    see_through = (
        "(s => [s.opacity, s.backgroundColor])(getComputedStyle(document.querySelector('.to-contents')))"
    )
    opacity, colour = shown.evaluate(see_through)
    assert opacity == "1" and not colour.startswith("rgba")


def test_the_limiter_of_a_row_leads_to_its_evidence_by_keyboard_too(shown: Page) -> None:
    evidence = shown.locator("#evidence-p02")
    assert evidence.get_attribute("open") is None
    link = shown.locator("#cost td a[href='#evidence-p02']")
    for _ in range(2):
        link.focus()
        shown.keyboard.press("Enter")
        expect(evidence).to_have_attribute("open", "")
        expect(evidence.locator("summary").first).to_be_in_viewport()
        # A second time it leads there too, although the address stays the same.
        evidence.evaluate("each => { each.open = false; scrollTo({ top: 0, behavior: 'instant' }); }")
    # Without call stacks there is no function table, and nothing pretends to lead there.
    assert shown.locator("#cost td a[href^='#functions-']").count() == 0


@pytest.mark.parametrize("width", [420, 1400])
def test_evidence_is_not_cut(browser: Browser, tmp_path: Path, width: int) -> None:
    """The proved limiter comes first, though another one was suspected before it; every column is seen."""
    summary = made_summary.summary()
    seen = Evidence("client.waiting_ratio", 1.0, "1", 0.8, True, 8, 8, "cpu_exact", "made")
    suspects = tuple(Suspect(name, 1.0, 1.0, (seen,)) for name in ("concurrency", "server.cpu"))
    proofs = (Proof("concurrency", "contradicted", "made"), Proof("server.cpu", "proved", "made"))
    finding = Finding(Verdict("concurrency", suspects), proofs)
    points = [replace(point, limiter=finding) for point in summary.points]
    file = tmp_path / "report.html"
    write_page(replace(summary, points=points), file)
    shown = browser.new_page(viewport={"width": width, "height": 900})
    shown.goto(f"{file.as_uri()}#evidence-{points[0].id}")
    table = shown.locator(f"#evidence-{points[0].id} table.evidence")
    table.wait_for()
    assert table.evaluate("each => each.scrollWidth <= each.parentElement.clientWidth")
    assert table.locator("tbody th").all_inner_texts() == [
        "server: CPU (proved)",
        "concurrency (contradicted)",
    ]
    assert table.get_by_text("the same rate with more operations at a time").first.is_visible()
    shown.close()


def test_a_trial_opens_without_scripts(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    shown = context.new_page()
    shown.goto(report.as_uri())
    trial = shown.locator("#trials details").first
    pictures = trial.locator("svg")
    assert not pictures.first.is_visible()
    trial.locator("summary").click()
    labels = [pictures.nth(index).get_attribute("aria-label") or "" for index in range(pictures.count())]
    assert [label.split(":")[0] for label in labels[:4]] == [
        "heat map, write of client, service time",
        "heat map, read of server, service time",
        "histogram of the measured window, write of client, service time",
        "histogram of the measured window, read of server, service time",
    ]
    assert any(label.startswith("goodput") for label in labels)
    assert trial.locator("table tbody th").all_inner_texts() == [
        "warm-up, 0.00 to 1.00 s",
        "measured, 1.00 to 31.00 s",
    ]
    # What needs the script is not offered.
    assert not trial.locator(".chosen-range").is_visible()
    assert shown.locator(".script-only:visible").count() == 0
    assert shown.locator("button:visible").count() == 0
    context.close()


def test_without_scripts_nothing_is_missing(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    shown = context.new_page()
    shown.goto(report.as_uri())
    first, last = (shown.locator("#trials details").nth(place) for place in (0, -1))
    assert first.locator("svg").count() == last.locator("svg").count() > 5
    last.locator("summary").click()
    assert last.locator("svg").last.is_visible()
    assert shown.locator("[data-aside]").count() == 0
    assert "by the script" not in shown.locator("body").inner_text()
    context.close()


def test_drawings_that_are_too_many_lie_compressed_in_the_page(
    browser: Browser, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iodyno.report.aside.PAGE_BYTES", 750_000)
    dataset = read_dataset(report.parent)
    summary = analyse(dataset)
    path = write_page(summary, tmp_path / "small.html", trials=study_trials(dataset, summary))
    assert path.stat().st_size <= 750_000
    context = browser.new_context()
    shown = context.new_page()
    shown.goto(path.as_uri())
    trial, first = shown.locator("#trials details").last, shown.locator("#trials details").first
    assert trial.locator("svg").count() == 0
    trial.locator("summary").click()
    trial.locator(".chosen-range button").first.wait_for()
    assert trial.locator("svg").count() == first.locator("svg").count() > 5
    context.close()
    context = browser.new_context(java_script_enabled=False)
    still = context.new_page()
    still.goto(path.as_uri())
    still.locator("#trials details summary").last.click()
    assert "drawn by the script" in still.locator("#trials details").last.inner_text()
    assert still.locator("#trials details").first.locator("svg").count() > 5
    assert still.locator("#trials details table").last.is_visible()
    context.close()


def test_figures_have_names_intervals_and_readable_text(shown: Page) -> None:
    # Those of the cost model have marks of their own.
    figures = shown.locator("section:not(#cost-model) figure svg:not(.stacks)")
    assert figures.count() == 4
    assert shown.locator("#cost-model figure svg").count() == 4
    for index in range(figures.count()):
        figure = figures.nth(index)
        assert figure.get_attribute("role") == "img"
        assert figure.locator(".bar").count() == 10
        assert "95 %" in (figure.locator(".hit").first.evaluate("e => e.closest('figure').innerText"))
        assert figure.locator("title").count() == 10
    # No label lies on another one.
    overlaps = shown.evaluate(
        """() => [...document.querySelectorAll('figure svg, .trials details[open] svg')].flatMap(svg => {
          const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
          return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([_, q]) =>
            p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 4 && q.top < p.bottom - 4
          ).map(([b]) => a + ' on ' + b)); })"""
    )
    assert overlaps == []
    sizes = shown.evaluate(
        "[...document.querySelectorAll('figure svg text')].map(t => t.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 9


def test_cost_by_class_is_stacked_and_needs_no_colour(shown: Page) -> None:
    panels = shown.locator("#figure-classes svg")
    assert panels.count() == 4
    for index in range(panels.count()):
        panel = panels.nth(index)
        assert "ns per KiB by class" in (panel.get_attribute("aria-label") or "")
        # Five bars, each with the interval of its total.
        assert panel.locator(".total").count() == 5
        legend = panel.locator("text.name").all_text_contents()
        assert legend[:4] == ["user", "system", "soft interrupts", "hard interrupts"]
        # User is plain, every other class has its hatch: in the bars and in the legend.
        assert panel.locator(".hatch").count() >= 3 * 5 + 3
        assert "% of the total" in (panel.locator(".layer").first.evaluate("e => e.parentNode.textContent"))
        # The layers reach the total.
        tops = panel.evaluate(
            """svg => [...svg.querySelectorAll('g:has(> g > .total)')].map(bar => [
              Math.min(...[...bar.querySelectorAll('.layer')].map(e => +e.getAttribute('y'))),
              +bar.querySelector('.hit').getAttribute('cy')])"""
        )
        assert all(abs(top - total) <= 1.5 for top, total in tops), tops


def test_every_figure_says_what_the_instrument_took(shown: Page) -> None:
    for caption in shown.locator("figcaption").all_inner_texts():
        assert "The instrument itself took at most 0.4" in caption
    shown.locator("#trials details summary").first.click()
    assert "the instrument took 0.4" in shown.locator("#trials details").first.inner_text()


def test_markup_in_names_stays_text(shown: Page) -> None:
    assert "taken" not in shown.title().split("<script>")[0]
    assert NASTY in shown.locator("h1").inner_text()
    # The page's own, and the data for it.
    assert shown.locator("script:not([type])").count() == 1
    assert shown.locator("script").count() == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_the_paper(browser: Browser, report: Path, scheme: str) -> None:
    context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
    shown = context.new_page()
    shown.goto(report.as_uri())
    names = ["--ink", "--soft", "--accent", "--warn", "--bad", *(f"--s{index}" for index in range(7))]
    paper, *colours = shown.evaluate(
        """names => ['--paper', ...names].map(name => {
          const probe = document.createElement('i'); probe.style.color = `var(${name})`; document.body.append(probe);
          return getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number); })""",
        names,
    )
    contrasts = {name: contrast(paper, colour) for name, colour in zip(names, colours, strict=True)}
    # WCAG 2.2: 4.5 for text, 3 for graphics.
    assert all(
        value >= (3 if name.startswith("--s") and name != "--soft" else 4.5)
        for name, value in contrasts.items()
    ), contrasts
    context.close()


def test_it_prints(browser: Browser, report: Path) -> None:
    context = browser.new_context()
    shown = context.new_page()
    shown.goto(report.as_uri())
    assert shown.pdf(format="A4").startswith(b"%PDF")
    context.close()


# Without a browser.


def test_fifty_trials_fit_into_one_and_a_half_megabytes(report: Path) -> None:
    assert report.read_text().count('<details id="trial-') == 50
    assert report.stat().st_size <= 1_050_000, "of the 1.5 MB that a page may have; this one has no functions"


def test_it_asks_for_nothing_outside(report: Path) -> None:
    text = report.read_text()
    assert "default-src 'none'" in text
    links = re.findall(
        r'(?:href|src)="?([^"> ]{0,40})', re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    )
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    # Only to what the page itself holds: the filters of the heat maps.
    assert all(target == "#on-" for target in re.findall(r"url\((.{0,4})", text))
    assert "@import" not in text


def test_every_tag_is_closed(report: Path) -> None:
    class Tags(HTMLParser):
        void = frozenset({"meta", "link", "br"})
        stack: list[str] = []  # noqa: RUF012

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in self.void:
                self.stack.append(tag)

        def handle_startendtag(self, tag: str, attrs: object) -> None:
            pass

        def handle_endtag(self, tag: str) -> None:
            if tag not in self.void:
                assert self.stack.pop() == tag, self.getpos()

    parser = Tags()
    parser.feed(report.read_text())
    assert parser.stack == []


def test_the_experiment_and_the_data_are_in_it(report: Path) -> None:
    text = report.read_text()
    assert "iodyno run experiment.yaml" in text
    # For who has no script too; CSV is made of it by the script.
    packed = re.findall(r"data:application/gzip;base64,([A-Za-z0-9+/=]+)", text)
    assert [json.loads(gzip.decompress(base64.b64decode(each)))["name"] for each in packed] == ["made"]
    assert "name: made #" in text


@pytest.mark.parametrize("made", ["summary", "flat", "single"])
def test_sparse_campaigns_have_a_page(tmp_path: Path, made: str) -> None:
    text = write_page(getattr(made_summary, made)(), tmp_path / "report.html").read_text()
    assert "What does a transmitted KByte cost?" in text


def test_an_empty_campaign_has_a_page(tmp_path: Path) -> None:
    folder = make_campaign(tmp_path / "c", points(), factors=FACTORS, layout=Layout(replicates=0, idle=()))
    assert "No trial finished" in write_report(folder).read_text()


def test_a_page_is_the_same_for_the_same_campaign(report: Path) -> None:
    assert write_report(report.parent).read_text() == report.read_text()
    assert page(made_summary.summary()) == page(made_summary.summary())
