"""Draws stacked bars as SVG: a bar for each place, its layers from below, and the interval of their total.

Every layer has a colour and a hatch, so that neither is needed alone; the legend has them in the order of the bars. A
hatch is drawn line by line: a pattern would need a reference, which the page does not allow itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from iodyno.report.figures.spans import BOTTOM, HEIGHT, LEFT, TOP, WIDTH, Span, beside, linear_ticks, short
from iodyno.report.heat_map.layout import wrapped
from iodyno.report.void import MARK

_LETTER = 7.2
_LEGEND_LETTER = 6.7
"""Width of a letter at font size 13: on an axis with room to spare, in a legend as system fonts have it."""
_GAP = 0.28
"""Share of a bar's place that stays free."""
_SLANTED_MOST = 16
"""Letters of a name that stands on a slant (chosen: that of the first bar then ends within the drawing)."""
REST = 5
"""Style of what no class accounts for: an outline."""


@dataclass(frozen=True)
class Layer:
    """One part of a bar, in the units of the axis. `style` tells colour and hatch, the same in all panels."""

    name: str
    style: int
    y: float
    hint: str


@dataclass(frozen=True)
class Stack:
    """A bar: its label, its layers from below, and the estimate of their total with its interval. Nothing is claimed of one that
    is `void`."""

    label: str
    layers: tuple[Layer, ...]
    total: float
    low: float | None
    high: float | None
    hint: str
    void: bool = False


@dataclass(frozen=True)
class StackPanel:
    """Bars on one pair of axes that goes up to `top`. `notes` are texts over the bars from the one of that number.

    `named`: the bars' labels are names, of which none may be left out; those of numbers may, as ticks are.
    """

    title: str
    x_title: str
    y_title: str
    stacks: tuple[Stack, ...]
    top: float
    notes: tuple[tuple[int, str], ...] = ()
    named: bool = False

    @property
    def legend(self) -> list[Layer]:
        """A layer of each name, in the order of the bars."""
        found = {layer.style: layer for stack in self.stacks for layer in stack.layers}
        return [found[style] for style in sorted(found)]


@dataclass(frozen=True)
class StackFigure:
    """Panels of stacked bars, a title, and a caption that names the intervals."""

    title: str
    caption: str
    panels: tuple[StackPanel, ...]


def draw(figure: StackFigure) -> list[str]:
    """An SVG for each panel."""
    return [_panel(panel) for panel in figure.panels]


def cut(figure: StackFigure) -> bool:
    """Tell whether an interval goes on beyond the axis of its panel."""
    return any(
        stack.high is not None and stack.high > panel.top for panel in figure.panels for stack in panel.stacks
    )


def _panel(panel: StackPanel) -> str:
    rows = _legend_rows(panel.legend)
    bottom, right = HEIGHT - BOTTOM, WIDTH - 14
    step = (right - LEFT) / len(panel.stacks)
    labels, deep = _labels(panel, step, bottom)
    below = HEIGHT + deep - (0 if panel.x_title else 18)
    y = Span(0.0, panel.top, bottom, TOP)
    said = (
        f"{panel.title}: {panel.y_title} by class against {panel.x_title or 'host'}, {len(panel.stacks)} bars"
    )
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {below + 22 * len(rows)}" role="img" '
        f'aria-label="{escape(said, quote=True)}" class="fig stacks">',
        f'<text x="4" y="18" class="head">{escape(panel.title)}</text>',
        f'<text x="4" y="38" class="axis">{escape(panel.y_title)}</text>',
    ]
    for tick in linear_ticks(0.0, panel.top):
        rule = "base" if tick == 0 else "grid"
        parts.append(f'<path class="{rule}" d="M{LEFT} {y(tick)}H{right}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y(tick) + 4.5:.1f}" class="tick end">{short(tick)}</text>')
    wide = min(step * (1 - _GAP), 64.0)
    for number, stack in enumerate(panel.stacks):
        parts += _bar(stack, LEFT + (number + 0.5) * step, wide, y)
    parts += labels
    # After the bars, whose outline has the colour of the paper.
    parts.append(f'<path class="base" d="M{LEFT} {bottom}H{right}"/>')
    for number, text in panel.notes:
        at = LEFT + number * step
        before, _, after = text.partition(" | ")
        parts.append(f'<path class="note" d="M{at:.1f} {TOP - 15}V{bottom}"/>')
        parts.append(f'<text x="{at - 6:.1f}" y="{TOP - 5}" class="small end">{escape(before)}</text>')
        parts.append(f'<text x="{at + 6:.1f}" y="{TOP - 5}" class="small">{escape(after)}</text>')
    if panel.x_title:
        centre = (LEFT + right) / 2
        parts.append(
            f'<text x="{centre:.0f}" y="{bottom + 42 + deep}" class="axis mid">{escape(panel.x_title)}</text>'
        )
    parts += _legend(rows, below + 2)
    return "".join([*parts, "</svg>"])


def _labels(panel: StackPanel, step: float, bottom: float) -> tuple[list[str], int]:
    """The labels of the bars, and what they take below the place of a line of text. Names that are too long to stand side
    by side stand on a slant."""
    longest = max(len(stack.label) for stack in panel.stacks)
    slanted = panel.named and longest * _LETTER > step - 4
    parts, free = [], -1.0
    for number, stack in enumerate(panel.stacks):
        middle = LEFT + (number + 0.5) * step
        half = len(stack.label) * _LETTER / 2
        if slanted:
            at, name = f"{middle + 5:.1f} {bottom + 14}", "".join(wrapped(stack.label, _SLANTED_MOST, 1))
            turned = f'<text transform="translate({at}) rotate(-35)" class="tick end">{escape(name)}</text>'
            parts.append(f"<g><title>{escape(stack.label)}</title>{turned}</g>")
        elif panel.named or middle - half > free:
            text = f'<text x="{middle:.1f}" y="{bottom + 20}" class="tick mid">{escape(stack.label)}</text>'
            parts.append(text)
            free = middle + half + 3
    return parts, round(0.57 * 6.6 * min(longest, _SLANTED_MOST)) - 4 if slanted else 0


def _bar(stack: Stack, middle: float, wide: float, y: Span) -> list[str]:
    parts, base = ["<g>"], 0.0
    left = round(middle - wide / 2, 1)
    for layer in stack.layers:
        # A class that cost less than the idle machine's has nothing to show.
        height = max(0.0, layer.y)
        above, below = y(base + height), y(base)
        base += height
        if below - above >= 0.3:
            parts += _layer(layer.style, left, above, round(wide, 1), round(below - above, 1), layer.hint)
    if stack.low is not None and stack.high is not None:
        low, high = y(max(stack.low, y.low)), y(min(stack.high, y.high))
        caps = "".join(
            f"M{middle - 5:.1f} {end}h10"
            for end, value in ((low, stack.low), (high, stack.high))
            if y.low <= value <= y.high
        )
        bar = f'<path class="total" d="M{middle:.1f} {low}V{high}{caps}"/>'
    else:
        bar = f'<path class="total" d="M{left} {y(stack.total)}h{wide:.1f}"/>'
    # A wide target for the pointer, where the mark itself is a line.
    at = y(min(stack.total, y.high))
    target = f'<circle class="hit" cx="{middle:.1f}" cy="{at}" r="8"/>'
    bar += beside(middle, at, MARK) if stack.void else ""
    return [*parts, f"<g><title>{escape(stack.hint)}</title>{bar}{target}</g></g>"]


def _layer(style: int, left: float, top: float, wide: float, high: float, hint: str = "") -> list[str]:
    tooltip = f"<title>{escape(hint)}</title>" if hint else ""
    kind = "rest" if style == REST else "layer"
    box = f'<rect class="{kind}" x="{left}" y="{top}" width="{wide}" height="{high}"/>'
    lines = _hatch(style, left, top, wide, high)
    hatched = f'<path class="hatch" d="{lines}"/>' if lines else ""
    return [f'<g class="s{6 if style == REST else style}">{tooltip}{box}{hatched}</g>']


def _hatch(style: int, left: float, top: float, wide: float, high: float) -> str:
    """Lines in the box: none, rising, level, upright, falling."""
    if style == 2:
        return "".join(f"M{left:g} {_short(top + at)}h{wide:g}" for at in _steps(4.0, high))
    if style == 3:
        return "".join(f"M{_short(left + at)} {top:g}v{high:g}" for at in _steps(4.0, wide))
    if style not in (1, 4):
        return ""
    parts = []
    for reach in _steps(8.0, wide + high):
        near, far = min(reach, wide), min(reach, high)
        ends = ((near, reach - near), (reach - far, far))
        (a, b), (c, d) = ends if style == 1 else tuple((wide - x, up) for x, up in ends)
        parts.append(f"M{_short(left + a)} {_short(top + b)}l{_short(c - a)} {_short(d - b)}")
    return "".join(parts)


def _short(place: float) -> str:
    """To a tenth, as short as it can be written: hatches are most of what a page's bars weigh."""
    return f"{place:.1f}".removesuffix(".0")


def _steps(each: float, length: float) -> list[float]:
    return [each * (number + 0.5) for number in range(int(length / each + 0.5))]


def _width(layer: Layer) -> float:
    return len(layer.name) * _LEGEND_LETTER + 42


def _legend_rows(layers: Sequence[Layer]) -> list[list[Layer]]:
    rows: list[list[Layer]] = [[]]
    for layer in layers:
        if rows[-1] and sum(map(_width, [*rows[-1], layer])) > WIDTH:
            rows.append([])
        rows[-1].append(layer)
    return rows


def _legend(rows: Sequence[Sequence[Layer]], top: float) -> list[str]:
    parts = []
    for number, row in enumerate(rows):
        at, line = 8.0, top + 22 * number
        for layer in row:
            parts += _layer(layer.style, round(at, 1), line, 22.0, 14.0)
            parts.append(
                f'<text x="{at + 29:.1f}" y="{line + 11.5}" class="name">{escape(layer.name)}</text>'
            )
            at += _width(layer)
    return parts
