"""Sizes, durations and counts as people write them: `64KiB`, `256k`, `10s`.

A size is in bytes. `k`, `M`, `G`, `T` (alone, or as `KiB`, `MiB`, ...) are powers of 1024, as the load tools
have it; `kB`, `MB`, `GB`, `TB` are powers of 1000, as the standard has it. A duration needs its unit and
becomes nanoseconds. A rate is per second, alone or with `/s`, `k/s`, `M/s`; that of a link is in bit/s, `50Mbit/s` or
`50M`, in powers of 1000. A share, `70%` or `0.7`, becomes
parts per million.

>>> parse("size", "64KiB"), parse("size", "256k"), parse("size", "1MB"), parse("duration", "1.5s")
(65536, 262144, 1000000, 1500000000)
>>> parse("rate", "20k/s"), show("rate", 20000)
(20000, '20000/s')
>>> parse("bit_rate", "50M"), show("bit_rate", 50_000_000), show("bit_rate", 1_234_567)
(50000000, '50Mbit/s', '1234567bit/s')
>>> parse("share", "70%"), parse("share", 0.25), show("share", 333_300)
(700000, 250000, '33.33%')
>>> show("size", 65536), show("duration", 250_000_000), show("count", 6000)
('64KiB', '250ms', '6000')
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from iodyno.core.invalid import invalid

Kind = Literal["size", "duration", "count", "rate", "bit_rate", "share"]

_WRITTEN = re.compile(
    r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?)\s*([A-Za-zµ%]*(?:/s)?)\s*", re.IGNORECASE
)

_MOST = 10**100
"""Chosen: more than anything is, and a product of three such is still a double."""

_SIZE_UNITS = {"": 1, "B": 1} | {
    unit: factor
    for power, letter in enumerate("KMGT", start=1)
    for unit, factor in (
        (letter, 1024**power),
        (letter.lower(), 1024**power),
        (f"{letter}iB", 1024**power),
        (f"{letter}B" if letter != "K" else "kB", 1000**power),
    )
}
_DURATION_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
_RATE_UNITS = {"/s": 1, "": 1, "k/s": 10**3, "M/s": 10**6}
_BIT_RATE_UNITS = {"": 1, "bit/s": 1} | {
    f"{letter}{unit}": factor
    for letter, factor in (("k", 10**3), ("M", 10**6), ("G", 10**9))
    for unit in ("bit/s", "bit", "")
}
_SHARE_UNITS = {"%": 10**4, "": 10**6}
_UNITS: dict[Kind, dict[str, int]] = {
    "size": _SIZE_UNITS,
    "duration": _DURATION_UNITS,
    "count": {"": 1},
    "rate": _RATE_UNITS,
    "bit_rate": _BIT_RATE_UNITS,
    "share": _SHARE_UNITS,
}
_BYTES_OR_BITS = re.compile(r"([kmgt]?)(i?)(bits?|bytes?|b)(/s|ps)?", re.IGNORECASE)
_OPERATIONS = re.compile(r"([kmg]?)(?:iops|ops)?(?:/s)?", re.IGNORECASE)
_LETTERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_TIMES = {
    "ns": ("nsec", "nsecs", "nanoseconds"),
    "us": ("u", "usec", "usecs", "microseconds"),
    "ms": ("msec", "msecs", "millis", "milliseconds"),
    "s": ("sec", "secs", "second", "seconds"),
    "min": ("m", "mins", "minute", "minutes"),
    "h": ("hr", "hrs", "hour", "hours"),
    "": ("d", "day", "days"),
}
"""Other words for units of time; of days there is none."""
_SHOWN: dict[Kind, tuple[str, ...]] = {
    "size": ("TiB", "GiB", "MiB", "KiB", "B"),
    "duration": ("s", "ms", "us", "ns"),
    "bit_rate": ("Gbit/s", "Mbit/s", "kbit/s", "bit/s"),
}
"""Units that a quantity is shown in: the first that makes a whole number of it."""
_EXAMPLES: dict[Kind, str] = {
    "size": "a size such as 64KiB, 256k, 1MB or 4096",
    "duration": "a duration with its unit, such as 10s, 500ms or 2min",
    "count": "a whole number",
    "rate": "a rate per second such as 20000/s or 20k/s",
    "bit_rate": "bits per second such as 50Mbit/s, 100M or 12000000",
    "share": "a share such as 70% or 0.7",
}


def parse(kind: Kind, written: str | int | float) -> int:
    """The quantity in its base unit: bytes, nanoseconds, or a plain count.

    Raises ValueError, with what was found and what is allowed, for anything that is not a whole, non-negative
    number of base units.
    """
    value = parse_exact(kind, written)
    if value.denominator != 1:
        raise ValueError(invalid(written, f"a whole number{_base_unit(kind)}"))
    return int(value)


def parse_exact(kind: Kind, written: str | int | float) -> Fraction:
    """The quantity in its base unit, with its fraction: models have service times of 2.4847 us.

    Raises ValueError, with what was found and what is allowed, for anything that is not a non-negative quantity.
    """
    match = _WRITTEN.fullmatch(str(written))
    if isinstance(written, bool) or match is None:
        raise ValueError(invalid(written, _EXAMPLES[kind]))
    number, unit = match.groups()
    factor = _UNITS[kind].get(unit)
    if factor is None:
        named = f"unknown unit {unit!r}" if unit else "a unit is missing"
        units = ", ".join(name for name in _UNITS[kind] if name)
        allowed = f"one of {units}" if units else "no unit"
        raise ValueError(
            f"invalid value {written!r}: {named}; expected {allowed}{_meant(kind, number, unit)}"
        )
    value = Fraction(number) * factor
    if value < 0:
        raise ValueError(invalid(written, "0 or more"))
    if value > _MOST:
        raise ValueError(invalid(written, f"a number{_base_unit(kind)} up to 1e100"))
    return value


def _meant(kind: Kind, number: str, unit: str) -> str:
    """`; did you mean ...?` with the same quantity in a unit that is allowed: a word that merely looks like the unit may be
    another quantity, as `Gbit/s` is an eighth of `GB/s`. Empty: nobody knows.

    >>> _meant("bit_rate", "1", "GB/s"), _meant("size", "1", "Gbit"), _meant("duration", "5", "m"), _meant("rate", "5", "MiB/s")
    ('; did you mean 8Gbit/s?', '; did you mean 125MB?', '; did you mean 5min?', ': operations are meant, and no bytes')
    """
    if not unit or kind in ("count", "share"):
        return ""
    bytes_or_bits = _BYTES_OR_BITS.fullmatch(unit)
    if kind == "duration":
        found = next((known for known, words in _TIMES.items() if unit.lower() in (known, *words)), None)
        days = f"{float(number) * 24:g}h" if found == "" else ""
        return "" if found is None else f"; did you mean {days or number + found}?"
    if kind == "rate":
        operations = _OPERATIONS.fullmatch(unit)
        if operations is None:
            return ": operations are meant, and no bytes" if bytes_or_bits else ""
        return _whole(kind, Fraction(number) * 1000 ** _LETTERS[operations[1].lower()])
    if bytes_or_bits is None:
        return ""
    letter, binary, word, a_second = bytes_or_bits.groups()
    bits = word == "b" or word.lower().startswith("bit")
    if kind == "size" and a_second:
        return ": a size is meant, and no rate"
    if kind == "bit_rate" and not (a_second or bits):
        return ": a rate is meant, and no size"
    value = Fraction(number) * (1024 if binary else 1000) ** _LETTERS[letter.lower()]
    if kind == "bit_rate":
        return _whole(kind, value * (1 if bits else 8))
    if len(word) == 1 and letter:
        # Whoever writes 64kb of a size means bytes, in powers of 1024 or of 1000.
        other = "" if binary else f", or {number}{'k' if letter in 'kK' else letter.upper()}B"
        return f"; did you mean {number}{letter.upper()}iB{other}?"
    value /= 8 if bits else 1
    exact = (unit for unit in ("TB", "GB", "MB", "kB", "B") if (value / _SIZE_UNITS[unit]).denominator == 1)
    return next((f"; did you mean {value / _SIZE_UNITS[unit]}{unit}?" for unit in exact), "")


def _whole(kind: Kind, value: Fraction) -> str:
    return f"; did you mean {show(kind, int(value))}?" if value.denominator == 1 else ""


def units(kind: Kind) -> tuple[str, ...]:
    """The units that may be written; the empty one is a number alone."""
    return tuple(_UNITS[kind])


def show(kind: Kind, value: int) -> str:
    """The quantity as people write it; `parse(kind, show(kind, value)) == value`."""
    if kind == "rate":
        return f"{value}/s"
    if kind == "share":
        return f"{value / 10**4:.10g}%"
    if kind == "count" or value == 0:
        return str(value) + ("s" if kind == "duration" else "")
    for name in _SHOWN[kind]:
        if value % _UNITS[kind][name] == 0:
            return f"{value // _UNITS[kind][name]}{name}"
    raise AssertionError("every whole number is a multiple of the base unit")


def counted(count: int, noun: str) -> str:
    """So many of something whose name has a plain plural.

    >>> counted(1, "trial"), counted(2, "trial")
    ('1 trial', '2 trials')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def show_rough(time_ns: int) -> str:
    """A time to wait, as precise as a person needs it."""
    seconds = round(time_ns / 1e9)
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h {seconds % 3600 // 60} min"


def _base_unit(kind: Kind) -> str:
    return {
        "size": " of bytes",
        "duration": " of nanoseconds",
        "count": "",
        "rate": " per second",
        "bit_rate": " of bits per second",
        "share": " of parts per million",
    }[kind]
