"""Heat maps as pictures: colours that are seen, every event drawn, no text that breaks out, odd grids."""

from __future__ import annotations

import io
import json
import random
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_grids import counted, drawn, linear, logarithmic
from PIL import Image

from iodyno.analysis.heat_map.columns import column_quantiles
from iodyno.analysis.heat_map.curve import cumulative_curve
from iodyno.analysis.heat_map.findings import examine
from iodyno.core.grid import Grid
from iodyno.report.heat_map import axis, colour, pixels, svg
from iodyno.report.heat_map.difference import changes_of, lay_out_difference
from iodyno.report.heat_map.layout import OVERLAYS, Look, cell_counts, frame_of, lay_out, place_of, wrapped
from iodyno.report.heat_map.page import page, policy
from iodyno.report.heat_map.picture import Cells
from iodyno.report.heat_map.png import png
from iodyno.report.heat_map.sentences import sentences
from iodyno.report.heat_map.terminal import rendered

NAMESPACE = "{http://www.w3.org/2000/svg}"
NASTY = "</title><script>alert(1)</script>\"'&]]><!-- \x00 \x1b[31m \ud7ff \u202e"


def usual(chance: random.Random, _at: float) -> float:
    return chance.lognormvariate(12.7, 0.4)


@pytest.fixture(scope="module")
def grid() -> Grid:
    made = drawn(usual, events=3000, columns=30, edges=linear(6e5, 40))
    assert sum(made.over) > 0
    return made


def quantiles(grid: Grid) -> dict[str, tuple[float | None, ...]]:
    return dict(zip(OVERLAYS, column_quantiles(grid, (0.5, 0.99, 0.999, 1.0)), strict=True))


def document(grid: Grid, look: Look | None = None) -> str:
    picture = lay_out(grid, quantiles(grid), look or Look())
    return svg.document([(picture, svg.script_data(grid))])


def whole_page(grid: Grid, look: Look | None = None) -> str:
    return page(grid, quantiles(grid), look or Look(), sentences(grid, examine(grid)), cumulative_curve(grid))


# Colours


def test_one_event_is_seen_on_both_pages() -> None:
    assert colour.contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    for ramp, paper in ((colour.LIGHT, colour.PAPER), (colour.DARK, colour.DARK_PAPER)):
        assert all(colour.contrast(step, paper) >= 3 for step in ramp)
        # More events are farther from the page, step by step: nobody needs to know the hues.
        contrasts = [colour.contrast(step, paper) for step in ramp]
        assert contrasts == sorted(contrasts)


def test_the_style_has_the_pages_that_contrast_is_reckoned_against() -> None:
    assert f"--hm-paper: {colour.css(colour.PAPER)}" in svg.style()
    assert f"--hm-paper: {colour.css(colour.DARK_PAPER)}" in svg.style()


@pytest.mark.parametrize("scale", colour.SCALES)
def test_levels_rise_with_counts(scale: str) -> None:
    counts = sorted([1, 1, 1, 2, 3, 5, 5, 8, 100, 5000])
    levels = [colour.level_of(count, counts, scale) for count in counts]
    assert colour.level_of(0, counts, scale) is None
    assert levels[0] == 0 and levels[-1] == colour.LEVELS - 1
    assert levels == sorted(levels, key=lambda level: level or 0)
    assert colour.level_of(1, [1], scale) == 0


def test_a_difference_is_symmetric_about_zero() -> None:
    ramp = colour.difference_ramp()
    assert len(ramp) == colour.LEVELS
    for change in (1, 3, 40, 100):
        more, less = colour.difference_level(change, 100), colour.difference_level(-change, 100)
        assert more is not None and less is not None and more + less == colour.LEVELS - 1
    assert colour.difference_level(0, 100) is None
    assert ramp[0][2] > ramp[0][0] and ramp[-1][0] > ramp[-1][2]


# Every event is in the picture


def cells_of(root: ET.Element) -> dict[tuple[int, int], int]:
    """Steps by (column, row from the top), read back from the paths."""
    found: dict[tuple[int, int], int] = {}
    for path in root.iterfind(f".//{NAMESPACE}g[@class='hm-cells']/{NAMESPACE}path"):
        level = int(path.attrib["class"][1:])
        for x, y, wide in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\d+z", path.attrib["d"]):
            for column in range(int(x), int(x) + int(wide)):
                assert (column, int(y)) not in found
                found[column, int(y)] = level
    return found


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 12, exclude_max=True), st.floats(-2, 12)), min_size=1, max_size=60),
    st.integers(1, 9),
    st.sampled_from(colour.SCALES),
)
def test_each_cell_that_has_events_is_drawn_and_no_other(
    events: list[tuple[float, float]], rows: int, scale: str
) -> None:
    made = counted(events, linear(10.0, rows), 12)
    root = ET.fromstring(document(made, Look(colour_scale=scale)))
    frame = frame_of(made)
    counts = cell_counts(made, frame)
    assert sum(counts.values()) == len(events)
    assert set(cells_of(root)) == {(column, frame.rows - 1 - row) for column, row in counts}
    data = json.loads(root.find(f".//{NAMESPACE}metadata").text or "")  # type: ignore[union-attr]
    assert sum(data["cells"][2::3]) == len(events)


def test_the_last_column_the_top_row_and_the_overflow_row_are_drawn() -> None:
    made = counted([(0.0, 0.0), (9.999, 10.0), (5.0, 11.0)], linear(10.0, 5), 10)
    assert set(cells_of(ET.fromstring(document(made)))) == {(0, 5), (9, 1), (5, 0)}


def test_many_cells_are_pixels(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svg, "MOST_CELLS", 10)
    root = ET.fromstring(document(grid))
    assert len(root.findall(f".//{NAMESPACE}image")) == 2 and not cells_of(root)


def test_pixels_are_read_back() -> None:
    image = Image.open(io.BytesIO(pixels.png(3, 2, {(0, 0): 0, (2, 1): 23}, colour.LIGHT))).convert("RGBA")
    assert image.size == (3, 2)
    assert image.getpixel((0, 0)) == (*colour.LIGHT[0], 255) and image.getpixel((2, 1)) == (
        *colour.LIGHT[23],
        255,
    )
    assert image.getpixel((1, 0))[3] == 0  # type: ignore[index]


def test_a_png_has_the_colours_of_its_cells(grid: Grid) -> None:
    picture = lay_out(grid, {}, Look(strip=False))
    image = Image.open(io.BytesIO(png([picture]))).convert("RGB")
    (plot,) = (shape for shape in picture.shapes if isinstance(shape, Cells))
    scale = image.width / picture.width
    for (column, row), level in list(plot.levels.items())[::7]:
        x = plot.x + (column + 0.5) * plot.width / plot.columns
        y = plot.y + plot.height * (1 - (row + 0.5) / plot.rows)
        assert image.getpixel((round(x * scale), round(y * scale))) == colour.LIGHT[level]


def test_a_difference_draws_what_one_has_more() -> None:
    edges = linear(10.0, 5)
    one = counted([(0.5, 1.0)] * 50 + [(1.5, 11.0)] * 20, edges, 3)
    other = counted([(0.5, 1.0)] * 20 + [(2.5, 9.0)] * 30 + [(1.5, 3.0)], edges, 4)
    assert changes_of(one, other) == {(0, 0): 30, (2, 4): -30, (1, 5): 20, (1, 1): -1}
    picture = lay_out_difference(one, other, Look(), ("new <b>", "old"))
    (plot,) = (shape for shape in picture.shapes if isinstance(shape, Cells))
    assert plot.difference and plot.columns == 4
    assert plot.levels[0, 0] == colour.LEVELS - 1 and plot.levels[2, 4] == 0
    # One event against none is within chance: the step beside the middle.
    assert plot.levels[1, 1] == colour.LEVELS // 2 - 1
    ET.fromstring(svg.document([(picture, None)]))
    with pytest.raises(ValueError, match="other rows or columns"):
        changes_of(one, counted([], linear(9.0, 5), 3))


# Texts


class Tags(HTMLParser):
    """Counts elements, and hears what is text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        assert not any(name.startswith("on") for name, _ in attrs)


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=200) | st.just(NASTY), st.text(max_size=80) | st.just(NASTY))
def test_no_title_and_no_label_breaks_out(title: str, label: str) -> None:
    made = counted([(0.5, 1.0)], linear(10.0, 5), 3)
    look = Look(title=title, label=label)
    root = ET.fromstring(document(made, look))
    plain = ET.fromstring(document(made, Look(title="t", label="l")))

    def names(tree: ET.Element) -> list[str]:
        return sorted(each.tag for each in tree.iter() if not each.tag.endswith("text"))

    assert names(root) == names(plain)
    tags = Tags()
    tags.feed(whole_page(made, look))
    expected = Tags()
    expected.feed(whole_page(made, Look(title="t", label="l")))
    del tags.tags["text"], expected.tags["text"]
    assert tags.tags == expected.tags


def test_long_titles_are_wrapped_and_cut() -> None:
    lines = wrapped("a word " * 60, 40, 3)
    assert len(lines) == 3 and all(len(line) <= 40 for line in lines) and lines[-1].endswith("…")
    assert wrapped("short", 40, 3) == ["short"] and wrapped("x" * 90, 40, 2)[1].endswith("…")
    assert wrapped("one\ntwo\tthree", 40, 1) == ["one two three"]


def test_the_page_allows_its_own_script_alone(grid: Grid) -> None:
    text = whole_page(grid, Look(title=NASTY))
    assert text.count("<script>") == 1 and "unsafe-inline'; script" not in text
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert policy(script) in text and "default-src 'none'" in policy(script)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_the_legend_names_its_scale_and_counts(grid: Grid) -> None:
    most = max(cell_counts(grid, frame_of(grid)).values())
    for scale in colour.SCALES:
        text = document(grid, Look(colour_scale=scale))
        assert f"events in a cell ({scale} scale)" in text and f">{most}</text>" in text


def test_every_event_is_accounted_for_in_words(grid: Grid) -> None:
    text = document(replace(grid, events=grid.events + 3, unreadable=3))
    over = sum(grid.over)
    cells = axis.whole(3000 - over)
    assert f"3\u202f003 events: {cells} in cells, {over} above 600 us (up to 1.39 ms), 3 unreadable" in text


# Axes and odd grids


def test_times_since_1970_are_read_since_the_first_event(grid: Grid) -> None:
    text = document(replace(grid, begin_ns=1_700_000_000_000_000_000))
    assert "time in s since 1700000000 s" in text and ">20</text>" in text
    assert "time, s" in document(grid)


@pytest.mark.parametrize(
    ("low", "high", "scale"),
    [
        (0, 1e3, "linear"),
        (3, 4, "linear"),
        (1e2, 1e9, "log"),
        (20_500, 20_900, "log"),
        (900, 1100, "log"),
        (-5, 5, "linear"),
        (0, 1e21, "linear"),
    ],
)
def test_ticks_are_few_round_and_inside(low: float, high: float, scale: str) -> None:
    unit = axis.unit_of("ns", high)
    found = axis.ticks(low, high, unit, scale, 8)
    assert 2 <= len(found) <= 12 and found == sorted(set(found))
    assert all(low - 1e-9 * high <= tick <= high * (1 + 1e-9) for tick in found)
    assert len({axis.show(tick, unit) for tick in found}) == len(found)


def test_a_value_has_its_place(grid: Grid) -> None:
    frame = frame_of(grid)
    assert place_of(grid.edges[3], grid, frame) == frame.first + 3
    assert place_of(float("inf"), grid, frame) == frame.rows - 0.5
    assert place_of(-1.0, grid, frame) == 0


@pytest.mark.parametrize(
    "made",
    [
        counted([(0.5, 3.0)], linear(10.0, 5), 1),
        counted([(0.5, 3.0)] * 10, linear(10.0, 1), 1),
        counted([(0.5, 20.0)], linear(10.0, 5), 1),
        counted([(0.5, 1e20)], logarithmic(1.0, 1e21, 30), 1),
        counted([], linear(10.0, 5), 3),
        replace(counted([(0.5, 3.0)], linear(10.0, 5), 2), unit="", quantity=""),
        replace(counted([(0.5, 0.3)], linear(1.0, 5), 2), unit="ratio", quantity="utilisation"),
        replace(counted([(0.5, 4096.0)], linear(65536.0, 5), 2), unit="bytes", quantity="size"),
    ],
    ids=["one", "one cell", "above all", "huge", "empty", "no unit", "ratio", "bytes"],
)
def test_odd_grids_are_drawn(made: Grid) -> None:
    ET.fromstring(document(made))
    whole_page(made)
    png([lay_out(made, quantiles(made), Look(box=8))])
    assert rendered(made, {}, Look(), width=40)


# The terminal


def test_a_terminal_shows_counts_by_signs_alone(grid: Grid) -> None:
    plain = rendered(grid, {"p50": (3e5,)}, Look(title="t"), width=60)
    assert all(len(line) <= 60 for line in plain.splitlines()) and "\x1b" not in plain
    assert "> 600" in plain and "p50 300 us" in plain and "events in a cell (log scale):  · 1" in plain
    by_rows = rendered(replace(grid, by_value=()), {"p50": (315e3,)}, Look(title="t"), width=60)
    assert "p50 <= 315 us" in by_rows
    coloured = rendered(grid, {"p50": (3e5,)}, Look(title="t"), width=60, colours=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain and coloured != plain


def test_no_event_is_invisible_in_a_terminal() -> None:
    made = counted([(0.5, 1.0)] * 100_000 + [(50.5, 9.0), (99.5, 30.0)], linear(10.0, 200), 100)
    shown = rendered(made, {}, Look(), width=60)
    # One in its row, one above all rows, and the key that explains the sign.
    assert shown.count("·") == 3
