"""Factors: what is varied, and the levels it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from iodyno.core.workload import Level


@dataclass(frozen=True)
class Factor:
    """A parameter of the workload that is varied.

    `together` holds parameters that are set along with each level and not varied on their own: one level of
    each for every level of the factor.
    """

    name: str
    levels: tuple[Level, ...]
    together: Mapping[str, tuple[Level, ...]] = field(default_factory=dict)

    def settings(self, index: int) -> dict[str, Level]:
        """What level number `index` sets."""
        return {self.name: self.levels[index]} | {
            name: levels[index] for name, levels in self.together.items()
        }
