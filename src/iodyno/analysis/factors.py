"""The factors of a campaign with their levels as people write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from iodyno.analysis.dataset import Dataset
from iodyno.core.factor import VARIANT, parameter_of
from iodyno.core.warnings import Warning, WarningCode
from iodyno.core.workload import Level, Parameter
from iodyno.loads.base.workloads import workload_of_stored

_ONE_ORDER = 0.95


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
        """True where it has more than one level."""
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


def moving_together(
    factors: Sequence[FactorLevels], points: Sequence[Mapping[str, Level]]
) -> Iterator[Warning]:
    """A warning for each two settings that change together over the points of a campaign: what is set together with a factor, and
    two factors of which one follows the other (words that come in pairs, numbers in one order: ranks with a correlation of 0.95
    or more, chosen). A variant is a name for settings that change together, and none is told of it."""
    varying = [factor for factor in factors if factor.varies and factor.name != VARIANT]
    pairs = [(factor.name, name) for factor in varying for name in factor.together]
    pairs += [(a.name, b.name) for a, b in combinations(varying, 2) if _follow(a, b, points)]
    for one, other in pairs:
        if len({point.get(other) for point in points}) > 1:
            names = " and ".join(name.replace("_", " ") for name in (one, other))
            text = f"{names} change together: what either does by itself cannot be told"
            yield Warning(WarningCode.FACTORS_TOGETHER, text)


def _follow(one: FactorLevels, other: FactorLevels, points: Sequence[Mapping[str, Level]]) -> bool:
    pairs = {(point[one.name], point[other.name]) for point in points if {one.name, other.name} <= set(point)}
    firsts, seconds = {a for a, _ in pairs}, {b for _, b in pairs}
    if min(len(firsts), len(seconds)) < 2:
        return False
    if not (one.numeric and other.numeric):
        return len(pairs) == len(firsts) == len(seconds) < len(points)
    ranks = np.array([[sorted(firsts).index(a), sorted(seconds).index(b)] for a, b in pairs], dtype=float)
    return len(pairs) > 1 and abs(float(np.corrcoef(ranks.T)[0, 1])) >= _ONE_ORDER


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
