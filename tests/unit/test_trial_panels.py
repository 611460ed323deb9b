"""Panels of trials: what a picture shows is what was counted; what the script gets is all of it."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_campaign import Layout, Truth, make_campaign
from made_times import histogram, times

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.histogram import bounds_of, merge
from iodyno.analysis.operation_times import Column, OperationTimes, rows_for
from iodyno.analysis.summary import analyse
from iodyno.analysis.trial_views import Line, Strip, TrialStudy, study_trials
from iodyno.report.figures.cost_by_class import ORDER
from iodyno.report.heat_map import colour
from iodyno.report.heat_map.pixels import grey_png
from iodyno.report.trial_panels import heat, strips
from iodyno.report.trial_panels.data import CELLS_MOST, columns_most, counted, families_of, packed
from iodyno.report.trial_panels.frame import Frame, Shared, place_of
from iodyno.report.trial_panels.section import drawings_of


def pixels(png: bytes) -> list[bytes]:
    """Lines of a PNG of one byte a pixel, as any decoder would have them; checks of the chunks' sums."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    place, chunks = 8, {}
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        kind, body = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        assert struct.unpack(">I", png[place + 8 + length : place + 12 + length])[0] == zlib.crc32(
            kind + body
        )
        chunks[kind] = body
        place += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colour) == (8, 0)
    raw = zlib.decompress(chunks[b"IDAT"])
    assert len(raw) == height * (width + 1)
    return [raw[line * (width + 1) + 1 : (line + 1) * (width + 1)] for line in range(height)]


@given(
    st.integers(1, 9).flatmap(lambda n: st.lists(st.binary(min_size=n, max_size=n), min_size=1, max_size=9))
)
def test_a_png_has_the_levels_that_went_in(lines: list[bytes]) -> None:
    assert pixels(grey_png(lines)) == lines


@given(st.lists(st.lists(st.integers(0, 10**10), max_size=20), min_size=1, max_size=8).filter(any))
def test_a_pixel_is_coloured_where_there_are_operations_and_nowhere_else(columns: list[list[int]]) -> None:
    found = times(columns)
    rows = rows_for([found])
    assert rows is not None
    source = heat.picture(found.columns, rows)
    low, high = heat.extremes(heat.rates(found.columns, rows))
    lines = pixels(base64.b64decode(source.partition(",")[2]))
    shown = {(c, len(lines) - 1 - r) for r, line in enumerate(lines) for c, level in enumerate(line) if level}
    # Intervals of one length are a pixel each.
    assert len(lines[0]) == len(columns)
    assert shown == {(c, r) for c, column in enumerate(found.columns) for r in rows.counts(column.times)}
    assert 0 < low <= high


@given(st.lists(st.floats(0.05, 3.0), min_size=1, max_size=20))
def test_columns_are_as_wide_as_their_intervals_are_long(spans: list[float]) -> None:
    ends = [sum(spans[: place + 1]) for place in range(len(spans))]
    columns = [
        Column(end - span, end, "measured", histogram([1])) for end, span in zip(ends, spans, strict=True)
    ]
    widths = heat.widths(columns)
    assert all(width >= 1 for width in widths)
    pixel = sum(spans) / sum(widths)
    # A border is half a pixel off at the most; an interval shorter than a pixel has one.
    assert all(abs(width * pixel - span) <= 1.5 * pixel for width, span in zip(widths, spans, strict=True))


def test_longer_intervals_are_not_brighter() -> None:
    """As many operations a second in a long interval as in a short one: one colour."""
    short, long = histogram([1000] * 10), histogram([1000] * 30)
    found = OperationTimes(
        "write", "service", ("client",), (Column(0, 1, "measured", short), Column(1, 4, "measured", long))
    )
    rows = rows_for([found])
    assert rows is not None
    low, high = heat.extremes(heat.rates(found.columns, rows))
    assert low == high == 10


def test_the_filters_hold_the_ramps_of_every_heat_map() -> None:
    text = heat.definitions(Shared())
    for name, ramp in (("on-paper", colour.LIGHT), ("on-dark", colour.DARK)):
        part = text[text.index(f'id="{name}"') :].partition("</filter>")[0]
        for place, channel in enumerate("RGB"):
            values = re.search(f'<feFunc{channel} type="table" tableValues="([^"]*)"', part)
            assert values is not None
            assert [round(255 * float(value)) for value in values[1].split()] == [
                step[place] for step in ramp
            ]


def test_names_are_text_and_never_markup() -> None:
    nasty = '<script>alert("x")</script>&\''
    found = OperationTimes(nasty, "service", (nasty,), times([[5, 70]]).columns)
    rows = rows_for([found])
    assert rows is not None
    line = Line(nasty, (1.0,), (3.0,), ("measured",))
    frame = Frame(1.0, (0.0, 1.0))
    for svg in (heat.draw(found, rows, frame), strips.draw(Strip(nasty, "CPU", (line, line)), frame)):
        assert "<script>" not in svg
        assert "&lt;script&gt;" in svg
        assert re.search(r'aria-label="[^"<>]*"', svg)


def study(folder: Path, trials: int = 2, spread: float = 0.5) -> tuple[TrialStudy, object]:
    points = [({"connections": 4, "size": 65536}, Truth(times_spread=spread))]
    factors = [{"name": "connections", "levels": [4], "together": {}}]
    layout = Layout(replicates=trials, intervals=6)
    dataset = read_dataset(make_campaign(folder / "c", points, factors=factors, layout=layout))
    summary = analyse(dataset)
    return study_trials(dataset, summary), summary


def unpacked(text: str) -> tuple[dict[str, Any], Iterator[list[tuple[int, int]]]]:
    """The JSON of a page's data, and cells of one column after the other: row or bucket, and count."""
    found = zlib.decompress(base64.b64decode(text))
    *sizes, rest = found.split(b"\n", 3)
    ends = list(accumulate(map(int, sizes)))
    parts = [rest[: ends[0]], *(rest[low:high] for low, high in pairwise([*ends, len(rest)]))]

    def numbers(part: bytes) -> Iterator[int]:
        value, shift = 0, 0
        for byte in part:
            value, shift = value | (byte & 127) << shift, shift + 7
            if byte < 128:
                yield value
                value, shift = 0, 0

    lengths, steps, counts = map(numbers, parts[1:])
    cells = (
        list(
            zip(
                accumulate(next(steps) for _ in range(length)),
                (next(counts) for _ in range(length)),
                strict=True,
            )
        )
        for length in lengths
    )
    return json.loads(parts[0]), cells


def test_the_data_for_the_script_are_all_counts(tmp_path: Path) -> None:
    found, _ = study(tmp_path)
    views = list(found.views.values())
    families = families_of([times for view in views for times in view.times])
    data, columns = unpacked(packed(counted(views, families, {}), {view.name: [] for view in views}))
    for view in views:
        mine = data["trials"][view.name]
        assert mine["t"] == [1000 * second for second in range(8)]
        assert mine["w"] == ["warm_up"] + ["measured"] * 6
        for times_, drawn in zip(view.times, mine["maps"], strict=True):
            edges = data["rows"][drawn["rows"]]["edges"]
            assert drawn["columns"] == len(times_.columns)
            for column in times_.columns:
                cells = dict(next(columns))
                assert cells == families[times_.beside, times_.operation].fine.counts(column.times)
                assert all(0 <= row < len(edges) - 1 for row in cells)
                assert sum(cells.values()) == column.times.count
    # Then the shapes: which buckets the times of a point's map lie in, and how they share a row.
    for times_ in found.points["p01"]:
        shape = dict(next(columns))
        every = merge(column.times for column in times_.columns)
        assert list(shape) == list(every.buckets)
        counts = dict(zip(every.buckets, every.counts, strict=True))
        rows = families[times_.beside, times_.operation].fine
        for bucket, part in shape.items():
            beside = [other for other in shape if bisect_right(rows.edges, bounds_of(other)[0])
                      == bisect_right(rows.edges, bounds_of(bucket)[0])]  # fmt: skip
            most = max(counts[other] for other in beside)
            assert part == pytest.approx(31 * counts[bucket] / most, abs=1)
    assert next(columns, None) is None
    drawn = data["rows"][0]["drawn"]
    assert [data["rows"][0]["edges"][place] for place in drawn] == list(families["", "write"].coarse.edges)


def test_data_stay_within_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iodyno.report.trial_panels.data.CELLS_MOST", 40)
    wide = times([list(range(1000, 9000, 13))] * 3)
    (family,) = families_of([wide]).values()
    assert family.fine.count == family.coarse.count
    monkeypatch.setattr("iodyno.report.trial_panels.data.CELLS_MOST", CELLS_MOST)
    (family,) = families_of([wide]).values()
    assert family.fine.count > family.coarse.count
    assert [columns_most(trials) for trials in (0, 1, 50, 1000)] == [200, 200, 120, 20]


def test_a_point_has_the_operations_of_all_its_trials(tmp_path: Path) -> None:
    found, summary = study(tmp_path, trials=3)
    (point,) = found.points.values()
    for times_ in point:
        same = [one for view in found.views.values() for one in view.times if one.key == times_.key]
        assert times_.count == sum(one.count for one in same)
    drawings = drawings_of(summary, found)  # type: ignore[arg-type]
    assert drawings is not None
    section = drawings.section()
    assert [point.trials for point in section.points] == [("00000-1", "00001-1", "00002-1")]
    assert len(section.panels["00000-1"].maps) == 2


def test_a_table_row_is_exact_for_its_window(tmp_path: Path) -> None:
    found, summary = study(tmp_path, trials=1)
    drawings = drawings_of(summary, found)  # type: ignore[arg-type]
    assert drawings is not None
    section = drawings.section()
    panels = section.panels["00000-1"]
    view = found.views["00000-1"]
    heads = [f"{head.group}: {head.title}" for head in panels.heads]
    measured = dict(zip(heads, panels.rows[1][1:], strict=True))
    within = view.times[0].within("measured")
    assert measured["write, service time, us: n"] == f"{within.count:,}".replace(",", " ")
    p99 = panels.heads[heads.index("write, service time, us: p99")]
    assert float(measured["write, service time, us: p99"]) == pytest.approx(
        within.quantile(0.99) / p99.factor, rel=0.005
    )  # type: ignore[operator]
    assert float(measured["mean: goodput"]) == pytest.approx(8, rel=0.2)


def test_pieces_that_are_alike_stand_in_a_page_once() -> None:
    shared = Shared()
    uses = [shared.use("<path/>", 90), shared.use("<path/>", 20), shared.use("<text>1</text>")]
    assert uses == ['<use href="#axis-0" y="90"/>', '<use href="#axis-0" y="20"/>', '<use href="#axis-1"/>']
    assert shared.definitions().count("<g ") == 2


def test_without_records_there_is_no_section() -> None:
    assert drawings_of(None, TrialStudy()) is None  # type: ignore[arg-type]


def test_a_time_has_its_place_in_the_rows() -> None:
    (family,) = families_of([times([list(range(1000, 90_000, 130))] * 3)]).values()
    rows = family.coarse
    for row in range(rows.count):
        low, high = rows.edges[row], rows.edges[row + 1]
        assert place_of(rows, low) == pytest.approx(row)
        assert row < place_of(rows, (low * high) ** 0.5) < row + 1
    assert (place_of(rows, 0.0), place_of(rows, 1e12)) == (0.0, rows.count)


def test_lines_of_quantiles_lie_over_a_map_where_they_are_asked_for() -> None:
    one = times([[1000] * 50 + [90_000], [], [2000] * 50])
    (family,) = families_of([one]).values()
    frame = Frame(3.0, (0.0, 3.0), Shared())
    assert 'class="quantile' not in heat.draw(one, family.coarse, frame)
    drawn = heat.draw(one, family.coarse, frame, lines=True)
    (p50,) = [part for part in drawn.split("<path ") if part.startswith('class="quantile p50"')]
    assert p50.count("M") == 2, "nothing is drawn where there was no operation"


def test_operations_a_second_stand_below_a_map_with_lines() -> None:
    one = times([[1000] * 50, [], [2000] * 100])
    (family,) = families_of([one]).values()
    drawn = heat.draw(one, family.coarse, Frame(3.0, (0.0, 3.0), Shared()), lines=True)
    strip = re.search(r'class="counts" d="M(\d+) (\d+)([^"]*)z"', drawn)
    assert strip is not None
    left, base, steps = int(strip[1]), int(strip[2]), strip[3]
    levels, y = [], base
    for step, to in re.findall(r"(?:v(-?\d+))?H(\d+)", steps):
        y += int(step or 0)
        levels.append(((base - y) / (heat.RATE_BOTTOM - heat.RATE_TOP), int(to)))
    assert left == round(Frame(3.0, (0.0, 3.0)).x(0.0))
    # Half as many, none, the most.
    assert [level for level, _ in levels] == pytest.approx([0.5, 0.0, 1.0], abs=0.02)
    assert ">100 /s<" in drawn


def test_classes_lie_on_each_other_in_the_order_of_the_figure_of_cost() -> None:
    line = Line("client", (0.5, 1.0), (0.2, 0.3), ("measured", "measured"))
    kinds = ("usr", "sys", "irq", "softirq", "other")
    strip = Strip("busy CPUs of client", "CPU", tuple(line for _ in kinds), "stack", names=kinds)
    drawn = strips.draw(strip, Frame(1.0, (0.0, 1.0)))
    spoken = re.findall(r"\b(usr|sys|irq|softirq|other) [\d.]+ to", drawn)
    assert spoken == list(ORDER)
