"""The end of a trial: what was collected is put on the disk, while the agents go on hearing of the lab."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iodyno.store.writer import TrialWriter


async def sealed(writer: TrialWriter, manifest: Mapping[str, Any]) -> Path:
    """The folder of the trial once it is whole.

    A disk may take longer than agents wait for a lab that is silent. When the campaign is stopped meanwhile, the trial is put
    away to its end all the same. Raises StoreError.
    """
    sealing = asyncio.ensure_future(asyncio.to_thread(writer.seal, manifest))
    try:
        return await asyncio.shield(sealing)
    except asyncio.CancelledError:
        await asyncio.wait({sealing})
        raise
