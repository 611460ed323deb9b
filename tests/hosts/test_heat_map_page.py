"""Heat maps in a real browser: they answer to pointer and keyboard, stand alone, and no text breaks out of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_grids import counted, linear
from playwright.sync_api import Browser, Page

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


def opened(browser: Browser, path: Path, width: int, **more: object) -> tuple[Page, list[str]]:
    shown = browser.new_context(viewport={"width": width, "height": 900}, **more).new_page()  # type: ignore[arg-type]
    trouble: list[str] = []
    shown.on("console", lambda message: trouble.append(message.text))
    shown.on("pageerror", lambda error: trouble.append(str(error)))
    shown.on(
        "request",
        lambda asked: trouble.append(asked.url) if not asked.url.startswith(("file:", "data:")) else None,
    )
    shown.goto(path.as_uri())
    return shown, trouble


@pytest.fixture(params=["plain.svg", "plain.html"])
def shown(request: pytest.FixtureRequest, browser: Browser, files: dict[str, Path]) -> Iterator[Page]:
    shown, trouble = opened(browser, files[request.param], 1200)
    yield shown
    assert trouble == []
    shown.context.close()


def at_cell(shown: Page, column: float, row: float) -> tuple[float, float]:
    over = shown.locator("svg.hm").first.locator(".hm-over").bounding_box()
    assert over is not None
    rows = float(shown.locator("svg.hm-plot").first.get_attribute("viewBox").split()[3])  # type: ignore[union-attr]
    return over["x"] + over["width"] * column / COLUMNS, over["y"] + over["height"] * (1 - row / rows)


def tip(shown: Page) -> str:
    return " | ".join(shown.locator(".hm-tip text").all_text_contents())


def test_the_pointer_is_told_what_is_in_a_cell(shown: Page, grid: Grid) -> None:
    shown.mouse.move(*at_cell(shown, 12.5, 15.5))
    count = next(n for c, r, n in grid.cells if (c, r) == (12, 15))
    total = grid.column_totals()[12]
    said = tip(shown)
    assert f"12 to 13 s, 750 to 800 us | {count} events, " in said and f"of {total} in the column" in said
    below = grid.under[12] + sum(n for c, r, n in grid.cells if c == 12 and r <= 15)
    assert f"{100 * below / total:.1f} % of the column here or below" in said


def test_a_click_shows_the_histogram_of_the_column(shown: Page, grid: Grid) -> None:
    shown.mouse.click(*at_cell(shown, 12.5, 5.5))
    assert (
        shown.locator("svg.hm").first.locator(".hm-back .small").text_content()
        == f"12 s: {grid.column_totals()[12]}"
    )
    shown.mouse.click(*at_cell(shown, 12.5, 5.5))
    assert shown.locator(".hm-back .small").count() == 0


def test_dragging_zooms_and_comes_back(shown: Page) -> None:
    plot = shown.locator("svg.hm-plot").first
    whole = plot.get_attribute("viewBox")
    shown.mouse.move(*at_cell(shown, 10.2, 4.2))
    shown.mouse.down()
    shown.mouse.move(*at_cell(shown, 15, 8), steps=3)
    shown.mouse.move(*at_cell(shown, 19.8, 9.8))
    shown.mouse.up()
    left, _, wide, tall = map(float, plot.get_attribute("viewBox").split())  # type: ignore[union-attr]
    assert (left, wide, tall) == (10, 10, 6)
    assert "12" in shown.locator(".hm-back text.tick").all_text_contents()
    shown.locator(".hm-reset").first.click()
    assert plot.get_attribute("viewBox") == whole


def test_lines_are_turned_off_and_on(shown: Page) -> None:
    toggle = shown.locator('.hm-toggle[data-overlay="p99.9"]')
    line = shown.locator('.hm-overlay[data-overlay="p99.9"]')
    assert toggle.get_attribute("aria-pressed") == "false" and not line.is_visible()
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "true" and line.is_visible()


def test_it_is_used_with_the_keyboard(shown: Page) -> None:
    shown.locator(".hm-over").first.focus()
    for key in ("ArrowRight", "ArrowUp", "Shift+ArrowLeft"):
        shown.keyboard.press(key)
    assert "11 to 12 s" in tip(shown)
    shown.keyboard.press("Enter")
    assert shown.locator(".hm-back .small").count() == 1
    shown.keyboard.press("Escape")
    shown.keyboard.press("+")
    assert shown.locator("svg.hm.hm-zoomed").count() == 1
    shown.keyboard.press("Escape")
    assert shown.locator("svg.hm.hm-zoomed").count() == 0


def test_the_histogram_of_the_page_plays_and_narrows(
    browser: Browser, files: dict[str, Path], grid: Grid
) -> None:
    shown, trouble = opened(browser, files["plain.html"], 1200, reduced_motion="reduce")
    # Who asked for less motion goes on by hand.
    for column in (0, 1):
        shown.get_by_role("button", name="play").click()
        assert f"{column} to {column + 1} s: {grid.column_totals()[column]} events" in (
            shown.locator("output").text_content() or ""
        )
    bars = shown.locator(".hm-histogram .bar, .hm-histogram .ghost").count()
    shown.get_by_role("button", name="outliers only").click()
    assert shown.locator(".hm-histogram .bar, .hm-histogram .ghost").count() < bars
    shown.get_by_role("button", name="all columns").click()
    assert "all columns: 4\u202f007 events" in (shown.locator("output").text_content() or "")
    assert trouble == []
    shown.context.close()


@pytest.mark.parametrize(("width", "dark"), [(320, False), (420, True), (1400, False)])
def test_the_page_fits_and_has_its_theme(
    browser: Browser, files: dict[str, Path], width: int, dark: bool
) -> None:
    shown, trouble = opened(browser, files["nasty.html"], width, color_scheme="dark" if dark else "light")
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    paper = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
    assert shown.title() != "taken" and trouble == []
    shown.context.close()


def test_no_title_breaks_out_of_the_drawing(browser: Browser, files: dict[str, Path]) -> None:
    shown, trouble = opened(browser, files["nasty.svg"], 900)
    assert shown.evaluate("document.querySelectorAll('script').length") == 1
    assert shown.evaluate("document.querySelectorAll('img').length") == 0
    assert "taken" not in shown.evaluate("document.title").replace(NASTY, "") and trouble == []
    shown.context.close()


def test_it_is_complete_as_an_image_and_without_scripts(browser: Browser, files: dict[str, Path]) -> None:
    shown, _ = opened(browser, files["image"], 900)
    assert shown.evaluate("document.images[0].complete && document.images[0].naturalWidth") == 900
    shown.context.close()
    shown, trouble = opened(browser, files["plain.html"], 900, java_script_enabled=False)
    assert shown.locator("svg.hm").count() == 3 and shown.get_by_text("events in a cell").is_visible()
    shown.get_by_text("Table of the columns").click()
    assert shown.locator("tbody tr").count() == COLUMNS and trouble == []
    shown.context.close()
