"""Numbers as people read them: scaled to a sensible unit, rounded to what the interval carries.

>>> quantity(9.2234e9, "bit/s"), quantity(0.0312, "1"), quantity(43_760.0, "ns")
('9.22 Gbit/s', '0.0312', '43.8 us')
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from iodyno.core.outcome import Estimate

_SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "bit/s": ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1, "bit/s")),
    "1/s": ((1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s"), (1, "/s")),
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns")),
    "B/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")),
    "us/IO": ((1, "us"),),
    "B": ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")),
    "1": ((1, ""),),
}
_SHARES = ("_ratio",)
_RESIDUE = 1e-12
"""Share of an error below which a value is what arithmetic leaves of 0 (chosen: a thousand times the precision of a double)."""


@dataclass(frozen=True)
class Scale:
    """A unit that a quantity is shown in: how many base units one of it is, and its name."""

    factor: float
    unit: str


def scale_of(largest: float, unit: str, name: str = "") -> Scale:
    """The unit to show values up to `largest` in. Ratios named so become per cent."""
    if unit == "1" and name.endswith(_SHARES):
        return Scale(0.01, "%")
    for factor, shown in _SCALES.get(unit, ()):
        if abs(largest) >= factor:
            return Scale(factor, shown)
    return Scale(1.0, _SCALES[unit][-1][1] if unit in _SCALES else unit)


def quantity(value: float | None, unit: str, name: str = "") -> str:
    """The value with its unit, three digits; a dash where there is none."""
    if value is None:
        return "–"
    scale = scale_of(value, unit, name)
    return f"{digits(value / scale.factor)} {scale.unit}".rstrip()


def three_digits(value: float) -> str:
    """The value with three digits, none of them a 0 at the end of a fraction, for numbers without an error.

    >>> three_digits(0.2), three_digits(163.28), three_digits(12345.6), three_digits(2.4e-6)
    ('0.2', '163', '12300', '2.4e-06')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:.0f}" if 1000 <= abs(rounded) < 1e9 else f"{rounded:g}"


def digits(value: float, error: float | None = None) -> str:
    """The value with the digits that `error` leaves it (two of the error's), or three without an error. Never 0 of what is
    not 0: it has two digits of its own then, as a bound of 0.26 beside one of 960 is no bound of 0.

    >>> digits(0.0999996), digits(9.9999), digits(99.99), digits(0.12, error=0.0999)
    ('0.100', '10.0', '100', '0.12')
    """
    if not value:
        return "0"
    kept = 1 if error else 2
    # What is rounded up to the next power of ten has a digit more before the point.
    size = float(f"{abs(error) if error else abs(value):.{kept}e}")
    places = kept - math.floor(math.log10(size))
    # An error of nearly nothing must not print digits that nobody believes.
    places = min(places, 5 - math.floor(math.log10(abs(value))))
    rounded = round(value, places)
    if not rounded:
        if abs(value) <= _RESIDUE * size:
            return "0"
        return digits(value, value) if abs(value) >= 1e-4 else f"{value:.2g}"
    return f"{rounded:.{max(0, places)}f}"


def with_interval(found: Estimate, name: str = "", scale: Scale | None = None, *, unit: bool = True) -> str:
    """Estimate and interval: `11790 ±310`, or `[low, high]` where it is not symmetric; a dash without one."""
    if found.estimate is None:
        return "–"
    scale = scale or scale_of(found.estimate, found.unit, name)
    suffix = f" {scale.unit}".rstrip() if unit else ""
    value = found.estimate / scale.factor
    if found.low is None or found.high is None:
        return f"{digits(value)}{suffix}"
    low, high = found.low / scale.factor, found.high / scale.factor
    half = (high - low) / 2
    if half == 0:
        return f"{digits(value)} ±0{suffix}"
    if abs(high + low - 2 * value) > 0.1 * half:
        return f"{_lopsided(value, half)} [{digits(low, half)}, {digits(high, half)}]{suffix}"
    return f"{digits(value, half)} ±{digits(half, half)}{suffix}"


def details(found: Estimate, name: str = "", scale: Scale | None = None) -> str:
    """State how an estimate was made, from how many trials; and their median, where they are enough for its interval."""
    text, middle = f"{found.method}, n = {found.n}", found.median
    if middle is None:
        return text
    shown = between(replace(found, estimate=middle.estimate, low=middle.low, high=middle.high), name, scale)
    return (
        f"{text}; median {shown}, which holds it with {100 * middle.level:.0f} % whatever trials spread like"
    )


def _lopsided(value: float, half: float) -> str:
    """An estimate whose interval reaches far to one side. What is sure of it must not be rounded away: a median of 235 us with
    bounds of 230 us and 24 ms is no 0 us.
    """
    return digits(value, min(half, abs(value)) or half)


def between(found: Estimate, name: str = "", scale: Scale | None = None) -> str:
    """Estimate with the bounds of its interval in words of a sentence: `9.22 [9.1, 9.3] Gbit/s`."""
    if found.estimate is None:
        return "–"
    scale = scale or scale_of(found.estimate, found.unit, name)
    value = found.estimate / scale.factor
    if found.low is None or found.high is None:
        return f"{digits(value)} {scale.unit} (no interval)".replace("  ", " ")
    low, high = found.low / scale.factor, found.high / scale.factor
    half = (high - low) / 2 or None
    shown = f"{_lopsided(value, half) if half else digits(value)} [{digits(low, half)}, {digits(high, half)}] {scale.unit}"
    return shown.rstrip()
