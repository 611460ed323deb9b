"""Common parts of all drawn axes: places of values, round ticks, and the shapes of marks.

A panel is drawn on 560 x 370 units, so that its text stays readable at 400 pixels and does not shout at 1400.
Every series has a colour, a shape and a dash, so that none of them is needed alone; two series of a panel never share all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from iodyno.report.heat_map.axis import linear_ticks as linear_ticks
from iodyno.report.heat_map.axis import log_ticks as log_ticks_of

WIDTH, HEIGHT = 560, 370
LEFT, TOP, BOTTOM = 62, 58, 56
LETTER = 7.2
"""Width of a letter at font size 13 (chosen: a bit more than system fonts have)."""
_TICKS_MOST = 12
"""On a logarithmic axis (chosen: four decades then have 1, 2 and 5)."""
COLOURS = 7
"""Colours of series (`--s0` to `--s6` of the page): as many as stay apart (Okabe and Ito 2008)."""
_DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 4", "4 4", "1 4")


@dataclass(frozen=True)
class Span:
    """Maps values of an axis to units of the drawing."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of the value, in units of the drawing."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log10(low), math.log10(high), math.log10(max(value, self.low))
        share = (at - low) / (high - low) if high > low else 0.5
        return round(self.start + share * (self.end - self.start), 1)


def colour(style: int) -> str:
    """The class of a series' colour: from the eighth series on, they come again."""
    return f"s{style % COLOURS}"


def dash(style: int) -> str:
    """The dash of a series; where colours come again, each has another one than before."""
    return _DASHES[(style + 2 * (style // COLOURS)) % len(_DASHES)]


def dashed(style: int) -> str:
    """The same as an attribute; empty for a whole line."""
    found = dash(style)
    return f' stroke-dasharray="{found}"' if found else ""


def log_ticks(low: float, high: float) -> list[float]:
    """Round values on a logarithmic axis: 1, 2 and 5 times the powers of ten, fewer where those are many."""
    return log_ticks_of(low, high, _TICKS_MOST)


def short(value: float) -> str:
    """A tick's label: `6k`, `0.5`, `20`."""
    for factor, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.6g}{suffix}"
    return f"{value:.6g}"


def labels_below(ticks: Iterable[tuple[float, str]], y: float) -> list[str]:
    """The labels of ticks, from left to right at these places; one that would run into the one before is left out."""
    parts, free = [], -math.inf
    for at, text in ticks:
        half = len(text) * LETTER / 2
        if at - half > free:
            parts.append(f'<text x="{at}" y="{y:.0f}" class="tick mid">{escape(text)}</text>')
            free = at + half + 3
    return parts


def marker(style: int, x: float, y: float, size: float = 4.5) -> str:
    """The shape of a series, filled with its colour; where colours come again, each has another shape than before."""
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
    return shapes[(style + style // COLOURS) % len(shapes)]


def beside(x: float, y: float, text: str) -> str:
    """A few letters at the upper right of a marker, clear of its bar whichever way that goes."""
    return f'<text x="{x + 6:.1f}" y="{y - 3:.1f}" class="small">{escape(text)}</text>'
