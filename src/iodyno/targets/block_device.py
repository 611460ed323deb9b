"""Block devices of this machine: which one lies under a file, how long one is, and who uses it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iodyno.targets.signatures import signature_of

_NO_MOUNT: tuple[str, str | None, str] = ("", None, "")
"""Mount point, file system and source."""
_IN_MEMORY = ("tmpfs", "ramfs", "hugetlbfs", "devtmpfs")


@dataclass(frozen=True)
class Under:
    """What a target lies on: the device's name as the kernel counts it, None where there is none; its file system."""

    device: str | None
    file_system: str | None

    @property
    def in_memory(self) -> bool:
        """Whether it is memory and nothing else."""
        return self.device is None and self.file_system in _IN_MEMORY


def under(path: str) -> Under:
    """What the file, or the device, is on. Raises OSError."""
    found = Path(path).stat()
    if stat.S_ISBLK(found.st_mode):
        return Under(name_of(found.st_rdev), None)
    return Under(name_of(found.st_dev) or _mounted_from(path), _mount_of(path)[0])


def name_of(device: int) -> str | None:
    """The kernel's name of a device number; None: it is no block device (a file system in memory or on a network)."""
    link = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    return link.resolve().name if link.exists() else None


def size_bytes(path: str) -> int:
    """Length of a block device. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    finally:
        os.close(descriptor)


def users(path: str) -> list[str]:
    """Who has the device in use now: mounts, swap, other devices made of it. Raises OSError."""
    number = Path(path).stat().st_rdev
    names = [name_of(number) or Path(os.path.realpath(path)).name]
    names += list(_partitions(names[0]))
    found = []
    for name in names:
        of = "" if name == names[0] else f"its partition {name} "
        found += [f"{of}is mounted at {place}" for place in _mounts(name)]
        found += [f"{of}is swap space in use" for _ in _swaps(name)]
        holders = Path(f"/sys/class/block/{name}/holders")
        held = sorted(entry.name for entry in holders.iterdir()) if holders.is_dir() else []
        found += [f"{of}is held by {holder}" for holder in held]
    if not found and not _free(path):
        found.append(
            "is in use: the kernel does not give it to anybody alone (a mount elsewhere, a RAID, a volume)"
        )
    return found


def content(path: str) -> list[str]:
    """What lies on the device: partitions, a file system, a volume. Raises OSError."""
    found = []
    name = name_of(Path(path).stat().st_rdev)
    parts = list(_partitions(name)) if name else []
    if parts:
        found.append(f"has the partitions {', '.join(parts)}")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        length = os.lseek(descriptor, 0, os.SEEK_END)
        signature = signature_of(lambda offset, count: os.pread(descriptor, count, offset), length)
    finally:
        os.close(descriptor)
    if signature:
        found.append(f"holds {signature}")
    return found


def _partitions(name: str) -> Iterator[str]:
    folder = Path(f"/sys/class/block/{name}")
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        if (entry / "partition").is_file():
            yield entry.name


def _mounts(name: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        number = Path(f"/sys/class/block/{name}/dev").read_text(encoding="ascii").strip()
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            fields = line.split()
            source = fields[fields.index("-") + 2] if "-" in fields[:-2] else ""
            if fields[2] == number or os.path.realpath(source) == f"/dev/{name}":
                yield fields[4]


def _swaps(name: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for line in Path("/proc/swaps").read_text(encoding="utf-8", errors="replace").splitlines()[1:]:
            if Path(os.path.realpath(line.split()[0])).name == name:
                yield name


def _free(path: str) -> bool:
    """Whether the kernel gives the device to one user alone (open(2), O_EXCL without O_CREAT)."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def _mount_of(path: str) -> tuple[str | None, str]:
    """File system and source of the mount that the path is on: of the longest mount point above it."""
    real, best = os.path.realpath(path), _NO_MOUNT
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            fields = line.split()
            point = fields[4].encode().decode("unicode_escape", errors="replace")
            above = real == point or real.startswith(point.rstrip("/") + "/")
            if above and len(point) >= len(best[0]) and "-" in fields:
                dash = fields.index("-")
                best = (point, fields[dash + 1], fields[dash + 2])
    return best[1], best[2]


def _mounted_from(path: str) -> str | None:
    """The device that a file system names as its source, where its files have a number of their own (btrfs)."""
    source = _mount_of(path)[1]
    if not source.startswith("/dev/"):
        return None
    try:
        return name_of(Path(source).stat().st_rdev)
    except OSError:
        return None
