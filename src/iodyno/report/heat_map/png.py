"""A picture as PNG, drawn by Pillow (the extra `png`), which is imported when a PNG is asked for and not before.

Pillow (licence MIT-CMU) brings letters; the rest would be thirty lines. The light ramp is used: a PNG does not know its page.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING

from iodyno.core.errors import ExperimentError
from iodyno.report.heat_map import axis, colour
from iodyno.report.heat_map.multiples import places
from iodyno.report.heat_map.picture import Box, Cells, Overlay, Picture, Stroke, Toggle, Words

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

ZOOM = 2
"""Pixels a unit of the drawing (chosen: sharp on a dense screen, 1800 pixels wide)."""
PIXELS_MOST = 60_000_000
"""Of one picture (chosen: 180 MB while it is drawn; browsers and viewers refuse much more)."""
Origin = tuple[float, float]
"""Left and top of a picture on the whole."""
_INK, _SOFT, _RULE, _BORDER, _BAR, _LINE = "#16191d", "#555d66", "#d3d8dd", "#8a929b", "#6b7580", "#005ea8"
_SIZES = {"head": 18}
_DASHES: tuple[tuple[float, ...], ...] = ((), (7, 3), (2, 2.5), (), (9, 3, 2, 3))


def png(pictures: Sequence[Picture]) -> bytes:
    """The PNG of pictures, as `multiples` places them. Raises ExperimentError where it would be larger than `PIXELS_MOST`."""
    where, wide, high = places(pictures)
    size = round(wide * ZOOM), round(high * ZOOM)
    if size[0] * size[1] > PIXELS_MOST:
        raise ExperimentError(
            f"the picture would be {axis.whole(size[0])} x {axis.whole(size[1])} pixels, and more than"
            f" {axis.whole(PIXELS_MOST)} take too much memory",
            where="-o",
            advice="a smaller --box-size (or none), wider columns (--column), or -o heat.svg",
        )
    from PIL import Image, ImageDraw

    image = Image.new("RGB", size, "#ffffff")
    draw = ImageDraw.Draw(image)
    for picture, at in zip(pictures, where, strict=True):
        for shape in picture.shapes:
            if isinstance(shape, Box):
                _box(draw, shape, at)
            elif isinstance(shape, Words):
                _words(draw, shape, at)
            elif isinstance(shape, Stroke):
                _stroke(draw, shape, at)
            elif isinstance(shape, Cells):
                _cells(draw, shape, at)
            elif shape.shown:
                _toggle(draw, shape, at)
    out = BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


@cache
def _font(size: float) -> FreeTypeFont | ImageFont:
    """DejaVu Sans where the machine has it, for its many letters; else what Pillow brings, which has the Latin ones."""
    from PIL import ImageFont

    try:
        return ImageFont.truetype("DejaVuSans.ttf", round(size * ZOOM))
    except OSError:
        return ImageFont.load_default(round(size * ZOOM))


def _at(x: float, y: float, origin: Origin) -> tuple[int, int]:
    return round((x + origin[0]) * ZOOM), round((y + origin[1]) * ZOOM)


def _fill(role: str) -> str | None:
    if role[:1] in "hd" and role[1:].isdecimal():
        ramp = colour.LIGHT if role[0] == "h" else colour.difference_ramp()
        return colour.css(ramp[int(role[1:])])
    return {"bar": _BAR}.get(role)


def _box(draw: ImageDraw, box: Box, origin: Origin) -> None:
    x, y = _at(box.x, box.y, origin)
    right, bottom = _at(box.x + box.width, box.y + box.height, origin)
    fill = _fill(box.role)
    if fill is None:
        draw.rectangle((x, y, right, bottom), fill="#ffffff", outline=_RULE)
    else:
        draw.rectangle((x, y, max(x, right - 1), max(y, bottom - 1)), fill=fill)


def _words(draw: ImageDraw, words: Words, origin: Origin) -> None:
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[words.anchor]
    ink = _INK if words.role in ("head", "axis") else _SOFT
    bold = 1 if words.role == "head" else 0
    draw.text(
        _at(words.x, words.y, origin),
        words.text,
        fill=ink,
        font=_font(_SIZES.get(words.role, 13)),
        anchor=anchor,
        stroke_width=bold * ZOOM * 0.15,
        stroke_fill=ink,
    )


def _stroke(draw: ImageDraw, stroke: Stroke, origin: Origin) -> None:
    points = [_at(x, y, origin) for x, y in stroke.points]
    if stroke.role == "strip":
        draw.polygon(points, fill=_BAR)
    else:
        draw.line(points, fill=_RULE if stroke.role == "rule" else _BORDER, width=ZOOM)


def _cells(draw: ImageDraw, plot: Cells, origin: Origin) -> None:
    ramp = colour.difference_ramp() if plot.difference else colour.LIGHT
    wide, tall = plot.width / plot.columns, plot.height / plot.rows
    for (column, row), level in plot.levels.items():
        x, y = _at(plot.x + column * wide, plot.y + (plot.rows - 1 - row) * tall, origin)
        right, bottom = _at(plot.x + (column + 1) * wide, plot.y + (plot.rows - row) * tall, origin)
        draw.rectangle((x, y, max(x, right - 1), max(y, bottom - 1)), fill=colour.css(ramp[level]))
    for overlay in plot.overlays:
        if overlay.shown:
            _overlay(draw, plot, overlay, origin)


def _overlay(draw: ImageDraw, plot: Cells, overlay: Overlay, origin: Origin) -> None:
    wide, tall = plot.width / plot.columns, plot.height / plot.rows
    for run in overlay.runs:
        points: list[tuple[float, float]] = []
        for column, place in run:
            y = plot.y + plot.height - place * tall
            points += [(plot.x + column * wide, y), (plot.x + (column + 1) * wide, y)]
        draw.line([_at(x, y, origin) for x, y in points], fill="#ffffff", width=4 * ZOOM)
        _dashed(draw, points, overlay.style, origin)


def _dashed(draw: ImageDraw, points: Sequence[tuple[float, float]], style: int, origin: Origin) -> None:
    """A line of horizontal and vertical pieces, dashed on along its whole length."""
    pattern = _DASHES[style % len(_DASHES)]
    width = ZOOM if style == 3 else 2 * ZOOM
    if not pattern:
        draw.line([_at(x, y, origin) for x, y in points], fill=_LINE, width=width)
        return
    piece, left = 0, pattern[0]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        length = abs(x1 - x0) + abs(y1 - y0)
        done = 0.0
        while length - done > 1e-9:
            step = min(left, length - done)
            if piece % 2 == 0:
                a, b = done / length, (done + step) / length
                ends = [(x0 + (x1 - x0) * part, y0 + (y1 - y0) * part) for part in (a, b)]
                draw.line([_at(x, y, origin) for x, y in ends], fill=_LINE, width=width)
            done, left = done + step, left - step
            if left <= 1e-9:
                piece = (piece + 1) % len(pattern)
                left = pattern[piece]


def _toggle(draw: ImageDraw, toggle: Toggle, origin: Origin) -> None:
    _dashed(draw, [(toggle.x, toggle.y - 4), (toggle.x + 22, toggle.y - 4)], toggle.style, origin)
    draw.text(_at(toggle.x + 27, toggle.y, origin), toggle.text, fill=_SOFT, font=_font(13), anchor="ls")
