"""The client of network volumes: a daemon that speaks a protocol and serves what it finds as one file (FUSE).

QEMU's storage daemon takes every protocol here, so that levels differ in the protocol and in nothing else; the level
`daemon` has a local file instead of a protocol, and tells what the client costs by itself.
"""

from __future__ import annotations

from pathlib import Path

from iodyno.core.errors import AccessError
from iodyno.core.volume import CLIENT_DAEMON
from iodyno.paths.volumes.volume import Note, Place, Volume, as_root, make_file, program, start, wait_until

BLOCKS = Path("/usr/lib/x86_64-linux-gnu/qemu")
PROGRAM = "qemu-storage-daemon"


def unavailable() -> str | None:
    """Why there is no client daemon; None: there is."""
    if not Path("/dev/fuse").exists():
        return "the kernel has no FUSE (modprobe fuse)"
    return as_root() or program(PROGRAM, "qemu-system-common qemu-block-extra")


async def make(place: Place) -> Volume:
    """A local file served by the daemon."""
    note = Note("daemon", place.tag)
    folder = place.folder / note.name
    note.add("folder", folder)
    try:
        folder.mkdir(parents=True)
        image = folder / "image"
        make_file(image, place.size_bytes)
        volume = Volume("daemon", folder / "target", device=False, note=note, made={"file": str(image)})
        await attach(
            volume, place, folder, f"driver=file,filename={_quoted(image)},cache.direct=on,aio=threads"
        )
    except BaseException:
        note.undo()
        raise
    return volume


async def attach(volume: Volume, place: Place, folder: Path, block: str) -> None:
    """Starts the daemon on a block device of QEMU (`driver=...`); `volume.target` is then its file. Raises AccessError."""
    log, target = folder / "client.log", volume.target
    target.touch()
    volume.note.add("mount", target)
    command = [
        *(PROGRAM, "--blockdev", f"node-name=disk,{block}"),
        *("--export", f"type=fuse,id=export,node-name=disk,mountpoint={_quoted(target)},writable=on"),
    ]
    process = await start(
        volume.note, command, namespace=place.client_namespace, cpus=place.client_cpus, log=log
    )
    volume.processes.setdefault(CLIENT_DAEMON, []).append(process)
    before = folder.stat().st_dev
    await wait_until(lambda: _mounted(target, before), process, PROGRAM, log)
    found = target.stat().st_size
    if found < place.size_bytes:
        raise AccessError(f"the volume has {found} bytes, asked for {place.size_bytes}", where=str(target))


def _mounted(target: Path, device: int) -> bool:
    try:
        return target.stat().st_dev != device
    except OSError:
        return False


def _quoted(path: Path) -> str:
    """A path in an option of QEMU, where a comma is written twice."""
    return str(path).replace(",", ",,")
