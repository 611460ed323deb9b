"""Grids of a campaign's trials, from the histograms that the agents recorded an interval: exact, as rows end where buckets do.

Buckets of the layout `ll7` are at most 1/128 wide, so the edges asked for are moved by less than that to the next border, and no
count is shared between two rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from iodyno.analysis.histogram import bounds_of, merge
from iodyno.analysis.operation_times import OperationTimes, border, rows_for
from iodyno.core.grid import Grid

ROWS = 50
"""Rows of a map, unless asked otherwise."""


@dataclass(frozen=True)
class Range:
    """Range of the values that is shown: edges in ns (None: as the data are), how many rows, and how they are cut."""

    low_ns: float | None = None
    high_ns: float | None = None
    rows: int = ROWS
    scale: str = "log"


def edges_for(each: Sequence[OperationTimes], shown: Range) -> tuple[int, ...]:
    """Edges of rows for all of them, each on the border of a bucket. Empty when there is no operation."""
    exact = rows_for(each, shown.rows)
    if exact is None:
        return ()
    if shown.scale == "log" and shown.low_ns is None and shown.high_ns is None:
        return exact.edges
    low = (
        shown.low_ns
        if shown.low_ns is not None
        else (0.0 if shown.scale == "linear" else float(exact.edges[0]))
    )
    high = shown.high_ns if shown.high_ns is not None else float(exact.edges[-1])
    if shown.scale == "log":
        low = max(low, 1.0)
        wanted = [low * (high / low) ** (step / shown.rows) for step in range(shown.rows + 1)]
    else:
        wanted = [low + (high - low) * step / shown.rows for step in range(shown.rows + 1)]
    return tuple(dict.fromkeys(border(value, exact.sub_bits) for value in wanted))


def within(times: OperationTimes, begin_s: float | None = None, end_s: float | None = None) -> OperationTimes:
    """Return the part of an operation that is shown: its measured window, or where a begin or an end is asked for the intervals
    that begin from there on and before, of any window."""
    if begin_s is None and end_s is None:
        measured = tuple(column for column in times.columns if column.window == "measured")
        return replace(times, columns=measured) if measured else times
    first, last = begin_s if begin_s is not None else -inf, end_s if end_s is not None else inf
    return replace(times, columns=tuple(each for each in times.columns if first <= each.begin_s < last))


def grid_of(
    times: OperationTimes,
    edges: Sequence[int],
    scale: str,
    *,
    begin_s: float | None = None,
    end_s: float | None = None,
) -> Grid:
    """The grid of one operation, a column an interval of the record, on a clock that begins with the trial.

    `edges` lie on borders of buckets. What `within` leaves out is outside.
    """
    columns = [column for column in times.columns if column.span_s > 0]
    shown = [column for column in within(times, begin_s, end_s).columns if column.span_s > 0]
    spans = sorted(column.span_s for column in shown)
    width_ns = max(1, round(spans[len(spans) // 2] * 1e9)) if spans else 1
    cells: dict[tuple[int, int], int] = {}
    buckets: dict[tuple[int, int], int] = {}
    under, over = [0] * len(shown), [0] * len(shown)
    whole = merge(column.times for column in shown)
    for bucket, count in zip(whole.buckets, whole.counts, strict=True):
        bounds = bounds_of(bucket, times.sub_bits)
        buckets[bounds] = buckets.get(bounds, 0) + count
    row_of = {bucket: bisect_right(edges, bounds_of(bucket)[0]) - 1 for bucket in whole.buckets}
    for number, column in enumerate(shown):
        for bucket, count in zip(column.times.buckets, column.times.counts, strict=True):
            row = row_of[bucket]
            if row < 0:
                under[number] += count
            elif row == len(edges) - 1:
                over[number] += count
            else:
                place = number, row
                cells[place] = cells.get(place, 0) + count
    events = sum(column.times.count for column in columns)
    uneven = sum(abs(span * 1e9 - width_ns) > 0.01 * width_ns for span in spans)
    notes = []
    beside = {column.window for column in shown} - {"measured"}
    if beside:
        notes.append(f"not only the measured window is shown, but {' and '.join(sorted(beside))} too")
    elif len(shown) < len(columns) and begin_s is None and end_s is None:
        notes.append("warm-up and drain are outside of the time; --from and --to show them too")
    if uneven:
        length = f"{width_ns / 1e9:.4g} s"
        notes.append(
            f"{uneven} of {len(spans)} intervals do not last {length}; they are drawn as if they did"
        )
    return Grid(
        "service time" if times.clock == "service" else "response time",
        "ns",
        round(shown[0].begin_s * 1e9) if shown else 0,
        width_ns,
        len(shown),
        tuple(float(edge) for edge in edges),
        scale,
        tuple((column, row, count) for (column, row), count in sorted(cells.items())),
        tuple(under),
        tuple(over),
        events - sum(column.times.count for column in shown),
        events,
        0,
        (),
        form="store",
        by_value=tuple((*bounds, count) for bounds, count in sorted(buckets.items())),
        notes=tuple(notes),
    )
