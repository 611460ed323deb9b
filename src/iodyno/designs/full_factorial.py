"""The full factorial design: every combination of the factors' levels.

Montgomery, Design and Analysis of Experiments, chapter 5. The first factor of the file changes slowest.
"""

from __future__ import annotations

import itertools

from iodyno.core.design import Point
from iodyno.core.experiment import Experiment
from iodyno.core.workload import Level


def points(experiment: Experiment) -> tuple[Point, ...]:
    """Every point, named p01, p02, ... in the order of the file; one point without levels for no factor."""
    choices = [
        [factor.settings(index) for index in range(len(factor.levels))] for factor in experiment.factors
    ]
    combinations: list[dict[str, Level]] = []
    for chosen in itertools.product(*choices):
        levels: dict[str, Level] = {}
        for settings in chosen:
            levels |= settings
        combinations.append(levels)
    digits = max(2, len(str(len(combinations))))
    return tuple(Point(f"p{number:0{digits}}", levels) for number, levels in enumerate(combinations, start=1))
