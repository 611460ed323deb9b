"""A ramp: the levels of one factor in order, up, down, or up and down again, for each combination of the others. The order of
numbers is theirs, that of words the file's.

For loads that remember what was before (caches, backlogs, power states), and to see a wall approached. Up and down
again tells that memory (hysteresis). A drift in time falls on the ramp's effect: more than one ramp, or both
directions, tell them apart.
"""

from __future__ import annotations

import itertools

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.factor import Factor
from iodyno.core.workload import Level
from iodyno.designs import ranges
from iodyno.designs.runs import Group, Runs, of_levels


def points(experiment: Experiment) -> Runs:
    """A group for each ramp, in the order of its levels. Raises ExperimentError."""
    spec = experiment.design
    along = _along(experiment)
    rising = sorted(along.levels, key=int) if all(map(ranges.is_number, along.levels)) else along.levels
    others = [factor for factor in experiment.factors if factor is not along]
    rows: list[dict[str, Level]] = []
    groups: list[Group] = []
    for chosen in itertools.product(*(range(len(factor.levels)) for factor in others)):
        fixed = {f.name: f.settings(index) for f, index in zip(others, chosen, strict=True)}
        first = len(rows)
        for level in rising:
            row: dict[str, Level] = {}
            for factor in experiment.factors:
                row |= ranges.at(along, level) if factor is along else fixed[factor.name]
            rows.append(row)
        ramp = tuple(range(first, len(rows)))
        down = tuple(reversed(ramp))
        # The top is visited once: it is the end of the way up and the begin of the way down.
        groups.append({"up": ramp, "down": down, "up_down": ramp + down[1:]}[spec.direction])
    return Runs(of_levels(rows).points, (tuple(groups),), ordered_inside=True)


def _along(experiment: Experiment) -> Factor:
    named = experiment.design.along
    numbers = [f for f in ranges.varied(experiment) if all(map(ranges.is_number, f.levels))]
    if named is not None:
        factor = next(f for f in experiment.factors if f.name == named)
        if factor not in ranges.varied(experiment):
            raise ExperimentError(
                f"invalid value: {named} with {ranges.shown(experiment, factor)}; expected a factor "
                "with two or more levels",
                where="design.along",
                advice="name a factor that varies",
            )
        return factor
    if len(numbers) != 1:
        names = ", ".join(factor.name for factor in numbers) or "none"
        raise ExperimentError(
            f"nothing says which factor makes the ramp, and {len(numbers)} have numbers ({names}); expected along",
            where="design",
            advice=f"along: {numbers[0].name}" if numbers else "give a factor two or more numbers",
        )
    return numbers[0]
