"""The page cache of a volume's server: made for a trial what `server_cached` asks for, and looked at before and after the load.

What is in it is counted page by page (fincore(1)); whether the server read from its disk during the load is counted by the kernel
(sensor `roles`, `role.read_bytes`), and held against what the clients read when the trial is analysed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from iodyno.core.errors import AccessError, TrialError
from iodyno.core.workload import Level
from iodyno.paths.volumes.volume import said_by

if TYPE_CHECKING:
    from iodyno.campaign.rig import Rig
    from iodyno.campaign.trial import Account

_CHUNK = 4 << 20


@contextlib.asynccontextmanager
async def prepared(rig: Rig, account: Account, settings: Mapping[str, Level]) -> AsyncIterator[None]:
    """Brings the server's image into its page cache, or out of it, and notes in the account what is there. Raises TrialError."""
    asked = str(settings.get("server_cached", "any"))
    image = None if rig.volume is None else rig.volume.image
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
    yield
    with contextlib.suppress(AccessError):
        facts["resident_after_bytes"] = await _resident(image)


def _read(image: Path) -> None:
    # Twice: what was asked for once is what a machine whose page cache is full gives up first.
    for _ in range(2):
        with image.open("rb", buffering=0) as file:
            while file.read(_CHUNK):
                pass


def _drop(image: Path) -> None:
    descriptor = os.open(image, os.O_RDONLY)
    try:
        # What is not on disk yet cannot be given up (posix_fadvise(2)).
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


async def _resident(image: Path) -> int:
    return int(await said_by("fincore", "--bytes", "--noheadings", "--output", "RES", str(image)))
