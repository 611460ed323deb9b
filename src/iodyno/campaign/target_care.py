"""The targets of a load on disks, made ready before the first trial: each once, on the machine where it is.

On the lab's own machine the lab looks at them and lays files out (`iodyno.targets`). On another machine the agent opens what
is there: a file that is missing or too short is its error, and a device is used only when it is named to be destroyed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

from iodyno.campaign.disk_job import writes
from iodyno.campaign.rig import Rig
from iodyno.core.disk_parameters import is_device, kind_of, paths_of
from iodyno.core.errors import PreflightError
from iodyno.core.workload import Level
from iodyno.targets import care, layout

SAID_EVERY_S = 1.0
"""Between two words about a layout (chosen: a line that moves, and no flood of lines in a log)."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """A target on one machine, with the most that any point asks of it."""

    path: str
    size_bytes: int | None
    writes: bool
    appends: bool = False


async def make_ready(
    rig: Rig, settings: list[dict[str, Level]], destroy: Collection[str], say: Say
) -> dict[str, dict[str, Any]]:
    """Makes every target of these points ready; what is known of each, by path. Raises PreflightError."""
    found: dict[str, dict[str, Any]] = {}
    if rig.volume is not None:
        # Made by the lab for this campaign: nothing on it is anybody's.
        paths = {str(rig.volume.target_of(host)) for host in rig.experiment.workload.hosts}
        return {path: asdict(await asyncio.to_thread(care.seen, path)) for path in paths}
    for wanted in _wanted(rig, settings, here=True):
        if kind_of(wanted.path) == "null":
            continue
        _check_cached(wanted, settings)
        ready = asdict(await _in_thread(wanted, wanted.path in destroy, say))
        found[wanted.path] = ready
        if ready["in_memory"] and any(point.get("cached") == "no" for point in settings):
            raise PreflightError(
                f"lies in memory ({ready['file_system']}), and cannot be read uncached",
                where=wanted.path,
                advice="name a file on a disk, or leave `cached: no` out",
            )
    for wanted in _wanted(rig, settings, here=False):
        if is_device(wanted.path) and wanted.path not in destroy:
            raise PreflightError(
                "is a device of another machine, whose content the lab does not look at",
                where=wanted.path,
                advice=f"look at it there, then give its content up with --destroy {wanted.path}",
            )
    return found


def remove(rig: Rig, settings: list[dict[str, Level]]) -> list[str]:
    """Removes the files that were laid out here; their paths. Raises PreflightError."""
    files = [w.path for w in _wanted(rig, settings, here=True) if kind_of(w.path) == "file"]
    return [path for path in files if layout.stamp_exists(path) and layout.remove(path)]


def _wanted(rig: Rig, settings: list[dict[str, Level]], *, here: bool) -> list[Wanted]:
    found: dict[str, Wanted] = {}
    for host in rig.experiment.workload.hosts:
        if rig.on_this_machine(host) != here or rig.experiment.hosts[host].access == "simulated":
            continue
        told = (rig.experiment.workload.settings_of(host, point) for point in settings)
        for point, path in (
            (each, path) for each in told if "target" in each for path in paths_of(str(each["target"]), host)
        ):
            end = point.get("working_set")
            size = None if end is None else int(end) + int(point.get("offset", 0))
            before = found.get(path, Wanted(path, None, False))
            sizes = [each for each in (before.size_bytes, size) if each is not None]
            appends = point.get("pattern") == "append"
            if path in found and appends != before.appends:
                raise PreflightError(
                    "is appended to at one point of the experiment, and used otherwise at another",
                    where=path,
                    advice="give the points targets of their own: target of `together` with pattern",
                )
            found[path] = Wanted(path, max(sizes, default=None), before.writes or writes(point), appends)
    return list(found.values())


def _check_cached(wanted: Wanted, settings: list[dict[str, Level]]) -> None:
    if wanted.size_bytes is None and any(point.get("cached") == "yes" for point in settings):
        raise PreflightError(
            "is to be read into the page cache, and has no working set",
            where=wanted.path,
            advice="say how much of it is used: working_set",
        )


async def _in_thread(wanted: Wanted, destroy: bool, say: Say) -> care.Ready:
    """The work of a layout, in a thread that stops when this task is cancelled."""
    stop = threading.Event()
    loop, said, began_s = asyncio.get_running_loop(), [time.monotonic()], time.monotonic()

    def progress(done: int, whole: int) -> None:
        now_s = time.monotonic()
        if now_s - said[0] < SAID_EVERY_S:
            return
        said[0] = now_s
        left_s = (now_s - began_s) * (whole - done) / done if done else 0.0
        text = f"laying out {wanted.path}: {done / whole:.0%} of {whole >> 20} MiB, {left_s:.0f} s left"
        loop.call_soon_threadsafe(say, text)

    work = asyncio.ensure_future(
        asyncio.to_thread(
            care.make_ready,
            wanted.path,
            wanted.size_bytes,
            writes=wanted.writes,
            appends=wanted.appends,
            destroy=destroy,
            progress=progress,
            stopped=stop.is_set,
        )
    )
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([work])
        raise
