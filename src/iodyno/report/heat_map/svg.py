"""A picture as SVG: for a page, or a file of its own that works alone, as an image, and with its script.

The cells of one step of the ramp are one path in columns and rows, a rectangle for each run of equal neighbours, and stand in a
nested drawing whose view box the script moves to zoom. Nothing in the drawing is taken from outside, and every text is escaped.
Above `MOST_CELLS` cells the plot is an image of one pixel a cell instead, which a browser draws at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from iodyno.core.grid import Grid
from iodyno.report.heat_map import axis, colour, pixels
from iodyno.report.heat_map.layout import cell_counts, frame_of, own_units
from iodyno.report.heat_map.multiples import places
from iodyno.report.heat_map.picture import Box, Cells, Overlay, Picture, Shape, Stroke, Toggle, Words

MOST_CELLS = 20_000
"""Cells that are drawn as shapes; more become pixels (research/observability: canvas above about 20 000)."""
TEMPLATES = Path(__file__).parents[1] / "templates"
"""By path: importlib.resources takes 20 ms to import, which the budget of a picture is not for."""
_AXES = ("tick", "rule", "border")
"""Roles that the script draws anew when it zooms."""


def document(pictures: Sequence[tuple[Picture, Mapping[str, Any] | None]]) -> str:
    """An SVG file of pictures, as `multiples` places them, with style and script."""
    where, width, height = places([picture for picture, _ in pictures])
    several = len(pictures) > 1
    parts = [
        draw(picture, data, at=place if several else None)
        for (picture, data), place in zip(pictures, where, strict=True)
    ]
    size = f'viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" height="{_n(height)}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(pictures[0][0].title)}" class="hm-page">'
        f"<title>{escape(pictures[0][0].title)}</title><desc>{escape(' '.join(p.description for p, _ in pictures))}</desc>"
        f"<style>{style()}svg.hm-page{{max-width:100%;height:auto;background:var(--hm-paper)}}</style>"
    )
    # The parser of a file is one for XML: the script stands in a section that it does not look into.
    paper = '<rect class="hm-paper" width="100%" height="100%"/>'
    return f"{head}{paper}{''.join(parts)}<script>//<![CDATA[\n{script()}//]]></script></svg>\n"


@cache
def script() -> str:
    """The script of interactive maps; it looks for `svg.hm` with data, and asks for nothing."""
    return (TEMPLATES / "heat_map.js").read_text(encoding="utf-8")


@cache
def style() -> str:
    """The style of maps, with the ramps for a light and a dark page."""
    text = (TEMPLATES / "heat_map.css").read_text(encoding="utf-8")
    light = "".join(f"--h{step}:{colour.css(each)};" for step, each in enumerate(colour.LIGHT))
    dark = "".join(f"--h{step}:{colour.css(each)};" for step, each in enumerate(colour.DARK))
    fills = "".join(f".hm .h{step}{{fill:var(--h{step})}}" for step in range(colour.LEVELS))
    changes = "".join(
        f".hm .d{step}{{fill:{colour.css(each)}}}" for step, each in enumerate(colour.difference_ramp())
    )
    return text.replace("/*light*/", light).replace("/*dark*/", dark) + fills + changes + "\n"


def script_data(grid: Grid) -> dict[str, Any]:
    """Return the data of a grid for the script: counts by column and drawn row, and how to name them."""
    frame = frame_of(grid)
    unit = axis.unit_of(grid.unit, max(abs(grid.edges[0]), abs(grid.edges[-1])))
    time = axis.unit_of("ns", grid.columns * grid.column_ns)
    cells: list[int] = []
    for (column, row), count in sorted(cell_counts(grid, frame).items()):
        cells += (column, row, count)
    return {
        "columns": grid.columns,
        "rows": frame.rows,
        "first": frame.first,
        "over": frame.over,
        "under": frame.under,
        "edges": [float(f"{edge / unit.factor:.9g}") for edge in grid.edges],
        "unit": unit.name,
        "units": axis.units(grid.unit, unit) if own_units(grid) else None,
        "scale": grid.scale,
        "begin": (grid.begin_ns - axis.zero_of(grid.begin_ns, grid.columns * grid.column_ns)) / time.factor,
        "column": grid.column_ns / time.factor,
        "time": time.name,
        "cells": cells,
    }


def draw(
    picture: Picture, data: Mapping[str, Any] | None = None, *, at: tuple[float, float] | None = None
) -> str:
    """The `<svg>` of a picture, without style; its left and top are `at` this place of a drawing around it when one is given."""
    place = (
        ""
        if at is None
        else f' x="{_n(at[0])}" y="{_n(at[1])}" width="{_n(picture.width)}" height="{_n(picture.height)}"'
    )
    parts = [
        f'<svg viewBox="0 0 {_n(picture.width)} {_n(picture.height)}"{place} class="hm" role="img"'
        f' aria-label="{escape(picture.title)}: {escape(picture.description)}">'
    ]
    if data is not None:
        parts.append(
            f'<metadata class="hm-data">{escape(json.dumps(data, separators=(",", ":"), allow_nan=False))}</metadata>'
        )
    parts += [_shape(shape) for shape in picture.shapes]
    return "".join([*parts, "</svg>"])


def _shape(shape: Shape) -> str:
    if isinstance(shape, Box):
        name = f" hm-{shape.name}" if shape.name else ""
        size = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
        return f'<rect class="{shape.role}{name}" {size}/>'
    if isinstance(shape, Words):
        name = (" hm-" + shape.name if shape.name else "") + (" spare" if shape.spare else "")
        anchor = f' text-anchor="{shape.anchor}"' if shape.anchor != "start" else ""
        return f'<text class="{shape.role}{name}" x="{_n(shape.x)}" y="{_n(shape.y)}"{anchor}>{escape(shape.text)}</text>'
    if isinstance(shape, Stroke):
        return _stroke(shape)
    if isinstance(shape, Toggle):
        return (
            f'<g class="hm-toggle" data-overlay="{escape(shape.overlay)}" data-shown="{int(shape.shown)}">'
            f'<rect class="hm-hit" x="{_n(shape.x - 4)}" y="{_n(shape.y - 15)}"'
            f' width="{_n(36 + 11.5 * len(shape.text))}" height="22" rx="4"/>'
            f'<path class="hm-line o{shape.style}" d="M{_n(shape.x)} {_n(shape.y - 4)}h22"/>'
            f'<text class="small" x="{_n(shape.x + 27)}" y="{_n(shape.y)}">{escape(shape.text)}</text></g>'
        )
    return _cells(shape)


def _stroke(shape: Stroke) -> str:
    d = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in shape.points)
    if shape.role != "strip":
        moved = " hm-ax" if shape.role in _AXES else ""
        return f'<path class="{shape.role}{moved}" d="{d}"/>'
    xs, ys = [x for x, _ in shape.points], [y for _, y in shape.points]
    left, width, low, height = min(xs), max(xs) - min(xs), min(ys), max(1.0, max(ys) - min(ys))
    box = f"{_n(left)} {_n(low)} {_n(width)} {_n(height)}"
    size = f'x="{_n(left)}" y="{_n(low)}" width="{_n(width)}" height="{_n(height)}"'
    return f'<svg class="hm-strip" {size} viewBox="{box}" preserveAspectRatio="none"><path class="strip" d="{d}z"/></svg>'


def _cells(plot: Cells) -> str:
    size = f'x="{_n(plot.x)}" y="{_n(plot.y)}" width="{_n(plot.width)}" height="{_n(plot.height)}"'
    head = f'<svg class="hm-{plot.name}" {size} viewBox="0 0 {plot.columns} {plot.rows}" preserveAspectRatio="none">'
    if len(plot.levels) > MOST_CELLS:
        cells = _images(plot)
    else:
        cells = "".join(
            f'<path class="{"d" if plot.difference else "h"}{level}" d="{d}"/>'
            for level, d in sorted(_paths(plot).items())
        )
    lines = "".join(_overlay(overlay, plot) for overlay in plot.overlays)
    return f'{head}<g class="hm-cells">{cells}</g>{lines}</svg>'


def _paths(plot: Cells) -> dict[int, str]:
    """A path a level: rectangles of columns by one row, y down from the top row."""
    found: dict[int, list[str]] = {}
    by_row: dict[int, list[tuple[int, int]]] = {}
    for (column, row), level in plot.levels.items():
        by_row.setdefault(row, []).append((column, level))
    for row, cells in sorted(by_row.items(), reverse=True):
        cells.sort()
        y, start = plot.rows - 1 - row, 0
        for at in range(1, len(cells) + 1):
            first, level = cells[start]
            if at == len(cells) or cells[at] != (first + at - start, level):
                wide = at - start
                found.setdefault(level, []).append(f"M{first} {y}h{wide}v1h-{wide}z")
                start = at
    return {level: "".join(parts) for level, parts in found.items()}


def _images(plot: Cells) -> str:
    ramps = (colour.difference_ramp(),) * 2 if plot.difference else (colour.LIGHT, colour.DARK)
    parts = []
    for theme, ramp in zip(("light", "dark"), ramps, strict=True):
        picture = pixels.png(
            plot.columns,
            plot.rows,
            {(c, plot.rows - 1 - r): level for (c, r), level in plot.levels.items()},
            ramp,
        )
        size = f'width="{plot.columns}" height="{plot.rows}" preserveAspectRatio="none"'
        parts.append(f'<image class="hm-{theme}" {size} href="{pixels.as_source(picture)}"/>')
    return "".join(parts)


def _overlay(overlay: Overlay, plot: Cells) -> str:
    d = []
    for run in overlay.runs:
        for number, (column, place) in enumerate(run):
            y = _n(plot.rows - place)
            d.append(f"{'M' if number == 0 else 'L'}{_n(column)} {y}H{_n(column + 1)}")
    path = "".join(d)
    hidden = "" if overlay.shown else " hm-off"
    return (
        f'<g class="hm-overlay{hidden}" data-overlay="{escape(overlay.name)}"><path class="hm-halo" d="{path}"/>'
        f'<path class="hm-line o{overlay.style}" d="{path}"/></g>'
    )


def _n(value: float) -> str:
    """A coordinate: two digits after the point, none where there is no need."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text
