"""Resolution of the values in a grid: the steps or buckets in which their source tells them.

A clock with a tick of 10 us, a histogram with eight buckets an octave, a tool that prints two digits: all events of a bucket
have one value, and between two such values there is nothing. What lies within a bucket is not known, and no valley. A
resolution is seen by its regularity: every occupied row holds one of its values, and that must be no chance.

>>> resolutions_of([3] * 64, [1000 * 2 ** (row / 16) for row in range(65)])
[]
>>> counts, edges = [4, 0, 5, 0, 4], [1024.0, 1030.0, 2048.0, 2060.0, 4096.0, 4110.0]
>>> [found.border(1500) for found in resolutions_of(counts, edges) if found.known_step]
[1536.0]
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, product
from typing import Any

STEPS = sorted([10.0**power for power in range(10)] + [2.0**power for power in range(1, 31)], reverse=True)
"""Steps that values may be multiples of: times have decimal steps, sizes and offsets binary ones."""
PARTS = (1, 2, 4, 8, 16, 32, 64)
"""Equal buckets from a power of two to the next, as histograms of programs have them."""
OCTAVE_UNITS = (1.0, 1e3, 1e6)
"""Units of powers of two: nanoseconds or bytes, microseconds, milliseconds."""
DIGITS = (1, 2, 3)
"""Decimal digits that a number may be rounded to."""
RATIOS = range(1, 401)
"""Buckets of equal ratios a decade (chosen: finer ones are no coarser than rows by value)."""
CHANCE = 2.0**-10
"""That values look like those of a resolution by chance (chosen: ten rows of half a step)."""
CHANCE_OF_ANY = 2.0**-16
"""The same where any step, ratio or place would have done (chosen: of so many a few are tried)."""
MOST_SLACK = 0.25
"""Part of a bucket that rounding to whole numbers may move a value by; finer buckets are not told from whole numbers (chosen)."""
WIDEST = 0.9
"""Rows that are as wide, in buckets, hold a value whatever the resolution is (chosen)."""
_ROUNDING = 1e-6
"""Part by which a chance that is made of logarithms may be off, and more."""
_FAR = 16
"""Number of rows between two that are tried one after the other (chosen: a tenth of an octave of the finest ones, or more)."""

Row = tuple[float, float]
Span = tuple[float, float, float]
"""From, to, and what rounding may have moved a value by, in buckets."""


@dataclass(frozen=True)
class Resolution:
    """Buckets of a source, numbered: `number` of a value and `value` of a number, which may be broken.

    `place`: where in its bucket the value lies that all of its events have (1: its last whole number). `around`: the buckets lie
    around their values, and not from one whole number to the next.
    """

    number: Callable[[float], float]
    value: Callable[[float], float]
    place: float
    around: bool
    unit: float = 1.0
    """Unit of which its buckets hold whole numbers."""
    known_step: bool = False
    """Its values are multiples of one of `STEPS`, and so are known exactly."""

    def border(self, edge: float) -> float:
        """The border of buckets below which the same values lie as below `edge`."""
        if self.place == 1:
            return self.value(math.ceil(self.number(edge + self.unit) - 1 - 1e-9))
        return self._above(math.ceil(self.number(edge) - self.place - 1e-9))

    def bottom(self, edge: float) -> float:
        """The same for the lower edge of all rows, which may be the least value itself."""
        if self.place == 1:
            return self.border(edge)
        return self._above(math.ceil(self.number(edge) - _slack(self.number, edge) - self.place - 1e-9))

    def top(self, edge: float) -> float:
        """The same for the upper edge of all rows, which may be the greatest value: that lies below it."""
        at = self.number(edge) + _slack(self.number, edge)
        return self._above(math.floor(at - self.place + 1e-9) + 1)

    def _above(self, below: int) -> float:
        return self.value(below + self.place - 0.5 if self.around else below)


def resolutions_of(counts: Sequence[int], edges: Sequence[float]) -> list[Resolution]:
    """The resolutions that the occupied rows may show, the coarsest of each kind; none where values are as fine as the rows.

    A row of zeros tells nothing; a row holds its lower edge, and the last one its upper edge too.
    """
    rows = [(edges[row], edges[row + 1]) for row, count in enumerate(counts) if count and edges[row] > 0]
    if len(rows) < 2 or edges[0] < 0:
        return []
    low, high = rows[-1]
    rows[-1] = low, high + (high - low) / 1000
    return [first for kind in _KINDS if (first := next(kind(rows), None)) is not None]


def _by_steps(rows: Sequence[Row]) -> Iterator[Resolution]:
    """Multiples of a decimal or binary step."""
    evidence, mixed = _evidence(high - low for low, high in rows), _mixed(rows)
    for step in STEPS:
        if evidence(step) > CHANCE * (1 + _ROUNDING):
            return  # and the less, the finer the step is
        scale = _linear(step)
        for found in _fitting(_spans(mixed, scale), scale, CHANCE, (0.0,)):
            yield replace(found, known_step=True)


def _by_octaves(rows: Sequence[Row]) -> Iterator[Resolution]:
    """Equal buckets an octave, told by an end or the middle. Whole numbers may be finer than a bucket's place is exact."""
    mixed = _mixed(rows)
    for parts, unit in product(PARTS, OCTAVE_UNITS):
        least, scale = 2 * parts * unit, _octaves(parts, unit)
        if len(rows) < 2 or rows[-2][0] < least:
            continue
        # The last whole number of a bucket is one below the next.
        for above, places in ((0.0, (0.0, 0.5)), (unit, (0.0,))):
            whole = ((low + above, high + above) for low, high in mixed if low >= least)
            for found in _fitting(_spans(whole, scale), scale, CHANCE, places, around=False):
                yield replace(found, place=1.0, unit=unit) if above else found


def _by_digits(rows: Sequence[Row]) -> Iterator[Resolution]:
    """Numbers of so many digits."""
    mixed = _mixed(rows)
    for digits in DIGITS:
        scale = _digits(digits)
        yield from _fitting(_spans(mixed, scale), scale, CHANCE, (0.0,))


def _by_ratios(rows: Sequence[Row]) -> Iterator[Resolution]:
    """Buckets of equal ratios, some number of them a decade, told by any place."""
    logs = [(math.log10(low), math.log10(high), math.log10(1 + 1 / low)) for low, high in rows]
    finest = MOST_SLACK / RATIOS[-1]
    evidence = _evidence(high - low + (2 * slack if slack < finest else 0) for low, high, slack in logs)
    mixed = _mixed(logs)
    for parts in RATIOS:
        if evidence(1 / parts) > CHANCE / 4 * (1 + _ROUNDING):
            return
        for known, chance, places in (
            (_have_the_first_place, CHANCE / 4, (0.0,)),
            (_have_a_place, CHANCE_OF_ANY, ()),
        ):
            if known(parts, mixed):
                spans = (
                    (low * parts, high * parts, min(MOST_SLACK, slack * parts)) for low, high, slack in mixed
                )
                yield from _fitting(spans, _ratios(parts), chance, places)


def _have_the_first_place(parts: int, logs: Iterable[Span]) -> bool:
    """Tell whether rows hold the begin of a bucket of a ratio each: most numbers of them fail at the first rows."""
    for low, high, slack in logs:
        moved = min(MOST_SLACK, slack * parts)
        if not _holds(low * parts - moved, high * parts + moved, 0.0):
            return False
    return True


def _have_a_place(parts: int, logs: Iterable[Span]) -> bool:
    """Tell whether rows may have some place in buckets of a ratio in common: most numbers of them fail at the first rows."""
    begin, width = 0.0, 1.0
    for low, high, slack in logs:
        moved = min(MOST_SLACK, slack * parts)
        wide = (high - low) * parts + 2 * moved
        if wide >= WIDEST:
            continue
        behind = (low * parts - moved - begin) % 1.0
        if behind > width + _ROUNDING and 1.0 - behind > wide + _ROUNDING:
            return False
        if behind <= width and 1.0 - behind > wide + _ROUNDING:
            begin, width = begin + behind, min(width - behind, wide)
        elif behind > width + _ROUNDING:
            width = min(width, max(0.0, wide - (1.0 - behind)))
    return True


def _by_any_step(rows: Sequence[Row]) -> Iterator[Resolution]:
    """Multiples of a step that is any number, such as the tick of a clock.

    The lowest row holds some multiple of it, the coarsest is asked first; then each row, from the lowest on, says more exactly
    how long it is. Of two neighbours in rows higher than half a step the distance may be half of it.
    """
    low, high = rows[0]
    distance = min((b[0] + b[1] - a[0] - a[1]) / 2 for a, b in pairwise(rows))
    evidence, others = _evidence(b - a for a, b in rows), rows[1:]
    # Rounding makes a row as much wider at either end, as long as a step is not so short that `MOST_SLACK` cuts it off.
    rounded = _evidence(b - a + 2 for a, b in rows)
    widths = sorted(b - a for a, b in rows)
    # Where `MOST_SLACK` cuts it off, a row narrower than half a step halves the chance at most, and a wider one does nothing.
    telling = round(-math.log2(CHANCE_OF_ANY))
    mixed = _mixed(rows)
    for multiple in range(1, math.ceil((low + high) / distance) + 1):
        if evidence(high / multiple) > CHANCE_OF_ANY:
            return  # and the less, the finer the step is
        longest = (high + 1) / multiple
        if longest * MOST_SLACK > 1:
            if rounded(longest) > CHANCE_OF_ANY * (1 + _ROUNDING):
                return
        elif bisect_left(widths, longest / 2) < telling:
            return
        # Each value may have been rounded to a whole number: a lowest one of 1 leaves the step without a lower bound.
        least, greatest = max(0.0, low - 1) / multiple, (high + 1) / multiple
        for a, b in others:
            first = math.ceil((a - 1) / greatest)
            last = math.floor((b + 1) / least) if least > 0 else math.inf
            if first > last:
                break
            if first == last:
                least, greatest = max(least, (a - 1) / first), min(greatest, (b + 1) / first)
                if least > greatest:
                    break
        else:
            step = (least + greatest) / 2
            if _are_multiples(mixed, step):
                scale = _linear(step)
                yield from _fitting(_spans(mixed, scale, rounded=True), scale, CHANCE_OF_ANY, (0.0,))


def _are_multiples(rows: Sequence[Row], step: float) -> bool:
    """Tell whether each row holds a multiple of a step, rounded to a whole number: most steps fail at the first rows."""
    for low, high in rows:
        at = low / step
        slack = min(MOST_SLACK, (low + 1) / step - at)
        if not _holds(at - slack, high / step + slack, 0.0):
            return False
    return True


_KINDS = (_by_steps, _by_octaves, _by_digits, _by_ratios, _by_any_step)

Scale = tuple[Callable[[float], float], Callable[[float], float]]


def _linear(step: float) -> Scale:
    return lambda value: value / step, lambda number: number * step


def _ratios(parts: int) -> Scale:
    return lambda value: math.log10(value) * parts, lambda number: math.pow(10.0, number / parts)


def _octaves(parts: int, unit: float) -> Scale:
    """Buckets of one unit at least."""
    least = parts * parts.bit_length()

    def number(value: float) -> float:
        if value < parts * unit:
            return least - parts + value / unit
        mantissa, exponent = math.frexp(value / unit)
        return parts * (exponent + 2 * mantissa - 1)

    def value(number: float) -> float:
        if number < least:
            return (number - least + parts) * unit
        exponent = math.floor(number / parts)
        return math.ldexp(number / parts - exponent + 1, exponent - 1) * unit

    return number, value


def _digits(digits: int) -> Scale:
    """Nine parts a decade times ten for each digit more."""
    parts: int = 9 * 10 ** (digits - 1)

    def number(value: float) -> float:
        exponent = math.floor(math.log10(value) + 1e-12)
        return parts * (exponent + (value / math.pow(10.0, exponent) - 1) / 9)

    def value(number: float) -> float:
        exponent = math.floor(number / parts + 1e-12)
        return math.pow(10.0, exponent) * (1 + 9 * (number / parts - exponent))

    return number, value


def _spans(rows: Iterable[Row], scale: Scale, *, rounded: bool = False) -> Iterator[Span]:
    """The rows in numbers of buckets. `rounded`: the values were rounded to whole numbers after that."""
    number, _ = scale
    return ((number(low), number(high), _slack(number, low) if rounded else 0.0) for low, high in rows)


def _slack(number: Callable[[float], float], edge: float) -> float:
    """Return the distance that rounding a value to a whole number may move its own number by."""
    return min(MOST_SLACK, number(edge + 1) - number(edge))


def _fitting(
    spans: Iterable[Span], scale: Scale, chance: float, places: Sequence[float], *, around: bool = True
) -> Iterator[Resolution]:
    """The resolution of that scale, where every row holds one of its values and that is no chance: at one of `places` in their
    buckets, or without such at any one place."""
    evidence = 1.0
    left = list(places)
    pieces: list[Row] = [(0.0, 1.0)]
    for low, high, slack in spans:
        begin, end = low - slack, high + slack
        width = end - begin
        if width < 1.0:
            evidence *= width
        if places:
            left = [place for place in left if _holds(begin, end, place)]
            if not left:
                return
        elif width < WIDEST:
            pieces = _common(pieces, begin, end)
            if not pieces:
                return
    if evidence > chance:
        return
    if places:
        place = left[0]
    else:
        low, high = max(pieces, key=lambda piece: piece[1] - piece[0])
        place = (low + high) / 2 % 1.0
    yield Resolution(*scale, place, around)


def _mixed(rows: Sequence[Any]) -> list[Any]:
    """The rows so that neighbours stand apart: most buckets fit no two rows far from each other, where neighbours fit many."""
    return [row for first in range(_FAR) for row in rows[first::_FAR]]


def _evidence(widths: Iterable[float]) -> Callable[[float], float]:
    """The chance that so wide rows hold one value of a bucket each, at most, by how wide a bucket is."""
    ascending = sorted(widths)
    logs = [0.0, *accumulate(math.log(width) if width > 0 else -math.inf for width in ascending)]

    def chance(bucket: float) -> float:
        narrower = bisect_left(ascending, bucket)
        return math.exp(logs[narrower] - narrower * math.log(bucket))

    return chance


def _holds(begin: float, end: float, place: float) -> bool:
    """Tell whether a row, which holds its lower edge and not its upper one, holds a value at `place` in a bucket."""
    return math.ceil(begin - place - 1e-9) + place < end - 1e-9


def _common(pieces: Sequence[Row], begin: float, end: float) -> list[Row]:
    """Return the parts of the pieces that lie, moved by whole numbers, in the span from `begin` to `end` too."""
    found = []
    for low, high in pieces:
        for whole in range(math.floor(low - end), math.ceil(high - begin) + 1):
            first, last = max(low, begin + whole), min(high, end + whole)
            if first < last:
                found.append((first, last))
    return found
