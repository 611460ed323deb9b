"""A sentence of a report as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

About = Literal[
    "decision",
    "placement",
    "search",
    "wall",
    "buffer",
    "fit",
    "beside",
    "cost",
    "times",
    "spread",
    "latency",
    "hidden",
    "change",
    "peak",
    "rate",
    "limiter",
    "more",
]
"""Topics of sentences: those that an experiment was made to settle, then those that every campaign has."""


@dataclass(frozen=True)
class Sentence:
    """One sentence, the single cases that it sums up, and what it is about. `title`: what the cases are called together.
    `decided`: False of a change that is undecided in every case. `caveat`: it says why there is no answer, and comes after any.
    """

    text: str
    details: tuple[str, ...] = ()
    about: About = "more"
    title: str = ""
    decided: bool = True
    caveat: bool = False

    @property
    def heading(self) -> str:
        """Heading of the single cases."""
        return self.title or f"each of the {len(self.details)} cases"
