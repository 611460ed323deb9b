"""`iodyno heatmap RECORDING`: maps of what the block devices of a host did while no load was on, and of its system calls."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iodyno.cli.campaign_argument import tell_damaged
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.core.grid import Grid
from iodyno.core.invalid import invalid

if TYPE_CHECKING:
    from iodyno.analysis.operation_times import OperationTimes
    from iodyno.analysis.recording import Recording

_OF_LOADS = ("point", "trial", "by", "clock")
_QUANTITIES = ("latency", "size")


def is_recording(folder: Path) -> bool:
    """Tell whether the campaign in `folder` is a recording. Raises StoreError where there is none."""
    from iodyno.analysis.recording import is_recording
    from iodyno.store.manifest import no_campaign, read_header
    from iodyno.store.schema import CAMPAIGN

    if not (folder / CAMPAIGN).is_file():
        raise no_campaign(folder)
    return is_recording(read_header(folder))


def recorded(
    folder: Path,
    options: dict[str, Any],
    begin: float | None,
    end: float | None,
    *,
    most: int,
    maps_most: int,
    single: bool,
) -> list[tuple[str, OperationTimes]]:
    """Times of the operations asked for over all segments, with their titles, those with the most first."""
    if options["syscall"] is not None:
        return [_of_calls(folder, options, begin or 0.0, _or_inf(end), most)]
    recording, chosen = _chosen(folder, options, maps_most=inf if single else maps_most)
    found = [
        (f"{device}: {kind}, service time", recording.times(device, kind, most, begin or 0.0, _or_inf(end)))
        for device, kind in chosen
    ]
    found.sort(key=lambda each: -each[1].count)
    return found[:1] if single else found


def sizes(
    folder: Path,
    options: dict[str, Any],
    begin: float | None,
    end: float | None,
    *,
    most: int,
    maps_most: int,
) -> list[tuple[str, Grid]]:
    """Sizes of the operations asked for, with their titles."""
    for name in ("minus", "low", "high", "rows", "scale", "syscall"):
        if options[name] is not None:
            option = {"low": "min", "high": "max"}.get(name, name)
            raise ExperimentError("is an option of maps of latency", where=f"--{option}")
    recording, chosen = _chosen(folder, options, maps_most=maps_most)
    return [
        (f"{device}: {kind}, size", recording.sizes(device, kind, most, begin or 0.0, _or_inf(end)))
        for device, kind in chosen
    ]


def _of_calls(
    folder: Path, options: dict[str, Any], begin: float, end: float, most: int
) -> tuple[str, OperationTimes]:
    """Times of the system calls asked for, with their title. Raises ExperimentError, and StoreError where none is recorded."""
    from iodyno.analysis.recording import CALLS, Recording

    _refuse(options, _OF_LOADS, "of trials with a load, and this is a recording")
    _refuse(options, ("device", "operation"), "of block devices, and --syscall chooses calls")
    kind = options["syscall"]
    if kind not in CALLS:
        raise ExperimentError(
            invalid(kind, ", ".join(CALLS)), where="--syscall", advice=f"--syscall {CALLS[0]}"
        )
    recording = Recording(folder)
    tell_damaged(recording)
    there = recording.calls()
    if kind not in there:
        raise StoreError(
            f"no system call that does {kind} is recorded: there are {', '.join(there) or 'none'}",
            where=str(folder),
            advice="iodyno record --syscalls" if not there else f"--syscall {there[0]}",
        )
    return f"{kind} calls, from begin to end", recording.call_times(kind, most, begin, end)


def _refuse(options: dict[str, Any], names: Iterable[str], why: str) -> None:
    for name in names:
        if options[name] is not None:
            raise ExperimentError(f"is an option {why}", where=f"--{name}", advice=f"leave --{name} out")


def _or_inf(end: float | None) -> float:
    return inf if end is None else end


def _chosen(
    folder: Path, options: dict[str, Any], *, maps_most: float
) -> tuple[Recording, list[tuple[str, str]]]:
    """The recording, and devices with their kinds of operations: reads and writes where nobody says which."""
    from iodyno.analysis.recording import DATA, Recording

    _refuse(options, _OF_LOADS, "of trials with a load, and this is a recording")
    if options["quantity"] not in (None, *_QUANTITIES):
        raise ExperimentError(
            invalid(options["quantity"], " or ".join(_QUANTITIES)),
            where="--quantity",
            advice="--quantity size",
        )
    recording, asked = Recording(folder), options["operation"]
    tell_damaged(recording)
    kinds = {
        device: recording.operations(device)
        for device in recording.devices(filter(None, [options["device"]]))
    }
    known = sorted(set().union(*kinds.values()))
    if not known:
        raise StoreError(
            "no operation of a block device is recorded",
            where=str(folder),
            advice="iodyno report says what is; --device of the recorder may have named one that did nothing",
        )
    wanted = DATA if asked is None else (asked,)
    found = [(device, kind) for device, there in kinds.items() for kind in there if kind in wanted]
    if not found:
        raise ExperimentError(
            invalid(asked or ", ".join(DATA), ", ".join(known)),
            where="--operation",
            advice=f"--operation {known[0]}",
        )
    if len(found) > maps_most:
        raise ExperimentError(
            f"these are {len(found)} maps, and more than {maps_most} are no picture",
            where=str(folder),
            advice=f"--device {found[0][0]}",
        )
    return recording, found
