"""Numbers as uperf writes them.

>>> size("8k"), size("1.5M"), duration("30"), duration("20ms"), count("1k")
(8192, 1572864, 30000000000, 20000000, 1024)
"""

from __future__ import annotations

import re
from fractions import Fraction

from iodyno.core.invalid import invalid
from iodyno.loads.script.core.values import Uniform

_NUMBER = re.compile(r"(?P<number>\d{1,18}(?:\.\d{0,9})?|\.\d{1,9})\s*(?P<unit>[A-Za-z]*)")

_SIZES = {unit: 1024**power for power, unit in enumerate(("b", "k", "m", "g", "t"))}
_SIZE_ENDINGS = ("", "b", "ib", "byte", "bytes")
_DURATIONS = {
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 10**9),
    # uperf looks at the first letter only, so minutes are milliseconds to it; the reader says so.
    **dict.fromkeys(("ms", "msec", "msecs", "m", "min"), 10**6),
    **dict.fromkeys(("us", "usec", "usecs"), 10**3),
    **dict.fromkeys(("ns", "nsec", "nsecs"), 1),
}


def size(written: str) -> int:
    """Bytes: a number with B, K, M, G or T behind it, which are powers of 1024. Raises ValueError."""
    allowed = "a size such as 64k, 8192 or 1M"
    number, unit = _parts(written, allowed)
    if unit and (unit[0] not in _SIZES or unit[1:] not in _SIZE_ENDINGS):
        raise ValueError(f"invalid value {written!r}: unknown unit {unit!r}; expected B, K, M, G, T")
    return _whole(number * (_SIZES[unit[0]] if unit else 1), written, allowed)


def size_or_random(written: str) -> int | Uniform:
    """Bytes, or `rand(LOW,HIGH)`. Raises ValueError.

    >>> size_or_random("rand(1, 4k)")
    Uniform(low_bytes=1, high_bytes=4096)
    """
    return Uniform.parse(written, size) if Uniform.is_meant(written) else size(written)


def duration(written: str) -> int:
    """Nanoseconds: seconds, or a number with s, ms, us or ns behind it. Raises ValueError."""
    allowed = "a duration such as 30s, 500ms or 30, which are seconds"
    number, unit = _parts(written, allowed)
    if unit not in _DURATIONS:
        raise ValueError(f"invalid value {written!r}: unknown unit {unit!r}; expected s, ms, us, ns")
    return _whole(number * _DURATIONS[unit], written, allowed)


def count(written: str) -> int:
    """A whole number; K, M and G multiply it as they do a size. Raises ValueError."""
    allowed = "a whole number"
    number, unit = _parts(written, allowed)
    if unit not in ("", "k", "m", "g"):
        raise ValueError(invalid(written, allowed))
    return _whole(number * (_SIZES[unit] if unit else 1), written, allowed)


def _parts(written: str, allowed: str) -> tuple[Fraction, str]:
    match = _NUMBER.fullmatch(written.strip()) if len(written) <= 64 else None
    if match is None:
        shown = written if len(written) <= 64 else f"{written[:61]}..."
        raise ValueError(invalid(shown, allowed))
    return Fraction(match["number"].rstrip(".")), match["unit"].lower()


def _whole(value: Fraction, written: str, allowed: str) -> int:
    if value.denominator != 1:
        raise ValueError(f"invalid value {written!r}: it is not whole; expected {allowed}")
    return int(value)
