"""Replay of a trace: its timing, and what becomes of offsets beyond the working set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from iodyno.core.invalid import invalid
from iodyno.core.parameter import Level, Parameter


class Traced(Protocol):
    """One operation of a trace."""

    @property
    def at_ns(self) -> int:
        """Time from the begin of the first one to its own."""

    @property
    def kind(self) -> str:
        """`read`, `write` or `fsync`."""

    @property
    def offset_bytes(self) -> int:
        """Offset of its first byte."""

    @property
    def length_bytes(self) -> int:
        """Number of its bytes."""


def checked_timing(written: str) -> str:
    """`faster(2)`, `slower(1.5)`. Raises ValueError."""
    match = re.fullmatch(r"(faster|slower)\(\s*(\d{1,6}(?:\.\d{1,6})?)\s*\)", written.strip())
    if match is None or not float(match[2]):
        raise ValueError(invalid(written, "original, none, faster(2), slower(2)"))
    return f"{match[1]}({match[2]})"


PARAMETERS = (
    Parameter(
        "replay",
        "text",
        "A trace of blkparse, iosnoop, biosnoop or `iodyno trace block`, replayed once.",
    ),
    Parameter(
        "replay_device",
        "text",
        "Of a trace with several devices: the one, as the trace names it (8,0, sda).",
    ),
    Parameter(
        "timing",
        "word",
        "When they begin: as in the trace (original), as soon as others are complete (none), or faster(2), slower(2).",
        words=("original", "none"),
        form=checked_timing,
        like="faster(2)",
    ),
    Parameter(
        "beyond",
        "word",
        "Offsets of a trace that the working set does not have: refused, or brought into it (wrapped).",
        words=("refused", "wrapped"),
    ),
)


def replay_of(operations: Iterable[Traced], settings: Mapping[str, Level]) -> dict[str, Any]:
    """The part `replay` of a job (`agent/core/src/disk.rs`). Raises ValueError where an operation has no place."""
    each = list(operations)
    timing = str(settings.get("timing", "original"))
    size = settings.get("working_set")
    offsets = [operation.offset_bytes for operation in each]
    if isinstance(size, int):
        wrapped = settings.get("beyond") == "wrapped"
        for number, operation in enumerate(each):
            if operation.offset_bytes + operation.length_bytes <= size:
                continue
            if not wrapped or operation.length_bytes > size:
                end = operation.offset_bytes + operation.length_bytes
                raise ValueError(f"the trace reaches to {end} bytes, the working set has {size}")
            # Whole sectors stay whole, so that direct I/O stays possible.
            places = (size - operation.length_bytes) // 512 + 1
            offsets[number] = operation.offset_bytes // 512 % places * 512
    return {
        "at_ns": [] if timing == "none" else [round(operation.at_ns * _factor(timing)) for operation in each],
        "kinds": [operation.kind for operation in each],
        "offsets_bytes": offsets,
        "lengths_bytes": [operation.length_bytes for operation in each],
    }


def _factor(timing: str) -> float:
    if "(" not in timing:
        return 1.0
    word, _, number = timing.partition("(")
    value = float(number.rstrip(")"))
    return 1 / value if word == "faster" else value
