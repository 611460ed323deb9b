"""Work of a load in each interval of a host, and in parts of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from iodyno.analysis.readings import Values


class Part(NamedTuple):
    """A part of an interval of one host: what the load did."""

    bytes: int
    operations: int
    span_ns: int


@dataclass(frozen=True)
class Record:
    """One interval of one host: what the load did. `parts`: of it, in order, where the agent counted them."""

    index: int
    window: str
    begin_ns: int
    end_ns: int
    bytes: int
    operations: int
    connections_active: int
    connections_lost: int
    parts: tuple[Part, ...] = ()

    @property
    def span_ns(self) -> int:
        """Length of the interval."""
        return self.end_ns - self.begin_ns


def parts_together(
    records: Sequence[Record], count: Callable[[Part], int] = lambda part: part.bytes
) -> tuple[Part, ...]:
    """The parts of the first record with what all did in theirs: bytes of the others are what `count` says. None where they were
    not cut alike."""
    first, others = records[0], records[1:]
    if any(len(one.parts) != len(first.parts) for one in others):
        return ()
    return tuple(
        mine._replace(
            bytes=mine.bytes + sum(map(count, theirs)),
            operations=mine.operations + sum(one.operations for one in theirs),
        )
        for mine, *theirs in zip(first.parts, *(one.parts for one in others), strict=True)
    )


def parts_of(record: Record, values: Values) -> tuple[Part, ...]:
    """Return a record's parts from amounts up to their ends; the last part ends with the record. Empty where they do not fit."""
    moved, done, ends = (values.of(f"part.{name}") for name in ("bytes", "operations", "end_ns"))
    upto = [(0, 0, 0)]
    for label in map(str, range(len(ends))):
        upto.append((moved.get(label, -1), done.get(label, -1), ends.get(label, -1)))
    upto.append((record.bytes, record.operations, record.span_ns))
    parts = tuple(Part(*(late - early for early, late in zip(*ends, strict=True))) for ends in pairwise(upto))
    return parts if all(min(part[:2]) >= 0 and part.span_ns > 0 for part in parts) else ()
