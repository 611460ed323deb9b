"""Data of every trial for the script of a report, once and compressed: counts of operations by row and interval, values of lines
by interval. Counts are exact; rows are as fine as a page of the right size can hold.
"""

from __future__ import annotations

import base64
import json
import zlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iodyno.analysis.histogram import bounds_of, merge
from iodyno.analysis.operation_times import Column, OperationTimes, Rows, SeenRows, joined, rows_for
from iodyno.analysis.trial_views import Line, Strip, TrialView
from iodyno.report.trial_panels.heat import name_of
from iodyno.report.trial_panels.strips import scale_for

CELLS_MOST = 50_000
"""Counts in the data of one page (chosen: at two bytes each they are a tenth of the 1.1 MB that a page is meant to have)."""
_PARTS = 31
"""Fine counts of a point are told as parts of the greatest in their row (chosen: a byte each, and steps too small to matter)."""
INTERVALS_MOST = 6_000
"""Intervals of all trials together that the page has one by one (chosen: fifty trials of two minutes)."""
_ROWS_FINE = 2_000


@dataclass(frozen=True)
class Family:
    """Rows of one operation, the same for both of its clocks and for all trials: those drawn, and those of the data."""

    coarse: Rows
    fine: Rows


def families_of(
    each: Sequence[OperationTimes], points: Sequence[OperationTimes] = ()
) -> dict[tuple[str, str], Family]:
    """Rows for every operation of a campaign, as fine as the number of counts allows; they hold the times of `points`, too."""
    groups: dict[tuple[str, str], list[OperationTimes]] = {}
    for times in each:
        groups.setdefault((times.beside, times.operation), []).append(times)
    found: dict[tuple[str, str], Family] = {}
    for key, mine in groups.items():
        coarse = rows_for([*mine, *(times for times in points if (times.beside, times.operation) == key)])
        if coarse is not None:
            found[key] = Family(coarse, coarse.finer(_ROWS_FINE))
    finest = {key: f.fine for key, f in found.items()}
    seen = {
        key: SeenRows(finest[key], [column.times for times in groups[key] for column in times.columns])
        for key in found
    }
    while sum(seen[key].cells(f.fine) for key, f in found.items()) > CELLS_MOST:
        coarser = {key: Family(f.coarse, f.coarse.finer(f.fine.count - 1)) for key, f in found.items()}
        if coarser == found:
            break
        found = coarser
    return found


def columns_most(trials: int) -> int:
    """Columns that each of so many trials may have."""
    return max(20, min(200, INTERVALS_MOST // max(1, trials)))


def shortened(view: TrialView, most: int) -> TrialView:
    """A view with neighbouring intervals joined to at most so many columns; counts stay exact."""
    return TrialView(
        view.name,
        view.point,
        view.end_s,
        view.measured,
        tuple(joined(times, most) for times in view.times),
        view.strips,
    )


@dataclass(frozen=True)
class Counted:
    """Encoding of the data of a page, whatever else stands in it: values as JSON, and numbers of seven bits a byte."""

    values: Mapping[str, Any]
    lengths: bytes
    numbers: bytes
    steps: int


def counted(
    views: Sequence[TrialView],
    families: Mapping[tuple[str, str], Family],
    points: Mapping[str, Sequence[OperationTimes]],
) -> Counted:
    """Counts and lines of all trials, and counts of the maps of points, as `packed` puts them into a page."""
    keys = list(families)
    shapes = _shapes(views, families)
    values = {
        "rows": [
            {"edges": list(f.fine.edges), "drawn": [f.fine.edges.index(edge) for edge in f.coarse.edges]}
            for f in families.values()
        ],
        "trials": {view.name: _trial(view, keys, list(shapes)) for view in views},
        "points": {point: [_map(times, keys) for times in each] for point, each in points.items()},
    }
    lengths, steps, counts = bytearray(), bytearray(), bytearray()
    for times in (times for each in (*(view.times for view in views), *points.values()) for times in each):
        for column in times.columns:
            cells = _cells_of(column, families[times.beside, times.operation].fine)
            _append(lengths, len(cells))
            for step, count in cells:
                _append(steps, step)
                _append(counts, count)
    for shape in shapes.values():
        _append(lengths, len(shape))
        for step, part in shape:
            _append(steps, step)
            _append(counts, part)
    return Counted(values, bytes(lengths), bytes(steps + counts), len(steps))


def packed(
    found: Counted,
    heads: Mapping[str, Sequence[Sequence[str | float]]],
    panels: Mapping[str, str] | None = None,
) -> str:
    """The data of all trials, with the columns of their tables (kind, of what, factor, share) and with the `panels` of
    those that the page does not hold otherwise.

    Compressed (zlib), in base64, which no symbol can break out of. Inside: three lines of text (bytes of the JSON, of
    the lengths, of the steps), the JSON, then numbers of seven bits a byte, the lowest first: how many cells each column of each
    map has, each cell's row as steps from the one before, each cell's count. Apart, they are a seventh smaller than together.

    Rows are some per cent high. How the times of a point lie within its rows is told by `shapes`: all of its trials' histograms
    together, in the buckets of the store, so that quantiles of a chosen range are as near as if the rows were finer.
    """
    trials = {name: {**trial, "heads": heads[name]} for name, trial in found.values["trials"].items()}
    values = {**found.values, "trials": trials, "panels": dict(panels or {})}
    text = json.dumps(values, allow_nan=False, separators=(",", ":")).encode()
    head = "".join(f"{size}\n" for size in (len(text), len(found.lengths), found.steps)).encode()
    return base64.b64encode(zlib.compress(head + text + found.lengths + found.numbers, 9)).decode()


def _append(to: bytearray, number: int) -> None:
    """A number of seven bits a byte, the lowest first; all but the last have the eighth bit set (LEB128)."""
    while number > 127:
        to.append(number & 127 | 128)
        number >>= 7
    to.append(number)


def _trial(
    view: TrialView,
    keys: Sequence[tuple[str, str]],
    shapes: Sequence[tuple[str, str, str, str]],
) -> dict[str, Any]:
    columns = axis_of(view)
    return {
        "t": [0, *(round(1e3 * column.end_s) for column in columns)],
        "w": [column.window for column in columns],
        "maps": [
            {
                "rows": keys.index((times.beside, times.operation)),
                "columns": len(times.columns),
                "shape": shapes.index((view.point, *times.key)),
            }
            for times in view.times
        ],
        "heads": [],
        "lines": [
            _values(line, columns, strip) for strip in view.strips for line in strip.lines if line.values
        ],
    }


def _map(times: OperationTimes, keys: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A map of a point: what it is of, its rows, and where its columns begin and end."""
    return {
        "of": name_of(times),
        "rows": keys.index((times.beside, times.operation)),
        "columns": len(times.columns),
        "t": [[round(1e3 * column.begin_s), round(1e3 * column.end_s)] for column in times.columns],
    }


def _shapes(
    views: Sequence[TrialView], families: Mapping[tuple[str, str], Family]
) -> dict[tuple[str, str, str, str], list[tuple[int, int]]]:
    """Of each point and map: buckets in which its trials have times, as steps from the one before, and parts of the
    fullest in their row."""
    members: dict[tuple[str, str, str, str], list[OperationTimes]] = {}
    for view in views:
        for times in view.times:
            members.setdefault((view.point, *times.key), []).append(times)
    found = {}
    for key, mine in members.items():
        edges = families[key[1], key[2]].fine.edges
        every = merge(column.times for times in mine for column in times.columns)
        most: dict[int, int] = {}
        each = [
            (bucket, bisect_right(edges, bounds_of(bucket)[0]), count)
            for bucket, count in zip(every.buckets, every.counts, strict=True)
        ]
        for _, row, count in each:
            most[row] = max(count, most.get(row, 0))
        before, shape = 0, []
        for bucket, row, count in each:
            shape.append((bucket - before, max(1, round(_PARTS * count / most[row]))))
            before = bucket
        found[key] = shape
    return found


def axis_of(view: TrialView) -> tuple[Column, ...]:
    """The intervals of a view: those of its first map, else of its first line."""
    if view.times:
        return view.times[0].columns
    return ()


def _cells_of(column: Column, rows: Rows) -> list[tuple[int, int]]:
    """Row and count of each cell from the bottom up; of rows how many further than the one before."""
    found = []
    before = 0
    for row, count in sorted(rows.counts(column.times).items()):
        found.append((row - before, count))
        before = row
    return found


def _values(line: Line, columns: Sequence[Column], strip: Strip) -> list[float | None]:
    """Mean of a line in each column, in the unit that its strip is shown in; None where it has no value."""
    scale = scale_for(strip).factor
    found: list[float | None] = []
    for column in columns:
        mine = [
            value
            for end, value in zip(line.seconds, line.values, strict=True)
            # Hosts begin an interval some tens of microseconds apart.
            if column.begin_s < end - 1e-3 <= column.end_s
        ]
        found.append(float(f"{sum(mine) / len(mine) / scale:.3g}") if mine else None)
    return found
