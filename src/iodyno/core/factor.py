"""Factors: what is varied, and the levels it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from iodyno.core.tunable import tunable_of
from iodyno.core.workload import Level, Parameter, Workload


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
        """Return the settings of level number `index`."""
        return {self.name: self.levels[index]} | {
            name: levels[index] for name, levels in self.together.items()
        }


VARIANT = "variant"
"""A factor that is nothing but a name for each of its levels: what a level means stands in `together`."""


def parameter_of(workload: Workload | None, name: str) -> Parameter | None:
    """Return the parameter of the workload, or tunable of a host, that a factor or a setting is named after."""
    return (workload.parameter(name) if workload else None) or tunable_of(name)


def named_by_variant(factors: Iterable[Factor]) -> frozenset[str]:
    """Return the names that the name of a variant stands for, and that need not be said beside it."""
    return frozenset(name for factor in factors if factor.name == VARIANT for name in factor.together)
