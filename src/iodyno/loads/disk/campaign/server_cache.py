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
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iodyno.campaign.account import Account
from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import TrialError
from iodyno.core.workload import Level

if TYPE_CHECKING:
    import numpy as np

_LIBC, _POINTER = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p
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
        await asyncio.to_thread(pages.give_up, before & now)
        before = now


class _Pages:
    """The pages of a file that are in the page cache. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)
        try:
            self.size_bytes = os.fstat(self._file).st_size
            self._mapped = mmap.mmap(self._file, self.size_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
        except BaseException:
            os.close(self._file)
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._mapped.close()
        os.close(self._file)

    def resident(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return for each page whether it is there."""
        import numpy as np

        told = np.zeros(-(-self.size_bytes // mmap.PAGESIZE), np.uint8)
        begin = np.frombuffer(self._mapped, np.uint8).ctypes.data
        if _LIBC.mincore(
            ctypes.c_void_p(begin), ctypes.c_size_t(self.size_bytes), told.ctypes.data_as(_POINTER)
        ):
            raise OSError(ctypes.get_errno(), "mincore")
        return (told & 1).astype(bool)

    def resident_bytes(self) -> int:
        """Return how many bytes are there."""
        return min(int(self.resident().sum()) * mmap.PAGESIZE, self.size_bytes)

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

    def give_up(self, pages: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        """Have none of these pages there."""
        import numpy as np

        edges = np.flatnonzero(np.diff(np.concatenate(([False], pages, [False])))) * mmap.PAGESIZE
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            os.posix_fadvise(self._file, begin, end - begin, os.POSIX_FADV_DONTNEED)
