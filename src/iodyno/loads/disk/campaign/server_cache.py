"""The page cache of a volume's server: made for a trial what `server_cached` asks for, and looked at before and after the load.

While a load runs that is to be uncached, what is in it at two looks in a row is given up: what streams had read ahead for them is
read by then, and no stream comes round so soon. A server that keeps nothing of what it reads needs it too: the kernel
gives up no part of a large folio, and a stream is read ahead in those.

What is in it is counted page by page (mincore(2)); whether the server read from its disk during the load is counted by the kernel
(sensor `roles`, `role.read_bytes`), and held against what the clients read when the trial is analysed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import mmap
import os
import re
from collections.abc import AsyncIterator, Mapping
from functools import reduce
from operator import and_
from pathlib import Path

from iodyno.campaign.account import Account
from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import TrialError
from iodyno.core.workload import Level

_LIBC = ctypes.CDLL(None, use_errno=True)
_LEAST_BIT = bytes(value & 1 for value in range(256))
"""Of what mincore(2) says of a page; the others are reserved."""
_CHUNK = 4 << 20
_LOOK_EVERY_S = 0.4
"""Chosen: a look takes 10 ms of a CPU for each GiB of the image, and what was read at random counts as uncached only as long as
little of it is there."""


@contextlib.asynccontextmanager
async def held(testbed: Testbed, account: Account, settings: Mapping[str, Level]) -> AsyncIterator[None]:
    """Brings the server's image into its page cache, or keeps it out, and notes what is there. Raises TrialError."""
    asked = str(settings.get("server_cached", "any"))
    image = None if testbed.volume is None else testbed.volume.image
    if asked == "any" or image is None:
        yield
        return
    with contextlib.ExitStack() as opened:
        try:
            pages = opened.enter_context(contextlib.closing(_Pages(image)))
            await asyncio.to_thread(pages.read if asked == "yes" else pages.give_all_up)
            facts = {
                "asked": asked,
                "size_bytes": pages.size_bytes,
                "resident_before_bytes": await asyncio.to_thread(pages.resident_bytes),
            }
        except OSError as error:
            what = f"the page cache of the server cannot be made ready: {error}"
            raise TrialError(
                what, where=str(image), advice="leave server_cached out", code="target"
            ) from error
        for host in testbed.experiment.workload.hosts:
            account.targets.setdefault(host, {})["server"] = facts
        over = asyncio.Event()
        keeping_out = asyncio.create_task(_keep_out(pages, over)) if asked == "no" else None
        try:
            yield
        finally:
            over.set()
            if keeping_out is not None:
                await asyncio.gather(keeping_out, return_exceptions=True)
        with contextlib.suppress(OSError):
            facts["resident_after_bytes"] = await asyncio.to_thread(pages.resident_bytes)


async def _keep_out(pages: _Pages, over: asyncio.Event) -> None:
    """Has given up what is there at two looks in a row, until it is `over`."""
    before = await asyncio.to_thread(pages.resident)
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), _LOOK_EVERY_S)
            return
        now = await asyncio.to_thread(pages.resident)
        await asyncio.to_thread(pages.give_up, before, now)
        before = now


class _Pages:
    """The pages of a file that are in the page cache. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)
        try:
            self.size_bytes = os.fstat(self._file).st_size
            # A copy, of which no page is ever made: what is mapped for reading alone has no address in Python.
            self._mapped = mmap.mmap(self._file, self.size_bytes, access=mmap.ACCESS_COPY)
            self._begin = ctypes.c_char.from_buffer(self._mapped)
        except BaseException:
            os.close(self._file)
            raise

    def close(self) -> None:
        """Let go of the file."""
        del self._begin
        self._mapped.close()
        os.close(self._file)

    def resident(self) -> bytes:
        """Return for each page whether it is there: 1, or 0."""
        told = (ctypes.c_ubyte * -(-self.size_bytes // mmap.PAGESIZE))()
        if _LIBC.mincore(ctypes.byref(self._begin), ctypes.c_size_t(self.size_bytes), told):
            raise OSError(ctypes.get_errno(), "mincore")
        return bytes(told).translate(_LEAST_BIT)

    def resident_bytes(self) -> int:
        """Return how many bytes are there."""
        return min(self.resident().count(1) * mmap.PAGESIZE, self.size_bytes)

    def read(self) -> None:
        """Bring all of it there."""
        # Twice: what was asked for once is what a machine whose page cache is full gives up first.
        for _ in range(2):
            for place in range(0, self.size_bytes, _CHUNK):
                os.pread(self._file, _CHUNK, place)

    def give_all_up(self) -> None:
        """Have none of it there."""
        # What is not on disk yet cannot be given up (posix_fadvise(2)).
        os.fsync(self._file)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def give_up(self, *looks: bytes) -> None:
        """Have none of the pages there that were at each of these looks."""
        every = reduce(and_, (int.from_bytes(look, "little") for look in looks)).to_bytes(
            len(looks[0]), "little"
        )
        for found in re.finditer(b"\x01+", every):
            begin, end = (place * mmap.PAGESIZE for place in found.span())
            os.posix_fadvise(self._file, begin, end - begin, os.POSIX_FADV_DONTNEED)
