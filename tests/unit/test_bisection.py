"""Probabilistic bisection against walls that are known."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from draws import count_between, draws
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno.core.design import Design, Point
from iodyno.core.search import Found, SearchSpec, Tried, parse_goal
from iodyno.designs.bisection import CONFIRMATIONS, Standing, standing
from iodyno.report.search import sentence
from iodyno.strategies.search import Search, _History


def search(
    wall: float, source: random.Random, *, softness: float = 0.0, wrong: float = 0.0
) -> tuple[Standing, int]:
    """Searches a wall until nothing is left to try. `softness`: width of the wall in the logarithm; `wrong`: share of
    trials that tell the opposite."""
    tried: list[Tried] = []
    for _ in range(120):
        now = standing(tried, 100, 10_000_000, 0.05)
        if now.next_level is None:
            break
        distance = math.log(wall / now.next_level)
        met = distance > 0 if not softness else source.random() < 1 / (1 + math.exp(-distance / softness))
        tried.append(Tried(now.next_level, met != (source.random() < wrong)))
    return standing(tried, 100, 10_000_000, 0.05), len(tried)


@settings(max_examples=25, deadline=None)
@given(st.floats(min_value=150, max_value=9_000_000), st.integers(0, 1000))
def test_a_hard_wall_is_found_within_the_precision(wall: float, seed: int) -> None:
    found, trials = search(wall, random.Random(seed))
    assert found.low <= wall * 1.01 and wall <= found.high * 1.01
    assert found.high - found.low <= 0.06 * found.estimate
    assert found.confirmed is not None and found.confirmed <= wall
    assert trials <= 80


@pytest.mark.parametrize("softness", [0.01, 0.03, 0.1])
def test_its_interval_holds_the_wall_when_trials_err(softness: float) -> None:
    source, inside, widths = random.Random(7), 0, []
    for _ in range(draws(40)):
        wall = math.exp(source.uniform(math.log(1e3), math.log(1e6)))
        found, _ = search(wall, source, softness=softness, wrong=0.05)
        inside += found.low <= wall <= found.high
        widths.append((found.high - found.low) / found.estimate)
    assert inside >= count_between(0.95, draws(40))[0], (
        f"{inside} of {draws(40)} intervals of 95 % hold the wall"
    )
    # What is told is as sharp as the wall.
    assert sorted(widths)[len(widths) // 2] < 0.05 + softness


@pytest.mark.parametrize("met", [True, False])
def test_a_wall_outside_is_at_the_edge(met: bool) -> None:
    tried: list[Tried] = []
    while (now := standing(tried, 100, 1000, 0.05)).next_level is not None:
        tried.append(Tried(now.next_level, met))
        assert len(tried) < 100
    assert now.at_edge


def test_the_lower_end_is_confirmed_by_trials_in_a_row() -> None:
    found, _ = search(5000, random.Random(1))
    assert found.confirmed is not None and 4500 <= found.confirmed <= 5000
    assert CONFIRMATIONS == 3


@pytest.mark.parametrize(
    "written",
    ["", "p99", "p99 < 1ms", "p99 = 1ms", "p98 <= 1ms", "loss = 1", "loss <= x", "p99 <= 1", 5, "x" * 200],
)
def test_a_wrong_goal_is_refused_with_what_is_allowed(written: object) -> None:
    with pytest.raises(ValueError, match=r"expected|unit"):
        parse_goal(written)


def test_an_interval_ends_where_the_search_ends_and_says_so() -> None:
    spec = SearchSpec(parse_goal("p99 <= 1ms"), low=100, high=1000)
    # Met at the top twice, missed there once: the wall is near it, on either side.
    tried = [Tried(990, True), Tried(1000, True), Tried(1000, False), Tried(1000, True)]
    now = standing(tried, spec.low, spec.high, spec.precision)
    assert now.high > 1000 and not now.at_edge
    base = Point("p1", {})
    found = Search(spec, Design("", 1, (base,), ()), Path())._found(base, _History(tried), now)
    assert found.estimate <= 1000 and found.high == 1000
    assert "it may lie above 1000, where the search ends" in sentence(spec, found).lower()


def test_a_search_whose_first_trial_told_nothing_has_no_estimate() -> None:
    spec = SearchSpec(parse_goal("p99 <= 1ms"))
    nothing = Found("p1", {}, 22_360.0, 89.0, 5.6e6, None, 0, "failed", "the trial has no such outcome")
    assert sentence(spec, nothing) == (
        "The largest rate with p99 <= 1ms is not known: the trial has no such outcome."
    )
    assert not nothing.known
