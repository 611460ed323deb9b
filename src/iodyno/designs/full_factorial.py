"""The full factorial design: every combination of the factors' levels.

Montgomery, Design and Analysis of Experiments, chapter 5. The first factor of the file changes slowest. With `split`, each
replicate is divided into blocks by confounding (there, chapter 7): of factors at two levels, a replicate in two
parts is two complete half-fractions in time.
"""

from __future__ import annotations

import itertools

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.quantity import counted
from iodyno.core.workload import Level
from iodyno.designs import fractional, ranges, two_level
from iodyno.designs.runs import Runs, of_levels


def points(experiment: Experiment) -> Runs:
    """Every combination once, named p01, p02, ... in the order of the file; one point without levels for no factor."""
    if experiment.design.split > 1:
        for factor in experiment.factors:
            if len(factor.levels) > 2:
                raise ExperimentError(
                    f"invalid value: {counted(len(factor.levels), 'level')} ({ranges.shown(experiment, factor)}); "
                    "expected two to split replicates",
                    where=f"factors.{factor.name}",
                    advice="leave split out: each replicate is a block then",
                )
        return fractional.runs_of(experiment, two_level.full(len(experiment.factors)))
    choices = [
        [factor.settings(index) for index in range(len(factor.levels))] for factor in experiment.factors
    ]
    combinations: list[dict[str, Level]] = []
    for chosen in itertools.product(*choices):
        levels: dict[str, Level] = {}
        for settings in chosen:
            levels |= settings
        combinations.append(levels)
    return of_levels(combinations)
