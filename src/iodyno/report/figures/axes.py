"""Draws panels as SVG: axes, lines, error bars, labels. Colours come from the page (`--s0`, `--ink`, ...).

Lines join the levels of a quantity only: where the places are names, `dots` draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from iodyno.report.figures import dots
from iodyno.report.figures.legend import ROW, legend, rows_of
from iodyno.report.figures.panel import Axis, Curve, CurvePanel, Figure, Panel, Series
from iodyno.report.figures.spans import (
    BOTTOM,
    HEIGHT,
    LEFT,
    LETTER,
    TOP,
    WIDTH,
    Span,
    beside,
    colour,
    dashed,
    labels_below,
    linear_ticks,
    log_ticks,
    marker,
    short,
)
from iodyno.report.void import MARK

SERIES_MOST = 14
"""Series of one panel (chosen: each colour twice, and their names beside the ends of the lines just have room)."""


def draw(figure: Figure) -> list[str]:
    """An SVG for each panel; panels that show one unit have one y range."""
    drawn = []
    for panel in figure.panels:
        values = _y_range([other for other in figure.panels if other.y == panel.y])
        parts = split(panel)
        drawn += [dots.draw(part, values) if part.x.nominal else _panel(part, values) for part in parts]
    return drawn


def split(panel: Panel) -> list[Panel]:
    """The panel as several, each with no more series than can be told apart; their titles say which they have."""
    count = len(panel.series)
    if count <= SERIES_MOST or isinstance(panel, CurvePanel):
        return [panel]
    parts = []
    for first in range(0, count, SERIES_MOST):
        some = panel.series[first : first + SERIES_MOST]
        title = f"{panel.title}: {first + 1} to {first + len(some)} of {count}"
        parts.append(replace(panel, title=title, series=some))
    return parts


def cut(figure: Figure) -> bool:
    """Tell whether an interval goes on beyond the axis of its panel."""
    for panel in figure.panels:
        low, high = _y_range([p for p in figure.panels if p.y == panel.y])
        ends = [(mark.low, mark.high) for series in panel.series for mark in series.marks]
        if any((a is not None and a < low) or (b is not None and b > high) for a, b in ends):
            return True
    return False


def _panel(panel: Panel, y_range: tuple[float, float]) -> str:
    direct = len(panel.series) > 1 and max(len(series.label) for series in panel.series) <= 10
    right = 14 + (max(len(series.label) for series in panel.series) * LETTER + 14 if direct else 6)
    named = [] if direct or len(panel.series) < 2 else rows_of(panel.series)
    height = HEIGHT + ROW * len(named)
    bottom = HEIGHT - BOTTOM
    x = _x_span(panel.x, LEFT + 12, WIDTH - right - 12)
    y = Span(*y_range, bottom, TOP, log=panel.y.kind == "log")
    summary = f"{panel.title}: {panel.y.title} against {panel.x.title}, {_counted(panel)}"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(summary, quote=True)}" class="fig">',
        f'<text x="4" y="18" class="head">{escape(panel.title)}</text>',
        f'<text x="4" y="38" class="axis">{escape(panel.y.title)}{" (log)" if y.log else ""}</text>',
        *_y_axis(y, LEFT, WIDTH - right),
        *_x_axis(panel.x, x, bottom),
        *_notes(panel, x, bottom),
        *(part for curve in _curves(panel) for part in _curve(curve, x, y)),
    ]
    dodges = _dodges(panel.series)
    for series, dodge in zip(panel.series, dodges, strict=True):
        parts += _series(series, x, y, dodge, joined=panel.joined and not _curves(panel))
    if direct:
        parts += _direct_labels(panel.series, y, WIDTH - right + 8)
    parts += legend(named, HEIGHT + 4, joined=panel.joined)
    return "".join([*parts, "</svg>"])


def _counted(panel: Panel) -> str:
    many = len(panel.series)
    one = "line" if panel.joined else "series of points"
    return f"{many} {one}{'s' * (panel.joined and many != 1)}"


def _y_range(panels: Sequence[Panel]) -> tuple[float, float]:
    marks = [mark for panel in panels for series in panel.series for mark in series.marks]
    high = max(max(mark.y, mark.high or mark.y) for mark in marks)
    # A wide interval must not squash all estimates: three times the largest of them is drawn, the rest is cut.
    high = min(high, 3 * max(mark.y for mark in marks)) or 1.0
    # Of a curve the line is always to be seen; its band is cut as the bars are.
    lines = [y for panel in panels for curve in _curves(panel) for _, y in curve.line]
    bands = [y for panel in panels for curve in _curves(panel) for _, _, y in curve.band]
    high = max([high, *lines, *(min(y, 1.25 * max(lines)) for y in bands)])
    if panels[0].y.kind == "log":
        low = min(
            [m.y for m in marks] + [y for panel in panels for c in _curves(panel) for _, y in c.line if y > 0]
        )
        lows = [mark.low for mark in marks if mark.low and mark.low > low / 3]
        return min([low, *lows]) * 0.9, high * 1.1
    if panels[0].y.title.endswith("%") and high <= 130:
        return 0.0, 100.0
    # Zero belongs on the axis of a cost or a rate: lengths are compared.
    low = min(0.0, *(mark.y for mark in marks))
    ticks = linear_ticks(low, high * 1.04)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    return low, max(high * 1.04, ticks[-1] + (step if ticks[-1] < high else 0.0))


def _x_span(axis: Axis, start: float, end: float) -> Span:
    places = [place for place, _ in axis.places]
    return Span(min(places), max(places), start, end, log=axis.kind == "log")


def _y_axis(y: Span, left: float, right: float) -> list[str]:
    ticks = log_ticks(y.low, y.high) if y.log else linear_ticks(y.low, y.high)
    parts = []
    for tick in ticks:
        at = y(tick)
        rule = "base" if tick == 0 else "grid"
        parts.append(f'<path class="{rule}" d="M{left} {at}H{right:.0f}"/>')
        parts.append(f'<text x="{left - 7}" y="{at + 4.5:.1f}" class="tick end">{short(tick)}</text>')
    return parts


def _x_axis(axis: Axis, x: Span, bottom: float) -> list[str]:
    parts = [f'<path class="base" d="M{x.start - 12} {bottom}H{x.end + 12:.0f}"/>']
    shown = [
        (x(place), short(float(label)) if label.isdecimal() else label)
        for place, label in sorted(axis.places)
    ]
    parts += [f'<path class="base" d="M{at} {bottom}v5"/>' for at, _ in shown]
    parts += labels_below(shown, bottom + 20)
    middle = (x.start + x.end) / 2
    parts.append(f'<text x="{middle:.0f}" y="{bottom + 42}" class="axis mid">{escape(axis.title)}</text>')
    return parts


def _notes(panel: Panel, x: Span, bottom: float) -> list[str]:
    parts = []
    for place, text in panel.notes:
        at = x(place)
        before, _, after = text.partition(" | ")
        parts.append(f'<path class="note" d="M{at} {TOP - 15}V{bottom}"/>')
        if at - 6 - 0.85 * LETTER * len(before) < x.start:
            # To the left it would stand on the numbers of the axis.
            before, after = "", text
        parts.append(f'<text x="{at - 6}" y="{TOP - 5}" class="small end">{escape(before)}</text>')
        parts.append(f'<text x="{at + 6}" y="{TOP - 5}" class="small">{escape(after)}</text>')
    return parts


def _dodges(series: Sequence[Series]) -> list[float]:
    """Sideways shifts, so that bars at one place can be told apart; none leads out of the axes, which have 12 units to spare."""
    middle = (len(series) - 1) / 2
    step = min(3.0, 10.0 / middle) if middle else 0.0
    return [round((position - middle) * step, 1) for position in range(len(series))]


def _series(series: Series, x: Span, y: Span, dodge: float, *, joined: bool) -> list[str]:
    places = [(x(mark.x) + dodge, y(mark.y), mark) for mark in series.marks]
    path = " ".join(f"{at:.1f},{up:.1f}" for at, up, _ in places)
    parts = [f'<g class="{colour(series.style)}">']
    if joined:
        parts.append(f'<polyline class="line" points="{path}"{dashed(series.style)}/>')
    for at, up, mark in places:
        parts.append(
            f"<g><title>{escape(f'{series.label}: ' if series.label else '')}{escape(mark.hint)}</title>"
        )
        if mark.low is not None and mark.high is not None:
            low, high = y(max(mark.low, y.low)), y(min(mark.high, y.high))
            # An end without a cap: the interval goes on beyond the axis.
            caps = [end for end, value in ((low, mark.low), (high, mark.high)) if y.low <= value <= y.high]
            path = "".join(f"M{at - 4:.1f} {end}h8" for end in caps)
            parts.append(f'<path class="bar" d="M{at:.1f} {low}V{high}{path}"/>')
        shape = marker(series.style, round(at, 1), up) + (beside(at, up, MARK) if mark.void else "")
        parts.append(f'<circle class="hit" cx="{at:.1f}" cy="{up}" r="10"/>{shape}</g>')
    return [*parts, "</g>"]


def _curves(panel: Panel) -> tuple[Curve, ...]:
    return panel.curves if isinstance(panel, CurvePanel) else ()


def _curve(curve: Curve, x: Span, y: Span) -> list[str]:
    """The line of a curve on its band, both cut at the axes."""

    def within(value: float) -> float:
        return y(min(max(value, y.low), y.high))

    parts = [f'<g class="{colour(curve.style)}"><title>{escape(curve.label)}</title>']
    if curve.band:
        over = [f"{x(at)},{within(high)}" for at, _, high in curve.band]
        under = [f"{x(at)},{within(low)}" for at, low, _ in reversed(curve.band)]
        parts.append(f'<polygon class="band" points="{" ".join(over + under)}"/>')
    path = " ".join(f"{x(at)},{within(up)}" for at, up in curve.line)
    return [*parts, f'<polyline class="line" points="{path}"/></g>']


def _direct_labels(series: Sequence[Series], y: Span, left: float) -> list[str]:
    """Names at the ends of the lines, pushed apart where they would overlap."""
    ends = sorted(((y(one.marks[-1].y), one) for one in series), key=lambda end: end[0])
    gap = 17.0
    places = [at for at, _ in ends]
    for index in range(1, len(places)):
        places[index] = max(places[index], places[index - 1] + gap)
    over = places[-1] - (HEIGHT - BOTTOM + 4)
    if over > 0:
        places = [place - over for place in places]
        for index in range(len(places) - 2, -1, -1):
            places[index] = min(places[index], places[index + 1] - gap)
    return [
        f'<g class="{colour(one.style)}">{marker(one.style, left + 4, round(place, 1), 4)}'
        f'<text x="{left + 13:.0f}" y="{place + 4.5:.1f}" class="name">{escape(one.label)}</text></g>'
        for place, (_, one) in zip(places, ends, strict=True)
    ]
