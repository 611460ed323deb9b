"""Intervals of sampled costs: they hold the truth as often as they say, and know what they do not know."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from iodyno.analysis import chance
from iodyno.analysis.shares import SampledCosts, difference, ratio, ratio_of, ratio_on_logarithms

SEED = 20081217


def sampled(counts: list[list[float]], samples: list[float], costs: list[float]) -> SampledCosts:
    return SampledCosts(np.asarray(counts, float), np.asarray(samples, float), np.asarray(costs, float))


def test_wilson_is_that_of_scipy() -> None:
    shares = np.asarray([0.0, 0.01, 0.3, 1.0])
    for share in shares:
        below, above = chance.wilson(float(share), 500, 0.95)
        known = stats.binomtest(round(share * 500), 500).proportion_ci(method="wilson")
        assert below == pytest.approx(known.low, abs=1e-12)
        assert above == pytest.approx(known.high, abs=1e-12)


def test_costs_add_up_to_the_whole() -> None:
    made = sampled([[10, 20, 70], [30, 30, 140]], [100, 200], [400.0, 420.0])
    assert made.cost.sum() == pytest.approx(410)
    assert made.share_bounds().value.sum() == pytest.approx(1)


def drawn(source: np.random.Generator, share: float, trials: int, between: float) -> SampledCosts:
    """Trials whose true share varies between them, with 3000 samples each."""
    shares = np.clip(share * source.normal(1, between, trials), 1e-4, 0.9)
    counts = source.binomial(3000, shares)[:, None]
    costs = 500 * source.normal(1, 0.02, trials)
    return SampledCosts(counts.astype(float), np.full(trials, 3000.0), costs)


@pytest.mark.parametrize(("share", "between"), [(0.01, 0.0), (0.2, 0.0), (0.2, 0.15), (0.005, 0.3)])
def test_intervals_hold_the_truth_at_least_as_often_as_they_say(share: float, between: float) -> None:
    source = np.random.default_rng(SEED)
    rounds, inside, ratio_inside, difference_inside = 400, 0, 0, 0
    for _ in range(rounds):
        one, other = (drawn(source, share, 3, between), drawn(source, 3 * share, 3, between))
        cost = one.cost_bounds()
        inside += int(cost.low[0] <= 500 * share <= cost.high[0])
        found = ratio(one, other)
        ratio_inside += int(found.low[0] <= 3 <= found.high[0])
        moved = difference(one, other)
        difference_inside += int(moved.low[0] <= 1000 * share <= moved.high[0])
    # 95 % less three standard errors of the simulation.
    least = 0.95 - 3 * math.sqrt(0.95 * 0.05 / rounds)
    assert inside / rounds > least
    assert ratio_inside / rounds > least
    assert difference_inside / rounds > least


def test_what_varies_between_trials_widens_the_interval() -> None:
    steady = sampled([[100], [101], [99]], [1000] * 3, [500.0] * 3)
    restless = sampled([[50], [150], [100]], [1000] * 3, [500.0] * 3)
    widths = [
        float(np.diff([b.low[0], b.high[0]])[0]) for b in (steady.cost_bounds(), restless.cost_bounds())
    ]
    assert widths[1] > 3 * widths[0]


def test_a_function_that_was_not_seen_has_bounds_all_the_same() -> None:
    first, second = sampled([[0]], [2000], [500.0]), sampled([[200]], [2000], [500.0])
    up, down = ratio(first, second), ratio(second, first)
    assert np.isinf(up.value[0]) and up.low[0] > 10 and np.isinf(up.high[0])
    assert down.value[0] == 0 and down.low[0] == 0 and down.high[0] < 0.1
    nothing = ratio(sampled([[0]], [2000], [500.0]), sampled([[1]], [2000], [500.0]))
    assert nothing.low[0] < 1


def test_few_samples_leave_a_ratio_open_above_and_not_unchanged() -> None:
    """One sample against forty is no number of times more, but it is more: of which the logarithm of one sample says nothing."""
    first, second = (
        sampled([[1], [0], [0]], [1000] * 3, [400.0] * 3),
        sampled([[12], [14], [13]], [1000] * 3, [400.0] * 3),
    )
    found, moved = ratio(first, second), difference(first, second)
    assert moved.low[0] > 0
    assert ratio_on_logarithms(first, second).low[0] < 1
    assert found.low[0] > 1 and found.high[0] == math.inf


@pytest.mark.parametrize("trials", [1, 2, 3, 5])
@pytest.mark.parametrize("between", [0.0, 0.2])
def test_of_rare_functions_that_do_not_change_few_seem_to(trials: int, between: float) -> None:
    source = np.random.default_rng(SEED)
    weights = np.repeat([3.0, 10.0, 30.0, 80.0], [60, 40, 20, 5])
    weights /= weights.sum()
    compared = differing = 0
    for _ in range(40):
        sides = []
        for _ in range(2):
            mine = weights * np.clip(
                source.normal(1, between if trials > 1 else 0.0, (trials, len(weights))), 0.01, None
            )
            counts = np.asarray([source.multinomial(1000, row / row.sum()) for row in mine], float)
            costs = 500 * source.normal(1, 0.03, trials)
            sides.append(SampledCosts(counts, np.full(trials, 1000.0), costs, reference=counts))
        found, moved = ratio(*sides), difference(*sides)
        seen = sides[0].counts.sum(axis=0) + sides[1].counts.sum(axis=0) >= 10
        apart = (found.low > 1) | (found.high < 1)
        assert (apart == ((moved.low > 0) | (moved.high < 0))).all()
        compared += int(seen.sum())
        differing += int((apart & seen).sum())
    assert differing / compared < 0.06


def test_a_single_trial_carries_the_error_of_its_cost() -> None:
    known = SampledCosts(np.asarray([[900.0]]), np.asarray([1000.0]), np.asarray([500.0]), 500.0, 500.0)
    vague = SampledCosts(np.asarray([[900.0]]), np.asarray([1000.0]), np.asarray([500.0]), 400.0, 600.0)
    assert vague.cost_bounds().high[0] - vague.cost_bounds().low[0] > 150
    assert known.cost_bounds().high[0] - known.cost_bounds().low[0] < 30


def test_ratio_of_two_intervals() -> None:
    found = ratio_of((100, 95, 105), (200, 190, 210))
    assert found is not None
    value, low, high = found
    assert value == 2
    # Narrower than the ends set against each other, wider than either alone.
    assert 190 / 105 < low < 1.93 and 2.07 < high < 210 / 95
    assert ratio_of((100, -1, 205), (200, 190, 210)) is None


@pytest.mark.filterwarnings("error")
def test_a_ratio_of_which_nothing_is_known_upwards_has_no_end_there_and_no_complaint() -> None:
    # Of a thousand functions at once: the t of one degree of freedom, far out.
    each = sampled([[1], [1]], [994, 990], [221564.0, 284164.0])
    found = ratio(each, sampled([[1], [0]], [992, 996], [230518.0, 340887.0]), 1 - 0.05 / 1000)
    assert found.low[0] == 0 and found.value[0] > 0 and found.high[0] == math.inf
