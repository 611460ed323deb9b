"""Cost of one level against another, out of blocks of trials: least squares with a mean for each point and each block.

Blocks in time take what drifts; each difference is made inside its block (randomised complete block design: Montgomery,
Design and Analysis of Experiments, chapter 4). Where blocks are fractions of the points, so that no two trials of a block
differ in one factor alone, main effects and interactions of two factors take the place of the points' means
(resolution V carries these; Montgomery, chapter 8). Which of the two it is follows from the design, never from what
was measured.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from iodyno.analysis.decisions.sequence import Fit
from iodyno.core.workload import Level

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Observation:
    """The value of an outcome in one trial, on the scale that it is looked at.

    `resolution`: what it would change by with one more of the operations that it counts; 0 where that is not known.
    """

    levels: Mapping[str, Level]
    block: int
    value: float
    resolution: float = 0.0


@dataclass(frozen=True)
class Estimator:
    """Least squares of one contrast: everything that does not depend on the measured values.

    `estimate = row @ values`; its variance is sigma**2 / `weight`; `residual @ values` is what is left.
    """

    row: Matrix
    residual: Matrix
    weight: float
    freedom: int

    def fit(self, values: Sequence[float], blocks: Sequence[int] = ()) -> Fit:
        """The contrast of these values; `blocks`: the block of each."""
        y = np.asarray(values, dtype=float)
        rest = self.residual @ y
        left = float(rest @ rest)
        # What is left by rounding alone is nothing.
        if left <= (1e-12 * float(np.abs(y).max(initial=0.0))) ** 2 * len(y):
            left = 0.0
        sigma = math.sqrt(left / self.freedom) if self.freedom > 0 else math.inf
        numbers, place = np.unique(np.asarray(blocks, dtype=int), return_inverse=True)
        off = np.bincount(place, self.row * rest) * len(numbers) if len(numbers) else ()
        return Fit(float(self.row @ y), self.weight, sigma, self.freedom, tuple(float(each) for each in off))


def estimator(matrix: Matrix, contrast: Sequence[float]) -> Estimator | None:
    """Return the estimator of a contrast of the coefficients. None when the design does not determine it.

    Weight and freedom by the general linear model, also where columns depend on each other (Searle, Linear Models 1971,
    chapter 5).
    """
    c = np.asarray(contrast, dtype=float)
    inverse = np.linalg.pinv(matrix.T @ matrix, hermitian=True)
    along = inverse @ c
    row = matrix @ along
    # A contrast is estimable when it is a combination of the rows.
    if not np.allclose(matrix.T @ row, c, atol=1e-8 * max(1.0, float(np.abs(c).max()))):
        return None
    variance = float(c @ along)
    if variance <= 0:
        return None
    residual = np.eye(len(matrix)) - matrix @ inverse @ matrix.T
    # The trace of a projection is its rank.
    return Estimator(row, residual, 1 / variance, round(float(np.trace(residual))))


def fit(
    matrix: Matrix, values: Sequence[float], contrast: Sequence[float], blocks: Sequence[int] = ()
) -> Fit | None:
    """Least squares of the values, and the contrast of its coefficients. None when these data do not determine it.

    `blocks`: the block of each value, where it is known.
    """
    if not len(values) or not np.all(np.isfinite(np.asarray(values, dtype=float))):
        return None
    how = estimator(matrix, contrast)
    return how.fit(values, blocks) if how else None


def indicator(keys: Sequence[Hashable]) -> tuple[Matrix, list[Hashable]]:
    """One column of zeros and ones for each different key, in the order in which they come."""
    names = list(dict.fromkeys(keys))
    place = {name: column for column, name in enumerate(names)}
    matrix = np.zeros((len(keys), len(names)))
    for row, key in enumerate(keys):
        matrix[row, place[key]] = 1.0
    return matrix, names


def between_levels(
    observations: Sequence[Observation], factor: str, numerator: Level, denominator: Level
) -> tuple[Fit | None, list[Observation]]:
    """The mean of the numerator's level less that of the denominator's, and the trials that it is from.

    Over all combinations of the other factors that were measured at both levels, each with the same weight; trials of
    other levels are left out, as their spread may be another.
    """
    levels = (numerator, denominator)
    crossed = any(matched(block, factor, levels) for block in _by_block(observations))
    used = matched(observations, factor, levels)
    if not crossed:
        # Blocks are fractions: no two of a block's trials differ in this factor alone.
        used = [each for each in observations if each.levels.get(factor) in levels]
    if len({each.levels[factor] for each in used}) < 2:
        return None, []
    blocks, _ = indicator([each.block for each in used])
    if not crossed:
        return _by_effects(used, factor, numerator, blocks), used
    points, names = indicator([_point(each) for each in used])
    at = [dict(name)[factor] for name in names]  # type: ignore[call-overload]
    weights = [(2 if level == numerator else -2) / len(names) for level in at]
    contrast = [*weights, *[0.0] * (blocks.shape[1] - 1)]
    return _fit(np.hstack([points, blocks[:, 1:]]), used, contrast), used


def whole_plots(
    observations: Sequence[Observation], factor: str, levels: tuple[Level, Level]
) -> list[Observation]:
    """One value for each block and level of a factor that is slow to change: the mean over what it was kept for.

    Trials between two changes of the factor share what the change brought; only their mean is a measurement of it (the
    whole-plot error: Montgomery, chapter 14).
    """
    found: dict[tuple[int, Level], list[Observation]] = {}
    for block in _by_block(observations):
        for each in matched(block, factor, levels):
            found.setdefault((each.block, each.levels[factor]), []).append(each)
    return [
        Observation({factor: level}, block, fmean(o.value for o in plot), fmean(o.resolution for o in plot))
        for (block, level), plot in found.items()
    ]


def matched(
    observations: Sequence[Observation], factor: str, levels: tuple[Level, Level]
) -> list[Observation]:
    """Trials at either level, at combinations of the other factors where both were measured."""
    at: list[set[Hashable]] = [
        {_others(each, factor) for each in observations if each.levels.get(factor) == level}
        for level in levels
    ]
    both = at[0] & at[1]
    return [
        each for each in observations if each.levels.get(factor) in levels and _others(each, factor) in both
    ]


def _by_effects(used: Sequence[Observation], factor: str, numerator: Level, blocks: Matrix) -> Fit | None:
    """With main effects and two-factor interactions in place of a mean for each point, coded -1 and +1 for two levels."""
    names = [name for name in used[0].levels if len({str(each.levels.get(name)) for each in used}) > 1]
    coded: dict[str, Matrix] = {}
    for name in names:
        levels = list(dict.fromkeys(each.levels[name] for each in used))
        if name == factor:
            levels = [next(level for level in levels if level != numerator), numerator]
        # Deviations: each level but the first against it, adding up to 0 over the levels.
        columns = np.zeros((len(used), len(levels) - 1))
        for row, each in enumerate(used):
            position = levels.index(each.levels[name])
            columns[row] = -1.0 if position == 0 else 0.0
            if position:
                columns[row, position - 1] = 1.0
        coded[name] = columns
    parts = [coded[name] for name in names]
    for one, other in itertools.combinations(names, 2):
        parts.append((coded[one][:, :, None] * coded[other][:, None, :]).reshape(len(used), -1))
    matrix = np.hstack([np.ones((len(used), 1)), *parts, blocks[:, 1:]])
    contrast = np.zeros(matrix.shape[1])
    before = 1 + sum(coded[name].shape[1] for name in names[: names.index(factor)])
    contrast[before] = 2.0  # from -1 to +1
    return _fit(matrix, used, contrast.tolist())


def _fit(matrix: Matrix, used: Sequence[Observation], contrast: Sequence[float]) -> Fit | None:
    return fit(matrix, [each.value for each in used], contrast, [each.block for each in used])


def _by_block(observations: Sequence[Observation]) -> list[list[Observation]]:
    found: dict[int, list[Observation]] = {}
    for each in observations:
        found.setdefault(each.block, []).append(each)
    return list(found.values())


def _point(each: Observation) -> Hashable:
    return tuple(sorted(each.levels.items()))


def _others(each: Observation, factor: str) -> Hashable:
    return tuple(sorted((name, level) for name, level in each.levels.items() if name != factor))
