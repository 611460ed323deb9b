"""The page cache of a volume's server: made for a trial what `server_cached` asks for, and looked at before and after the load.

While a load runs that is to be uncached, what is read is given up (`page_cache.py`). A server that keeps nothing of what it reads
needs it too: the kernel gives up no part of a large folio, and a stream is read ahead in those.

What is in it is counted page by page (mincore(2)); whether the server read from its disk during the load is counted by the kernel
(sensor `roles`, `role.read_bytes`), and held against what the clients read when the trial is analysed.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from iodyno.campaign.account import Account
from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import TrialError
from iodyno.core.workload import Level
from iodyno.loads.disk.campaign import page_cache


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
            pages = opened.enter_context(contextlib.closing(page_cache.Pages(image)))
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
        async with _kept_out(image) if asked == "no" else contextlib.nullcontext():
            yield
        with contextlib.suppress(OSError):
            facts["resident_after_bytes"] = await asyncio.to_thread(pages.resident_bytes)


@contextlib.asynccontextmanager
async def _kept_out(image: Path) -> AsyncIterator[None]:
    """Keeps the image out of the page cache meanwhile."""
    program = (sys.executable, "-I", "-S", page_cache.__file__, str(image))
    process = await asyncio.create_subprocess_exec(*program, stdin=asyncio.subprocess.PIPE)
    try:
        yield
    finally:
        await process.communicate(b"")
