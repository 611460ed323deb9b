"""The report in a real browser: quiet, alone, readable at two widths, on paper and in the dark."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree.ElementTree import fromstring

import made_summary
import pytest
from contrast import contrast
from made_campaign import HELLO, Layout, Truth, changed, make_campaign
from made_classes import ExactTruth
from pages import IN_SIGHT, Browser, opened
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

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
    """Of twenty trials, with names that would break out of the page if they could."""
    hello = HELLO | {"host": HELLO["host"] | {"cpu_model": NASTY}}
    folder = make_campaign(
        tmp_path_factory.mktemp("report") / "c",
        points(),
        factors=FACTORS,
        layout=Layout(replicates=2, intervals=30, hello=hello),
        question=f"What does a KByte cost? {NASTY}",
        experiment_text=f"name: made # {NASTY}\n",
    )
    return write_report(folder)


@pytest.fixture(params=[400, 1400])
def shown(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Browser]:
    with opened(browser, report, request.param) as shown:
        shown.unfold()
        yield shown


def test_it_fits_the_width(shown: Browser) -> None:
    for _ in range(2):
        wide, window = shown.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window
        shown.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")


def test_the_limiter_is_in_sight_however_many_columns_there_are(shown: Browser) -> None:
    """The table takes the margins of a wide page, and its last column stays when the others are scrolled."""
    wide = shown.first("#cost > .scroll")
    shown.evaluate("arguments[0].querySelector('table').style.minWidth = '3000px'", wide)
    cell = shown.first("tbody tr td:last-child", wide)
    left, _, taken, _ = shown.box(wide)
    window = shown.evaluate("document.documentElement.clientWidth")
    assert 0 <= left < left + taken <= window
    begin, _, width, _ = shown.box(cell)
    if window > 720:
        assert taken > 1240, "the margins are taken"
        assert begin + width <= left + taken + 1
        # What it covers fades, so that no number seems to end there.
        assert "gradient" in shown.evaluate("getComputedStyle(arguments[0]).backgroundImage", cell)
        hosts = shown.all("tr.hosts th", wide)[1]
        assert shown.evaluate("getComputedStyle(arguments[0]).position", hosts) == "static"
    else:
        # There it would cover the numbers.
        assert begin > left + taken


def test_the_contents_stay_in_sight_and_cover_no_part_of_a_line(shown: Browser) -> None:
    """They have the upper edge of the window for themselves, from side to side, and what they lead to stands below them."""
    shown.evaluate("scrollTo({top: 600, behavior: 'instant'})")
    there = "(document.elementFromPoint(x, 20) || document.body).closest('#contents')"
    width = shown.evaluate("document.documentElement.clientWidth")
    assert shown.evaluate(f"[2, {width / 2}, {width - 2}].every(x => {there})")
    see_through = (
        "(s => [s.opacity, s.backgroundColor])(getComputedStyle(document.querySelector('#contents')))"
    )
    opacity, colour = shown.evaluate(see_through)
    assert opacity == "1" and not colour.startswith("rgba")
    shown.evaluate("document.documentElement.style.scrollBehavior = 'auto', location.hash = 'limiters'")
    _, top, _, _ = shown.box(shown.first("#limiters > summary"))
    _, _, _, covered = shown.box(shown.first("#contents"))
    assert top >= covered


def test_the_answer_fits_one_screen_and_the_rest_is_folded(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        assert shown.evaluate("document.querySelector('#answer').getBoundingClientRect().bottom") <= 800
        assert shown.evaluate("document.documentElement.scrollHeight") <= 3 * 800
        assert not shown.all("details[open]")
        # From the keyboard the answer comes first, and a link of the contents opens its part.
        shown.press(Keys.TAB)
        assert shown.switch_to.active_element.get_attribute("href").endswith("#answer")
        shown.evaluate("document.activeElement.blur()")
        shown.click(shown.first("#contents a[href='#cost']"))
        shown.when("arguments[0].open", shown.first("#cost"))


def test_plots_are_saved_as_they_are_seen_and_as_numbers(
    browser: Browser, report: Path, tmp_path: Path
) -> None:
    def pressed(form: str, place: str, name: str) -> bytes:
        shown.click(shown.named(form, "button", shown.first(f"{place} .save")))
        file = tmp_path / name
        WebDriverWait(shown, 30).until(lambda _: file.is_file() and file.stat().st_size)
        return file.read_bytes()

    with opened(browser, report, saved=tmp_path) as shown:
        svg = pressed("SVG", "#answer figure", "made-cost.svg")
        assert pressed("PNG", "#answer figure", "made-cost.png").startswith(b"\x89PNG")
        rows = list(csv.DictReader(pressed("CSV", "#answer figure", "made-cost.csv").decode().splitlines()))
        shown.unfold()
        shown.evaluate("document.querySelector('.point-map').open = true")
        map_svg = pressed("SVG", ".point-map", "made-heat-p01.svg")
        cells = pressed("CSV", ".point-map", "made-heat-p01.csv").decode().splitlines()
        shown.click(shown.first("[data-table='table-1']"))
        WebDriverWait(shown, 30).until(lambda _: (tmp_path / "made-table-1.csv").is_file())
    # Whatever program opens it: nothing of the page's style sheet or of its definitions is needed.
    for picture in (svg, map_svg):
        root = fromstring(picture)
        assert "var(" not in picture.decode() and not [each for each in root.iter() if each.get("class")]
        held = {each.get("id") for each in root.iter()}
        assert {name for name in re.findall(r"#([\w-]+)[\")]", picture.decode()) if "-" in name} <= held
    assert len(rows) == 20 and all(float(row["low"]) < float(row["y"]) < float(row["high"]) for row in rows)
    assert sum(int(line.rsplit(",", 1)[1]) for line in cells[1:]) > 0
    table = list(csv.reader((tmp_path / "made-table-1.csv").read_text().splitlines()))
    texts = {
        cell for row in table[1:] for cell in row[:-1] if not re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?|", cell)
    }
    assert not texts


def test_the_limiter_of_a_row_leads_to_its_evidence_by_keyboard_too(shown: Browser) -> None:
    evidence = shown.first("#evidence-p02")
    assert evidence.get_attribute("open") is None
    (link,) = shown.all("#cost td a[href='#evidence-p02']")
    for _ in range(2):
        shown.evaluate("arguments[0].focus()", link)
        shown.press(Keys.ENTER)
        shown.when("arguments[0].open", evidence)
        shown.when(IN_SIGHT, shown.first("summary", evidence))
        # A second time it leads there too, although the address stays the same.
        shown.evaluate("arguments[0].open = false, scrollTo({ top: 0, behavior: 'instant' })", evidence)
    # Without call stacks there is no function table, and nothing pretends to lead there.
    assert not shown.all("#cost td a[href^='#functions-']")


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
    with opened(browser, f"{file.as_uri()}#evidence-{points[0].id}", width) as shown:
        table = shown.first(f"#evidence-{points[0].id} table.evidence")
        shown.when("arguments[0].checkVisibility()", table)
        assert shown.evaluate("arguments[0].scrollWidth <= arguments[0].parentElement.clientWidth", table)
        assert [each.text for each in shown.all("tbody th", table)] == [
            "server: CPU (proved)",
            "concurrency (contradicted)",
        ]
        assert "the same rate with more operations at a time" in table.text


def test_a_trial_opens_without_scripts(browser: Browser, report: Path) -> None:
    with opened(browser, report, scripts=False) as shown:
        shown.click(shown.first("#trials > summary"))
        trial = shown.first("#trials details")
        pictures = shown.all("svg", trial)
        assert not pictures[0].is_displayed()
        shown.click(shown.first("summary", trial))
        labels = [picture.get_attribute("aria-label") or "" for picture in pictures]
        assert [label.split(":")[0] for label in labels[:4]] == [
            "heat map, write of client, service time",
            "heat map, read of server, service time",
            "histogram of the measured window, write of client, service time",
            "histogram of the measured window, read of server, service time",
        ]
        assert any(label.startswith("goodput") for label in labels)
        assert [each.text for each in shown.all("table tbody th", trial)] == [
            "warm-up, 0.00 to 1.00 s",
            "measured, 1.00 to 31.00 s",
        ]
        # What needs the script is not offered.
        assert not shown.first(".chosen-range", trial).is_displayed()
        assert not any(each.is_displayed() for each in shown.all(".script-only, button"))


def test_without_scripts_nothing_is_missing(browser: Browser, report: Path) -> None:
    with opened(browser, report, scripts=False) as shown:
        first, *_, last = shown.all("#trials details")
        assert len(shown.all("svg", first)) == len(shown.all("svg", last)) > 5
        shown.click(shown.first("#trials > summary"))
        shown.click(shown.first("summary", last))
        assert shown.all("svg", last)[-1].is_displayed()
        assert not shown.all("[data-deferred]")
        assert "by the script" not in shown.first("body").text


def test_drawings_that_are_too_many_lie_compressed_in_the_page(
    browser: Browser, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iodyno.report.deferred.PAGE_BYTES", 620_000)
    dataset = read_dataset(report.parent)
    summary = analyse(dataset)
    path = write_page(summary, tmp_path / "small.html", trials=study_trials(dataset, summary))
    assert path.stat().st_size <= 620_000
    with opened(browser, path) as shown:
        first, *_, trial = shown.all("#trials details")
        assert not shown.all("svg", trial)
        shown.click(shown.first("#trials > summary"))
        shown.click(shown.first("summary", trial))
        assert shown.first(".chosen-range button", trial).is_displayed()
        assert len(shown.all("svg", trial)) == len(shown.all("svg", first)) > 5
    with opened(browser, path, scripts=False) as still:
        first, *_, trial = still.all("#trials details")
        still.click(still.first("#trials > summary"))
        still.click(still.first("summary", trial))
        assert "drawn by the script" in trial.text
        assert len(still.all("svg", first)) > 5
        assert still.all("table", trial)[-1].is_displayed()


def test_figures_have_names_intervals_and_readable_text(shown: Browser) -> None:
    # Those of the cost model have marks of their own.
    figures = shown.all("main > :not(#cost-model) figure svg:not(.stacks)")
    assert len(figures) == len(shown.all("#cost-model figure svg")) == 4
    for figure in figures:
        assert figure.get_attribute("role") == "img"
        assert len(shown.all(".bar", figure)) == 10
        assert "95 %" in shown.evaluate(
            "arguments[0].closest('figure').innerText", shown.first(".hit", figure)
        )
        assert len(shown.all("title", figure)) == 10
    # No label lies on another one; marks of costs that are unreliable lie where their points do.
    overlaps = shown.evaluate(
        """[...document.querySelectorAll('figure svg, .trials details[open] svg')].flatMap(svg => {
          const labels = [...svg.querySelectorAll('text')].filter(t => t.textContent != '?');
          const boxes = labels.map(t => [t.textContent, t.getBoundingClientRect()]);
          return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([_, q]) =>
            p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 4 && q.top < p.bottom - 4
          ).map(([b]) => a + ' on ' + b)); })"""
    )
    assert overlaps == []
    sizes = shown.evaluate(
        "[...document.querySelectorAll('figure svg text')].map(t => t.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 9


def test_cost_by_class_is_stacked_and_needs_no_colour(shown: Browser) -> None:
    panels = shown.all("#figure-classes svg")
    assert len(panels) == 4
    for panel in panels:
        assert "ns per KiB by class" in (panel.get_attribute("aria-label") or "")
        # Five bars, each with the interval of its total.
        assert len(shown.all(".total", panel)) == 5
        assert shown.texts("text.name", panel)[:4] == ["user", "system", "soft interrupts", "hard interrupts"]
        # User is plain, every other class has its hatch: in the bars and in the legend.
        assert len(shown.all(".hatch", panel)) >= 3 * 5 + 3
        assert "% of the total" in shown.evaluate(
            "arguments[0].parentNode.textContent", shown.first(".layer", panel)
        )
        # The layers reach the total.
        tops = shown.evaluate(
            """[...arguments[0].querySelectorAll('g:has(> g > .total)')].map(bar => [
              Math.min(...[...bar.querySelectorAll('.layer')].map(e => +e.getAttribute('y'))),
              +bar.querySelector('.hit').getAttribute('cy')])""",
            panel,
        )
        assert all(abs(top - total) <= 1.5 for top, total in tops), tops


def test_every_figure_says_what_the_instrument_took(shown: Browser) -> None:
    for caption in shown.all("figcaption"):
        assert "The instrument itself took at most 0.4" in caption.text
    trial = shown.first("#trials details")
    shown.click(shown.first("summary", trial))
    assert "the instrument took 0.4" in trial.text


def test_markup_in_names_stays_text(shown: Browser) -> None:
    assert "taken" not in shown.title.split("<script>")[0]
    assert NASTY in shown.first("h1").text
    # The page's own, and the data for it.
    assert len(shown.all("script:not([type])")) == 1
    assert len(shown.all("script")) == 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_the_paper(browser: Browser, report: Path, scheme: str) -> None:
    names = ["--ink", "--soft", "--accent", "--warn", "--bad", *(f"--s{index}" for index in range(7))]
    with opened(browser, report, color_scheme=scheme) as shown:
        paper, *colours = shown.colours("--paper", *names)
    contrasts = {name: contrast(paper, colour) for name, colour in zip(names, colours, strict=True)}
    # WCAG 2.2: 4.5 for text, 3 for graphics.
    assert all(
        value >= (3 if name.startswith("--s") and name != "--soft" else 4.5)
        for name, value in contrasts.items()
    ), contrasts


def test_it_prints(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        assert base64.b64decode(shown.print_page()).startswith(b"%PDF")
        # What was opened for it is folded again.
        shown.when("!document.querySelector('details[open]')")


# Without a browser.


def test_it_asks_for_nothing_outside(report: Path) -> None:
    text = report.read_text()
    assert "default-src 'none'" in text
    still = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    links = re.findall(r'(?:href|src)="?([^"> ]{0,40})', still)
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    # Only to what the page itself holds: the filters of the heat maps.
    assert all(target == "#on-" for target in re.findall(r"url\((.{0,4})", still))
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
