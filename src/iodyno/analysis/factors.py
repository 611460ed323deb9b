"""The factors of a campaign with their levels as people write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iodyno.analysis.dataset import Dataset
from iodyno.core.workload import WORKLOADS, Level, Parameter


@dataclass(frozen=True)
class FactorLevels:
    """A factor, its levels in the order of the experiment, and what is set together with it."""

    name: str
    levels: tuple[Level, ...]
    together: tuple[str, ...]
    help: str
    numeric: bool

    @property
    def varies(self) -> bool:
        """Whether it has more than one level."""
        return len(self.levels) > 1


def factors_of(dataset: Dataset) -> tuple[FactorLevels, ...]:
    """The factors as the campaign recorded them; of an older campaign, whatever varies over its points."""
    recorded = dataset.experiment.get("factors") or ()
    pairs = (
        [(name, factor) for name, factor in recorded.items()]
        if isinstance(recorded, Mapping)
        else [(factor["name"], factor) for factor in recorded]
    )
    found = []
    for name, factor in pairs:
        levels = factor["levels"] if isinstance(factor, Mapping) else factor
        together = tuple(factor.get("together") or ()) if isinstance(factor, Mapping) else ()
        found.append(_factor(dataset, name, tuple(dict.fromkeys(levels)), together))
    return tuple(found)


def labels_of(dataset: Dataset, levels: Mapping[str, Level]) -> dict[str, str]:
    """Levels as people write them."""
    return {name: label(dataset, name, level) for name, level in levels.items()}


def label(dataset: Dataset, name: str, level: Level) -> str:
    """A level of a parameter as people write it."""
    parameter = _parameter(dataset, name)
    return parameter.show(level) if parameter else str(level)


def _factor(dataset: Dataset, name: str, levels: Sequence[Level], together: tuple[str, ...]) -> FactorLevels:
    parameter = _parameter(dataset, name)
    numeric = all(isinstance(level, int) and not isinstance(level, bool) for level in levels)
    return FactorLevels(name, tuple(levels), together, parameter.help if parameter else "", numeric)


def _parameter(dataset: Dataset, name: str) -> Parameter | None:
    workload = WORKLOADS.get(str((dataset.experiment.get("workload") or {}).get("kind", "stream")))
    return workload.parameter(name) if workload else None
