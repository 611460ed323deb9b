"""A range of time in a report: chosen with pointer or keys in one panel, shown by all of them; and who reads without either."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from made_campaign import Layout, Truth, make_campaign
from pages import Browser, opened
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.analysis.trial_views import study_trials
from iodyno.report import write_report
from iodyno.report.csv import outcome_rows
from iodyno.report.form import csv_text
from iodyno.report.html import write_page
from iodyno.report.trial_panels import heat
from iodyno.report.trial_panels.data import families_of
from iodyno.report.trial_panels.frame import Frame


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of two trials, seven intervals of a second each."""
    folder = make_campaign(
        tmp_path_factory.mktemp("selection") / "c",
        [({"connections": count, "size": 65536}, Truth(times_spread=0.7)) for count in (4, 8)],
        factors=[{"name": "connections", "levels": [4, 8], "together": {}}],
        layout=Layout(replicates=1, intervals=6),
    )
    return write_report(folder)


@pytest.fixture
def shown(browser: Browser, report: Path, tmp_path: Path) -> Iterator[Browser]:
    """What is downloaded is found in `tmp_path`."""
    with opened(browser, report, 1400, saved=tmp_path) as shown:
        shown.unfold()
        yield shown


def open_trial(shown: Browser) -> WebElement:
    trial = shown.first("#trials details")
    shown.click(shown.first("summary", trial))
    shown.first(".chosen-range button", trial)
    return trial


def state(shown: Browser) -> dict[str, object]:
    """What the panels and the table of the first trial show."""
    return shown.evaluate(
        """(() => { const t = document.querySelector('#trials details');
        return {
          veils: [...t.querySelectorAll('svg[data-span]')].map(svg =>
            [...svg.querySelectorAll('.veil')].map(v => Math.round(+v.getAttribute('width') || 0)).join()),
          rows: [...t.querySelectorAll('tbody.chosen tr')].map(r => [...r.children].map(c => c.textContent)),
          still: [...t.querySelectorAll('tbody:not(.chosen) tr')].map(r => [...r.children].map(c => c.textContent)),
          counts: [...t.querySelectorAll('.counts')].map(p => p.getAttribute('d')),
          told: t.querySelector('.told').textContent }; })()"""
    )


def test_drawing_over_one_panel_filters_all_others(shown: Browser) -> None:
    open_trial(shown)
    whole = state(shown)
    assert whole["rows"] == []
    panel = shown.first("#trials details svg[data-span]")
    shown.evaluate("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", panel)
    left, top, width, height = shown.box(panel)
    # The axis lies from 64 to 548 of 560 units, and 7 seconds on it.
    shown.point(
        *(
            (left + width * (64 + (548 - 64) * second / 7) / 560, top + height / 2)
            for second in (2.5, 3, 4, 4.5)
        )
    )
    shown.first("tbody.chosen tr")
    part = state(shown)
    assert part["told"] == "2 to 5 s are shown, 3 of 7 intervals"
    # 484 units: two seconds before, two after, the same in every panel.
    assert set(part["veils"]) == {"138,138"}
    rows = part["rows"]
    assert [row[0] for row in rows] == ["2 to 5 s", "2 to 3 s", "3 to 4 s", "4 to 5 s"]
    counts = [int(row[1].replace(" ", "")) for row in rows]
    assert counts[0] == sum(counts[1:])
    assert all(a != b for a, b in zip(part["counts"], whole["counts"], strict=True))
    # The pointer is told what lies under it.
    assert re.fullmatch(
        r"4 to 5 s, .* to .*: [\d ]+ of [\d ]+ operations \(.* %\)",
        shown.first(".hover").text,
    )
    shown.press(Keys.ESCAPE)
    shown.when("!document.querySelector('tbody.chosen tr')")
    again = state(shown)
    assert again == whole


def test_keys_choose_too_and_the_whole_window_is_what_python_counted(shown: Browser) -> None:
    trial = open_trial(shown)
    first, last = (shown.named(name, "input[type=range]", trial) for name in ("from", "to"))
    assert (first.get_attribute("aria-valuetext"), last.get_attribute("aria-valuetext")) == ("0 s", "7 s")
    shown.evaluate("arguments[0].focus()", first)
    shown.press(Keys.ARROW_RIGHT)
    shown.first("tbody.chosen tr")
    found = state(shown)
    assert first.get_attribute("aria-valuetext") == "1 s"
    # From 1 s on is the measured window: its counts are the same, its quantiles to within a row of the data.
    still, chosen = found["still"][1], found["rows"][0]
    assert still[0] == "measured, 1.00 to 7.00 s"
    assert chosen[1] == still[1]
    for by_script, exact in zip(chosen[2:5], still[2:5], strict=True):
        assert float(by_script) == pytest.approx(float(exact), rel=0.02)
    # Means of lines are the same numbers.
    assert chosen[-4:] == pytest.approx(still[-4:]) or [float(c) for c in chosen[-4:]] == pytest.approx(
        [float(s) for s in still[-4:]], rel=0.01
    )
    # Ends do not pass each other.
    shown.press(Keys.END)
    assert last.get_attribute("aria-valuetext") == "7 s"
    whole = shown.named("whole trial", within=trial)
    shown.click(whole)
    shown.when("!document.querySelector('tbody.chosen tr')")
    assert not whole.is_enabled()


def saved(shown: Browser, link: WebElement, file: Path) -> str:
    """What lies in the file that a click on it saves."""
    shown.click(link)
    # The browser keeps the name by an empty file until the whole one takes its place.
    WebDriverWait(shown, 30, 0.02).until(
        lambda _: file.exists() and file.stat().st_size, f"never saved: {file.name}"
    )
    return file.read_bytes().decode()


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_intervals_are_saved_as_csv(shown: Browser, tmp_path: Path) -> None:
    button = shown.named("intervals as CSV", within=open_trial(shown))
    lines = saved(shown, button, tmp_path / "trial-00000-1.csv").splitlines()
    assert lines[0].startswith(
        'begin_s,end_s,window,"write, service time, us: n","write, service time, us: p50",'
    )
    assert [line.split(",")[:3] for line in lines[1:3]] == [["0", "1", "warm_up"], ["1", "2", "measured"]]
    assert len(lines) == 8


def test_tables_are_saved_as_they_are(shown: Browser, tmp_path: Path) -> None:
    for name, css, first in (("JSON", "a", '{"name"'), ("CSV", "button", "point,")):
        link = shown.named(name, f"#downloads {css}")
        assert saved(shown, link, tmp_path / f"made.{name.lower()}").startswith(first)


def test_the_csv_of_a_page_is_that_of_the_command(shown: Browser, report: Path, tmp_path: Path) -> None:
    mine = rows(saved(shown, shown.named("CSV", "#downloads button"), tmp_path / "made.csv"))
    theirs = rows(csv_text(outcome_rows(analyse(read_dataset(report.parent)))))
    assert len(mine) == len(theirs) > 10
    for one, other in zip(mine, theirs, strict=True):
        for a, b in zip(one, other, strict=True):
            # Seven digits in the page.
            assert a == b or float(a) == pytest.approx(float(b), rel=1e-6)


def test_a_table_is_saved_as_numbers(shown: Browser, report: Path, tmp_path: Path) -> None:
    place = shown.first(".by:has([data-table])")
    button = shown.named("CSV", within=place)
    heads, *lines = rows(saved(shown, button, tmp_path / "made-table-1.csv"))
    table = place.find_element("xpath", "following-sibling::div[1]//table")
    assert len(lines) == len(shown.all("tbody tr", table))
    cost = next(head for head in heads if head.startswith("client cycles/Kbyte ["))
    columns = [heads.index(head) for head in (cost, f"{cost} low", f"{cost} high")]
    points = analyse(read_dataset(report.parent)).points
    wanted = [point.outcomes["client.cycles_per_kib"] for point in points if point.levels["size"] == 65536]
    for line, found in zip(lines, wanted, strict=True):
        assert [float(line[column]) for column in columns] == pytest.approx(
            [found.estimate, found.low, found.high], rel=1e-4
        )


def test_cells_drawn_by_the_script_are_those_of_the_picture(
    browser: Browser, tmp_path: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iodyno.report.deferred.PAGE_BYTES", 0)
    dataset = read_dataset(report.parent)
    summary = analyse(dataset)
    study = study_trials(dataset, summary)
    path = write_page(summary, tmp_path / "bare.html", trials=study)
    with opened(browser, path, 1400) as shown:
        shown.unfold()
        open_trial(shown)
        drawn = shown.evaluate(
            """[...document.querySelectorAll('#trials details g[data-map]')].map(g => [...g.children].flatMap(p => {
            const grey = +p.getAttribute('fill').match(/\\d+/)[0];
            return [...p.getAttribute('d').matchAll(/M([\\d.]+) ([\\d.]+)H/g)].map(m => [+m[1], +m[2], grey]); }))"""
        )
        bars = shown.evaluate(
            "[...document.querySelectorAll('#trials details[open] .counts')].map(p => p.getAttribute('d').match(/M/g).length)"
        )
    view = study.views["00000-1"]
    families = families_of([times for each in study.views.values() for times in each.times])
    for cells, times in zip(drawn, view.times, strict=True):
        rows = families[times.beside, times.operation].coarse
        rates = heat.rates(times.columns, rows)
        low, high = heat.extremes(rates)
        frame, wanted = Frame(view.end_s, view.measured), []
        for column, found in zip(times.columns, rates, strict=True):
            for row, rate in found.items():
                top = heat.BOTTOM - (row + 1) * (heat.BOTTOM - heat.TOP) / rows.count
                wanted.append((frame.x(column.begin_s), top, heat.level(rate, low, high)))
        assert len(cells) == len(wanted)
        for (x, y, grey), (left, top, level) in zip(sorted(cells), sorted(wanted), strict=True):
            assert (x, y) == pytest.approx((left, top), abs=0.06)
            assert abs(grey - level) <= 7, "a step of the forty at the most, by rounding"
    assert bars == [
        len(families[times.beside, times.operation].coarse.counts(times.within("measured")))
        for times in view.times
    ]


def test_the_theme_turns_and_stays_readable(shown: Browser) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    cells = "getComputedStyle(document.querySelector('image.cells')).filter"
    assert shown.evaluate(paper) == "rgb(255, 255, 255)"
    shown.click(shown.named("show on dark ground"))
    assert shown.evaluate(paper) == "rgb(20, 23, 27)"
    assert "on-dark" in shown.evaluate(cells)
    shown.click(shown.named("show on light ground"))
    assert shown.evaluate(paper) == "rgb(255, 255, 255)"
    assert "on-paper" in shown.evaluate(cells)


def open_all(shown: Browser) -> None:
    shown.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    shown.first(".chosen-range button")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_a_contrast_of_four_and_a_half(browser: Browser, report: Path, scheme: str) -> None:
    # WCAG 2.2, 1.4.3; of a text in a drawing the colour is its fill, and the ground that of the nearest box that has one.
    with opened(browser, report, color_scheme=scheme) as shown:
        shown.unfold()
        open_all(shown)
        found = shown.evaluate(
            """(() => {
        const rgb = text => text.match(/[\\d.]+/g).map(Number);
        const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
          .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
          if (c.length < 4 || c[3] > 0) return c; } return rgb(getComputedStyle(document.body).backgroundColor); };
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        const low = {};
        while (walker.nextNode()) { const text = walker.currentNode, e = text.parentElement;
          if (!text.textContent.trim() || !e.getClientRects().length || e.closest('script, style, title, :disabled')) continue;
          const style = getComputedStyle(e), ink = rgb(e instanceof SVGElement ? style.fill : style.color);
          const [a, b] = [light(ink), light(ground(e))].sort((x, y) => y - x), contrast = (a + 0.05) / (b + 0.05);
          if (contrast < 4.5) low[e.tagName + '.' + (e.getAttribute('class') || '')] = [contrast, text.textContent.slice(0, 40)];
        } return low; })()"""
        )
    # Names of the lines of a figure have the colour of the line: large marks stand beside them.
    assert {where: seen for where, seen in found.items() if where != "text.name"} == {}


@pytest.mark.parametrize("width", [320, 2000])
def test_nothing_scrolls_sideways_but_tables(browser: Browser, report: Path, width: int) -> None:
    with opened(browser, report, width) as shown:
        shown.unfold()
        for _ in range(2):
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
            open_all(shown)


def test_names_and_roles_for_those_who_hear_the_page(shown: Browser) -> None:
    open_all(shown)
    found = shown.evaluate(
        """(() => { const all = s => [...document.querySelectorAll(s)], ids = all('[id]').map(e => e.id);
        return {
          nameless: all('svg:not([aria-hidden]), nav, [role=region], [role=group]')
            .filter(e => !e.getAttribute('aria-label')).length,
          pictures: all('svg:not([aria-hidden])').filter(e => e.getAttribute('role') !== 'img').length,
          unlabelled: all('input').filter(e => !e.labels.length && !e.getAttribute('aria-label')).length,
          mute: all('button, a, summary').filter(e => !e.textContent.trim() && !e.getAttribute('aria-label')).length,
          twice: ids.filter((id, i) => ids.indexOf(id) !== i),
          dead: all('a[href^="#"], use').map(e => e.getAttribute('href').slice(1)).filter(id => !document.getElementById(id)),
          headings: all('h1, h2, h3, h4').map(e => +e.tagName[1]),
          scrolling: all('.scroll').filter(e => e.scrollWidth > e.clientWidth && e.tabIndex < 0).length }; })()"""
    )
    headings = found.pop("headings")
    assert found == {
        "nameless": 0,
        "pictures": 0,
        "unlabelled": 0,
        "mute": 0,
        "twice": [],
        "dead": [],
        "scrolling": 0,
    }
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))


def test_only_this_script_may_run(report: Path) -> None:
    text = report.read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    assert f" script-src {allowed};" in policy[1]
    assert policy[1].startswith("default-src 'none';")
    assert "unsafe-eval" not in policy[1]
    assert not re.search(r"\son\w+=", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))
