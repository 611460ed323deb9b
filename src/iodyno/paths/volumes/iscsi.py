"""iSCSI: a target of tgt over a file, over TCP."""

from __future__ import annotations

import asyncio

from iodyno.paths.volumes import daemon, server
from iodyno.paths.volumes.server import Export
from iodyno.paths.volumes.volume import Place, Volume, program, said_by, start, wait_until

PORT = 3260
"""Assigned to iSCSI by IANA."""
NAME = "iqn.2026-01.iodyno:disk"


def unavailable() -> str | None:
    """Why there is none; None: there is."""
    if why := server.unavailable() or program("tgtd", "tgt"):
        return why
    return (
        None
        if (daemon.BLOCKS / "block-iscsi.so").exists()
        else "no iSCSI client (Debian: apt-get install qemu-block-extra)"
    )


async def make(place: Place) -> Volume:
    """Makes the target and its client."""
    return await server.make("iscsi", place, _serve)


async def _serve(volume: Volume, place: Place, export: Export) -> str:
    control = str(server.unique_number())
    command = ["tgtd", "-f", "-C", control, "--iscsi", f"portal={export.address}:{PORT}"]
    process = await start(volume.note, command, namespace=export.namespace, log=export.log)
    server.add(volume, process)
    await wait_until(lambda: server.listens(process.pid, PORT), process, "tgtd", export.log)
    admin = ("tgtadm", "-C", control, "--lld", "iscsi", "--tid", "1")
    # It listens before it takes commands.
    await asyncio.sleep(0.1)
    await said_by(*admin, "--op", "new", "--mode", "target", "-T", NAME)
    await said_by(*admin, "--op", "new", "--mode", "logicalunit", "--lun", "1", "-b", str(export.image))
    await said_by(*admin, "--op", "bind", "--mode", "target", "-I", "ALL")
    return f"driver=iscsi,transport=tcp,portal={export.address}:{PORT},target={NAME},lun=1"
