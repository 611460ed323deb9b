"""Results of the flowops of a file program when a trial is done: failures that make it void, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from iodyno.core.quantity import counted

Json = Mapping[str, Any]

_SHORT_READS_RATIO = 0.01
"""Chosen: a file of 100 blocks that is read in order ends its reads once in so many, which is as it should be."""
_READS_OF_ONE_LENGTH = ("read",)
_MEANINGS = {
    9: "its file is not open for that call: look at readonly, writeonly, and which flowop opens fd",
    22: "with directio lengths and places are multiples of the device's sectors; else the call does not go with the file",
    24: "too many files are open: close what is opened, or raise the limit (ulimit -n)",
    27: "the file would be larger than the file system or ulimit -f allows",
    28: "the file system is full: a larger one, fewer bytes, or a shorter run",
    122: "the quota is used up: a larger one, fewer bytes, or a shorter run",
}
"""Meanings of error numbers (errno(3)) for who wrote the personality."""


def failed(account: Json) -> tuple[str, str] | None:
    """Of the flowops that failed more often than they were done, the one that failed most: what is to be said, and what to try.
    None where there is none: some failures are a load's own, as of a file that another thread has removed.
    """
    wrong = [flowop for flowop in account.get("flowops", ()) if flowop["errors"] > flowop["operations"]]
    if not wrong:
        return None
    worst = max(wrong, key=lambda flowop: int(flowop["errors"]))
    others = f" (and {counted(len(wrong) - 1, 'other')} did so)" if len(wrong) > 1 else ""
    first = str(worst["first_error"] or "no reason is known")
    what = (
        f"the flowop {worst['name']} ({worst['call']}) failed {counted(worst['errors'], 'time')} and was done"
        f" {counted(worst['operations'], 'time')}{others}: {first}"
    )
    return what, f"correct the flowop {worst['name']}: {_meaning(first)}"


def _meaning(text: str) -> str:
    for number, meaning in _MEANINGS.items():
        if f"(os error {number})" in text:
            return meaning
    return "its error says why, and docs/guides/filebench.md what the flowop does"


def took_no_file(account: Json) -> str | None:
    """Thread and flowop of a program that ended by itself without an operation: it found no file to take, also where the end of
    its last thread (`set mode quit alldone`) is what ended it, unless that is a limit of its own. None: it ended otherwise.
    """
    by = str(account.get("ended_by") or "the program")
    if account.get("end") == "no_file":
        return by
    calls = {flowop["class"]: flowop["call"] for flowop in account.get("flowops", ())}
    by_limit = str(calls.get(by.rpartition("flowop ")[2], "")).startswith("finishon")
    return by if account.get("end") == "all_done" and not by_limit else None


def short_reads(program: Json, account: Json) -> Iterator[str]:
    """A sentence for each flowop of which a noticeable part of the reads brought fewer bytes than its iosize, or none. `program`:
    the part of the job that is about files; what is read at the end of a file is short.
    """
    lengths: dict[tuple[str, str, str], set[Any]] = {}
    for process in program.get("processes", ()):
        for thread in process["threads"]:
            for flowop in _each(thread["flowops"]):
                place = (process["name"], thread["name"], flowop["name"])
                lengths.setdefault(place, set()).add(_length(flowop))
    for flowop in account.get("flowops", ()):
        found = lengths.get((flowop["process"], flowop["thread"], flowop["name"]), set())
        length = next(iter(found)) if len(found) == 1 else None
        if flowop["call"] not in _READS_OF_ONE_LENGTH or not isinstance(length, int) or length < 1:
            continue
        reads, moved = int(flowop["operations"]), int(flowop["bytes"])
        # As many bytes are in no fewer whole reads: the others were short.
        short = reads - moved // length
        if short > _SHORT_READS_RATIO * reads:
            yield (
                f"of {reads} reads of {flowop['name']} at least {short} brought fewer bytes than the {length} of its iosize,"
                f" or none: {moved / reads:.0f} bytes a read on average, as files or their ends are shorter"
            )


def _each(flowops: list[Json]) -> Iterator[Json]:
    for flowop in flowops:
        yield flowop
        yield from _each(flowop.get("flowops", []))


def _length(flowop: Json) -> Any:
    length = flowop.get("io_bytes")
    return length if isinstance(length, int) else None
