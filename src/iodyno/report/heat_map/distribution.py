"""Pictures of a grid without its time: the histogram with its outliers, and the cumulative curve to 99.9999 %."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iodyno.core.grid import Grid
from iodyno.report.heat_map import axis
from iodyno.report.heat_map.layout import Look, compact, drawn_counts, frame_of, place_of, readable
from iodyno.report.heat_map.picture import Box, Cells, Overlay, Picture, Stroke, Words

LEFT, RIGHT, TOP, HEIGHT = 104.0, 18.0, 30.0, 220.0
SHARES = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999)
"""Ticks of the cumulative curve; equal steps from 90 % on, as each next nine counts as much."""


def histogram(grid: Grid, look: Look) -> Picture:
    """Events a row on a logarithmic scale, so that single outliers are seen beside millions."""
    frame = frame_of(grid)
    totals = [0] * frame.rows
    for (_, row), count in drawn_counts(grid, frame).items():
        totals[row] += count
    picture, plot = _start(grid, look, f"histogram of {grid.quantity or 'values'}, events a row (log)")
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
    each = plot.width / frame.rows
    for row, count in enumerate(totals):
        if count:
            tall = plot.height * (math.log10(count) + 0.3) / (top + 0.1)
            picture.shapes.append(
                Box(plot.x + row * each, plot.y + plot.height - tall, max(1.0, each - 0.4), tall, "bar")
            )
    return picture


def cumulative(grid: Grid, curve: Sequence[tuple[float, float]], look: Look) -> Picture:
    """The share of events at or below each value, on a scale where every nine has the same room."""
    frame = frame_of(grid)
    picture, plot = _start(grid, look, f"share of events at or below the {grid.quantity or 'value'}, %")
    for number, share in enumerate(SHARES):
        y = plot.y + plot.height * (1 - _nines(share) / _nines(SHARES[-1]))
        picture.shapes.append(Stroke(((plot.x, y), (plot.x + plot.width, y)), "rule"))
        picture.shapes.append(
            Words(plot.x - 8, y + 4.5, f"{share * 100:.8g}", "tick", "end", spare=number in (1, 3, 5, 6))
        )
    points = [
        (plot.x + plot.width * place_of(value, grid, frame) / frame.rows, share) for value, share in curve
    ]
    line = tuple((x, plot.y + plot.height * (1 - _nines(share) / _nines(SHARES[-1]))) for x, share in points)
    if line:
        picture.shapes.append(Stroke(line, "curve"))
    return picture


def _nines(share: float) -> float:
    """Height of a share: the logarithm of what is left, up to 99.9999 %."""
    return -math.log10(max(1 - share, 1e-6))


def _start(grid: Grid, look: Look, label: str) -> tuple[Picture, Cells]:
    """An empty picture with its value axis."""
    frame = frame_of(grid)
    unit = axis.unit_of(grid.unit, max(abs(grid.edges[0]), abs(grid.edges[-1])))
    picture = Picture(look.width, TOP + HEIGHT + 62, label, f"{grid.rows} rows")
    plot = Cells(LEFT, TOP, look.width - LEFT - RIGHT, HEIGHT, frame.rows, 1, {}, tuple[Overlay, ...]())
    picture.shapes.append(Words(12, 17, label, "axis"))
    picture.shapes.append(Box(plot.x, plot.y, plot.width, plot.height, "plate"))
    bottom = plot.y + plot.height
    for number, tick in enumerate(axis.ticks(grid.edges[0], grid.edges[-1], unit, grid.scale, 9)):
        x = plot.x + plot.width * place_of(tick, grid, frame) / frame.rows
        picture.shapes.append(Stroke(((x, bottom), (x, bottom + 5)), "tick"))
        picture.shapes.append(
            Words(x, bottom + 21, axis.show(tick, unit), "tick", "middle", spare=number % 2 == 1)
        )
    name = f"{readable(look.label) or grid.quantity or 'value'}, {unit.name}".rstrip(", ")
    beyond = (
        f"; the last one holds what is above {axis.show(grid.edges[-1], unit)}"
        if frame.over is not None
        else ""
    )
    picture.shapes.append(Words(plot.x + plot.width, bottom + 46, name + beyond, "axis", "end"))
    return picture, plot
