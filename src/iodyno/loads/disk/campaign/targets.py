"""The targets of a load on disks, made ready before the first trial: each once, by an agent on the machine where it is."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from iodyno.campaign.testbed import Testbed, together
from iodyno.core.design import Design
from iodyno.core.errors import PreflightError
from iodyno.core.experiment import Experiment
from iodyno.core.workload import Level
from iodyno.hosts.target import Checks, Progress, Ready, TargetKeeper, Wanted
from iodyno.loads.disk.campaign import checked_layout
from iodyno.loads.disk.campaign.jobs import writes
from iodyno.loads.disk.core.parameters import kind_of, paths_of

SAID_EVERY_S = 1.0
"""Between two words about a layout (chosen: a line that moves, and no flood of lines in a log)."""

Say = Callable[[str], None]


def refuse_at_once(experiment: Experiment, design: Design) -> None:
    """Raises PreflightError, before hosts are opened, for a local target that no load can have."""
    for host in experiment.workload.hosts:
        if experiment.hosts[host].access not in ("local", "netns"):
            continue
        for point in design.points:
            target = str(
                experiment.workload.settings_of(host, experiment.settings(point.levels)).get("target", "")
            )
            for path in paths_of(target, host) if target else ():
                wrong = _no_target(Path(path), kind_of(path))
                if wrong:
                    raise PreflightError(wrong[0], where=path, advice=wrong[1])


def _no_target(path: Path, kind: str) -> tuple[str, str] | None:
    """Say why what is there is no target of this kind, and what to try; None: an agent is to look."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    if kind == "device" and not stat.S_ISBLK(mode):
        return "is no block device", "name a file that is not in /dev, or a block device"
    if kind == "file" and stat.S_ISDIR(mode):
        return "is a folder", "name a file, which is made where it is not there, or a device in /dev"
    return None


async def make_ready(
    testbed: Testbed, settings: list[dict[str, Level]], destroy: Collection[str], say: Say
) -> dict[str, dict[str, Any]]:
    """Makes every target of these points ready; what is known of each, by its place. Raises PreflightError, AccessError."""
    if testbed.volume is not None:
        # Made by the lab for this campaign: nothing on it is anybody's.
        hosts = testbed.experiment.workload.hosts
        paths = dict.fromkeys(str(testbed.volume.target_of(host)) for host in hosts)
        async with await TargetKeeper.start(testbed.hosts.accesses[hosts[0]], testbed.program) as keeper:
            return {path: asdict(await keeper.see(path)) for path in paths}
    uncached = any(point.get("cached") == "no" for point in settings)
    found: dict[str, dict[str, Any]] = {}

    async def on_machine(asked: dict[str, list[Wanted]]) -> None:
        # One host after the other: they may use the same files.
        for host, targets in asked.items():
            async with await TargetKeeper.start(testbed.hosts.accesses[host], testbed.program) as keeper:
                for wanted in targets:
                    _check_cached(wanted, settings)
                    place = testbed.place_of(host, wanted.path)
                    given = replace(wanted, destroy=wanted.path in destroy)
                    ready = await keeper.make_ready(given, _progress(place, say))
                    found[place] = asdict(ready)
                    if ready.in_memory and uncached:
                        raise _in_memory(place, ready)

    if machines := _by_machine(testbed, settings):
        await together(map(on_machine, machines))
    return found


async def remove(testbed: Testbed, settings: list[dict[str, Level]]) -> list[str]:
    """Removes the files that were laid out; their places. Raises PreflightError, AccessError."""
    # What was there before and belongs to somebody else stays.
    ours = {
        place for place, known in testbed.targets.items() if known["action"] in ("made", "reused", "rebuilt")
    }
    removed = []
    for asked in _by_machine(testbed, settings):
        for host, targets in asked.items():
            async with await TargetKeeper.start(testbed.hosts.accesses[host], testbed.program) as keeper:
                for wanted in targets:
                    place = testbed.place_of(host, wanted.path)
                    if kind_of(wanted.path) == "file" and place in ours and await keeper.remove(wanted.path):
                        removed.append(place)
    return removed


def _by_machine(testbed: Testbed, settings: list[dict[str, Level]]) -> list[dict[str, list[Wanted]]]:
    """For each machine the hosts that have targets there, and which; of hosts on the lab's machine, each path once."""
    machines: dict[str, dict[str, list[Wanted]]] = {}
    merged: dict[str, tuple[str, Wanted]] = {}
    parts = checked_layout.parts_of(settings)
    for host in testbed.experiment.workload.hosts:
        if testbed.experiment.hosts[host].access == "simulated":
            continue
        points_of_host = (testbed.experiment.workload.settings_of(host, point) for point in settings)
        for point in points_of_host:
            for number, path in enumerate(paths_of(str(point["target"]), host) if "target" in point else ()):
                if kind_of(path) != "null":
                    place = testbed.place_of(host, path)
                    first, before = merged.get(place, (host, None))
                    part = parts.get((point["target"], point.get("volume")))
                    checks = part and replace(part, target=number)
                    merged[place] = (first, _wanted(path, point, before, checks))
    for host, wanted in merged.values():
        boot = testbed.sessions[host].hello["host"]["boot_id"] or host
        machine = "" if testbed.on_this_machine(host) else boot
        machines.setdefault(machine, {}).setdefault(host, []).append(wanted)
    return list(machines.values())


def _wanted(path: str, point: dict[str, Level], before: Wanted | None, checks: Checks | None) -> Wanted:
    """Return the demands on a target of a point and of those before it."""
    end = point.get("working_set")
    size = None if end is None else int(end) + int(point.get("offset", 0))
    appends = point.get("pattern") == "append"
    if before is None:
        return Wanted(path, size, writes(point), appends, checks=checks)
    if appends != before.appends:
        raise PreflightError(
            "is appended to at one point of the experiment, and used otherwise at another",
            where=path,
            advice="give the points targets of their own: target of `together` with pattern",
        )
    sizes = [each for each in (before.size_bytes, size) if each is not None]
    # One file under two names of targets has the checks of none for sure.
    both = checks if checks == before.checks else None
    return Wanted(path, max(sizes, default=None), before.writes or writes(point), appends, checks=both)


def _check_cached(wanted: Wanted, settings: list[dict[str, Level]]) -> None:
    if wanted.size_bytes is None and any(point.get("cached") == "yes" for point in settings):
        raise PreflightError(
            "is to be read into the page cache, and has no working set",
            where=wanted.path,
            advice="say how much of it is used: working_set",
        )


def _in_memory(place: str, ready: Ready) -> PreflightError:
    return PreflightError(
        f"lies in memory ({ready.file_system}), and cannot be read uncached",
        where=place,
        advice="name a file on a disk, or leave `cached: no` out",
    )


def _progress(place: str, say: Say) -> Progress:
    """Says now and then how far the layout is, and how long the rest will take."""
    began_s = said_s = time.monotonic()

    def on_progress(done: int, whole: int) -> None:
        nonlocal said_s
        now_s = time.monotonic()
        if now_s - said_s < SAID_EVERY_S:
            return
        said_s = now_s
        left_s = (now_s - began_s) * (whole - done) / done if done else 0.0
        say(f"laying out {place}: {done / whole:.0%} of {whole >> 20} MiB, {left_s:.0f} s left")

    return on_progress
