"""Axes of heat maps: the unit that values are shown in, round ticks, and numbers as people read them.

>>> unit_of("ns", 2_000_000), unit_of("bytes", 65536), show(350_000, unit_of("ns", 2_000_000))
(Unit(factor=1000000.0, name='ms'), Unit(factor=1024.0, name='KiB'), '0.35')
>>> ticks(0, 2_000_000, Unit(1e3, "us"), "linear", 4), whole(1234567)
([0.0, 500000.0, 1000000.0, 1500000.0, 2000000.0], '1\\u202f234\\u202f567')
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

_UNITS: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")),
    "bytes": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "ratio": ((0.01, "%"),),
}


@dataclass(frozen=True)
class Unit:
    """A unit that values are shown in, and what one of it is in the base unit."""

    factor: float
    name: str


def unit_of(base: str, largest: float) -> Unit:
    """The unit for an axis up to `largest`: the largest one that leaves it at 2 or more (1 to 9.99 of it would lose digits)."""
    for factor, name in _UNITS.get(base, ()):
        if abs(largest) >= 2 * factor or factor == _UNITS[base][-1][0]:
            return Unit(factor, name)
    return Unit(1.0, "" if base == "count" else base)


def units(base: str, unit: Unit) -> list[tuple[float, str]]:
    """The units of a base, the largest first, each as what one of it is in `unit`."""
    return [(factor / unit.factor, name) for factor, name in _UNITS.get(base, ())]


def show(value: float, unit: Unit, digits: int = 4) -> str:
    """The value in the unit, at most `digits` digits, without its name."""
    shown = value / unit.factor
    if shown and abs(shown) >= 10**digits:
        return whole(round(shown)) if abs(shown) < 1e9 else f"{shown:.{digits}g}"
    return f"{shown:.{digits}g}" if shown else "0"


def with_unit(value: float, base: str, digits: int = 3) -> str:
    """The value in the unit that suits it, with its name: `350 us`."""
    for factor, name in _UNITS.get(base, ()):
        if abs(value) >= factor * 0.9995 or factor == _UNITS[base][-1][0]:
            return f"{show(value, Unit(factor, name), digits)} {name}"
    return f"{show(value, Unit(1.0, base), digits)} {'' if base == 'count' else base}".rstrip()


def is_bound(edge: float, edges: Sequence[float]) -> bool:
    """Tell whether the upper edge of a row says less than its values: below it the row is wider than 1 %.

    >>> [is_bound(edge, (0.0, 400e3, 403e3)) for edge in (400e3, 403e3)]
    [True, False]
    """
    row = bisect_left(edges, edge)
    return 0 < row < len(edges) and edges[row] - edges[row - 1] > 0.01 * abs(edges[row - 1])


def at_most(edge: float, edges: Sequence[float], base: str) -> str:
    """The upper edge of the row that a value lies in, which is all that is known of it: `<= 400 us`."""
    return f"{'<= ' if is_bound(edge, edges) else ''}{with_unit(edge, base)}"


APART = "\u202f"
"""Between thousands: a narrow space that does not break (SI brochure, 5.4.4)."""


def whole(count: int) -> str:
    """A count with its thousands apart."""
    return f"{count:,}".replace(",", APART)


def ticks(low: float, high: float, unit: Unit, scale: str, most: int = 8) -> list[float]:
    """Round values from `low` to `high` in the base unit, at most about `most`; decades with 2 and 5 between on a log axis."""
    first, last = low / unit.factor, high / unit.factor
    if scale == "log" and first > 0:
        found = log_ticks(first, last, most)
        if len(found) >= 2:
            return [tick * unit.factor for tick in found]
    return [tick * unit.factor for tick in linear_ticks(first, last, most)]


def linear_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values from `low` to `high`, 1, 2 or 5 times a power of ten apart, about `most` of them."""
    if not high > low:
        return [low]
    rough = (high - low) / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Powers of ten from `low` to `high`, with 2 and 5 (else 3) times them where they are then no more than `most`."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [
            f * 10.0**p
            for p in powers
            for f in factors
            if low * (1 - 1e-9) <= f * 10.0**p <= high * (1 + 1e-9)
        ]
        if len(found) <= most:
            break
    step = max(1, -(-len(found) // max(1, most)))
    return [float(f"{tick:.12g}") for tick in found[::step]]


def zero_of(begin_ns: int, span_ns: int) -> int:
    """The time that is shown as zero: the clock's own where the picture is near it, else the begin of the picture.

    A trace that counts seconds since 1970 is read as seconds since its first event.
    """
    return 0 if 0 <= begin_ns <= span_ns else begin_ns


def time_name(begin_ns: int, span_ns: int, name: str = "time") -> str:
    """Name the time axis, with its zero where that is not the clock's own."""
    zero = zero_of(begin_ns, span_ns)
    return f"{name} since {zero / 1e9:.12g} s" if zero else name


def time_title(begin_ns: int, span_ns: int, unit: str, name: str = "time") -> str:
    """The title of the time axis, with its unit: `time, s`, or `time in s since 39909.7 s`."""
    zero = zero_of(begin_ns, span_ns)
    return f"{name} in {unit} since {zero / 1e9:.12g} s" if zero else f"{name}, {unit}"
