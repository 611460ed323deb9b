"""Traces of block devices as lists of operations to replay: text of blkparse, of iosnoop (all kinds of it) and biosnoop, and
of `iodyno trace block`.

blkparse (its manual, "Default output"): `dev cpu number seconds pid action rwbs sector + sectors [process]`. The
operations are those that went to the device (action D), or, where there are none, those that were queued (Q). The others
have a line of names first, whose columns say what there is: offsets are in sectors of 512 bytes, lengths in bytes. Offsets of
two devices are not those of one target: of several devices one must be named. What is not replayed is counted by its kind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.formats.given_file import read_given

Kind = Literal["read", "write", "fsync"]
_REPLAYED: Mapping[str, Kind] = {"read": "read", "write": "write", "fsync": "fsync"}
SECTOR_BYTES = 512
MAX_OPERATIONS = 100_000
"""Most operations of a replay (chosen: it travels in the job and is kept in the manifest of every trial)."""
MAX_BYTES = 256 << 20
_BLKPARSE = re.compile(
    r"\s*(?P<device>\d+,\d+)\s+\d+\s+\d+\s+(?P<time>\d+\.\d+)\s+\d+\s+(?P<action>[A-Za-z]{1,2})\s+(?P<kinds>[A-Z]+)"
    r"(?:\s+(?P<sector>\d+)\s\+\s(?P<count>\d+))?"
)
_OF_A_DEVICE = re.compile(r"\s*\d+,\d+(\s|$)")
_ISSUED, _QUEUED = "D", "Q"
_NAMES = {
    "STARTs": ("time", 10**9), "STIME(us)": ("time", 1000), "STIME": ("time", 1000), "TIME(s)": ("ended", 10**9),
    "ENDs": ("ended", 10**9), "LAT(ms)": ("took", 10**6), "LATms": ("took", 10**6), "TYPE": ("kinds", 1), "D": ("kinds", 1),
    "T": ("kinds", 1), "BLOCK": ("sector", 1), "SECTOR": ("sector", 1), "BYTES": ("bytes", 1), "SIZE": ("bytes", 1),
    "DEVICE": ("device", 1), "DEV": ("device", 1), "DISK": ("device", 1),
}  # fmt: skip
"""Columns of iosnoop and biosnoop that matter: what each holds, and its unit in ns where it is a time. Where no column says when
an operation began, it is when it ended less what it took."""
_ENDING = ("PATHNAME", "ARGS", "CMDLINE", "MOUNT", "FILENAME")
"""Columns of any number of words, at the end of a line."""
_WORDS = {"STRTIME": 4}
"""Columns of so many words: a wall clock of `iosnoop -v`."""
_DEVICE_KEY = "replay_device"
_ELSEWHERE, _STRANGE = "another device", "unreadable line"


@dataclass(frozen=True)
class TracedOperation:
    """One operation: when it began after the first one, what it did, where and how much."""

    at_ns: int
    kind: Kind
    offset_bytes: int
    length_bytes: int


@dataclass(frozen=True)
class Trace:
    """The operations of a trace in the order of their begins, and how many of what kind are not among them."""

    operations: Sequence[TracedOperation]
    left_out: Mapping[str, int]

    @property
    def without(self) -> str:
        """Operations that are not replayed, in words; empty: none.

        >>> Trace((), {"discard": 2, "another device": 1}).without
        '1 of another device, 2 of kind discard'
        """
        return ", ".join(
            f"{count} of {'' if kind == _ELSEWHERE else 'kind '}{kind}"
            for kind, count in sorted(self.left_out.items())
        )


@dataclass(frozen=True)
class _Line:
    """Contents of a line of a trace. `kind`: what is replayed, or the word for what is not."""

    where: str
    device: str
    at_ns: int
    kind: str
    sector: int
    length_bytes: int


def read_trace(path: str, device: str | None = None) -> Trace:
    """The operations of the trace in the file; of several devices those of `device`. Raises ExperimentError with the line."""
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
    return parse_trace(raw.decode("utf-8", errors="replace"), file=path, device=device)


def parse_trace(text: str, *, file: str = "trace", device: str | None = None) -> Trace:
    """The operations of the text; of several devices those of `device`. Raises ExperimentError with the line."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _BLKPARSE.match(line):
            return _trace(_blkparse(lines, file), file, device)
        names = line.split()
        if {"BLOCK", "SECTOR"} & set(names) and {"TYPE", "D", "T"} & set(names):
            return _trace(_snoop(names, lines[number + 1 :], file, number + 2), file, device)
    raise ExperimentError(
        "is no text of blkparse, and has no line of names of iosnoop (TYPE BLOCK BYTES ...)",
        where=file,
        advice="blkparse -i DEVICE > trace, or iosnoop -s",
    )


def _blkparse(lines: Sequence[str], file: str) -> list[_Line]:
    found: dict[str, list[_Line]] = {_ISSUED: [], _QUEUED: []}
    strange: list[_Line] = []
    for number, line in enumerate(lines, start=1):
        if line.startswith(("CPU", "Total ")):
            break  # the sums at the end
        match = _BLKPARSE.match(line)
        sized = match is not None and (match["count"] is not None or not _moves(match["kinds"]))
        if match is None or (match["action"] in found and not sized):
            if _OF_A_DEVICE.match(line):
                raise _unreadable(
                    line, "dev cpu number seconds pid action rwbs sector + sectors", file, number
                )
            if line.strip() and not line.startswith("Input file"):
                strange.append(_Line(f"{file}:{number}", "", 0, _STRANGE, 0, 0))
            continue
        if match["action"] not in found:
            continue
        seconds, _, fraction = match["time"].partition(".")
        sectors = int(match["count"] or 0)
        found[match["action"]].append(
            _Line(
                where=f"{file}:{number}",
                device=match["device"],
                at_ns=int(seconds) * 10**9 + int(fraction[:9].ljust(9, "0")),
                kind=_kind(match["kinds"], sectors),
                sector=int(match["sector"] or 0),
                length_bytes=sectors * SECTOR_BYTES,
            )
        )
    return (found[_ISSUED] or found[_QUEUED]) + strange


def _moves(letters: str) -> bool:
    """Tell whether an operation of these letters has a place and a length: a flush need not, nor what is no read and no write."""
    return "F" not in letters and bool({"R", "W", "D"} & set(letters))


def _snoop(names: Sequence[str], lines: Iterable[str], file: str, first: int) -> list[_Line]:
    # A column of several words is followed by as many without a name.
    places = [place for name in names for place in (name, *[""] * (_WORDS.get(name, 1) - 1))]
    columns = {_NAMES[n][0]: (i, _NAMES[n][1]) for i, n in reversed(list(enumerate(places))) if n in _NAMES}
    timed = "time" in columns or {"ended", "took"} <= set(columns)
    for there, shown in ((timed, "STARTs (iosnoop -s) or STIME"), ("bytes" in columns, "BYTES or SIZE")):
        if not there:
            raise ExperimentError(
                f"has no column {shown}, needed to replay it",
                where=f"{file}:{first - 1}",
                advice="iosnoop -s",
            )

    def time_ns(what: str, fields: Sequence[str]) -> float:
        place, unit = columns[what]
        return float(fields[place]) * unit

    found = []
    for number, line in enumerate(lines, start=first):
        fields = line.split()
        if not fields or fields[0].startswith("#") or fields[0] == "Tracing" or fields == names:
            continue
        if "COMM" in places and places[-1] not in _ENDING and len(fields) > len(places):
            # A name of a process may hold blanks; as every other column is one word, the surplus words are its own.
            begin = places.index("COMM")
            end = begin + 1 + len(fields) - len(places)
            fields[begin:end] = [" ".join(fields[begin:end])]
        try:
            length = int(fields[columns["bytes"][0]])
            found.append(
                _Line(
                    where=f"{file}:{number}",
                    device=fields[columns["device"][0]] if "device" in columns else "",
                    at_ns=round(
                        time_ns("time", fields)
                        if "time" in columns
                        else time_ns("ended", fields) - time_ns("took", fields)
                    ),
                    kind=_kind(fields[columns["kinds"][0]].upper(), length),
                    sector=int(fields[columns["sector"][0]]),
                    length_bytes=length,
                )
            )
        except (IndexError, ValueError, OverflowError):
            raise _unreadable(line, " ".join(names), file, number) from None
    return found


def _unreadable(line: str, needed: str, file: str, number: int) -> ExperimentError:
    return ExperimentError(
        invalid(line.strip()[:60], f"a line with {needed}"),
        where=f"{file}:{number}",
        advice="take the line out",
    )


def _kind(letters: str, length: int) -> str:
    """Return the meaning of the letters of an operation: a `Kind`, or a word for what is not replayed."""
    if letters.startswith("D"):
        return "discard"
    if "F" in letters and not length:
        return "fsync"
    if not length:
        return "no data"
    return "read" if "R" in letters else "write" if "W" in letters else letters


def _operation(line: _Line, kind: Kind, begin_ns: int) -> TracedOperation:
    if kind == "fsync":
        # A flush has no place: `iodyno trace block` prints -1 for it, the kernel's tracers the greatest number.
        return TracedOperation(line.at_ns - begin_ns, kind, 0, 0)
    length, sector = line.length_bytes, line.sector
    if not 0 <= length <= 1 << 30 or not 0 <= sector <= 1 << 53:
        raise ExperimentError(
            f"invalid value: {length} bytes at sector {sector}; expected up to 1 GiB at sectors up to 2^53",
            where=line.where,
        )
    return TracedOperation(line.at_ns - begin_ns, kind, sector * SECTOR_BYTES, length)


def _trace(lines: Sequence[_Line], file: str, device: str | None) -> Trace:
    """The lines as one target can have them."""
    left_out: Counter[str] = Counter(line.kind for line in lines if line.kind not in _REPLAYED)
    replayed = [line for line in lines if line.kind in _REPLAYED]
    by_device = Counter(line.device for line in replayed)
    shown = ", ".join(f"{name} ({count})" for name, count in by_device.most_common(8))
    if device is not None and device not in by_device:
        raise ExperimentError(
            invalid(
                device, f"a device of the trace{f': {shown}' if any(by_device) else ', which names none'}"
            ),
            where=f"{file}: {_DEVICE_KEY}",
        )
    if device is None and len(by_device) > 1:
        raise ExperimentError(
            f"has operations of {len(by_device)} devices, which are not offsets of one target: {shown}",
            where=file,
            advice=f"name one of them: `{_DEVICE_KEY}: {by_device.most_common(1)[0][0]}`",
        )
    if device is not None:
        others = len(replayed) - by_device[device]
        replayed = [line for line in replayed if line.device == device]
        # What is left out is told of the device that is replayed.
        left_out = Counter(
            line.kind for line in lines if line.kind not in _REPLAYED and line.device in (device, "")
        )
        left_out += Counter({_ELSEWHERE: others})
    if not replayed:
        raise ExperimentError(
            "has no read and no write in it", where=file, advice="trace a device that is at work"
        )
    if len(replayed) > MAX_OPERATIONS:
        raise ExperimentError(
            f"has {len(replayed)} operations; expected {MAX_OPERATIONS} at most",
            where=file,
            advice=f"cut it: head -n {MAX_OPERATIONS}",
        )
    for line in replayed:
        # What ended just after a trace began has begun before it.
        if abs(line.at_ns) > 1 << 62:
            raise ExperimentError(
                f"invalid value: a time of {line.at_ns} ns; expected -2^62 to 2^62", where=line.where
            )
    replayed.sort(key=lambda line: line.at_ns)
    begin_ns = replayed[0].at_ns
    operations = [_operation(line, _REPLAYED[line.kind], begin_ns) for line in replayed]
    return Trace(operations, left_out)
