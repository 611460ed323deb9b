"""Fewer operations a second than a block device could do, for some processes and for a time: by a control group.

The kernel holds requests of the group back before they are queued (blk-throttle; Documentation/admin-guide:
blkio-controller.rst of cgroup-v1, `io.max` in cgroup-v2.rst). What is written through the page cache is written back by
threads of the kernel, which are not held back in version 1.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from iodyno import run_folder

GROUPS = Path("/sys/fs/cgroup")
_NAME = "iodyno-throttle-"
_VERSION_1 = ("read", "write")


def unavailable() -> str | None:
    """Why no device can be throttled here; None: it can."""
    if os.geteuid() != 0:
        return "iodyno does not run as root"
    return None if _version() else "the kernel has no control groups that throttle devices (blkio, io)"


@contextlib.contextmanager
def throttled(device: str, operations_per_s: int, processes: Sequence[int]) -> Iterator[dict[str, object]]:
    """Holds the processes, with all their threads, to so many reads and so many writes per second of the device (`loop0`).

    Gives what is in force, read back. Raises OSError.
    """
    version = _version()
    if version is None:
        raise OSError("no control group throttles devices here")
    number = (Path("/sys/class/block") / device / "dev").read_text(encoding="ascii").strip()
    parent = _parent(version)
    group = parent / f"{_NAME}{run_folder.maker()}-{device}"
    came_from = {process: (run_folder.maker(process), _group_of(process, version)) for process in processes}
    if version == 2:
        (parent / "cgroup.subtree_control").write_text("+io", encoding="ascii")
    group.mkdir()
    try:
        if version == 1:
            files = [group / f"blkio.throttle.{kind}_iops_device" for kind in _VERSION_1]
            for file in files:
                file.write_text(f"{number} {operations_per_s}", encoding="ascii")
        else:
            files = [group / "io.max"]
            files[0].write_text(
                f"{number} riops={operations_per_s} wiops={operations_per_s}", encoding="ascii"
            )
        for process in processes:
            (group / "cgroup.procs").write_text(str(process), encoding="ascii")
        obtained = min(int(found) for file in files for found in _limits(file, number))
        yield {"device": device, "asked_operations_per_s": operations_per_s, "obtained": obtained}
    finally:
        for process, (identity, origin) in came_from.items():
            # It may have ended, and its number may be another's.
            if run_folder.maker(process) != identity:
                continue
            with contextlib.suppress(OSError):
                (parent / origin / "cgroup.procs").write_text(str(process), encoding="ascii")
        with contextlib.suppress(OSError):
            group.rmdir()


def _limits(file: Path, number: str) -> list[str]:
    """The limits of a device that a file of the group has."""
    found = []
    for line in file.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{number} "):
            found += re.findall(r"\b(?:[rw]iops=)?(\d+)\b", line.removeprefix(number))
    if not found:
        raise OSError(f"{file}: the limit is not in force")
    return found


def _version() -> int | None:
    """Version of the control groups that throttle devices."""
    if (GROUPS / "blkio" / "blkio.throttle.read_iops_device").exists():
        return 1
    with contextlib.suppress(OSError):
        if "io" in (GROUPS / "cgroup.controllers").read_text(encoding="ascii").split():
            return 2
    return None


def _group_of(process: int, version: int) -> str:
    """Return the group of a process, below the controller's folder (cgroups(7))."""
    for line in Path(f"/proc/{process}/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if "blkio" in controllers.split(",") if version == 1 else controllers == "":
            return path.lstrip("/")
    return ""


def _parent(version: int) -> Path:
    """Return the folder in which groups that throttle devices are made."""
    return GROUPS / "blkio" if version == 1 else GROUPS


def remove_leftovers() -> None:
    """Removes groups of labs that were killed; one that still holds a process stays."""
    if (version := _version()) is None:
        return
    for group in _parent(version).glob(f"{_NAME}*"):
        if run_folder.is_gone(group.name.removeprefix(_NAME)):
            with contextlib.suppress(OSError):
                group.rmdir()
