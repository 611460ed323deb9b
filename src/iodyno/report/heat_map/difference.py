"""The difference of two maps, cell by cell: orange where the first has more events, blue where the second has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iodyno.core.grid import Grid
from iodyno.report.heat_map import axis, colour
from iodyno.report.heat_map.layout import (
    Look,
    cell_counts,
    compact,
    frame_of,
    lay_out_axes,
    wrapped,
)
from iodyno.report.heat_map.picture import Box, Cells, Picture, Words

CHANCE = 2
"""Standard deviations (the square root of both counts, as they are Poisson's) within which a cell has the palest step.

Chosen: else the noise of full cells, which is large in events, would outshine what has changed.
"""


def changes_of(grid: Grid, other: Grid) -> dict[tuple[int, int], int]:
    """(column, drawn row): how many events more `grid` has there; those beyond the rows too. Errors: ValueError (frames
    differ)."""
    grid.minus(other)  # refuses grids that cannot be compared
    frame = frame_of(grid, other)
    counts = cell_counts(grid, frame)
    for place, count in cell_counts(other, frame).items():
        counts[place] = counts.get(place, 0) - count
    return {place: count for place, count in counts.items() if count}


def lay_out_difference(grid: Grid, other: Grid, look: Look, names: Sequence[str] = ("A", "B")) -> Picture:
    """The picture of `grid` minus `other`; `names` are what the two are called. Errors: ValueError (frames differ)."""
    changes = changes_of(grid, other)
    frame = frame_of(grid, other)
    sums = cell_counts(grid, frame)
    for place, count in cell_counts(other, frame).items():
        sums[place] = sums.get(place, 0) + count
    most = max((abs(change) for change in changes.values()), default=0)
    levels = {
        place: level
        for place, change in changes.items()
        if (level := colour.difference_level(_significant(change, sums[place]), most)) is not None
    }
    columns = max(grid.columns, other.columns)
    wide = replace(
        grid,
        columns=columns,
        under=(*grid.under, *(0,) * (columns - grid.columns)),
        over=(*grid.over, *(0,) * (columns - grid.columns)),
    )
    one, two = names
    said = (
        f"{one}: {axis.whole(sum(grid.column_totals()))} events; {two}: {axis.whole(sum(other.column_totals()))} events. "
        f"Orange: more in {one}; blue: more in {two}."
    )
    picture, plot = lay_out_axes(
        wide, frame, replace(look, marginal=False, title=look.title or f"{one} minus {two}"), levels, said
    )
    picture.shapes.append(replace(plot, difference=True))
    picture.height = _legend(picture, plot, most, names, picture.height) + 8
    return picture


def _significant(change: int, both: int) -> int:
    """The change, or one event of its sign where it is within `CHANCE` standard deviations of two counts with `both` together."""
    within = change * change <= CHANCE * CHANCE * both
    return (1 if change > 0 else -1) if within else change


def _legend(picture: Picture, plot: Cells, most: int, names: Sequence[str], top: float) -> float:
    room = min(420.0, plot.width)
    y, half = top + 26, colour.LEVELS // 2
    step = room / (colour.LEVELS + 1)
    label = "difference of events in a cell (log scale)"
    picture.shapes.append(Words(plot.x, y - 8, label, "axis"))
    for level in range(colour.LEVELS):
        x = plot.x + (level + (1 if level >= half else 0)) * step
        picture.shapes.append(Box(x, y, step + 0.3, 14, f"d{level}"))
    picture.shapes.append(Box(plot.x + half * step, y, step, 14, "none"))
    ends = ((0.5, f"-{compact(most)}"), (half + 0.5, "0"), (colour.LEVELS + 0.5, f"+{compact(most)}"))
    for at, text in ends:
        picture.shapes.append(Words(plot.x + at * step, y + 32, text, "tick", "middle"))
    one, two = (wrapped(name, 30, 1)[0] if name.strip() else "?" for name in names)
    picture.shapes.append(Words(plot.x, y + 52, f"blue: more in {two}; orange: more in {one}", "small"))
    picture.shapes.append(Words(plot.x, y + 72, "palest: within chance, two standard deviations", "small"))
    return y + 80
