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
    folder = note.make_folder(place.folder)
    try:
        image = folder / "image"
        make_file(image, place.size_bytes)
        volume = Volume("daemon", folder / "target", device=False, note=note, made={"file": str(image)})
        block = f"driver=file,filename={_quoted(image)},cache.direct=on,aio=threads"
        await attach(volume, place, target=volume.target, namespace=_only(place), block=block)
    except BaseException:
        note.undo()
        raise
    return volume


async def attach(volume: Volume, place: Place, *, target: Path, namespace: str | None, block: str) -> None:
    """Starts a daemon on a block device of QEMU (`driver=...`), which `target` is then a file of. Raises AccessError."""
    log = target.with_name("client.log")
    target.touch()
    volume.note.add("mount", target)
    command = [
        *(PROGRAM, "--blockdev", f"node-name=disk,{block}"),
        *("--export", f"type=fuse,id=export,node-name=disk,mountpoint={_quoted(target)},writable=on"),
    ]
    process = await start(volume.note, command, namespace=namespace, log=log)
    volume.processes.setdefault(CLIENT_DAEMON, []).append(process)
    before = target.parent.stat().st_dev
    await wait_until(lambda: _mounted(target, before), process, PROGRAM, log)
    found = target.stat().st_size
    if found < place.size_bytes:
        raise AccessError(f"the volume has {found} bytes, asked for {place.size_bytes}", where=str(target))


def part_of(block: str, number: int, size_bytes: int) -> str:
    """One client's part of a block device of QEMU that all of them share, from its number on.

    >>> part_of("driver=nbd,server.host=a", 1, 4096)
    'driver=raw,offset=4096,size=4096,file.driver=nbd,file.server.host=a'
    """
    below = ",".join(f"file.{option}" for option in block.split(","))
    return f"driver=raw,offset={number * size_bytes},size={size_bytes},{below}"


def _only(place: Place) -> str | None:
    """The namespace of the first client."""
    return next(iter(place.clients.values()))


def _mounted(target: Path, device: int) -> bool:
    try:
        return target.stat().st_dev != device
    except OSError:
        return False


def _quoted(path: Path) -> str:
    """A path in an option of QEMU, where a comma is written twice."""
    return str(path).replace(",", ",,")
