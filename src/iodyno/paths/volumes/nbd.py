"""A network block device: nbdkit serves a file, over TCP."""

from __future__ import annotations

import asyncio
import mmap
import os
import time
from pathlib import Path

from iodyno.core.errors import AccessError
from iodyno.core.volume import SERVER
from iodyno.paths.volumes import server
from iodyno.paths.volumes.server import Export
from iodyno.paths.volumes.volume import READY_S, Place, Volume, end, program, start, wait_until

PORT = 10809
"""Assigned to NBD by IANA."""
NS_PER_MS = 1_000_000
_AGAIN_S = 0.05
_RECONNECT_S = 2
"""Time for which the work that a client has in flight waits for a server that has ended, which may be started again (chosen:
many times what that takes)."""


def unavailable() -> str | None:
    """Why there is none; None: there is."""
    return server.unavailable() or program("nbdkit", "nbdkit")


async def make(place: Place) -> Volume:
    """Makes the server and its client."""
    return await server.make("nbd", place, _serve)


async def _serve(volume: Volume, place: Place, export: Export) -> str:
    async def start_again(delay_ns: int) -> None:
        for process in volume.processes.get(SERVER, []):
            await end(process, ask=False)
        # The role stays, so that a server which does not start again is missed.
        volume.processes[SERVER] = []
        await _start(volume, place, export, delay_ns)
        # Part of a volume with file systems is below one of them; another client's answer is as good.
        for target in [] if place.with_files else [volume.target_of(name) for name in place.clients]:
            await asyncio.to_thread(_until_it_answers, target)

    await _start(volume, place, export, 0)
    volume.slow_down = start_again
    # A client whose server is started again comes back, and what it had in flight is done anew.
    return (
        f"driver=nbd,server.type=inet,server.host={export.address},server.port={PORT},"
        f"reconnect-delay={_RECONNECT_S}"
    )


async def _start(volume: Volume, place: Place, export: Export, delay_ns: int) -> None:
    command = ["nbdkit", "-f", "-i", export.address, "-p", str(PORT)]
    command += ["--filter=delay"] if delay_ns else []
    command += ["file", str(export.image)]
    if place.keeps_nothing:
        # It gives up what it has read from the page cache with posix_fadvise, and what it wrote when that is on disk
        # (nbdkit-file-plugin(1)).
        command.append("cache=none")
    if delay_ns:
        # Whole milliseconds are what the filter knows (nbdkit-delay-filter(1)).
        each = f"{delay_ns // NS_PER_MS}ms"
        command += [f"rdelay={each}", f"wdelay={each}"]
    process = await start(volume.note, command, namespace=export.namespace, log=export.log)
    server.add(volume, process)
    await wait_until(lambda: server.listens(process.pid, PORT), process, "nbdkit", export.log)


def _until_it_answers(target: Path) -> None:
    """Reads a block bypassing the page cache until that goes well. Raises AccessError."""
    until = time.monotonic() + READY_S
    with mmap.mmap(-1, 4096) as block:
        while True:
            try:
                descriptor = os.open(target, os.O_RDONLY | os.O_DIRECT)
                try:
                    os.preadv(descriptor, [block], 0)
                    return
                finally:
                    os.close(descriptor)
            except OSError as error:
                if time.monotonic() > until:
                    what = f"the client does not come back to a server that was started again: {error}"
                    raise AccessError(what, where=str(target)) from error
                time.sleep(_AGAIN_S)
