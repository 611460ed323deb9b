"""The page cache of a volume's server: made for a trial what `server_cached` asks for, and looked at before and after the load.

A server that is to keep nothing is told so, and does not get rid of all that it reads: the kernel gives up no part of a large
folio, and a stream is read ahead in those. So the lab has all of the image given up before the streams come round.

What is in it is counted page by page (fincore(1)); whether the server read from its disk during the load is counted by the kernel
(sensor `roles`, `role.read_bytes`), and held against what the clients read when the trial is analysed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from iodyno.campaign.account import Account
from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import AccessError, TrialError
from iodyno.core.workload import Level
from iodyno.paths.volumes.volume import said_by

_CHUNK = 4 << 20
_LOOK_EVERY_S = 0.25
_GIVEN_UP_SHARE = 0.5
"""Of the image in the page cache from which on it is given up (chosen: streams that share it evenly are half round then, and what
had been read ahead for them, megabytes for each, is lost twice a round and not more often)."""


@contextlib.asynccontextmanager
async def prepared(testbed: Testbed, account: Account, settings: Mapping[str, Level]) -> AsyncIterator[None]:
    """Brings the server's image into its page cache, or out of it, and notes in the account what is there. Raises TrialError."""
    asked = str(settings.get("server_cached", "any"))
    image = None if testbed.volume is None else testbed.volume.image
    if asked == "any" or image is None:
        yield
        return
    try:
        await asyncio.to_thread(_read if asked == "yes" else _drop, image)
        facts = {
            "asked": asked,
            "size_bytes": image.stat().st_size,
            "resident_before_bytes": await _resident(image),
        }
    except (OSError, AccessError) as error:
        what = f"the page cache of the server cannot be made ready: {error}"
        raise TrialError(what, where=str(image), advice="leave server_cached out", code="target") from error
    for known in account.targets.values():
        known["server"] = facts
    keeping_out = asyncio.create_task(_keep_out(image)) if asked == "no" else None
    try:
        yield
    finally:
        if keeping_out is not None:
            keeping_out.cancel()
            await asyncio.gather(keeping_out, return_exceptions=True)
    with contextlib.suppress(AccessError):
        facts["resident_after_bytes"] = await _resident(image)


def _read(image: Path) -> None:
    # Twice: what was asked for once is what a machine whose page cache is full gives up first.
    for _ in range(2):
        with image.open("rb", buffering=0) as file:
            while file.read(_CHUNK):
                pass


def _drop(image: Path) -> None:
    with image.open("rb", buffering=0) as file:
        # What is not on disk yet cannot be given up (posix_fadvise(2)).
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


async def _keep_out(image: Path) -> None:
    """Has all of the image given up whenever much of it is there, until it is cancelled."""
    size_bytes = image.stat().st_size
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        if await _resident(image) > _GIVEN_UP_SHARE * size_bytes:
            await asyncio.to_thread(_drop, image)


async def _resident(image: Path) -> int:
    return int(await said_by("fincore", "--bytes", "--noheadings", "--output", "RES", str(image)))
