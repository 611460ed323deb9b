"""Heat maps in a real browser: they answer to pointer and keyboard, stand alone, and no text breaks out of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_grids import counted, linear
from pages import Browser, opened
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from iodyno.analysis.heat_map.columns import column_quantiles
from iodyno.analysis.heat_map.curve import cumulative_curve
from iodyno.analysis.heat_map.findings import examine
from iodyno.core.grid import Grid
from iodyno.report.heat_map import svg
from iodyno.report.heat_map.layout import OVERLAYS, Look, lay_out
from iodyno.report.heat_map.page import page
from iodyno.report.heat_map.sentences import sentences

NASTY = (
    "</title></text><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">&]]>"
)
COLUMNS, ROWS = 40, 20


@pytest.fixture(scope="module")
def grid() -> Grid:
    chance = random.Random(1)
    events = [(chance.uniform(0, COLUMNS), chance.lognormvariate(12, 0.5)) for _ in range(4000)]
    # One cell that is known: column 12, row 15 of 20 up to 1 ms.
    events += [(12.5, 765e3)] * 7
    return counted(events, linear(1e6, ROWS), COLUMNS)


def drawing(grid: Grid, title: str) -> tuple[str, str]:
    quantiles = dict(zip(OVERLAYS, column_quantiles(grid, (0.5, 0.99, 0.999, 1.0)), strict=True))
    look = Look(title=title)
    picture = lay_out(grid, quantiles, look)
    said = sentences(grid, examine(grid))
    return svg.document([(picture, svg.script_data(grid))]), page(
        grid, quantiles, look, said, cumulative_curve(grid)
    )


@pytest.fixture(scope="module")
def files(grid: Grid, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("heat")
    found = {}
    for name, title in (("plain", "Writes"), ("nasty", NASTY)):
        for suffix, text in zip(("svg", "html"), drawing(grid, title), strict=True):
            found[f"{name}.{suffix}"] = folder / f"{name}.{suffix}"
            found[f"{name}.{suffix}"].write_text(text, encoding="utf-8")
    found["image"] = folder / "image.html"
    found["image"].write_text('<!doctype html><img src="plain.svg">', encoding="utf-8")
    return found


@pytest.fixture(params=["plain.svg", "plain.html"])
def shown(request: pytest.FixtureRequest, browser: Browser, files: dict[str, Path]) -> Iterator[Browser]:
    with opened(browser, files[request.param], 1200) as shown:
        yield shown


def at_cell(shown: Browser, column: float, row: float) -> tuple[float, float]:
    left, top, width, height = shown.box(shown.first("svg.hm .hm-over"))
    rows = float(shown.first("svg.hm-plot").get_dom_attribute("viewBox").split()[3])
    return left + width * column / COLUMNS, top + height * (1 - row / rows)


def tip(shown: Browser) -> str:
    return " | ".join(shown.texts(".hm-tip text"))


def test_the_pointer_is_told_what_is_in_a_cell(shown: Browser, grid: Grid) -> None:
    shown.point(at_cell(shown, 12.5, 15.5), pressed=False)
    count = next(n for c, r, n in grid.cells if (c, r) == (12, 15))
    total = grid.column_totals()[12]
    said = tip(shown)
    assert f"12 to 13 s, 750 to 800 us | {count} events, " in said and f"of {total} in the column" in said
    below = grid.under[12] + sum(n for c, r, n in grid.cells if c == 12 and r <= 15)
    assert f"{100 * below / total:.1f} % of the column here or below" in said


def test_a_click_shows_the_histogram_of_the_column(shown: Browser, grid: Grid) -> None:
    shown.point(at_cell(shown, 12.5, 5.5))
    assert shown.texts(".hm-back .small", shown.first("svg.hm"))[0] == f"12 s: {grid.column_totals()[12]}"
    shown.point(at_cell(shown, 12.5, 5.5))
    assert not shown.all(".hm-back .small")


def test_dragging_zooms_and_comes_back(shown: Browser) -> None:
    plot = shown.first("svg.hm-plot")
    whole = plot.get_dom_attribute("viewBox")
    shown.point(*(at_cell(shown, *cell) for cell in ((10.2, 4.2), (12, 6), (15, 8), (19.8, 9.8))))
    left, _, wide, tall = map(float, plot.get_dom_attribute("viewBox").split())
    assert (left, wide, tall) == (10, 10, 6)
    assert "12" in shown.texts(".hm-back text.tick")
    shown.first(".hm-reset").click()
    assert plot.get_dom_attribute("viewBox") == whole


def test_lines_are_turned_off_and_on(shown: Browser) -> None:
    toggle = shown.first('.hm-toggle[data-overlay="p99.9"]')
    line = shown.first('.hm-overlay[data-overlay="p99.9"]')
    assert toggle.get_attribute("aria-pressed") == "false" and not line.is_displayed()
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "true" and line.is_displayed()


def test_it_is_used_with_the_keyboard(shown: Browser) -> None:
    shown.evaluate("arguments[0].focus()", shown.first(".hm-over"))
    shown.press(Keys.ARROW_RIGHT, Keys.ARROW_UP)
    ActionChains(shown).key_down(Keys.SHIFT).send_keys(Keys.ARROW_LEFT).key_up(Keys.SHIFT).perform()
    assert "11 to 12 s" in tip(shown)
    shown.press(Keys.ENTER)
    assert len(shown.all(".hm-back .small")) == 1
    shown.press(Keys.ESCAPE, "+")
    assert len(shown.all("svg.hm.hm-zoomed")) == 1
    shown.press(Keys.ESCAPE)
    assert not shown.all("svg.hm.hm-zoomed")


def test_the_histogram_of_the_page_plays_and_narrows(
    browser: Browser, files: dict[str, Path], grid: Grid
) -> None:
    with opened(browser, files["plain.html"], 1200, reduced_motion="reduce") as shown:
        told = shown.first("output")
        # Who asked for less motion goes on by hand.
        for column in (0, 1):
            shown.click(shown.named("play"))
            assert f"{column} to {column + 1} s: {grid.column_totals()[column]} events" in told.text
        bars = ".hm-histogram .bar, .hm-histogram .ghost"
        before = len(shown.all(bars))
        shown.click(shown.named("outliers only"))
        assert len(shown.all(bars)) < before
        shown.click(shown.named("all columns"))
        assert "all columns: 4\u202f007 events" in told.text


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (420, "dark"), (1400, "light")])
def test_the_page_fits_and_has_its_theme(
    browser: Browser, files: dict[str, Path], width: int, scheme: str
) -> None:
    with opened(browser, files["nasty.html"], width, color_scheme=scheme) as shown:
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
        paper = shown.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(20, 23, 27)" if scheme == "dark" else "rgb(255, 255, 255)")
        assert shown.title != "taken"


def test_no_title_breaks_out_of_the_drawing(browser: Browser, files: dict[str, Path]) -> None:
    with opened(browser, files["nasty.svg"], 900) as shown:
        assert len(shown.all("script")) == 1
        assert not shown.all("img")
        assert "taken" not in shown.evaluate("document.title").replace(NASTY, "")


def test_it_is_complete_as_an_image_and_without_scripts(browser: Browser, files: dict[str, Path]) -> None:
    with opened(browser, files["image"], 900) as shown:
        assert shown.evaluate("document.images[0].complete && document.images[0].naturalWidth") == 900
    with opened(browser, files["plain.html"], 900, scripts=False) as shown:
        assert len(shown.all("svg.hm")) == 3
        assert "events in a cell" in shown.first("body").text
        shown.click(shown.named("Table of the columns", "summary"))
        assert len(shown.all("tbody tr")) == COLUMNS
