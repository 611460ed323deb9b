"""Files that were laid out for a load, as tests look at them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_STAMP_BYTES = 4096
_MAGIC = b"iodyno working set "


def stamp_of(path: Path) -> dict[str, Any] | None:
    """What a file that was laid out says of itself, in the block behind its content; None: it says nothing."""
    content = path.stat().st_size - _STAMP_BYTES
    if content < 0:
        return None
    with path.open("rb") as file:
        file.seek(content // _STAMP_BYTES * _STAMP_BYTES)
        line = file.read(_STAMP_BYTES).partition(b"\n")[0]
    return dict(json.loads(line[len(_MAGIC) :])) if line.startswith(_MAGIC) else None
