"""Traces of block devices as lists of operations to replay: text of blkparse, and of iosnoop (both kinds of it).

blkparse (its manual, "Default output"): `dev cpu number seconds pid action rwbs sector + sectors [process]`. The
operations are those that went to the device (action D), or, where there are none, those that were queued (Q). iosnoop has
a line of names first, whose columns say what there is: offsets are in sectors of 512 bytes, lengths in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from iodyno.core.errors import ExperimentError
from iodyno.formats.given_file import read_given

Kind = Literal["read", "write", "fsync"]
SECTOR_BYTES = 512
MAX_OPERATIONS = 100_000
"""Most operations of a replay (chosen: it travels in the job and is kept in the manifest of every trial)."""
MAX_BYTES = 256 << 20
_BLKPARSE = re.compile(
    r"\s*\d+,\d+\s+\d+\s+\d+\s+(?P<time>\d+\.\d+)\s+\d+\s+(?P<action>[A-Z])\s+(?P<kinds>[A-Z]+)(?:\s+(?P<sector>\d+)\s\+\s(?P<count>\d+))?"
)
_ISSUED, _QUEUED = "D", "Q"
_NAMES = {
    "STARTs": ("time", 10**9), "TIME(s)": ("time", 10**9), "STIME(us)": ("time", 1000), "STIME": ("time", 1000),
    "TIME(us)": ("ended", 1000), "TYPE": ("kinds", 1), "D": ("kinds", 1), "T": ("kinds", 1), "BLOCK": ("sector", 1),
    "SECTOR": ("sector", 1), "BYTES": ("bytes", 1), "SIZE": ("bytes", 1),
}  # fmt: skip
"""Columns of iosnoop and biosnoop that matter: what each holds, and its unit in ns where it is a time."""


@dataclass(frozen=True)
class TracedOperation:
    """One operation: when it began after the first one, what it did, where and how much."""

    at_ns: int
    kind: Kind
    offset_bytes: int
    length_bytes: int


def read_trace(path: str) -> list[TracedOperation]:
    """The operations of the trace in the file, in the order of their begins. Raises ExperimentError with the line."""
    try:
        raw = read_given(path, MAX_BYTES)
    except OSError as problem:
        raise ExperimentError(
            f"cannot be read: {problem.strerror}", where=path, advice="name a trace of blkparse or iosnoop"
        ) from None
    if len(raw) > MAX_BYTES:
        raise ExperimentError(
            f"is larger than {MAX_BYTES >> 20} MiB", where=path, advice="cut it: head, or blkparse -w"
        )
    return parse_trace(raw.decode("utf-8", errors="replace"), file=path)


def parse_trace(text: str, *, file: str = "trace") -> list[TracedOperation]:
    """The operations of the text. Raises ExperimentError with the line."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _BLKPARSE.match(line):
            return _sorted(_blkparse(lines, file), file)
        names = line.split()
        if {"BLOCK", "SECTOR"} & set(names) and {"TYPE", "D", "T"} & set(names):
            return _sorted(_snoop(names, lines[number + 1 :], file, number + 2), file)
    raise ExperimentError(
        "is no text of blkparse, and has no line of names of iosnoop (TYPE BLOCK BYTES ...)",
        where=file,
        advice="blkparse -i DEVICE > trace, or iosnoop -s",
    )


def _blkparse(lines: Sequence[str], file: str) -> list[TracedOperation]:
    found: dict[str, list[TracedOperation]] = {_ISSUED: [], _QUEUED: []}
    for number, line in enumerate(lines, start=1):
        match = _BLKPARSE.match(line)
        if match is None or match["action"] not in found:
            continue
        seconds, _, fraction = match["time"].partition(".")
        at_ns = int(seconds) * 10**9 + int(fraction[:9].ljust(9, "0"))
        sectors = int(match["count"] or 0)
        kind = _kind(match["kinds"], sectors)
        if kind is not None:
            where = f"{file}:{number}"
            found[match["action"]].append(
                _operation(at_ns, kind, int(match["sector"] or 0), sectors * SECTOR_BYTES, where)
            )
    return found[_ISSUED] or found[_QUEUED]


def _snoop(names: Sequence[str], lines: Iterable[str], file: str, first: int) -> list[TracedOperation]:
    columns = {
        _NAMES[name][0]: (i, _NAMES[name][1])
        for i, name in reversed(list(enumerate(names)))
        if name in _NAMES
    }
    for needed, shown in (("time", "STARTs (iosnoop -s) or STIME"), ("bytes", "BYTES or SIZE")):
        if needed not in columns:
            raise ExperimentError(
                f"has no column {shown}, needed to replay it",
                where=f"{file}:{first - 1}",
                advice="iosnoop -s",
            )
    found = []
    for number, line in enumerate(lines, start=first):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        # Names of processes may hold blanks; what stands left of them is counted from the left.
        try:
            at_ns = round(float(fields[columns["time"][0]]) * columns["time"][1])
            length = int(fields[columns["bytes"][0]])
            kind = _kind(fields[columns["kinds"][0]].upper(), length)
            sector = int(fields[columns["sector"][0]])
        except (IndexError, ValueError, OverflowError):
            raise ExperimentError(
                f"found {line.strip()[:60]!r}, needed: a line with {' '.join(names)}",
                where=f"{file}:{number}",
                advice="take the line out",
            ) from None
        if kind is not None:
            found.append(_operation(at_ns, kind, sector, length, f"{file}:{number}"))
    return found


def _kind(letters: str, length: int) -> Kind | None:
    """What the letters of an operation mean; None: nothing that is replayed (discards, messages)."""
    if letters.startswith("D"):
        return None
    if "F" in letters and not length:
        return "fsync"
    if not length:
        return None
    return "read" if "R" in letters else "write" if "W" in letters else None


def _operation(at_ns: int, kind: Kind, sector: int, length: int, where: str) -> TracedOperation:
    if length > 1 << 30 or sector > 1 << 53 or at_ns < 0 or at_ns > 1 << 62:
        raise ExperimentError(
            f"found {length} bytes at sector {sector}, allowed: up to 1 GiB at sectors up to 2^53",
            where=where,
        )
    return TracedOperation(at_ns, kind, sector * SECTOR_BYTES, length)


def _sorted(found: list[TracedOperation], file: str) -> list[TracedOperation]:
    if not found:
        raise ExperimentError(
            "has no read and no write in it", where=file, advice="trace a device that is at work"
        )
    if len(found) > MAX_OPERATIONS:
        raise ExperimentError(
            f"has {len(found)} operations, allowed: {MAX_OPERATIONS}",
            where=file,
            advice=f"cut it: head -n {MAX_OPERATIONS}",
        )
    found.sort(key=lambda operation: operation.at_ns)
    begin_ns = found[0].at_ns
    return [TracedOperation(o.at_ns - begin_ns, o.kind, o.offset_bytes, o.length_bytes) for o in found]
