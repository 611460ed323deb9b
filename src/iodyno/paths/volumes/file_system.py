"""A file system of a client on its part of a network volume: what it makes files on."""

from __future__ import annotations

from pathlib import Path

from iodyno.paths.volumes.volume import Volume, program, said_by

KIND = "ext4"
_MAKING_S = 600.0
"""Its tables are written through the server: 2 % of the volume (chosen: 100 GiB over a slow disk)."""


def unavailable() -> str | None:
    """Why there is none; None: there may be."""
    return program("losetup", "mount") or program(f"mkfs.{KIND}", "e2fsprogs")


async def on(volume: Volume, part: Path) -> Path:
    """Makes and mounts a file system on a client's part of a volume, which is a file; the folder. Raises AccessError.

    It is on a block device over that file, past the client's page cache of it: what the file system writes back goes to the
    server.
    """
    device = await said_by("losetup", "-f", "--show", "--direct-io=on", str(part))
    volume.note.add_loop(device)
    # All of it now: what is left for later would be written beside the load.
    await said_by(
        f"mkfs.{KIND}",
        "-q",
        "-E",
        "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
        device,
        deadline_s=_MAKING_S,
    )
    folder = part.with_name("files")
    folder.mkdir()
    volume.note.add("file_system", folder)
    # As over a protocol for files: what is made, written or removed is with the server when the call returns. Else the page
    # cache of the client would have it all, and a file that is soon removed would never leave it.
    await said_by("mount", "-t", KIND, "-o", "sync,dirsync,noatime", device, str(folder))
    return folder
