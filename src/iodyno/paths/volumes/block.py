"""Volumes of this machine alone: a file, block devices over a file, and one in memory."""

from __future__ import annotations

import contextlib
from pathlib import Path

from iodyno.core.errors import AccessError
from iodyno.paths.volumes.volume import Note, Place, Volume, as_root, make_file, program, said_by

_ZRAM = Path("/sys/class/zram-control/hot_add")


def no_loop() -> str | None:
    """Why there is no loop device; None: there is."""
    if not Path("/dev/loop-control").exists():
        return "the kernel has no loop devices (modprobe loop)"
    return as_root() or program("losetup", "mount")


def no_zram() -> str | None:
    """Why there is no block device in memory; None: there is."""
    return as_root() or (None if _ZRAM.exists() else "the kernel has no zram (modprobe zram)")


async def make_plain(place: Place) -> Volume:
    """A file."""
    note, image = _image("file", place)
    return Volume("file", image, device=False, note=note, made={"file": str(image)})


async def make_loop(place: Place) -> Volume:
    """A loop device over a file, with its page cache."""
    return await _loop("loop", place, direct=False)


async def make_loop_direct(place: Place) -> Volume:
    """A loop device whose file is read and written directly."""
    return await _loop("loop_direct", place, direct=True)


async def _loop(level: str, place: Place, *, direct: bool) -> Volume:
    note, image = _image(level, place)
    try:
        device = await said_by(
            "losetup", "-f", "--show", f"--direct-io={'on' if direct else 'off'}", str(image)
        )
        note.add("loop", device)
        obtained = Path(f"/sys/block/{Path(device).name}/loop/dio").read_text(encoding="ascii").strip()
        if direct and obtained != "1":
            raise AccessError("the file system takes no direct reads and writes", where=str(image))
    except BaseException:
        note.undo()
        raise
    made = {"file": str(image), "direct_io": obtained == "1"}
    return Volume(level, Path(device), device=True, note=note, made=made)


async def make_zram(place: Place) -> Volume:
    """A compressed block device in memory. What a read costs depends on what was written."""
    note = Note("zram", place.tag)
    try:
        number = _ZRAM.read_text(encoding="ascii").strip()
        note.add("zram", number)
        Path(f"/sys/block/zram{number}/disksize").write_text(str(place.size_bytes), encoding="ascii")
    except OSError as error:
        note.undo()
        raise AccessError(f"no block device in memory: {error}", where=str(_ZRAM)) from error
    algorithm = ""
    with contextlib.suppress(OSError):
        algorithm = Path(f"/sys/block/zram{number}/comp_algorithm").read_text(encoding="ascii").strip()
    return Volume("zram", Path(f"/dev/zram{number}"), device=True, note=note, made={"compression": algorithm})


def _image(level: str, place: Place) -> tuple[Note, Path]:
    note = Note(level, place.tag)
    folder = place.folder / note.name
    note.add("folder", folder)
    try:
        folder.mkdir(parents=True)
        image = folder / "image"
        make_file(image, place.size_bytes)
    except BaseException:
        note.undo()
        raise
    return note, image
