"""Quantiles, tails and tests against those of scipy.stats, which is the oracle: no command waits for its import."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from iodyno.analysis import chance
from iodyno.analysis.interval import _t_beyond, _t_density

SHARES = (1e-9, 0.005, 0.025, 0.3, 0.5, 0.8, 0.975, 0.999)
VALUES = (-40.0, -3.0, -0.1, 0.0, 0.7, 2.5, 60.0)
FREEDOMS = (0.5, 1.0, 2.0, 7.5, 60.0, 1e5)
CLOSE = {"rel": 1e-9, "abs": 1e-300}


def test_normal_and_half_normal() -> None:
    for share in SHARES:
        assert chance.norm.ppf(share) == pytest.approx(stats.norm.ppf(share), **CLOSE)
        assert chance.halfnorm.ppf(share) == pytest.approx(stats.halfnorm.ppf(share), **CLOSE)
    for value in VALUES:
        assert chance.norm.cdf(value) == pytest.approx(stats.norm.cdf(value), **CLOSE)
        assert chance.norm.sf(value) == pytest.approx(stats.norm.sf(value), **CLOSE)
    assert (chance.norm.ppf(0.0), chance.norm.ppf(1.0)) == (-math.inf, math.inf)
    assert math.isnan(chance.norm.ppf(-0.01)) and math.isnan(chance.norm.ppf(1.01))


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_student_chi_square_and_f(freedom: float) -> None:
    for share in SHARES:
        assert chance.t.ppf(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), rel=1e-9, abs=1e-14)
        assert chance.chi2.ppf(share, freedom) == pytest.approx(stats.chi2.ppf(share, freedom), **CLOSE)
        for other in FREEDOMS:
            assert chance.f.ppf(share, freedom, other) == pytest.approx(
                stats.f.ppf(share, freedom, other), **CLOSE
            )
    for value in VALUES:
        assert chance.t.sf(value, freedom) == pytest.approx(stats.t.sf(value, freedom), **CLOSE)
        assert chance.chi2.sf(abs(value), freedom) == pytest.approx(
            stats.chi2.sf(abs(value), freedom), **CLOSE
        )
        for other in FREEDOMS:
            # Of tails below 1e-200 scipy has nothing left.
            assert chance.f.sf(abs(value), freedom, other) == pytest.approx(
                stats.f.sf(abs(value), freedom, other), rel=1e-9, abs=1e-200
            )


@given(st.floats(0.6, 3000), st.floats(0.6, 3000), st.floats(1e-7, 1 - 1e-7))
def test_a_quantile_has_its_share_above_it(one: float, other: float, share: float) -> None:
    assert chance.t.sf(chance.t.ppf(share, one), one) == pytest.approx(1 - share, rel=1e-9, abs=1e-15)
    assert chance.chi2.sf(chance.chi2.ppf(share, one), one) == pytest.approx(1 - share, rel=1e-9, abs=1e-15)
    assert chance.f.sf(chance.f.ppf(share, one, other), one, other) == pytest.approx(
        1 - share, rel=1e-9, abs=1e-15
    )


def test_many_degrees_of_freedom_are_the_normal_law() -> None:
    assert chance.t.ppf(0.975, math.inf) == pytest.approx(stats.norm.ppf(0.975))
    assert chance.t.sf(1.5, math.inf) == pytest.approx(stats.norm.sf(1.5))
    assert math.isnan(chance.t.ppf(0.975, 0.0))


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 50, 301])
def test_the_series_of_students_law(freedom: int) -> None:
    values = np.array([0.0, 0.3, 1.0, 2.5, 7.0, 400.0])
    assert _t_beyond(values, freedom) == pytest.approx(stats.t.sf(values, freedom), abs=1e-14)
    assert _t_density(values, freedom) == pytest.approx(stats.t.pdf(values, freedom), rel=1e-9)


def test_binomial_tails_are_those_of_scipy() -> None:
    for k, n, share in ((3, 20, 0.1), (60, 1000, 0.03), (1, 5, 0.9), (200, 100_000, 0.001)):
        assert chance.binomial_tail(k, n, share) == pytest.approx(stats.binom.sf(k - 1, n, share), rel=1e-8)
    assert (chance.binomial_tail(0, 5, 0.1), chance.binomial_tail(6, 5, 0.1)) == (1.0, 0.0)


def test_roots_are_those_of_scipy() -> None:
    source = random.Random(2)
    for _ in range(100):
        place, slope = source.uniform(-3, 3), source.choice((0.2, 1.0, 30.0))

        def bent(x: float, place: float = place, slope: float = slope) -> float:
            return math.atan(slope * (x - place)) + 0.1 * (x - place) ** 3

        def stepped(x: float, place: float = place) -> float:
            return math.floor(10 * (x - place)) + 0.5

        for function in (bent, stepped):
            oracle = optimize.brentq(function, -10.0, 12.0)
            assert chance.root(function, -10.0, 12.0) == pytest.approx(oracle, abs=1e-11)
    assert chance.root(lambda x: x, 0.0, 1.0) == 0.0


def test_kendalls_test_is_that_of_scipy() -> None:
    source = random.Random(1)
    for n in (7, 10, 12):
        order = [source.random() for _ in range(n)]
        s = sum((b > a) - (b < a) for i, a in enumerate(order) for b in order[i + 1 :])
        oracle = stats.kendalltau(range(n), order, method="exact").pvalue
        assert chance.kendall_p(s, n) == pytest.approx(oracle, rel=1e-9)


@pytest.mark.parametrize("n", [4, 5, 6, 7, 11, 12, 13, 60, 600])
@pytest.mark.parametrize("law", ["normal", "exponential"])
def test_shapiros_test_is_that_of_scipy(n: int, law: str) -> None:
    source = np.random.default_rng(n)
    for _ in range(20):
        values = source.normal(size=n) if law == "normal" else source.exponential(size=n)
        # scipy has normal quantiles of 7 digits there.
        assert chance.shapiro(list(values)) == pytest.approx(stats.shapiro(values).pvalue, abs=1e-6)


def test_bartletts_test_and_the_analysis_of_variance_are_those_of_scipy() -> None:
    source = np.random.default_rng(2)
    for _ in range(50):
        groups = [source.normal(0, source.uniform(0.5, 2), source.integers(2, 6)) for _ in range(3)]
        assert chance.spreads_differ(groups) == pytest.approx(stats.bartlett(*groups).pvalue, rel=1e-9)
        assert chance.means_differ(groups) == pytest.approx(stats.f_oneway(*groups).pvalue, rel=1e-9)


@given(st.lists(st.integers(0, 9), min_size=5, max_size=40).filter(lambda values: len(set(values)) > 1))
def test_the_trend_of_ranks_is_spearmans_test(values: list[int]) -> None:
    found = stats.spearmanr(np.arange(len(values)), values)
    assert chance.ranks_of(values) == list(stats.rankdata(values))
    assert chance.trend(chance.ranks_of(values))[1] == pytest.approx(float(found.pvalue), rel=1e-6, abs=1e-12)


@given(st.lists(st.floats(0.5, 2.0), min_size=6, max_size=40))
def test_trend_and_difference(values: list[float]) -> None:
    found = stats.linregress(np.arange(len(values)), values)
    slope, likely = chance.trend(values)
    assert slope == pytest.approx(float(found.slope), abs=1e-12)
    if np.ptp(values) > 1e-6:
        assert likely == pytest.approx(float(found.pvalue), rel=1e-6, abs=1e-12)
    first, second = values[: len(values) // 2], values[len(values) // 2 :]
    # Where a half has equal values the oracle warns of its own errors.
    if min(np.ptp(first), np.ptp(second)) > 1e-3:
        expected = stats.ttest_ind(first, second, equal_var=False)
        assert chance.differ(first, second) == pytest.approx(float(expected.pvalue), rel=1e-6, abs=1e-12)


def test_no_command_waits_for_scipy() -> None:
    code = (
        "import sys, iodyno.cli.run, iodyno.cli.report, iodyno.cli.compare, iodyno.cli.tcp, iodyno.analysis.summary; "
        "sys.exit('scipy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
