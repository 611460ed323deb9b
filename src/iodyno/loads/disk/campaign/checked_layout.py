"""A working set whose blocks carry checks, for loads that write or read them: written once by the agents themselves, and never
again while it is there, as it is what a load with checks is to look at.

The checks are the agent's (`agent/core/src/disk.rs`, "Verify"): one for each aligned unit, made with a seed that all jobs
with checks share. That all units have one is noted in the stamp of a file (`agent/storage/src/targets/checked.rs`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from iodyno.campaign.account import Account
from iodyno.campaign.testbed import Testbed
from iodyno.campaign.trial import carry_out
from iodyno.core.errors import PreflightError, TrialError
from iodyno.core.experiment import Windows
from iodyno.core.workload import Level
from iodyno.hosts.target import Checks, TargetKeeper
from iodyno.loads.disk.campaign.jobs import CHECK_SEED, block_of, writes
from iodyno.loads.disk.core.parameters import kind_of, paths_of

_CHUNK_BYTES = 1 << 20
_SECTOR_BYTES = 512
"""The agent's unit where blocks are drawn and nothing is said (`Disk::alignment`)."""
_WINDOWS = Windows(warm_up_ns=0, measured_ns=3600 * 10**9, drain_ns=0, interval_ns=10**9)
"""An hour at most (chosen: a terabyte at the rate of a slow disk takes longer, and is not checked block by block); the
job ends with its last block."""
_CALM = (
    "rate",
    "arrivals",
    "random",
    "in_order",
    "stride",
    "theta",
    "sync_every",
    "clients",
    "read",
    "cached",
    "precondition",
    "think",
    "think_every",
    "operations",
    "device_limit",
    "quota",
)

Settings = list[dict[str, Level]]


def parts_of(settings: Settings) -> dict[tuple[Level | None, Level | None], Checks]:
    """The part of each target (its setting, its volume) that is to carry checks, whose index is that of its first file.

    Targets are left out that no load with checks uses, and those that are only written and where checks would not stay:
    units differ, or something is written without. Where they are read, both raise PreflightError.
    """
    found = {}
    for target in dict.fromkeys((point.get("target"), point.get("volume")) for point in settings):
        mine = [point for point in settings if (point.get("target"), point.get("volume")) == target]
        checked = [
            point
            for point in mine
            if point.get("verify", "off") != "off" and point.get("pattern") != "append"
        ]
        if not checked:
            continue
        units = {_unit_of(point) for point in checked}
        plain = any(writes(point) for point in mine if point not in checked)
        if any(point["verify"] == "read" for point in checked):
            _refuse(checked, units, plain)
        begins = {int(point.get("offset", 0)) for point in checked}
        lengths = {int(point.get("working_set", 0)) for point in checked}
        unit = min(units)
        if len(units) == 1 and not plain and len({begin % unit for begin in begins}) == 1 and min(lengths):
            end = max(int(point.get("offset", 0)) + int(point.get("working_set", 0)) for point in checked)
            begin = min(begins)
            # What is left of a unit at the end is in no block.
            found[target] = Checks(begin, (end - begin) // unit * unit, unit, CHECK_SEED)
    return found


def _unit_of(point: Mapping[str, Level]) -> int:
    greatest, drawn = block_of(point)
    return int(point.get("align", greatest if drawn is None else min(_SECTOR_BYTES, greatest)))


def _refuse(checked: Settings, units: set[int], plain: bool) -> None:
    """Raises PreflightError where blocks that are read would not have the checks that are expected."""
    if len(units) > 1:
        raise PreflightError(
            f"blocks that carry checks have units of {', '.join(map(str, sorted(units)))} bytes in one experiment",
            where="verify",
            advice="set `align` to the least of them, so that all points have one unit",
        )
    if plain:
        raise PreflightError(
            "blocks that one point reads and checks are written without checks by another",
            where="verify",
            advice="set `verify` to `write` where it is off, or give the points targets of their own",
        )
    if any(not point.get("working_set") for point in checked):
        raise PreflightError(
            "blocks that carry checks need a working set", where="verify", advice="set `working_set`"
        )
    (unit,) = units
    if len({int(point.get("offset", 0)) % unit for point in checked}) > 1:
        raise PreflightError(
            f"blocks that carry checks begin at offsets that are not whole units of {unit} bytes apart",
            where="verify",
            advice="set `offset` to multiples of the unit, which is `align` or else the block",
        )


async def write_checks(testbed: Testbed, settings: Settings, say: Callable[[str], None]) -> None:
    """Writes every block of the working sets with its check, where loads with checks use them and they have none yet. Raises
    PreflightError and AccessError.
    """
    for (target, volume), part in parts_of(settings).items():
        point = next(
            each
            for each in settings
            if (each.get("target"), each.get("volume")) == (target, volume)
            and each.get("verify", "off") != "off"
        )
        bare, kept = _without(testbed, None if volume is not None else str(target))
        for place in kept:
            say(f"{place} holds blocks with checks of an earlier run, which are kept and not written again")
        if bare:
            say(
                f"writing {part.length_bytes >> 20} MiB of blocks with checks, as there are none of"
                f" {part.unit_bytes} bytes yet"
            )
            await _write(_of_hosts(testbed, bare), point, part)
            await _mark(testbed, bare, str(target), part)


def _without(testbed: Testbed, target: str | None) -> tuple[list[str], list[str]]:
    """The hosts whose target has no checks yet, and the places of the others. Several files of a host are one working set."""
    bare, kept = [], []
    for host in testbed.experiment.workload.hosts:
        places = [] if target is None else [testbed.place_of(host, path) for path in paths_of(target, host)]
        if places and all(testbed.targets.get(place, {}).get("checked") for place in places):
            kept += places
        else:
            bare.append(host)
    # Hosts may share a file.
    return bare, list(dict.fromkeys(kept))


def _of_hosts(testbed: Testbed, hosts: list[str]) -> Testbed:
    """The testbed with a load on these hosts alone: what the others have stays as it is."""
    found = copy.copy(testbed)
    workload = replace(testbed.experiment.workload, hosts=tuple(hosts))
    found.experiment = replace(testbed.experiment, workload=workload)
    return found


async def _write(testbed: Testbed, point: Mapping[str, Level], part: Checks) -> None:
    unit, length = part.unit_bytes, part.length_bytes
    block = max(unit, min(_CHUNK_BYTES, length) // unit * unit)
    # What is left behind the last whole chunk is written in blocks of a unit.
    whole, rest = divmod(length, block)
    paths = paths_of(str(point["target"])) if point.get("target") else [""]
    begin = part.offset_bytes
    for start, size, count in ((begin, block, whole), (begin + whole * block, unit, rest // unit)):
        if not count:
            continue
        own = {"offset": start, "working_set": size * count, "block": size, "operations": count * len(paths)}
        # From the begin to the end: so a device whose last blocks have checks has all of them.
        await write_in_order(testbed, "checks", point, {**own, "verify": "write", "align": unit})


async def write_in_order(
    testbed: Testbed, name: str, point: Mapping[str, Level], own: Mapping[str, Level]
) -> None:
    """Writes to the targets of a point, one operation after the other. `own`: settings that are not the point's. Raises
    PreflightError.
    """
    plain: dict[str, Any] = {
        **{name: level for name, level in point.items() if name not in _CALM},
        "pattern": "sequential",
        "sequence": "split",
        "read": 0,
        "workers": 1,
        "queue_depth": 1,
        "batch": 1,
        "sync": "none",
        "cached": "any",
        **own,
    }
    try:
        await testbed.in_time(
            lambda _: carry_out(testbed, name, plain, _WINDOWS, Account(), lambda host, record: None)
        )
    except TrialError as error:
        raise PreflightError(error.what, where=error.where, advice=error.advice) from error


async def _mark(testbed: Testbed, hosts: list[str], target: str, part: Checks) -> None:
    """Notes in the stamps of the files that their blocks carry checks now."""
    done: set[str] = set()
    for host in hosts:
        paths = paths_of(target, host)
        places = [testbed.place_of(host, path) for path in paths]
        files = [
            (number, path)
            for number, (path, place) in enumerate(zip(paths, places, strict=True))
            if kind_of(path) == "file" and place in testbed.targets and place not in done
        ]
        done |= set(places)
        if not files:
            continue
        async with await TargetKeeper.start(testbed.hosts.accesses[host], testbed.program) as keeper:
            for number, path in files:
                await keeper.mark(path, replace(part, target=number))
