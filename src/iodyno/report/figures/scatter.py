"""Draws points that no line joins: with bars, names, limits across the panel, and the diagonal where both axes are one
quantity.

A point has a colour and a shape, so that neither is needed alone; the ones that matter have their names beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from iodyno.report.figures.spans import (
    BOTTOM,
    HEIGHT,
    LEFT,
    TOP,
    WIDTH,
    Span,
    colour,
    linear_ticks,
    marker,
    short,
)

_LETTER = 6.6
_LINE = 15.0
_RIGHT = 16
_LINES_MOST = 12
"""Lines that a name may stand away from its point (chosen: half of the panel; names are eight at most)."""
_Box = tuple[float, float, float, float]
"""Left, top, right and bottom."""


@dataclass(frozen=True)
class Dot:
    """A point in the units of the axes; the bar goes from `low` to `high`. `name` is written beside it where there is one."""

    x: float
    y: float
    hint: str
    style: int = 0
    low: float | None = None
    high: float | None = None
    name: str = ""


@dataclass(frozen=True)
class Limit:
    """A level of the y axis with a name."""

    y: float
    name: str


@dataclass(frozen=True)
class ScatterPanel:
    """Points on one pair of axes; both axes start at 0 unless `diagonal`, where they have one range."""

    title: str
    x_title: str
    y_title: str
    dots: tuple[Dot, ...]
    limits: tuple[Limit, ...] = ()
    diagonal: bool = False


@dataclass(frozen=True)
class ScatterFigure:
    """Panels with a title and a caption."""

    title: str
    caption: str
    panels: tuple[ScatterPanel, ...]


def draw(figure: ScatterFigure) -> list[str]:
    """An SVG for each panel."""
    return [_panel(panel) for panel in figure.panels]


def cut(figure: ScatterFigure) -> bool:
    """Tell whether an interval goes on beyond the axis of its panel."""
    for panel in figure.panels:
        _, _, low, high = _ranges(panel)
        if any(
            (d.low is not None and d.low < low) or (d.high is not None and d.high > high) for d in panel.dots
        ):
            return True
    return False


def _panel(panel: ScatterPanel) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - _RIGHT
    x_low, x_high, y_low, y_high = _ranges(panel)
    x, y = Span(x_low, x_high, LEFT + 8, right - 8), Span(y_low, y_high, bottom, TOP)
    about = f"{panel.title}: {panel.y_title} against {panel.x_title}, {len(panel.dots)} points"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(about, quote=True)}" class="fig">',
        f'<text x="4" y="18" class="head">{escape(panel.title)}</text>',
        f'<text x="4" y="38" class="axis">{escape(panel.y_title)}</text>',
    ]
    for tick in linear_ticks(y_low, y_high):
        rule = "base" if tick == 0 else "grid"
        parts.append(f'<path class="{rule}" d="M{LEFT} {y(tick)}H{right}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y(tick) + 4.5:.1f}" class="tick end">{short(tick)}</text>')
    parts.append(f'<path class="base" d="M{LEFT} {bottom}H{right}"/>')
    for tick in linear_ticks(x_low, x_high):
        parts.append(f'<path class="base" d="M{x(tick)} {bottom}v5"/>')
        parts.append(f'<text x="{x(tick)}" y="{bottom + 20}" class="tick mid">{short(tick)}</text>')
    parts.append(
        f'<text x="{(LEFT + right) / 2:.0f}" y="{bottom + 42}" class="axis mid">{escape(panel.x_title)}</text>'
    )
    if panel.diagonal:
        low, high = max(x_low, y_low), min(x_high, y_high)
        parts.append(f'<path class="note" d="M{x(low)} {y(low)}L{x(high)} {y(high)}"/>')
    for limit in panel.limits:
        if y_low <= limit.y <= y_high:
            parts.append(f'<path class="note" d="M{LEFT} {y(limit.y)}H{right}"/>')
            parts.append(
                f'<text x="{LEFT + 6}" y="{y(limit.y) - 5:.1f}" class="small">{escape(limit.name)}</text>'
            )
    return "".join([*parts, *_dots(panel, x, y), "</svg>"])


def _ranges(panel: ScatterPanel) -> tuple[float, float, float, float]:
    xs = [dot.x for dot in panel.dots]
    ys = [value for dot in panel.dots for value in (dot.y, dot.low, dot.high) if value is not None]
    if panel.diagonal:
        # The bar of a point with few trials must not squash all points: it goes on beyond the axis.
        values = [*xs, *(dot.y for dot in panel.dots)]
        low, high = min(0.0, *values), max(*values)
        high += 0.15 * (high - low) or 1.0
        return low, high, low, high
    top = max([*ys, *(limit.y for limit in panel.limits if limit.y <= 2 * max(ys))])
    return 0.0, 1.06 * max(xs) or 1.0, 0.0, 1.08 * top or 1.0


def _dots(panel: ScatterPanel, x: Span, y: Span) -> list[str]:
    parts = []
    taken = [_around(x(dot.x), y(dot.y)) for dot in panel.dots]
    for limit in panel.limits:
        taken += [
            _written(LEFT + 6, y(limit.y) - 5, limit.name),
            (LEFT, y(limit.y) - 1, WIDTH, y(limit.y) + 1),
        ]
    for dot in sorted(panel.dots, key=lambda dot: -dot.y):
        at, up = x(dot.x), y(dot.y)
        parts.append(f'<g class="{colour(dot.style)}"><title>{escape(dot.hint)}</title>')
        if dot.low is not None and dot.high is not None:
            low, high = y(max(dot.low, y.low)), y(min(dot.high, y.high))
            # An end without a cap: the interval goes on beyond the axis.
            ends = ((low, dot.low), (high, dot.high))
            caps = "".join(f"M{at - 4:.1f} {end}h8" for end, value in ends if y.low <= value <= y.high)
            parts.append(f'<path class="bar" d="M{at} {low}V{high}{caps}"/>')
        parts.append(f'<circle class="hit" cx="{at}" cy="{up}" r="10"/>{marker(dot.style, at, up)}</g>')
        if dot.name:
            parts.append(_name(dot.name, at, up, taken))
    return parts


def _name(name: str, at: float, up: float, taken: list[_Box]) -> str:
    """The name beside its point, or as near as there is room: clear of points, of other names and of those of limits. A thin
    line leads to a point that is not on its own line.
    """
    places = [
        (at - 10 - len(name) * _LETTER if left else at + 10, up + 4.5 + shift, left)
        for shift in sorted((step * _LINE for step in range(-_LINES_MOST, _LINES_MOST + 1)), key=abs)
        for left in (True, False)
    ]
    inside = [place for place in places if _is_inside(_written(place[0], place[1], name))] or places
    free = (p for p in inside if not any(_meet(_written(p[0], p[1], name), other) for other in taken))
    start, line, left = next(free, inside[0])
    taken.append(_written(start, line, name))
    lead = ""
    if abs(line - up - 4.5) >= _LINE:
        edge, end = up - 6 if line < up else up + 6, at - 8 if left else at + 8
        lead = f'<path class="base" d="M{at:.1f} {edge:.1f}L{end:.1f} {line - 4.5:.1f}"/>'
    anchor, place = ("end ", at - 10) if left else ("", at + 10)
    return f'{lead}<text x="{place:.1f}" y="{line:.1f}" class="{anchor}tick">{escape(name)}</text>'


def _around(at: float, up: float) -> _Box:
    return at - 6, up - 6, at + 6, up + 6


def _written(start: float, line: float, text: str) -> _Box:
    return start, line - 11, start + len(text) * _LETTER, line + 3


def _is_inside(box: _Box) -> bool:
    return box[0] >= LEFT and box[2] <= WIDTH - 2 and box[1] >= TOP - 10 and box[3] <= HEIGHT - BOTTOM


def _meet(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
