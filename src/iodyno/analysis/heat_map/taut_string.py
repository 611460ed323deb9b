"""The taut string through a tube around a distribution function: the density with the fewest modes that the data allow.

Davies and Kovac, "Densities, spectral densities and modality", Annals of Statistics 32 (2004) 1093-1136: among all distribution
functions that stay within `radius` of the empirical one and share its ends, the string pulled tight has the fewest modes. The
smallest radius at which it has one mode is a dip in the sense of Hartigan and Hartigan, "The dip test of unimodality", Annals
of Statistics 13 (1985) 70-84, with the ends held; its least favourable case is the uniform distribution too.

>>> string = taut_string((0.0, 1.0, 2.0, 3.0), (0.0, 0.45, 0.55, 1.0), 0.01)
>>> [piece.slope > 0.3 for piece in string], peaks(string)
([True, False, True], [0, 2])
>>> round(dip((0.0, 1.0, 2.0, 3.0), (0.0, 0.45, 0.55, 1.0)), 4)
0.1167
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from operator import add, sub

_ROUNDING = 1e-12
"""Slopes closer than this in proportion are the same one."""


@dataclass(frozen=True)
class Piece:
    """A straight piece of the string, from knot `first` to knot `last`, and its slope: the density there."""

    first: int
    last: int
    slope: float


def taut_string(
    x: Sequence[float], share: Sequence[float], radius: float, least: Sequence[float] = ()
) -> list[Piece]:
    """The pieces of the string through the knots (x, share), ascending both; it begins and ends at the outer knots. `least`: what
    the radius is at least, a knot each, where shares are not known as well.
    """
    pieces: list[Piece] = []
    for first, last, slope in _bends(x, share, radius, least):
        if pieces and _is_same(slope, pieces[-1].slope):
            pieces[-1] = Piece(pieces[-1].first, last, slope)
        else:
            pieces.append(Piece(first, last, slope))
    return pieces


def _bends(
    x: Sequence[float], share: Sequence[float], radius: float, least: Sequence[float]
) -> Iterator[tuple[int, int, float]]:
    """From where to where the string is straight, and its slope, as it is pulled; two in a row may have the same.

    A funnel: from the last bend, the lines that still miss no gate so far; when they cross, the string bends at the gate
    that closed it. Linear in practice, quadratic at worst.
    """
    last = len(x) - 1
    around = [max(radius, each) for each in least] if least else [radius] * len(x)
    low = list(map(sub, share, around))
    high = list(map(add, share, around))
    low[0] = high[0] = share[0]
    low[last] = high[last] = share[-1]
    at, height = 0, share[0]
    while at < last:
        steepest, flattest = inf, -inf
        bend_high = bend_low = at
        here = x[at]
        for knot in range(at + 1, last + 1):
            width = x[knot] - here
            up, down = (high[knot] - height) / width, (low[knot] - height) / width
            if down > steepest:
                bend, to = bend_high, high[bend_high]
                break
            if up < flattest:
                bend, to = bend_low, low[bend_low]
                break
            if up <= steepest:
                steepest, bend_high = up, knot
            if down >= flattest:
                flattest, bend_low = down, knot
        else:
            bend, to = last, share[-1]
        yield at, bend, (to - height) / (x[bend] - here)
        at, height = bend, to


def _is_same(slope: float, before: float) -> bool:
    return abs(slope - before) <= _ROUNDING * max(abs(slope), abs(before))


def _has_one_peak(x: Sequence[float], share: Sequence[float], radius: float, least: Sequence[float]) -> bool:
    """Tell whether the string has one mode at most; it is not pulled any further once a second one rises."""
    before, falls = -inf, False
    for first, _, slope in _bends(x, share, radius, least):
        if first and not _is_same(slope, before):
            if slope > before and falls:
                return False
            falls = slope < before
        before = slope
    return True


def peaks(string: Sequence[Piece]) -> list[int]:
    """Which pieces are steeper than those beside them: the modes."""
    steep = [float("-inf"), *(piece.slope for piece in string), float("-inf")]
    return [at - 1 for at in range(1, len(steep) - 1) if steep[at - 1] < steep[at] > steep[at + 1]]


def dip(
    x: Sequence[float],
    share: Sequence[float],
    least: Sequence[float] = (),
    *,
    within: float = 1e-9,
    enough: float = 0.0,
) -> float:
    """The smallest radius, as a share of the events, at which the string has one mode, by halving; `within` this part of it.
    What is `enough` or less is not told apart: then it is `enough`. `least` as `taut_string` has it."""
    low, high = enough, 1.0
    if _has_one_peak(x, share, low, least):
        return low
    while high - low > max(within * high, _ROUNDING):
        middle = (low + high) / 2
        if _has_one_peak(x, share, middle, least):
            high = middle
        else:
            low = middle
    return high
