"""A network block device: nbdkit serves a file, over TCP."""

from __future__ import annotations

from iodyno.paths.volumes import server
from iodyno.paths.volumes.server import Export
from iodyno.paths.volumes.volume import Place, Volume, program, start, wait_until

PORT = 10809
"""Assigned to NBD by IANA."""


def unavailable() -> str | None:
    """Why there is none; None: there is."""
    return server.unavailable() or program("nbdkit", "nbdkit")


async def make(place: Place) -> Volume:
    """Makes the server and its client."""
    return await server.make("nbd", place, _serve)


async def _serve(volume: Volume, place: Place, export: Export) -> str:
    command = ["nbdkit", "-f", "-i", export.address, "-p", str(PORT), "file", str(export.image)]
    if place.keeps_nothing:
        # It gives up what it has read from the page cache with posix_fadvise, and what it wrote when that is on disk
        # (nbdkit-file-plugin(1)).
        command.append("cache=none")
    process = await start(volume.note, command, namespace=export.namespace, log=export.log)
    server.add(volume, process)
    await wait_until(lambda: server.listens(process.pid, PORT), process, "nbdkit", export.log)
    return f"driver=nbd,server.type=inet,server.host={export.address},server.port={PORT}"
