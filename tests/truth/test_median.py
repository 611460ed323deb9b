"""Trials that are not normal: what the t interval of their mean holds, and what the interval of their median."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from draws import count_between, draws

from iodyno.analysis.interval import estimate, median_interval
from iodyno.analysis.measured import Measured
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import WarningCode

Source = np.random.Generator


def normal(source: Source, n: int) -> np.ndarray:
    return source.normal(1, 0.01, n)


def lognormal(source: Source, n: int) -> np.ndarray:
    return source.lognormal(0, 1, n)


def outliers(source: Source, n: int) -> np.ndarray:
    """One trial in twenty has 0.6 of the rate."""
    return normal(source, n) * np.where(source.random(n) < 0.05, 0.6, 1.0)


def correlated(source: Source, n: int) -> np.ndarray:
    """Trials in a row are alike, with an autocorrelation of 0.5: no interval of so few knows."""
    made = source.standard_normal(n)
    for place in range(1, n):
        made[place] = 0.5 * made[place - 1] + math.sqrt(0.75) * made[place]
    return 1 + 0.01 * made


def made(values: np.ndarray) -> Estimate:
    return estimate([Measured(float(value)) for value in values], "1")


OUTLIERS_MEDIAN = 0.99934
"""0.05 of the trials lie far below it: the median of all is where 0.45 / 0.95 of the others lie below."""


@pytest.mark.parametrize("trials", [5, 10])
@pytest.mark.parametrize(
    ("draw", "mean", "middle", "of_mean", "of_median"),
    [
        (normal, 1, 1, (0.93, 0.97), (0.93, 0.985)),
        (lognormal, math.exp(0.5), 1, (0.78, 0.88), (0.93, 0.985)),
        (outliers, 0.98, OUTLIERS_MEDIAN, (0.2, 0.5), (0.93, 0.985)),
        (correlated, 1, 1, (0.72, 0.87), (0.7, 0.92)),
    ],
    ids=["normal", "lognormal", "outliers", "correlated"],
)
def test_what_is_held(
    draw: Callable[[Source, int], np.ndarray],
    mean: float,
    middle: float,
    of_mean: tuple[float, float],
    of_median: tuple[float, float],
    trials: int,
) -> None:
    source, runs, held, robust = np.random.default_rng(20081217), draws(5000), 0, 0
    for _ in range(runs):
        found = made(draw(source, trials))
        assert found.median is not None and found.low is not None and found.high is not None
        held += found.low <= mean <= found.high
        robust += found.median.low <= middle <= found.median.high
    for count, (least, most) in ((held, of_mean), (robust, of_median)):
        assert count_between(least, runs)[0] <= count <= count_between(most, runs)[1]


def test_a_few_trials_that_decide_the_mean_are_told_and_no_others() -> None:
    source, runs = np.random.default_rng(2), draws(2000)

    def told(values: np.ndarray) -> bool:
        return any(warning.code == WarningCode.OUTLIER for warning in made(values).warnings)

    assert sum(told(normal(source, 10)) for _ in range(runs)) <= 0.01 * runs
    assert sum(told(normal(source, 5)) for _ in range(runs)) <= 0.01 * runs
    one_off = [0.99, 1.0, 1.01, 1.0, 0.995, 1.005, 1.0, 0.99, 1.01, 0.6]
    (warning,) = [one for one in made(np.array(one_off)).warnings if one.code == WarningCode.OUTLIER]
    assert "4 % below the median" in warning.text


@pytest.mark.parametrize(
    ("trials", "places", "level"),
    [(5, (0, 4), 0.9375), (6, (0, 5), 0.96875), (10, (1, 8), 0.978515625), (20, (5, 14), 0.958610535)],
)
def test_the_places_are_those_of_the_books(trials: int, places: tuple[int, int], level: float) -> None:
    """David and Nagaraja, table of the sign test."""
    found = median_interval([float(place) for place in reversed(range(trials))])
    assert found is not None and (found.low, found.high) == places
    assert found.level == pytest.approx(level)
    assert median_interval([1.0] * 4) is None
