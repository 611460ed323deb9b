"""Hints shown when a pointer rests on a number: how its interval was made, mostly. Thousands of numbers share some hundred hints,
so each stands in the page once, and the script shows it; method section and downloads have the same without a script.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field


@dataclass
class Hints:
    """Hints of a page by number, in the order in which they were asked for."""

    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, hint: str) -> int:
        """The number of a hint."""
        return self.numbers.setdefault(hint, len(self.numbers))

    def packed(self) -> str:
        """All of them as JSON, compressed (zlib), in base64: many say nearly the same, so a twentieth is left of them."""
        text = json.dumps(list(self.numbers), ensure_ascii=False, separators=(",", ":"))
        return base64.b64encode(zlib.compress(text.encode(), 9)).decode()
