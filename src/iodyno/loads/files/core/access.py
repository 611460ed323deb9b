"""Flowops that could never be done, as their file is opened for something else or their length is none: refused before a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iodyno.loads.files.core.attributes import FLOWOPS, READS, WRITES
from iodyno.loads.files.core.bound import Files, Flowop

SECTOR_BYTES = 512
"""Least unit of lengths with O_DIRECT (open(2)); a device may ask for a larger one."""
_OPENS = ("openfile", "createfile")


def refuse_impossible(flowops: Iterable[Flowop], files: Mapping[str, Files]) -> None:
    """Goes through the flowops of a thread in their order. Raises ExperimentError with the place of the first that cannot be."""
    opened: dict[object, Flowop] = {}
    last: Flowop | None = None
    for flowop in (each for top in flowops for each in top.each()):
        fd, named = flowop.options.get("fd"), flowop.options.get("filename")
        if flowop.kind in _OPENS:
            opened[fd] = flowop
        # What opens the file of a flowop: the one that opened its descriptor, else the flowop itself, or the one that names a
        # file before it.
        opens = opened.get(fd) if fd is not None or named is None else None
        opens = opens or (flowop if named is not None else last)
        if named is not None and fd is None:
            last = flowop
        if flowop.kind in READS or flowop.kind in WRITES:
            _check_length(flowop, opens)
            of = files.get(str(opens.options.get("filename"))) if opens is not None else None
            _check_direction(flowop, of)


def _check_length(flowop: Flowop, opens: Flowop | None) -> None:
    length = flowop.options.get("iosize")
    if not isinstance(length, int) or isinstance(length, bool):
        return
    place = flowop.places.get("iosize", flowop.place)
    # Those that do not need one take a whole file where it is 0.
    if not length and "iosize" in FLOWOPS[flowop.kind].needs:
        raise place.error(
            f"invalid value for iosize: 0 ({flowop.kind} {flowop.name}); expected 1 or more", "iosize=4k"
        )
    if length % SECTOR_BYTES and (opens or flowop).options.get("directio") is True:
        raise place.error(
            f"invalid value for iosize: {length} with directio ({flowop.kind} {flowop.name}); "
            f"expected multiples of {SECTOR_BYTES}, as no part of a sector bypasses the page cache",
            f"iosize={-(-length // SECTOR_BYTES) * SECTOR_BYTES}, or leave directio out",
        )


def _check_direction(flowop: Flowop, of: Files | None) -> None:
    if of is None:
        return
    for wrong, kinds, word in ((of.write_only, READS, "writeonly"), (of.read_only, WRITES, "readonly")):
        if wrong and flowop.kind in kinds:
            raise flowop.place.error(
                f"{flowop.kind} {flowop.name} of {of.name}, which is {word} (line {of.place.line}), "
                "so that every call fails; expected files that are not",
                f"leave {word} out, or name another file",
            )
