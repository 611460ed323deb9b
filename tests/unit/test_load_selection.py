"""Searches by RFC 9971 against loads whose truth is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from draws import count_between, draws
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno.core.design import Design, Point
from iodyno.core.search import Bound, GoalResult, LoadTrial, SearchGoal, SearchSpec, parse_goal
from iodyno.designs.load_selection import Standing, ladder, next_of, standings
from iodyno.report.search import sentence
from iodyno.strategies.search import Search, _History

SECOND = 10**9
NO_LOSS = parse_goal("loss = 0")
SPEC = SearchSpec((NO_LOSS,), min_load=100, max_load=10_000_000)
Loss = Callable[[int], float]


def search(spec: SearchSpec, loss: Loss) -> tuple[list[Standing], list[LoadTrial]]:
    """Searches until nothing is left to try."""
    trials: list[LoadTrial] = []
    while (now := next_of(standings(trials, spec), len(trials))) is not None:
        assert now.next_load is not None and len(trials) < 150
        lost = loss(now.next_load)
        carried = now.next_load * (1 - lost)
        trials.append(LoadTrial(now.next_load, now.next_duration_ns, (lost,) * len(spec.goals), carried))
    return standings(trials, spec), trials


def sharp(at: float) -> Loss:
    return lambda load: max(0.0, 1 - at / load)


def wide(at: float, source: random.Random, softness: float, disturbed: float = 0.0) -> Loss:
    """Half of the trials at the wall lose a little, and the more the further beyond; some are disturbed wherever they are."""

    def loss(load: int) -> float:
        chance = 1 / (1 + math.exp(min(500.0, math.log(at / load) / softness)))
        lost = 1e-3 if source.random() < max(chance, disturbed) else 0.0
        return max(lost, 1 - 1.5 * at / load)

    return loss


@settings(max_examples=15, deadline=None)
@given(st.floats(min_value=150, max_value=9_000_000))
def test_a_sharp_wall_lies_between_bounds_that_few_trials_settle(at: float) -> None:
    (found,), trials = search(SPEC, sharp(at))
    assert found.ended == "regular" and found.lower is not None and found.upper is not None
    assert found.lower <= at < found.upper and found.upper - found.lower <= max(1, 0.05 * found.upper)
    assert len(trials) <= 14


def test_trials_that_others_disturb_do_not_lead_it_astray() -> None:
    source = random.Random(3)
    for at in (3e3, 4e5):
        (found,), _ = search(SPEC, wide(at, source, 0.001, disturbed=0.1))
        assert found.lower == pytest.approx(at, rel=0.06)


@pytest.mark.parametrize("carried", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("at", [40_000, 1500])
def test_what_is_carried_in_overload_may_mislead(at: int, carried: float) -> None:
    """A receiver that breaks down, and a generator that gets late: less than the wall, or a share of whatever is offered."""
    for in_overload in (lambda load: 1 - carried * at / load, lambda load: 1 - 0.95 * carried):
        (found,), trials = search(SPEC, lambda load, lost=in_overload: 0.0 if load < at else lost(load))
        assert found.ended == "regular" and found.lower is not None
        assert found.lower < at <= found.lower * 1.06
        assert len(trials) <= 18


@pytest.mark.parametrize("softness", [0.02, 0.1])
def test_a_wide_wall_ends_with_bounds_and_an_interval_that_holds_it(softness: float) -> None:
    source, inside, count = random.Random(5), 0, draws(50)
    for _ in range(count):
        at = math.exp(source.uniform(math.log(1e4), math.log(1e6)))
        (found,), trials = search(SPEC, wide(at, source, softness, disturbed=0.02))
        assert found.ended == "regular" and len(trials) <= 60
        inside += found.low <= at <= found.high
    assert inside >= count_between(0.95, count)[0], f"{inside} of {count} intervals of 95 % hold the wall"


@pytest.mark.parametrize(("softness", "of_library"), [(0.04, 15), (0.16, 18.5), (0.3, 24)])
def test_where_no_trial_may_miss_a_wide_wall_has_bounds_after_as_many_trials_as_of_the_library(
    softness: float, of_library: float
) -> None:
    """`of_library`: median of MLRsearch 1.2.1 at such walls."""
    source, counts = random.Random(11), []
    none = replace(NO_LOSS, exceed_ratio=0.0)
    for _ in range(draws(60)):
        at = math.exp(source.uniform(math.log(1e4), math.log(1e6)))
        (found,), trials = search(replace(SPEC, goals=(none,)), wide(at, source, softness))
        assert found.ended == "regular" and found.lower is not None
        counts.append(len(trials))
    assert median(counts) <= 1.5 * of_library


@pytest.mark.parametrize("exceed_ratio", [0.0, 0.2, 0.7])
def test_a_load_that_is_settled_is_not_tried_again(exceed_ratio: float) -> None:
    source, goal = random.Random(2), replace(NO_LOSS, exceed_ratio=exceed_ratio)
    spec = replace(SPEC, goals=(goal,))
    for _ in range(8):
        loss, trials = wide(2e5, source, 0.3), list[LoadTrial]()
        while (now := next_of(standings(trials, spec), len(trials))) is not None:
            assert now.next_load is not None
            assert now.classes.get(now.next_load, "undecided") == "undecided"
            assert (now.lower or 0) < now.next_load < (now.upper or math.inf)
            trials.append(LoadTrial(now.next_load, now.next_duration_ns, (loss(now.next_load),)))


def test_several_goals_share_their_trials() -> None:
    goals = (NO_LOSS, parse_goal("loss <= 20 %"))
    every, trials = search(replace(SPEC, goals=goals), sharp(40_000))
    none, some = every
    assert (
        none.lower is not None
        and none.upper is not None
        and some.lower is not None
        and some.upper is not None
    )
    assert none.lower <= 40_000 < none.upper
    assert some.lower <= 50_000 < some.upper
    apart = sum(len(search(replace(SPEC, goals=(goal,)), sharp(40_000))[1]) for goal in goals)
    assert len(trials) <= apart


def test_the_first_trial_at_a_load_is_short_where_that_was_asked_for() -> None:
    long = replace(
        NO_LOSS, exceed_ratio=0.0, final_trial_duration_ns=60 * SECOND, duration_sum_ns=60 * SECOND
    )
    (found,), trials = search(replace(SPEC, goals=(long,)), sharp(40_000))
    assert found.ended == "regular" and found.lower is not None and found.lower <= 40_000
    # One loss in a second of it makes an upper bound, and one minute without any a lower one.
    assert [trial.duration_ns for trial in trials].count(60 * SECOND) == 1


def test_loads_are_within_the_narrowest_width_of_each_other() -> None:
    spec = SearchSpec((NO_LOSS, replace(NO_LOSS, width=0.01)), "connections", 1, 5000)
    loads = ladder(spec)
    assert (loads[0], loads[-1]) == (1, 5000)
    assert all(b - a <= max(1, 0.01 * b) for a, b in pairwise(loads))


@pytest.mark.parametrize(("width", "at"), [(0.009, 2980), (0.072, 350_000), (0.288, 1200)])
def test_a_search_ends_at_a_width_that_is_no_float(width: float, at: int) -> None:
    """The loads of 2973 and 3000 are 0.9 % apart, which is not what their floats say."""
    (found,), trials = search(replace(SPEC, goals=(replace(NO_LOSS, width=width),)), sharp(at))
    assert found.ended == "regular" and len(trials) <= 20


@pytest.mark.parametrize(("lost", "load"), [(0.0, 1000), (1.0, 100)])
def test_a_wall_outside_is_at_the_edge(lost: float, load: int) -> None:
    (found,), trials = search(SearchSpec((NO_LOSS,), min_load=100, max_load=1000), lambda _: lost)
    assert found.ended == "edge" and (found.lower if lost == 0 else found.upper) == load
    assert len(trials) <= 25


def result(trials: list[LoadTrial], spec: SearchSpec) -> GoalResult:
    """What is known when the time is over after these trials."""
    base = Point("p1", {})
    (now,) = standings(trials, spec)
    return Search(spec, Design("", 1, (base,), ()), Path())._result(base, _History(trials), 0, now, over=True)


def tried(*trials: tuple[int, bool]) -> list[LoadTrial]:
    return [LoadTrial(load, SECOND, (0.0 if met else 1.0,)) for load, met in trials]


def test_without_the_time_for_bounds_it_says_what_was_met_and_how_often() -> None:
    found = result(tried((5000, True), (10_000, False), (5000, True), (5000, False)), SPEC)
    assert (found.ended, found.confirmed) == ("duration", False)
    assert (found.relevant_lower_bound, found.relevant_upper_bound) == (Bound(5000, 2, 3), None)
    assert found.conditional_throughput is None
    assert "is 5.00 k/s: 2 of 3 trials met it there; " in sentence(SPEC, found)
    assert "the search ended at its bound on time, before that was settled" in sentence(SPEC, found)


def test_an_interval_ends_where_the_search_ends_and_says_so() -> None:
    spec = SearchSpec((parse_goal("p99 <= 1ms"),), min_load=100, max_load=1000)
    # Met at the top twice, missed there once: the wall is near it, on either side.
    found = result(tried((990, True), (1000, True), (1000, False), (1000, True)), spec)
    assert found.estimate <= 1000 and found.high == 1000
    assert "it may lie above 1000, where the search ends" in sentence(spec, found).lower()


def test_a_search_whose_first_trial_told_nothing_has_no_estimate() -> None:
    why = "the trial has no such outcome"
    nothing = GoalResult(
        "p1", {}, "p99 <= 1ms", None, None, False, None, 22_360.0, 89.0, 5.6e6, 0, 0, "failed", why
    )
    assert sentence(SPEC, nothing) == f"The largest rate with p99 <= 1ms is not known: {why}."
    assert not nothing.known


def test_a_goal_of_a_mean_is_met_or_not() -> None:
    assert SearchGoal("response_time_mean_ns", 1e6, "mean <= 1ms").loss_ratio == 0
