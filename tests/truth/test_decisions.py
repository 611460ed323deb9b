"""Decisions on simulated campaigns with a known truth: how soon, how rightly, and what intervals hold.

The truth is the published regression of a study of two protocols, 640 runs at 32 points; `python -m bench decisions` prints
the same with more repeats. Tolerances: three standard errors of a share of so many repeats.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench.decision_campaigns import COSTLIER, HALF_WIDTH, MODELS, RATIO, SLOPE, Campaigns, Noise

from iodyno.analysis.decisions.contrast import Observation, between_levels
from iodyno.analysis.decisions.sequence import Fit, bounds, evidence, radius_in_errors, tuned
from iodyno.analysis.decisions.stopping import Judge, plan
from iodyno.core.decision import UntilSpec, parse_rule

REPEATS = 300


def slack(share: float, repeats: int) -> float:
    return 3 * math.sqrt(share * (1 - share) / repeats)


@pytest.fixture(scope="module")
def plain() -> Campaigns:
    return Campaigns(REPEATS, 14, Noise(), seed=1)


@pytest.mark.parametrize(("contrast", "most"), [(COSTLIER, 32), (RATIO, 160)], ids=["costlier", "ratio"])
def test_a_decision_takes_a_fraction_of_the_640_runs(
    plain: Campaigns, contrast: dict[str, float], most: int
) -> None:
    trials, side = plain.decided(contrast, 0, tuned_blocks=3, most=14)
    assert np.median(trials) <= most
    assert (side < 0).mean() <= 0.05


def test_twenty_looks_at_nothing_rarely_find_something() -> None:
    null = Campaigns(1000, 20, Noise(), 2, **{"protocol:iops": 0.0})
    trials, _ = null.decided(COSTLIER, 0, tuned_blocks=3, most=20)
    false = np.isfinite(trials).mean()
    assert false <= 0.05 and false == pytest.approx(0.012, abs=0.012)
    # What a t interval does with as many looks: the reason for the sequence.
    assert null.peeked(COSTLIER, 20) > 0.15


@pytest.mark.parametrize("noise", [Noise(drift=0.7), Noise(proportional=True)], ids=["drift", "proportional"])
def test_also_where_trials_drift_or_spread_unevenly(noise: Noise) -> None:
    null = Campaigns(400, 20, noise, 3, **{"protocol:iops": 0.0})
    trials, _ = null.decided(COSTLIER, 0, tuned_blocks=3, most=20)
    assert np.isfinite(trials).mean() <= 0.05


@pytest.mark.parametrize(
    ("noise", "most"),
    [(n, most) for _, n, most, blocked in MODELS if blocked],
    ids=[m[0] for m in MODELS if m[3]],
)
def test_intervals_that_ended_by_width_hold_the_truth(noise: Noise, most: int) -> None:
    repeats = 100 if most > 30 else 300
    trials, covers = Campaigns(repeats, most, noise, 5).stopped_by_width(COSTLIER, SLOPE, HALF_WIDTH, most)
    ended = np.isfinite(trials)
    assert ended.mean() > 0.9
    assert 0.93 - slack(0.95, repeats) <= covers[ended].mean() <= 0.97 + slack(0.95, repeats)


def test_blocks_save_runs_where_trials_drift() -> None:
    made = Campaigns(200, 24, Noise(drift=0.7), 3)
    blocked, _ = made.stopped_by_width(COSTLIER, SLOPE, HALF_WIDTH, 24)
    assert np.median(blocked) <= 256


@pytest.mark.parametrize("freedom", [2, 3, 5, 10, 100])
def test_the_bound_is_where_the_evidence_is_twenty(freedom: int) -> None:
    mixture, weight = tuned(10, freedom), 10.0
    fit = Fit(1.0, weight, 2.0, freedom)
    found = bounds(fit, mixture)
    assert found is not None
    for bound in found:
        assert evidence(fit, bound, mixture) == pytest.approx(20, rel=1e-9)
    assert evidence(fit, fit.estimate, mixture) < 1


def test_the_evidence_is_one_on_average_when_there_is_nothing() -> None:
    """A martingale of mean 1: what makes the sequence hold at every look."""
    from scipy.integrate import quad
    from scipy.stats import t

    for freedom in (2, 5, 30):
        mixture = 10 * tuned(10, freedom)
        mean, _ = quad(
            lambda x, v=freedom, g=mixture: evidence(Fit(x, 1.0, 1.0, v), 0.0, g) * t.pdf(x, v),
            -np.inf,
            np.inf,
        )
        assert mean == pytest.approx(1.0, abs=1e-6)


def test_it_is_half_as_wide_again_as_an_interval_for_one_look() -> None:
    assert radius_in_errors(10_000, 8.17) / 1.96 == pytest.approx(1.55, abs=0.005)
    assert radius_in_errors(1, tuned(1, 1)) == math.inf


def test_pairs_in_blocks_are_the_paired_t_statistic() -> None:
    """An independent oracle: two points in blocks are pairs."""
    from scipy.stats import ttest_rel

    source = np.random.default_rng(4)
    before, after = source.normal(10, 1, 8), source.normal(11, 1, 8)
    observations = [
        Observation({"protocol": name}, block, float(value))
        for block in range(8)
        for name, value in (("a", before[block]), ("b", after[block]))
    ]
    fit, used = between_levels(observations, "protocol", "b", "a")
    assert fit is not None and len(used) == 16
    found = ttest_rel(after, before)
    assert fit.freedom == found.df == 7
    assert fit.estimate / fit.standard_error == pytest.approx(found.statistic, rel=1e-9)


@pytest.mark.parametrize("alike", [True, False], ids=["windows cut alike", "windows cut at random"])
@pytest.mark.parametrize("rule", ["width(operations_per_s) < 10%", "difference(size) > 0"])
def test_rules_know_that_whole_operations_were_counted(rule: str, alike: bool) -> None:
    """Both sizes do the same 10 to 20 operations a second, in windows of a second; a rule that ends has to hold that."""
    source = np.random.default_rng(6)
    spec = UntilSpec(parse_rule(rule), "operations_per_s", "size", 65536, 1024)
    judge, wrong, repeats = Judge(spec, plan(2, 2, 80)), 0, 200
    for _ in range(repeats):
        rate, begun = source.uniform(10, 20), source.random(2)
        trials = []
        for block in range(12):
            phases = begun if alike else source.random(2)
            trials += [
                Observation({"size": size}, block, math.floor(rate + phase), 1.0)
                for size, phase in zip((1024, 65536), phases, strict=True)
            ]
        for blocks in range(2, 13):
            found = judge.look([each for each in trials if each.block < blocks], blocks)
            if found.answer != "undecided":
                truth = rate if rule.startswith("width") else 0.0
                assert found.low is not None and found.high is not None
                wrong += not found.low <= truth <= found.high
                break
    assert wrong / repeats <= 0.05 + slack(0.05, repeats)
