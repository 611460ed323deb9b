"""Pictures of a grid without its time: the histogram with its outliers, and the cumulative curve to 99.9999 %."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from iodyno.core.grid import Grid
from iodyno.report.heat_map import axis
from iodyno.report.heat_map.layout import Look, cell_counts, compact, frame_of, place_of, readable
from iodyno.report.heat_map.picture import Box, Cells, Overlay, Picture, Stroke, Words

LEFT, RIGHT, TOP, HEIGHT = 104.0, 18.0, 30.0, 220.0
SHARES = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999)
"""Ticks of the cumulative curve; equal steps from 90 % on, as each next nine counts as much."""


BINS = 60
"""Bars of the histogram above the rows, in equal ratios (chosen: as wide as those of the rows)."""
Along = Callable[[float], float]
"""Place of a value on the axis, from 0 to 1."""


def histogram(grid: Grid, look: Look) -> Picture:
    """Events a row on a logarithmic scale, so that single outliers are seen beside millions."""
    frame = frame_of(grid)
    totals = [0] * frame.rows
    for (_, row), count in cell_counts(grid, frame).items():
        totals[row] += count
    picture, plot = _start(look, f"histogram of {grid.quantity or 'values'}, events a row (log)")
    _axis_of_rows(picture, plot, grid, look)
    _bars(picture, plot, totals)
    return picture


def outliers(grid: Grid, look: Look) -> Picture | None:
    """The histogram of what lies above the rows, in equal ratios up to the greatest value; None where that is not known."""
    if not grid.above:
        return None
    low, high = grid.edges[-1], grid.above[-1][1]
    ratio = math.log(high / low) if 0 < low < high else 0.0
    totals = [0] * BINS
    for begin, end, count in grid.above:
        share = math.log(max(1.0, (begin + end) / 2 / low)) / ratio if ratio else 0.0
        totals[min(BINS - 1, int(share * BINS))] += count
    picture, plot = _start(look, f"histogram of what is above {axis.with_unit(low, grid.unit)}, events (log)")
    _axis(picture, plot, grid, look, (low, high), "log", lambda value: math.log(value / low) / (ratio or 1.0))
    _bars(picture, plot, totals)
    return picture


def cumulative(grid: Grid, curve: Sequence[tuple[float, float]], look: Look) -> Picture:
    """The share of events at or below each value, on a scale where every nine has the same room.

    Where values above the rows are known, the axis goes up to the greatest, and is logarithmic.
    """
    picture, plot = _start(look, f"share of events at or below the {grid.quantity or 'value'}, %")
    for number, share in enumerate(SHARES):
        y = plot.y + plot.height * (1 - _nines(share) / _nines(SHARES[-1]))
        picture.shapes.append(Stroke(((plot.x, y), (plot.x + plot.width, y)), "rule"))
        picture.shapes.append(
            Words(plot.x - 8, y + 4.5, f"{share * 100:.8g}", "tick", "end", spare=number in (1, 3, 5, 6))
        )
    if grid.above:
        low = next((edge for edge, share in curve if edge > 0 and share > 0), grid.edges[-1])
        high = max(grid.above[-1][1], low * 1.01)
        ratio = math.log(high / low)

        def by_ratio(value: float) -> float:
            return math.log(max(value, low) / low) / ratio

        along: Along = by_ratio
        _axis(picture, plot, grid, look, (low, high), "log", along)
        curve = [(value, share) for value, share in curve if value >= low]
    else:
        along = _axis_of_rows(picture, plot, grid, look)
    line = tuple(
        (plot.x + plot.width * along(value), plot.y + plot.height * (1 - _nines(share) / _nines(SHARES[-1])))
        for value, share in curve
    )
    if line:
        picture.shapes.append(Stroke(line, "curve"))
    return picture


def _nines(share: float) -> float:
    """Height of a share: the logarithm of what is left, up to 99.9999 %."""
    return -math.log10(max(1 - share, 1e-6))


def _start(look: Look, label: str) -> tuple[Picture, Cells]:
    """A picture with an empty plate."""
    picture = Picture(look.width, TOP + HEIGHT + 62, label, label)
    plot = Cells(LEFT, TOP, look.width - LEFT - RIGHT, HEIGHT, 1, 1, {}, tuple[Overlay, ...]())
    picture.shapes.append(Words(12, 17, label, "axis"))
    picture.shapes.append(Box(plot.x, plot.y, plot.width, plot.height, "plate"))
    return picture, plot


def _bars(picture: Picture, plot: Cells, totals: Sequence[int]) -> None:
    """Bars beside each other, counts on a logarithmic axis."""
    most = max([*totals, 1])
    top = math.log10(most) + 0.3
    power = 0
    while 10**power <= most:
        y = plot.y + plot.height * (1 - (power + 0.3) / (top + 0.1))
        picture.shapes.append(Stroke(((plot.x, y), (plot.x + plot.width, y)), "rule"))
        picture.shapes.append(
            Words(plot.x - 8, y + 4.5, compact(10**power), "tick", "end", spare=power % 2 == 1)
        )
        power += 1
    each = plot.width / len(totals)
    for place, count in enumerate(totals):
        if count:
            tall = plot.height * (math.log10(count) + 0.3) / (top + 0.1)
            picture.shapes.append(
                Box(plot.x + place * each, plot.y + plot.height - tall, max(1.0, each - 0.4), tall, "bar")
            )


def _axis_of_rows(picture: Picture, plot: Cells, grid: Grid, look: Look) -> Along:
    """The axis of the rows as they are drawn, those for what is below and above with them."""
    frame = frame_of(grid)
    unit = axis.unit_of(grid.unit, max(abs(grid.edges[0]), abs(grid.edges[-1])))
    above = f"; the last one holds what is above {axis.show(grid.edges[-1], unit)}"

    def along(value: float) -> float:
        return place_of(value, grid, frame) / frame.rows

    ends = grid.edges[0], grid.edges[-1]
    _axis(picture, plot, grid, look, ends, grid.scale, along, above if frame.over is not None else "")
    return along


def _axis(
    picture: Picture,
    plot: Cells,
    grid: Grid,
    look: Look,
    ends: tuple[float, float],
    scale: str,
    along: Along,
    beyond: str = "",
) -> None:
    """Ticks of values and the name of the axis."""
    unit = axis.unit_of(grid.unit, max(abs(end) for end in ends))
    bottom = plot.y + plot.height
    for number, tick in enumerate(axis.ticks(*ends, unit, scale, 9)):
        x = plot.x + plot.width * along(tick)
        picture.shapes.append(Stroke(((x, bottom), (x, bottom + 5)), "tick"))
        picture.shapes.append(
            Words(x, bottom + 21, axis.show(tick, unit), "tick", "middle", spare=number % 2 == 1)
        )
    name = f"{readable(look.label) or grid.quantity or 'value'}, {unit.name}".rstrip(", ")
    log = " (log)" if scale == "log" else ""
    picture.shapes.append(Words(plot.x + plot.width, bottom + 46, name + log + beyond, "axis", "end"))
