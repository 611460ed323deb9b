"""Intervals from the parts of a single trial hold a known truth as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from made_times import histogram

from iodyno.analysis.interval import batch_means, of_quantile

MEAN_NS = 1_000_000
RUNS = 200


@pytest.mark.parametrize("q", [0.5, 0.99])
@pytest.mark.parametrize(("intervals", "values"), [(5, 1000), (10, 1000)])
def test_a_quantile_of_exponential_times(q: float, intervals: int, values: int) -> None:
    source = np.random.default_rng(20081217)
    truth = -math.log(1 - q) * MEAN_NS
    held = 0
    for _ in range(RUNS):
        batches = [
            histogram([int(value) for value in source.exponential(MEAN_NS, values)]) for _ in range(intervals)
        ]
        found = of_quantile(batches, q)
        assert found is not None
        held += found[0] <= truth <= found[1]
    # Of 200 with 95 %, 180 or more are there in 999 of 1000. Resampling the intervals held 166 with five of them.
    assert held >= 0.9 * RUNS


def test_intervals_of_different_lengths_count_as_much_as_they_hold() -> None:
    source = np.random.default_rng(1)
    truth = -math.log(1 - 0.9) * MEAN_NS
    held = 0
    for _ in range(RUNS):
        lengths = source.integers(200, 2000, 8)
        batches = [histogram([int(value) for value in source.exponential(MEAN_NS, n)]) for n in lengths]
        low, high = of_quantile(batches, 0.9) or (0.0, 0.0)
        held += low <= truth <= high
    assert held >= 0.9 * RUNS


def test_few_batches_or_one_value_in_all() -> None:
    assert of_quantile([histogram([1, 2, 3])] * 3, 0.5) is None
    low, high = of_quantile([histogram([100] * 50)] * 6, 0.9) or (0.0, 0.0)
    assert low == high and low == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6, 0.8])
@pytest.mark.parametrize("intervals", [4, 6, 10, 20, 50])
def test_the_mean_of_intervals_that_are_like_their_neighbours(intervals: int, correlation: float) -> None:
    """With the estimated autocorrelation in (1 + r) / (1 - r), 618 to 965 of 1000 were held, 785 to 894 with 0.6."""
    source, runs = np.random.default_rng(3), 400
    series = source.standard_normal((runs, intervals))
    for place in range(1, intervals):
        step = math.sqrt(1 - correlation**2) * series[:, place]
        series[:, place] = correlation * series[:, place - 1] + step
    held = sum(abs(float(values.mean())) <= batch_means(values.tolist())[0] for values in series)
    # Three standard errors of a share of 400 below 95 %.
    assert held >= (0.95 - 0.033) * runs


def test_many_independent_intervals_cost_hardly_more_than_students() -> None:
    values = np.random.default_rng(4).standard_normal(400).tolist()
    half, r = batch_means(values)
    assert abs(r) < 0.15
    assert 1 <= half / (1.966 * np.std(values, ddof=1) / 20) <= 1.25
    assert batch_means([3.0] * 6) == (0.0, 0.0)
    assert batch_means([value * 1e-9 for value in values])[0] == pytest.approx(half * 1e-9)
