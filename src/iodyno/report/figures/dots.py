"""Draws panels whose places are names: a row for each, dots side by side with their intervals, and no line between them.

Variants, paths and interfaces are no quantities: a line from one to the next would claim a slope that nothing has. Rows stand in
the order of the experiment; their names are read as they are, however long (Cleveland and McGill 1984 on dot plots).
"""

from __future__ import annotations

from html import escape

from iodyno.report.figures.legend import ROW, legend, rows_of
from iodyno.report.figures.panel import Mark, Panel
from iodyno.report.figures.spans import (
    LETTER,
    WIDTH,
    Span,
    beside,
    colour,
    labels_below,
    linear_ticks,
    log_ticks,
    marker,
    short,
)
from iodyno.report.heat_map.layout import wrapped
from iodyno.report.void import MARK

_TOP, _BOTTOM, _RIGHT = 50.0, 56.0, 24.0
_APART = 15.0
"""Between the dots of two series in a row (chosen: a bar and its caps stay apart)."""
_ROW_LEAST = 30.0
_LETTERS = 26
"""Letters of a name in a line (chosen: a third of the width); it has two lines at most, and is whole under the pointer."""


def draw(panel: Panel, values: tuple[float, float]) -> str:
    """The SVG of a panel; `values`: from where to where its axis of values goes."""
    names = {place: wrapped(label, _LETTERS, 2) for place, label in panel.x.places}
    left = 16.0 + LETTER * max((len(line) for lines in names.values() for line in lines), default=0)
    each = max(_ROW_LEAST, _APART * len(panel.series) + 16.0)
    bottom = _TOP + each * len(names)
    named = rows_of(panel.series) if len(panel.series) > 1 else []
    height = bottom + _BOTTOM + ROW * len(named)
    across = Span(*values, left + 12, WIDTH - _RIGHT, log=panel.y.kind == "log")
    said = f"{panel.title}: {panel.y.title} by {panel.x.title}, {len(names)} rows"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(said, quote=True)}" class="fig">',
        f'<text x="4" y="18" class="head">{escape(panel.title)}</text>',
        f'<text x="4" y="38" class="axis">{escape(panel.x.title)}</text>',
        *_value_axis(panel, across, bottom),
    ]
    middles = {}
    for number, (place, label) in enumerate(panel.x.places):
        middles[place] = _TOP + each * (number + 0.5)
        parts += _name(names[place], label, left, middles[place])
        if number:
            parts.append(f'<path class="grid" d="M4 {_TOP + each * number:.1f}H{WIDTH - _RIGHT + 12:.0f}"/>')
    middle = (len(panel.series) - 1) / 2
    for number, series in enumerate(panel.series):
        shown = f"{series.label}: " if series.label else ""
        dots = (
            _dot(mark, across, middles[mark.x] + (number - middle) * _APART, series.style, shown)
            for mark in series.marks
        )
        parts.append(f'<g class="{colour(series.style)}">{"".join(dots)}</g>')
    return "".join([*parts, *legend(named, bottom + _BOTTOM, joined=False), "</svg>"])


def _value_axis(panel: Panel, across: Span, bottom: float) -> list[str]:
    parts = []
    ticks = log_ticks(across.low, across.high) if across.log else linear_ticks(across.low, across.high)
    for tick in ticks:
        rule = "base" if tick == 0 else "grid"
        parts.append(f'<path class="{rule}" d="M{across(tick)} {_TOP:.0f}V{bottom:.0f}"/>')
    parts += labels_below(((across(tick), short(tick)) for tick in ticks), bottom + 20)
    middle = (across.start + across.end) / 2
    title = f"{panel.y.title}{' (log)' if across.log else ''}"
    parts.append(f'<path class="base" d="M{across.start:.0f} {bottom:.0f}H{across.end:.0f}"/>')
    parts.append(f'<text x="{middle:.0f}" y="{bottom + 42:.0f}" class="axis mid">{escape(title)}</text>')
    return parts


def _name(lines: list[str], whole: str, left: float, middle: float) -> list[str]:
    first = middle + 4.5 - 8.0 * (len(lines) - 1)
    texts = (
        f'<text x="{left:.1f}" y="{first + 16 * number:.1f}" class="tick end">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return [f"<g><title>{escape(whole)}</title>{''.join(texts)}</g>"]


def _dot(mark: Mark, across: Span, y: float, style: int, shown: str) -> str:
    at, bar = across(mark.y), ""
    if mark.low is not None and mark.high is not None:
        low, high = across(max(mark.low, across.low)), across(min(mark.high, across.high))
        # An end without a cap: the interval goes on beyond the axis.
        ends = ((low, mark.low), (high, mark.high))
        caps = "".join(f"M{end} {y - 4:.1f}v8" for end, value in ends if across.low <= value <= across.high)
        bar = f'<path class="bar" d="M{low} {y:.1f}H{high}{caps}"/>'
    hit = f'<circle class="hit" cx="{at}" cy="{y:.1f}" r="9"/>'
    shape = marker(style, at, round(y, 1)) + (beside(at, y, MARK) if mark.void else "")
    return f"<g><title>{escape(shown)}{escape(mark.hint)}</title>{bar}{hit}{shape}</g>"
