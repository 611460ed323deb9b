"""The legend below a panel: each series with its colour, its shape and, where marks are joined, its dash."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from iodyno.report.figures.panel import Series
from iodyno.report.figures.spans import LETTER, WIDTH, colour, dashed, marker

ROW = 20
"""Height of a row of the legend, in units of the drawing."""
_BESIDE = 60
"""Units that an entry takes beside its letters."""


def rows_of(series: Sequence[Series]) -> list[list[Series]]:
    """The entries, in as many rows as their names need."""
    rows: list[list[Series]] = [[]]
    used = 0.0
    for one in series:
        width = len(one.label) * LETTER + _BESIDE
        if rows[-1] and used + width > WIDTH:
            rows.append([])
            used = 0.0
        rows[-1].append(one)
        used += width
    return rows


def legend(rows: Sequence[Sequence[Series]], top: float, *, joined: bool = True) -> list[str]:
    """The rows as SVG from `top` down; without lines where the marks are not `joined`."""
    parts = []
    for number, row in enumerate(rows):
        at, line = 8.0, top + ROW * number + 4
        for one in row:
            path = f'<path class="line" d="M{at} {line}h28"{dashed(one.style)}/>' if joined else ""
            parts.append(
                f'<g class="{colour(one.style)}">{path}{marker(one.style, at + 14, line, 4)}'
                f'<text x="{at + 36}" y="{line + 4.5}" class="name">{escape(one.label)}</text></g>'
            )
            at += len(one.label) * LETTER + _BESIDE
    return parts
