"""The factors of a campaign with their levels as people write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iodyno.analysis.dataset import Dataset
from iodyno.core.factor import parameter_of
from iodyno.core.script.parameters import workload_of_stored
from iodyno.core.workload import Level, Parameter


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
        found.append(_factor(dataset, name, _visited(dataset, name, levels), together))
    if searched := dataset.experiment.get("search"):
        name = searched["factor"]
        tried = {trial.levels[name] for trial in dataset.trials if name in trial.levels}
        levels = sorted(level for level in tried if isinstance(level, int))
        found.append(_factor(dataset, name, levels, ()))
    return tuple(found)


def _visited(dataset: Dataset, name: str, levels: Sequence[Level]) -> tuple[Level, ...]:
    """The levels of the experiment, and those that the design has besides, as at centre points; numbers then in order."""
    design = dataset.header.get("design") or {}
    points = [point.get("levels") or {} for point in design.get("points") or ()]
    besides = [at[name] for at in points if name in at and at[name] not in levels]
    every = dict.fromkeys([*levels, *besides])
    numbers = [level for level in every if isinstance(level, int) and not isinstance(level, bool)]
    return tuple(sorted(numbers)) if besides and len(numbers) == len(every) else tuple(every)


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
    workload = workload_of_stored(dataset.experiment.get("workload") or {})
    return parameter_of(workload, name)
