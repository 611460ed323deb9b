"""Quantiles and tails against those of scipy.stats, which is the oracle: no command waits for its import."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from iodyno.analysis import chance

SHARES = np.array([1e-9, 0.005, 0.025, 0.3, 0.5, 0.8, 0.975, 0.999])
VALUES = np.array([-40.0, -3.0, -0.1, 0.0, 0.7, 2.5, 60.0])
FREEDOMS = np.array([0.5, 1.0, 2.0, 7.5, 60.0, 1e5])
CLOSE = {"rel": 1e-9, "abs": 1e-300}


def test_normal_and_half_normal() -> None:
    assert chance.norm.ppf(SHARES) == pytest.approx(stats.norm.ppf(SHARES), **CLOSE)
    assert chance.norm.cdf(VALUES) == pytest.approx(stats.norm.cdf(VALUES), **CLOSE)
    assert chance.norm.sf(VALUES) == pytest.approx(stats.norm.sf(VALUES), **CLOSE)
    assert chance.halfnorm.ppf(SHARES) == pytest.approx(stats.halfnorm.ppf(SHARES), **CLOSE)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_student_and_chi_square(freedom: float) -> None:
    assert chance.t.ppf(SHARES, freedom) == pytest.approx(stats.t.ppf(SHARES, freedom), **CLOSE)
    assert chance.t.sf(VALUES, freedom) == pytest.approx(stats.t.sf(VALUES, freedom), **CLOSE)
    assert chance.t.pdf(VALUES, freedom) == pytest.approx(stats.t.pdf(VALUES, freedom), rel=1e-7)
    assert chance.chi2.ppf(SHARES, freedom) == pytest.approx(stats.chi2.ppf(SHARES, freedom), **CLOSE)
    above = np.abs(VALUES)
    assert chance.chi2.sf(above, freedom) == pytest.approx(stats.chi2.sf(above, freedom), **CLOSE)
    for other in FREEDOMS:
        assert chance.f.ppf(SHARES, freedom, other) == pytest.approx(
            stats.f.ppf(SHARES, freedom, other), rel=1e-6
        )
        assert chance.f.sf(above, freedom, other) == pytest.approx(
            stats.f.sf(above, freedom, other), rel=1e-6
        )


def test_many_degrees_of_freedom_are_the_normal_law() -> None:
    assert chance.t.ppf(0.975, np.inf) == pytest.approx(stats.norm.ppf(0.975))
    assert chance.t.sf(1.5, np.inf) == pytest.approx(stats.norm.sf(1.5))
    assert list(chance.t.ppf(0.975, np.array([3.0, np.inf]))) == pytest.approx(
        [stats.t.ppf(0.975, 3), stats.norm.ppf(0.975)]
    )
    assert np.isnan(chance.t.ppf(0.975, 0.0))


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


def test_no_command_waits_for_scipy_stats() -> None:
    code = (
        "import sys, iodyno.cli.run, iodyno.cli.report, iodyno.cli.compare, iodyno.cli.tcp; "
        "sys.exit('scipy.stats' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
