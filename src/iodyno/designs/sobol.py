"""Points of a Sobol sequence: spread more evenly than random ones, for a power of two of them.

Sobol 1967; direction numbers of Joe and Kuo 2008, as SciPy has them. The seed shifts the points (random digital
shift; L'Ecuyer and Lemieux 2002), which keeps them even. Only a power of two of them is balanced (Owen 2020, "On
dropping the first Sobol' point").
"""

from __future__ import annotations

import random

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.designs import latin_hypercube, ranges
from iodyno.designs.runs import Runs, of_levels

_BITS = 30
MOST_RUNS = 4096
"""Chosen: more trials than a week has."""


def points(experiment: Experiment) -> Runs:
    """The points. Raises ExperimentError."""
    spec, count = experiment.design, len(experiment.factors)
    if not experiment.factors:
        ranges.two_levels(experiment)
    if count > 30:
        raise ExperimentError(
            f"invalid value: {count} factors; expected 30 at most in the design sobol",
            where="factors",
            advice="leave some out",
        )
    runs = spec.runs or 1 << max(3, (latin_hypercube.RUNS_PER_FACTOR * count - 1).bit_length())
    if runs & (runs - 1) or not 2 <= runs <= MOST_RUNS:
        raise ExperimentError(
            f"invalid value: {runs} runs; expected a power of two, {MOST_RUNS} at most, in the design sobol",
            where="design.runs",
            advice=f"runs: {min(MOST_RUNS, 1 << max(1, (runs - 1).bit_length()))}",
        )
    return of_levels(latin_hypercube.spread(experiment, shares(count, runs, spec.seed)))


def shares(count: int, runs: int, seed: int) -> list[list[float]]:
    """The points, each value a share of its factor's range, 0 to below 1."""
    from scipy.stats import qmc  # slow to import, and few need it

    source = random.Random(seed)
    shifts = [int(source.random() * 2**_BITS) for _ in range(count)]
    sample = qmc.Sobol(count, scramble=False, bits=_BITS).random(runs)
    return [
        [((int(value * 2**_BITS) ^ shift) + 0.5) / 2**_BITS for value, shift in zip(row, shifts, strict=True)]
        for row in sample.tolist()
    ]
