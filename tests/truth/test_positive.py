"""Intervals of amounts that are surely positive do not begin at 0, and hold the truth as often as if they did."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from iodyno.analysis.interval import NOT_NEGATIVE, estimate
from iodyno.analysis.measured import Measured

RUNS = 1000


@pytest.mark.parametrize("trials", [2, 3, 5, 10])
@pytest.mark.parametrize(
    ("draw", "truth"),
    [
        (lambda source, size: source.lognormal(0, 0.3, size), math.exp(0.045)),
        (lambda source, size: source.lognormal(0, 1, size), math.exp(0.5)),
        (lambda source, size: source.exponential(1, size), 1.0),
    ],
    ids=["lognormal 0.3", "lognormal 1", "exponential"],
)
def test_a_lower_end_on_a_log_scale_holds_the_truth_as_often_as_0_does(
    draw: Callable[[np.random.Generator, int], np.ndarray], truth: float, trials: int
) -> None:
    source = np.random.default_rng(20081217)
    held = with_nothing = reached = 0
    for _ in range(RUNS):
        values = [float(value) for value in draw(source, trials)]
        found = estimate([Measured(value) for value in values], "ns", possible=NOT_NEGATIVE)
        plain = estimate([Measured(value) for value in values], "ns")
        assert found.low is not None and found.high is not None and plain.low is not None
        assert 0 <= found.low < found.estimate <= found.high
        assert ("log scale" in found.method or found.low == 0) == (plain.low <= 0)
        reached += plain.low <= 0
        held += found.low <= truth <= found.high
        with_nothing += plain.low <= truth <= found.high
    assert held >= with_nothing - 0.005 * RUNS
    # Two trials of any of these nearly always reach below 0: it is what the test is about.
    assert trials > 2 or reached > 0.5 * RUNS


def test_a_lower_end_that_tells_nothing_is_0() -> None:
    found = estimate([Measured(1.0), Measured(0.1)], "ns", possible=NOT_NEGATIVE)
    assert found.low == 0 and "cut off at 0" in found.method


def test_where_one_trial_has_nothing_the_interval_reaches_nothing() -> None:
    found = estimate([Measured(0.0), Measured(3.0), Measured(5.0)], "ns", possible=NOT_NEGATIVE)
    assert found.low == 0 and "cut off at 0" in found.method
