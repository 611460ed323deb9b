"""One value of a profile: read as uperf writes it, and the bounds that are said of one that is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from iodyno.core import quantity
from iodyno.core.invalid import invalid
from iodyno.formats.mistakes import unknown
from iodyno.loads.script.core.values import PROTOCOLS, OptionKind, Uniform
from iodyno.loads.script.uperf import numbers

_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _word(written: str) -> str:
    if not _WORD.fullmatch(written):
        raise ValueError(invalid(written, "one word"))
    return written


def _text(written: str) -> str:
    if not written.isprintable() or len(written) > 200:
        raise ValueError(invalid(written, "a text of one line, 200 characters at most"))
    return written


def _protocol(written: str) -> str:
    if written.lower() not in PROTOCOLS:
        raise ValueError(unknown(written, PROTOCOLS))
    return written.lower()


_READERS: Mapping[OptionKind, Callable[[str], int | str | Uniform]] = {
    "size": numbers.size_or_random,
    "duration": numbers.duration,
    "count": numbers.count,
    "word": _word,
    "text": _text,
    "host": _text,
    "protocol": _protocol,
}


def read_value(written: str, kind: OptionKind, low: int, high: int) -> int | str | Uniform:
    """A value as uperf writes it. Raises ValueError with what was found and what is allowed."""
    value = _READERS[kind](written)
    least, most = (value.low_bytes, value.high_bytes) if isinstance(value, Uniform) else (value, value)
    if isinstance(least, int) and isinstance(most, int) and not low <= least <= most <= high:
        raise ValueError(invalid(written, span(kind, low, high)))
    return value


def span(kind: OptionKind, low: int, high: int) -> str:
    """The least and the greatest number, as people write them.

    >>> span("duration", 1, 3600 * 10**9), span("size", 1, 1 << 30), span("count", 1, 64)
    ('1ns to 3600s (1 h)', '1B to 1GiB', '1 to 64')
    """
    if kind == "size":
        return f"{quantity.show('size', low)} to {quantity.show('size', high)}"
    if kind == "duration":
        hours = high // (3600 * 10**9)
        # uperf has no unit above the second, in which long times are hard to read.
        long = f" ({hours // 24} d)" if hours >= 24 else f" ({hours} h)" if hours else ""
        return f"{quantity.show('duration', low)} to {quantity.show('duration', high)}{long}"
    return f"{low} to {high}"
