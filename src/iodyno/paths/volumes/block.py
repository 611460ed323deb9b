"""Volumes of this machine alone: a file, and block devices over one."""

from __future__ import annotations

from pathlib import Path

from iodyno.core.errors import AccessError
from iodyno.paths.volumes.volume import Note, Place, Volume, as_root, make_file, program, said_by


def no_loop() -> str | None:
    """Why there is no loop device; None: there is."""
    if not Path("/dev/loop-control").exists():
        return "the kernel has no loop devices (modprobe loop)"
    return as_root() or program("losetup", "mount")


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
        note.add_loop(device)
        obtained = Path(f"/sys/block/{Path(device).name}/loop/dio").read_text(encoding="ascii").strip()
        if direct and obtained != "1":
            raise AccessError("the file system takes no direct reads and writes", where=str(image))
    except BaseException:
        note.undo()
        raise
    made = {"file": str(image), "direct_io": obtained == "1"}
    return Volume(level, Path(device), device=True, note=note, made=made)


def _image(level: str, place: Place) -> tuple[Note, Path]:
    note = Note(level, place.tag)
    folder = note.make_folder(place.folder)
    try:
        image = folder / "image"
        make_file(image, place.size_bytes)
    except BaseException:
        note.undo()
        raise
    return note, image
