"""Latin hypercubes: each factor's range has as many strata as there are points, and every stratum has one point.

McKay, Beckman and Conover 1979, "A comparison of three methods for selecting values of input variables"; of several random ones,
that whose nearest two points are farthest apart (maximin; Johnson, Moore and Ylvisaker 1990). Words take turns evenly.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.workload import Level
from iodyno.designs import ranges
from iodyno.designs.runs import Runs, of_levels

TRIES = 40
"""Random hypercubes among which the best is taken (chosen: more gain little for tens of points)."""
RUNS_PER_FACTOR = 10
"""Points for each factor where the file does not say how many (Loeppky, Sacks and Welch 2009)."""
MOST_RUNS = 500
"""Chosen: the search for the best of them takes a second."""


def points(experiment: Experiment) -> Runs:
    """The points, in the middle of their strata. Raises ExperimentError."""
    spec, count = experiment.design, len(experiment.factors)
    if not experiment.factors:
        ranges.two_levels(experiment)
    runs = spec.runs or RUNS_PER_FACTOR * count
    if not 2 <= runs <= MOST_RUNS:
        raise ExperimentError(
            f"invalid value: {runs} runs; expected 2 to {MOST_RUNS} in the design latin_hypercube",
            where="design.runs",
            advice=f"runs: {RUNS_PER_FACTOR * count}",
        )
    return of_levels(spread(experiment, shares(count, runs, spec.seed)))


def shares(count: int, runs: int, seed: int) -> list[list[float]]:
    """The best hypercube, each value a share of its factor's range: the middle of a stratum."""
    source = random.Random(seed)
    best: tuple[float, list[list[float]]] | None = None
    for _ in range(TRIES):
        columns = []
        for _ in range(count):
            sample = [source.random() for _ in range(runs)]
            columns.append(sorted(range(runs), key=sample.__getitem__))
        distance = _least_distance(columns)
        if best is None or distance > best[0]:
            rows = [[(column[run] + 0.5) / runs for column in columns] for run in range(runs)]
            best = (distance, rows)
    assert best is not None
    return best[1]


def spread(experiment: Experiment, rows: Sequence[Sequence[float]]) -> list[dict[str, Level]]:
    """Shares of the factors' ranges as levels: numbers between the ends, rounded to their unit, words one of the list."""
    found = []
    for line in rows:
        row: dict[str, Level] = {}
        for factor, share in zip(experiment.factors, line, strict=True):
            coding = ranges.coding_of(factor, log=factor.name in experiment.design.log)
            if coding.kind == "word" or len(factor.levels) < 2:
                row |= factor.settings(min(len(factor.levels) - 1, int(share * len(factor.levels))))
            else:
                row |= ranges.at(factor, round(coding.natural(2 * share - 1)))
        found.append(row)
    return found


def _least_distance(columns: Sequence[Sequence[int]]) -> float:
    """The square of the least distance between two points, in strata."""
    import numpy as np  # slow to import, and few need it

    strata = np.array(columns, dtype=np.int64).T
    runs = len(strata)
    least = np.inf
    for run in range(runs - 1):
        least = min(least, int(((strata[run + 1 :] - strata[run]) ** 2).sum(axis=1).min()))
    return float(least)
