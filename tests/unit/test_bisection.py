"""Where the wall lies by the probability over loads, against walls that are known."""

from __future__ import annotations

import math
import random

import pytest
from draws import count_between, draws
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno.core.search import parse_goal
from iodyno.designs.bisection import wall

LOW, HIGH = 100, 10_000_000


def ends(tried: list[tuple[int, bool]], met: float = 0.5) -> tuple[float, float, float]:
    """The 95 % interval and the median after these trials."""
    known = wall(tried, LOW, HIGH, met)
    return known.quantile(0.025), known.quantile(0.5), known.quantile(0.975)


@settings(max_examples=25, deadline=None)
@given(st.floats(min_value=150, max_value=9_000_000))
def test_a_hard_wall_is_found_by_trials_at_the_median(at: float) -> None:
    tried: list[tuple[int, bool]] = []
    for _ in range(60):
        load = min(HIGH, max(LOW, round(ends(tried)[1])))
        tried.append((load, load < at))
    low, median, high = ends(tried)
    assert low <= at * 1.01 and at <= high * 1.01
    assert median == pytest.approx(at, rel=0.03)


@pytest.mark.parametrize(("softness", "met"), [(0.01, 0.5), (0.1, 0.5), (0.03, 0.8)])
def test_its_interval_holds_the_wall_when_trials_err(softness: float, met: float) -> None:
    """The wall is where the share `met` of undisturbed trials meets the goal; 5 % are disturbed."""
    source, inside = random.Random(7), 0
    for _ in range(draws(40)):
        at = math.exp(source.uniform(math.log(1e3), math.log(1e6)))
        tried: list[tuple[int, bool]] = []
        for _ in range(40):
            load = min(HIGH, max(LOW, round(ends(tried, met)[1] * math.exp(source.gauss(0, 0.05)))))
            above = math.log(at / load) / softness + math.log(met / (1 - met))
            chance = 1 / (1 + math.exp(-min(500.0, max(-500.0, above))))
            tried.append((load, (source.random() < chance) != (source.random() < 0.05)))
        low, _, high = ends(tried, met)
        inside += low <= at <= high
    assert inside >= count_between(0.95, draws(40))[0], (
        f"{inside} of {draws(40)} intervals of 95 % hold the wall"
    )


@pytest.mark.parametrize(
    "written",
    [
        "",
        "p99",
        "p99 < 1ms",
        "p99 = 1ms",
        "p98 <= 1ms",
        "loss = 1",
        "loss <= x",
        "loss <= 100 %",
        "p99 <= 1",
        5,
        "x" * 200,
    ],
)
def test_a_wrong_goal_is_refused_with_what_is_allowed(written: object) -> None:
    with pytest.raises(ValueError, match=r"expected|unit|such as p99 <= 1ms"):
        parse_goal(written)
