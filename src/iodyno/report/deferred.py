"""Parts of a page that nobody reads before opening them: they stand in it as they are as long as it has room for them.

Who reads without scripts has all of a page that is not too large. In a large one the numbers come first, then the pictures that
begin closed; what finds no room lies in it compressed to a tenth, and the script puts each part where it belongs as soon as the
page is shown.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

PAGE_BYTES = 1_350_000
"""Size limit of a page (chosen: a tenth below the 1.5 MB that a report of fifty trials is to stay in)."""
ORDER = ("outcomes", "evidence", "windows", "maps", "functions", "graphs", "panels")
"""Kinds of parts in the order in which they get room: numbers before pictures."""
_COMPRESSED = 0.15
"""Size of a part as it lies in a page, as a share of its bytes (measured: 0.08 to 0.14)."""
_MORE = 1.2
"""Bytes of room that are taken back for each that a page has become too large by all the same (chosen: compressed, a byte
takes a part of one)."""
_LEAST = 20_000
"""Less room than that is none (chosen: a part or two)."""


@dataclass
class Deferred:
    """Parts of a page that lie compressed in it. `room`: bytes of each kind that stand in it as they are; None: all do."""

    room: dict[str, int] | None = None
    sizes: Counter[str] = field(default_factory=Counter)
    parts: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, int, bool]] = field(default_factory=list)

    def fits(self, kind: str, size: int) -> bool:
        """Tell whether a part of so many bytes stands in the page; once its kind has no room, later ones do not either."""
        self.sizes[kind] += size
        found = self.room is None or _has_room(self.room, kind, size)
        self.asked.append((kind, size, found))
        return found

    def is_same_with(self, room: Mapping[str, int]) -> bool:
        """Tell whether the page would be the same with this room: then the same parts of it fit."""
        left = dict(room)
        return all(_has_room(left, kind, size) == fitted for kind, size, fitted in self.asked)

    def __call__(self, kind: str, name: str, markup: str) -> bool:
        """Put a part aside where it has no room; return True if so."""
        if self.fits(kind, len(markup)):
            return False
        self.parts[f"{kind}-{name}"] = markup
        return True

    def packed(self) -> str:
        """All parts as JSON, compressed (zlib), in base64, which no symbol can break out of."""
        text = json.dumps(self.parts, ensure_ascii=False, separators=(",", ":"))
        return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _has_room(room: dict[str, int], kind: str, size: int) -> bool:
    """Take so many bytes of the room of a kind; tell whether it had them."""
    room[kind] -= size
    if room[kind] >= 0:
        return True
    # Else a smaller part would stand between those that need the script.
    room[kind] = -1
    return False


def fitted(rendered: Callable[[Deferred], str]) -> str:
    """The page that `rendered` makes, with as many of its parts as it has room for standing in it as they are."""
    last = whole = Deferred()
    page = rendered(whole)
    every: float = whole.sizes.total()
    left, room = every, PAGE_BYTES - (len(page.encode()) - every) - _COMPRESSED * every
    while (over := len(page.encode()) - PAGE_BYTES) > 0 and left:
        # What a part takes in the page is known only when it stands there.
        left = min(left - _MORE * over, room)
        left = left if left > _LEAST else 0.0
        rooms = _rooms(left, whole.sizes)
        if not last.is_same_with(rooms):
            last = Deferred(rooms)
            page = rendered(last)
    return page


def _rooms(left: float, sizes: Mapping[str, int]) -> dict[str, int]:
    """So many bytes handed out to the kinds in their order."""
    rooms = {}
    for kind in ORDER:
        rooms[kind] = int(min(max(left, 0.0), sizes.get(kind, 0)))
        left -= rooms[kind]
    return rooms
