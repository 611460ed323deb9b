"""Parts of a page that nobody reads before opening them: the first ones stand in it as they are, the others lie in it compressed.

A campaign of many points has the same tables for each. Compressed they are a tenth, and the script puts each where it belongs as
soon as the page is shown; who reads without scripts has the first ones, and is told where the others are to be had.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field

ROOM_BYTES = {"functions": 60_000, "maps": 40_000, "evidence": 30_000, "outcomes": 60_000, "windows": 130_000}
"""Markup of each kind that stands in the page as it is (chosen: together a third of the 1.1 MB that a page may have)."""


@dataclass
class Aside:
    """The parts of a page that lie compressed in it, by their names."""

    room: dict[str, int] = field(default_factory=lambda: dict(ROOM_BYTES))
    parts: dict[str, str] = field(default_factory=dict)

    def __call__(self, kind: str, name: str, markup: str) -> bool:
        """Whether a part is put aside, because its kind has no room any more; once it is so, later ones of the kind are too."""
        self.room[kind] -= len(markup)
        if self.room[kind] >= 0:
            return False
        # Else a smaller part would stand between those that need the script.
        self.room[kind] = -1
        self.parts[f"{kind}-{name}"] = markup
        return True

    def packed(self) -> str:
        """All parts as JSON, compressed (zlib), in base64, which no symbol can break out of."""
        text = json.dumps(self.parts, ensure_ascii=False, separators=(",", ":"))
        return base64.b64encode(zlib.compress(text.encode(), 9)).decode()
