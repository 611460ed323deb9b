"""What a pointer resting on a number is told: how its interval was made, mostly. Thousands of numbers share some hundred hints,
so each stands in the page once, and the script shows it; method section and downloads have the same without a script."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from markupsafe import Markup


@dataclass
class Hints:
    """Hints of a page by number, in the order in which they were asked for."""

    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, hint: str) -> int:
        """The number of a hint."""
        return self.numbers.setdefault(hint, len(self.numbers))

    def listed(self) -> Markup:
        """All of them as JSON that cannot end the element it stands in."""
        return Markup(json.dumps(list(self.numbers), ensure_ascii=False).replace("<", "\\u003c"))
