"""Size that a file of this machine has for a load: all of it, or what was laid out before the stamp behind its content."""

from __future__ import annotations

import json
from pathlib import Path

_BLOCK_BYTES = 4096
_MAGIC = b"iodyno working set "
"""Prefix of the last whole block of a file that was laid out (`agent/storage/src/targets/stamp.rs`)."""


def content_bytes(path: Path) -> int | None:
    """Bytes for a load, of a foreign file in whole blocks; None: there is no file, or it cannot be read.

    What cannot be read, or is too small, is refused where the target is made ready.
    """
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            blocks = file.seek(0, 2) // _BLOCK_BYTES
            file.seek(max(blocks - 1, 0) * _BLOCK_BYTES)
            line = file.read(_BLOCK_BYTES).partition(b"\n")[0]
        if line.startswith(_MAGIC):
            return int(json.loads(line[len(_MAGIC) :])["size_bytes"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return max(blocks, 1) * _BLOCK_BYTES
