"""A file system of a client on its part of a network volume: what it makes files on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from iodyno.paths.volumes.volume import Place, Volume, program, said_by

_MAKING_S = 600.0
"""Its tables are written through the server: 2 % of the volume (chosen: 100 GiB over a slow disk)."""
_MAKERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    # All of it now: what is left for later would be written beside the load.
    "ext4": ("e2fsprogs", ("-q", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard")),
    "xfs": ("xfsprogs", ("-q", "-K")),
}
"""Package, and options of the command that makes it; one line a level of `file_system`."""


def unavailable(kind: str) -> str | None:
    """Why there is none of this kind; None: there may be."""
    return program("losetup", "mount") or program(f"mkfs.{kind}", _MAKERS[kind][0])


async def on(volume: Volume, part: Path, place: Place) -> Path:
    """Makes and mounts a file system on a client's part of a volume, which is a file; the folder. Raises AccessError.

    It is on a block device over that file, past the client's page cache of it: what the file system writes back goes to the
    server.
    """
    device = await said_by("losetup", "-f", "--show", "--direct-io=on", str(part))
    volume.note.add_loop(device)
    kind = place.file_system
    await said_by(f"mkfs.{kind}", *_MAKERS[kind][1], device, deadline_s=_MAKING_S)
    folder = part.with_name("files")
    folder.mkdir()
    volume.note.add("file_system", folder)
    await said_by("mount", "-t", kind, "-o", place.mount_options, device, str(folder))
    # As the kernel has it (proc_pid_mountinfo(5)): the last is what was mounted now.
    mounts = Path("/proc/self/mountinfo").read_text("utf-8")
    of_mount, own = re.findall(rf"^(?:\S+ ){{5}}(\S+) .*- {kind} {device} (\S+)$", mounts, re.MULTILINE)[-1]
    obtained = dict.fromkeys(f"{of_mount},{own}".split(","))
    volume.made |= {"file_system": kind, "mount_options": ",".join(obtained)}
    return folder
