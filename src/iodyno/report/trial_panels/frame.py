"""Common frame of all panels of a trial: one width, one axis of seconds, one way to write a time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from html import escape
from math import log

from iodyno.analysis.operation_times import Rows
from iodyno.report.figures.spans import Span, linear_ticks, log_ticks, short
from iodyno.report.numbers import scale_of

WIDTH, LEFT, RIGHT = 560, 64, 548
"""Units of a panel, and where its axis of time begins and ends: the same in every panel, so that times lie below each other."""
_LEAST_GAP = 15.0
"""Units between two labels (chosen: a line of text)."""


@dataclass
class Shared:
    """Pieces of a picture that many panels of a page have alike: they stand in the page once, and panels refer to them."""

    parts: dict[str, str] = field(default_factory=dict)

    def use(self, markup: str, y: float = 0) -> str:
        """A reference to the piece, moved down by `y`."""
        name = self.parts.setdefault(markup, f"axis-{len(self.parts)}")
        return f'<use href="#{name}"{f""" y="{y:g}" """.rstrip() if y else ""}/>'

    def definitions(self) -> str:
        """All pieces, each a group with its name."""
        return "".join(f'<g id="{name}" class="axis">{markup}</g>' for markup, name in self.parts.items())


@dataclass(frozen=True)
class Frame:
    """The axis of seconds of a trial, its measured window, and where the page keeps what its panels share."""

    end_s: float
    measured: tuple[float, float]
    shared: Shared = field(default_factory=Shared)

    @property
    def x(self) -> Span:
        """Seconds to units."""
        return Span(0.0, self.end_s, LEFT, RIGHT)

    def opening(self, label: str, height: int, top: int, bottom: int) -> str:
        """The tag of a panel, with what the script needs to know of its axis."""
        return (
            f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label, quote=True)}" class="fig" '
            f'data-span="{LEFT} {RIGHT} {top} {bottom} {self.end_s:.6g}">'
        )

    def seconds(self, bottom: int) -> str:
        """Ticks and their labels below a panel."""
        ticks = linear_ticks(0.0, self.end_s, 8)
        places = [(round(self.x(tick)), short(tick)) for tick in ticks]
        path = "".join(f"M{at} 0v4" for at, _ in places)
        texts = (
            f'<text x="{at}" y="16">{text}{" s" if at == places[-1][0] else ""}</text>' for at, text in places
        )
        return self.shared.use(f'<path d="{path}"/>{"".join(texts)}', bottom)

    def window(self, top: int, bottom: int) -> str:
        """Draw the start and the end of the measured window."""
        first, last = (round(self.x(second)) for second in self.measured)
        return (
            f'<path class="note" d="M{first} {top}V{bottom}M{last} {top}V{bottom}"/>' if last > first else ""
        )


def place_of(rows: Rows, value: float) -> float:
    """Return the place of a time in ns, in rows from the lowest edge; between two edges by the logarithm."""
    edges = rows.edges
    row = min(max(bisect_right(edges, value) - 1, 0), rows.count - 1)
    low, high = max(edges[row], 1), edges[row + 1]
    return row + min(1.0, max(0.0, log(max(value, 1) / low) / log(high / low))) if high > low else float(row)


def time_ticks(rows: Rows, start: float, end: float) -> list[tuple[float, str]]:
    """Round times on an axis of rows from `start` to `end` units, those left out that would lie on their neighbour."""
    low, high = max(rows.edges[0], 1), rows.edges[-1]
    found: list[tuple[float, str]] = []
    for tick in log_ticks(low, high):
        at = start + (end - start) * place_of(rows, tick) / rows.count
        least = _LEAST_GAP if start > end else 3 * _LEAST_GAP
        if all(abs(at - other) >= least for other, _ in found):
            found.append((round(at, 1), duration(tick)))
    return found


def duration(value_ns: float) -> str:
    """A round time: `20 us`."""
    scale = scale_of(value_ns, "ns")
    return f"{value_ns / scale.factor:.6g} {scale.unit}"
