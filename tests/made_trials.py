"""Trials drawn from the published coefficients, in the noise models of the research note: a truth to be found again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from published import COEFFICIENTS, FACTORS, RESIDUAL_SD

from iodyno.analysis.cost_model.data import CostData

Vector = NDArray[np.float64]
Noise = Callable[[np.random.Generator, "Vector"], "Vector"]


@cache
def design(replicates: int = 20, half: bool = False) -> tuple[CostData, Vector]:
    """Trials of the 2^5 design (`half`: alternating half fractions of resolution V) in random order within blocks, and the truth.

    A block is one replicate of all points; of halves, 16 runs.
    """
    rows, truth, blocks = [], [], []
    source = np.random.default_rng(7)
    points = list(product((-1, 1), repeat=5))
    for replicate in range(replicates):
        own = [p for p in points if not half or np.prod(p) == (1 if replicate % 2 else -1)]
        for place in source.permutation(len(own)):
            point = own[place]
            coded = dict(zip((factor.name for factor in FACTORS), point, strict=True))
            rows.append(
                {f.name: f.levels[0] if c < 0 else f.levels[1] for f, c in zip(FACTORS, point, strict=True)}
            )
            value = 0.0
            for name, coefficient in COEFFICIENTS.items():
                factors = () if name == "intercept" else name.split(":")
                value += coefficient * float(np.prod([coded[one] for one in factors]))
            truth.append(value)
            blocks.append(str(replicate + 1))
    values = np.array(truth)
    data = CostData(
        "cpu",
        "% of 8 cores",
        FACTORS,
        tuple(rows),
        values,
        tuple(blocks),
        tuple(range(len(rows))),
        source="made",
    )
    return data, values


def even(source: np.random.Generator, mean: Vector) -> Vector:
    """Independent errors of one standard deviation."""
    return source.normal(0, RESIDUAL_SD, len(mean))


def proportional(source: np.random.Generator, mean: Vector) -> Vector:
    """Standard deviation proportional to the mean, with the same total variance."""
    return source.normal(0, 1, len(mean)) * mean * RESIDUAL_SD / np.sqrt(np.mean(mean**2))


def drift(share: float, run_length: float = 40.0) -> Noise:
    """A part of the variance is a first-order autoregression over the order of the runs."""

    def noise(source: np.random.Generator, mean: Vector) -> Vector:
        count = len(mean)
        r = float(np.exp(-1 / run_length))
        steps = source.normal(0, np.sqrt(1 - r * r), count)
        level = np.empty(count)
        now = source.normal()
        for at in range(count):
            now = r * now + steps[at]
            level[at] = now
        return RESIDUAL_SD * (np.sqrt(share) * level + np.sqrt(1 - share) * source.normal(size=count))

    return noise
