"""Draws panels as SVG: axes, lines, error bars, labels. Colours come from the page (`--s0`, `--ink`, ...).

A panel is drawn on 560 x 370 units, so that its text stays readable at 400 pixels and does not shout at 1400.
Every series has a colour, a shape and a dash, so that none of them is needed alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from iodyno.report.figures.panel import Axis, Curve, CurvePanel, Figure, Panel, Series

WIDTH, HEIGHT = 560, 370
LEFT, TOP, BOTTOM = 62, 58, 56
_LETTER = 7.2
"""Width of a letter at font size 13 (chosen: a bit more than system fonts have)."""
DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 4", "4 4", "1 4")


@dataclass(frozen=True)
class Span:
    """Maps values of an axis to units of the drawing."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Where the value lies, in units of the drawing."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log10(low), math.log10(high), math.log10(max(value, self.low))
        share = (at - low) / (high - low) if high > low else 0.5
        return round(self.start + share * (self.end - self.start), 1)


def draw(figure: Figure) -> list[str]:
    """An SVG for each panel; panels that show one unit have one y range."""
    return [_panel(panel, _y_range([p for p in figure.panels if p.y == panel.y])) for panel in figure.panels]


def cut(figure: Figure) -> bool:
    """Whether an interval goes on beyond the axis of its panel."""
    for panel in figure.panels:
        low, high = _y_range([p for p in figure.panels if p.y == panel.y])
        ends = [(mark.low, mark.high) for series in panel.series for mark in series.marks]
        if any((a is not None and a < low) or (b is not None and b > high) for a, b in ends):
            return True
    return False


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values from `low` to `high`, 1, 2 or 5 times a power of ten apart."""
    if high <= low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(tick * step, 12) for tick in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 times them when there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(powers) <= 4 else (1,)
    ticks = [factor * 10.0**power for power in powers for factor in factors]
    return [tick for tick in ticks if low <= tick <= high]


def short(value: float) -> str:
    """A tick's label: `6k`, `0.5`, `20`."""
    for factor, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.6g}{suffix}"
    return f"{value:.6g}"


def marker(style: int, x: float, y: float, size: float = 4.5) -> str:
    """The shape of a series, filled with its colour."""
    s = size
    shapes = (
        f'<circle cx="{x}" cy="{y}" r="{s}"/>',
        f'<rect x="{x - s:.1f}" y="{y - s:.1f}" width="{2 * s}" height="{2 * s}"/>',
        f'<path d="M{x} {y - 1.3 * s:.1f}l{1.2 * s:.1f} {2.2 * s:.1f}h{-2.4 * s:.1f}z"/>',
        f'<path d="M{x} {y - 1.4 * s:.1f}l{1.4 * s:.1f} {1.4 * s:.1f}l{-1.4 * s:.1f} {1.4 * s:.1f}'
        f'l{-1.4 * s:.1f} {-1.4 * s:.1f}z"/>',
        f'<path d="M{x} {y + 1.3 * s:.1f}l{1.2 * s:.1f} {-2.2 * s:.1f}h{-2.4 * s:.1f}z"/>',
        f'<path class="open" d="M{x - s:.1f} {y - s:.1f}l{2 * s} {2 * s}m0 {-2 * s}l{-2 * s} {2 * s}"/>',
        f'<path class="open" d="M{x - s:.1f} {y}h{2 * s}m{-s} {-s}v{2 * s}"/>',
    )
    return shapes[style % len(shapes)]


def _panel(panel: Panel, y_range: tuple[float, float]) -> str:
    direct = len(panel.series) > 1 and max(len(series.label) for series in panel.series) <= 10
    right = 14 + (max(len(series.label) for series in panel.series) * _LETTER + 14 if direct else 6)
    legend = [] if direct or len(panel.series) < 2 else _legend_rows(panel.series)
    height = HEIGHT + 20 * len(legend)
    bottom = HEIGHT - BOTTOM
    x = _x_span(panel.x, LEFT + 12, WIDTH - right - 12)
    y = Span(*y_range, bottom, TOP, log=panel.y.kind == "log")
    summary = f"{panel.title}: {panel.y.title} against {panel.x.title}, {len(panel.series)} lines"
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
        parts += _series(series, x, y, dodge, joined=not _curves(panel))
    if direct:
        parts += _direct_labels(panel.series, y, WIDTH - right + 8)
    parts += _legend(legend, HEIGHT + 4)
    return "".join([*parts, "</svg>"])


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
    free = -math.inf
    shown = [
        (x(place), short(float(label)) if label.isdigit() else label) for place, label in sorted(axis.places)
    ]
    for at, text in shown:
        parts.append(f'<path class="base" d="M{at} {bottom}v5"/>')
        half = len(text) * _LETTER / 2
        if at - half > free:
            parts.append(f'<text x="{at}" y="{bottom + 20}" class="tick mid">{escape(text)}</text>')
            free = at + half + 3
    middle = (x.start + x.end) / 2
    parts.append(f'<text x="{middle:.0f}" y="{bottom + 42}" class="axis mid">{escape(axis.title)}</text>')
    return parts


def _notes(panel: Panel, x: Span, bottom: float) -> list[str]:
    parts = []
    for place, text in panel.notes:
        at = x(place)
        before, _, after = text.partition(" | ")
        parts.append(f'<path class="note" d="M{at} {TOP - 15}V{bottom}"/>')
        parts.append(f'<text x="{at - 6}" y="{TOP - 5}" class="small end">{escape(before)}</text>')
        parts.append(f'<text x="{at + 6}" y="{TOP - 5}" class="small">{escape(after)}</text>')
    return parts


def _dodges(series: Sequence[Series]) -> list[float]:
    """Sideways shifts, so that bars at one place can be told apart."""
    middle = (len(series) - 1) / 2
    return [round((position - middle) * 3.0, 1) for position in range(len(series))]


def _series(series: Series, x: Span, y: Span, dodge: float, *, joined: bool) -> list[str]:
    places = [(x(mark.x) + dodge, y(mark.y), mark) for mark in series.marks]
    dash = DASHES[series.style % len(DASHES)]
    path = " ".join(f"{at:.1f},{up:.1f}" for at, up, _ in places)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    parts = [f'<g class="s{series.style % len(DASHES)}">']
    if joined:
        parts.append(f'<polyline class="line" points="{path}"{dashed}/>')
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
        parts.append(
            f'<circle class="hit" cx="{at:.1f}" cy="{up}" r="10"/>{marker(series.style, round(at, 1), up)}</g>'
        )
    return [*parts, "</g>"]


def _curves(panel: Panel) -> tuple[Curve, ...]:
    return panel.curves if isinstance(panel, CurvePanel) else ()


def _curve(curve: Curve, x: Span, y: Span) -> list[str]:
    """The line of a curve on its band, both cut at the axes."""

    def within(value: float) -> float:
        return y(min(max(value, y.low), y.high))

    parts = [f'<g class="s{curve.style % len(DASHES)}"><title>{escape(curve.label)}</title>']
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
        f'<g class="s{one.style % len(DASHES)}">{marker(one.style, left + 4, round(place, 1), 4)}'
        f'<text x="{left + 13:.0f}" y="{place + 4.5:.1f}" class="name">{escape(one.label)}</text></g>'
        for place, (_, one) in zip(places, ends, strict=True)
    ]


def _legend_rows(series: Sequence[Series]) -> list[list[Series]]:
    rows: list[list[Series]] = [[]]
    used = 0.0
    for one in series:
        width = len(one.label) * _LETTER + 60
        if rows[-1] and used + width > WIDTH:
            rows.append([])
            used = 0.0
        rows[-1].append(one)
        used += width
    return rows


def _legend(rows: Sequence[Sequence[Series]], top: float) -> list[str]:
    parts = []
    for number, row in enumerate(rows):
        at, line = 8.0, top + 20 * number + 4
        for one in row:
            dash = DASHES[one.style % len(DASHES)]
            dashed = f' stroke-dasharray="{dash}"' if dash else ""
            parts.append(
                f'<g class="s{one.style % len(DASHES)}"><path class="line" d="M{at} {line}h28"{dashed}/>'
                f"{marker(one.style, at + 14, line, 4)}"
                f'<text x="{at + 36}" y="{line + 4.5}" class="name">{escape(one.label)}</text></g>'
            )
            at += len(one.label) * _LETTER + 60
    return parts
