"""One factor at a time around a base point: what everybody can read, and what tells nothing of interactions.

Also the runs of a sensitivity sweep (Daniel 1973, "One-at-a-time plans"). The same number of trials in a fraction tells each
effect more sharply, as every trial then speaks of every factor.
"""

from __future__ import annotations

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.invalid import invalid
from iodyno.core.workload import Level
from iodyno.designs import ranges
from iodyno.designs.runs import Runs, of_levels


def points(experiment: Experiment) -> Runs:
    """The base point, then each factor's other levels. Raises ExperimentError."""
    base: dict[str, dict[str, Level]] = {}
    for factor in experiment.factors:
        level = experiment.design.base.get(factor.name, factor.levels[0])
        if level not in factor.levels:
            written = ranges.shown_level(experiment, factor.name, level)
            raise ExperimentError(
                invalid(written, f"a level of the factor ({ranges.shown(experiment, factor)})"),
                where=f"design.base.{factor.name}",
                advice="name a level that the file lists, or add it there",
            )
        base[factor.name] = ranges.at(factor, level)
    rows = [_joined(base)]
    for factor in experiment.factors:
        for index, level in enumerate(factor.levels):
            if level != base[factor.name][factor.name]:
                rows.append(_joined({**base, factor.name: factor.settings(index)}))
    return of_levels(rows)


def _joined(settings: dict[str, dict[str, Level]]) -> dict[str, Level]:
    return {name: level for entry in settings.values() for name, level in entry.items()}
