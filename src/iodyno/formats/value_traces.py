"""Traces of sizes and of times between arrivals: text with a quantity a line."""

from __future__ import annotations

import os

from iodyno.core import quantity
from iodyno.core.distribution import LARGEST
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.formats.given_file import read_given

MOST_VALUES = 100_000
"""Most values of a trace (chosen: it travels in the job and is kept in the manifest of every trial)."""
MOST_BYTES = 16 << 20
"""Longest file of them (chosen: 160 bytes a value, most of which are comments)."""
_GAP_MOST_NS = 7 * 86_400 * 10**9
_ADVICE = "name a text file with one value a line"


def sizes_bytes(file: str | os.PathLike[str]) -> list[int]:
    """The sizes in the file, in its order. Raises ExperimentError."""
    return _values(file, "size", 1, LARGEST)


def gaps_ns(file: str | os.PathLike[str]) -> list[int]:
    """The times between arrivals in the file. Raises ExperimentError."""
    found = _values(file, "duration", 0, _GAP_MOST_NS)
    if not any(found):
        raise ExperimentError(
            "all times between arrivals are 0", where=str(file), advice="at least one is not 0"
        )
    return found


def _values(file: str | os.PathLike[str], kind: quantity.Kind, low: int, high: int) -> list[int]:
    """The quantities in a file, one a line; empty lines and what follows a `#` are passed over."""
    found: list[int] = []
    for number, line in enumerate(_text(file).splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        where = f"{file}:{number}"
        try:
            value = quantity.parse(kind, text)
        except ValueError as problem:
            raise ExperimentError(str(problem), where=where, advice=_ADVICE) from None
        if not low <= value <= high:
            allowed = f"{quantity.show(kind, low)} to {quantity.show(kind, high)}"
            raise ExperimentError(invalid(text, allowed), where=where, advice=_ADVICE)
        if len(found) == MOST_VALUES:
            raise ExperimentError(
                f"the trace has more than {MOST_VALUES} values; expected 1 to {MOST_VALUES}",
                where=where,
                advice=f"cut it: head -n {MOST_VALUES}",
            )
        found.append(value)
    if not found:
        raise ExperimentError(
            f"the trace has 0 values; expected 1 to {MOST_VALUES}", where=str(file), advice=_ADVICE
        )
    return found


def _text(file: str | os.PathLike[str]) -> str:
    try:
        raw = read_given(file, MOST_BYTES)
        if len(raw) > MOST_BYTES:
            raise ExperimentError(
                f"the trace is larger than {MOST_BYTES >> 20} MiB", where=str(file), advice=_ADVICE
            )
        return raw.decode()
    except OSError as problem:
        why = problem.strerror
    except UnicodeDecodeError:
        why = "it is no UTF-8 text"
    raise ExperimentError(f"the trace cannot be read: {why}", where=str(file), advice=_ADVICE)
