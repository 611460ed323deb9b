"""Bytes that the two ends of a script got. The records of an end count what it moved, and what it sent over UDP may be lost: only
its account tells what was taken. So the bytes of a record count in the share that the end took of all it moved: exactly where an
end only sends or only takes, else as evenly over time as it moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iodyno.analysis.host_data import HostData

SENDS = ("write", "send", "sendto", "sendfile", "sendfilev")
TAKES = ("read", "recv", "recvfrom")


def operations_of(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The account of every flowop of a script, in order, which is the same at all ends; none: the host carried out no script."""
    account = (manifest.get("result") or {}).get("script") or {}
    groups: Sequence[Mapping[str, Any]] = account.get("groups", ())
    return [
        one for group in groups for transaction in group["transactions"] for one in transaction["operations"]
    ]


def taken_bytes(manifest: Mapping[str, Any]) -> int:
    """Return the bytes that an end took from start to end, of whichever other."""
    return sum(one["bytes"] for one in operations_of(manifest) if one["call"] in TAKES)


def with_what_was_taken(listens: HostData, asks: HostData) -> HostData:
    """The receiving host, its records with what it and the end that asks took from each other. Made once, as what is worked out
    of its readings is kept with it.
    """
    kept: HostData | None = listens.derived.get(("taken",))
    if kept is None:
        mine, theirs = operations_of(listens.manifest), operations_of(asks.manifest)
        # Between the asking end and another host this one does nothing.
        from_here = (far for far, near in zip(theirs, mine, strict=False) if near["call"] != "nop")
        got = dict(_taken(asks, from_here))
        records = [
            replace(record, bytes=moved + got.get(record.index, 0), parts=())
            for record, (_, moved) in zip(listens.records, _taken(listens, mine), strict=True)
        ]
        kept = listens.derived["taken",] = replace(listens, records=records, derived={})
    return kept


def _taken(
    host: HostData, operations: Iterator[Mapping[str, Any]] | list[Mapping[str, Any]]
) -> Iterator[tuple[int, int]]:
    """Index of each record of a host, and what of its bytes these operations took."""
    taken = sum(one["bytes"] for one in operations if one["call"] in TAKES)
    moved = sum(record.bytes for record in host.records)
    so_far = given = 0
    for record in host.records:
        # Rounded as a whole, so that nothing is lost of many small ones.
        so_far += record.bytes
        upto = taken * so_far // moved if moved else 0
        yield record.index, upto - given
        given = upto
