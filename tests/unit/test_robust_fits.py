"""Huber's estimate and the regression of a quantile: the published fits of the stack loss data, and what defines either."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from iodyno.analysis.cost_model.robust import TUNING, Matrix, Vector, huber, quantile_regression

# Brownlee, Statistical Theory and Methodology in Science and Engineering, 1965: air flow, water temperature, acid, stack loss.
STACK_LOSS = np.array(
    [
        (80, 27, 89, 42), (80, 27, 88, 37), (75, 25, 90, 37), (62, 24, 87, 28), (62, 22, 87, 18), (62, 23, 87, 18),
        (62, 24, 93, 19), (62, 24, 93, 20), (58, 23, 87, 15), (58, 18, 80, 14), (58, 18, 89, 14), (58, 17, 88, 13),
        (58, 18, 82, 11), (58, 19, 93, 12), (50, 18, 89, 8), (50, 18, 86, 7), (50, 19, 72, 8), (50, 19, 79, 8),
        (50, 20, 80, 9), (56, 20, 82, 15), (70, 20, 91, 15),
    ],
    float,
)  # fmt: skip


def stack_loss() -> tuple[Matrix, Vector]:
    return np.column_stack([np.ones(len(STACK_LOSS)), STACK_LOSS[:, :3]]), STACK_LOSS[:, 3]


def drawn(seed: int, count: int, columns: int) -> tuple[Matrix, Vector]:
    source = np.random.default_rng(seed)
    matrix = np.column_stack([np.ones(count), source.normal(size=(count, columns - 1))])
    return matrix, matrix @ source.normal(size=columns) + source.standard_t(2, size=count)


def loss(matrix: Matrix, values: Vector, quantile: float, coefficients: Vector) -> float:
    residuals = values - matrix @ coefficients
    return float(np.sum(np.where(residuals > 0, quantile, quantile - 1) * residuals))


def test_hubers_fit_of_the_stack_loss_data_is_the_published_one() -> None:
    """Of `rlm` in Venables and Ripley's MASS, which stops at 1e-4."""
    coefficients, covariance = huber(*stack_loss())
    assert coefficients == pytest.approx([-41.0265, 0.8294, 0.9261, -0.1278], abs=1e-4)
    assert np.sqrt(np.diag(covariance)) == pytest.approx([9.8073, 0.1112, 0.3034, 0.1289], rel=3e-3)
    # Of statsmodels 0.14, RLM(...).fit(tol=1e-15, conv="coefs").
    errors = [9.79189854, 0.11100521, 0.30293016, 0.12864961]
    assert np.sqrt(np.diag(covariance)) == pytest.approx(errors, rel=1e-7)


@pytest.mark.parametrize("seed", range(10))
def test_hubers_estimate_solves_its_equations(seed: int) -> None:
    matrix, values = drawn(seed, 40, 4)
    residuals = values - matrix @ huber(matrix, values)[0]
    limit = TUNING * float(np.median(np.abs(residuals))) / 0.6744897501960817
    assert matrix.T @ np.clip(residuals, -limit, limit) == pytest.approx(0, abs=1e-8)
    assert np.max(np.abs(residuals)) > limit, "some trials are far off"


def test_huber_of_an_exact_line_is_the_line() -> None:
    matrix, _ = drawn(1, 12, 3)
    coefficients, covariance = huber(matrix, matrix @ np.array([1.0, 2.0, 3.0]))
    assert coefficients == pytest.approx([1, 2, 3])
    assert np.all(np.isfinite(covariance)) and np.max(np.abs(covariance)) < 1e-20


@pytest.mark.parametrize(
    ("quantile", "published"),
    [(0.5, [-39.68986, 0.83188, 0.57391, -0.06087]), (0.25, [-36.0, 0.5, 1.0, 0.0])],
)
def test_quantiles_of_the_stack_loss_data_are_the_published_ones(
    quantile: float, published: list[float]
) -> None:
    """Of the examples of `rq` in Koenker's quantreg."""
    coefficients, _ = quantile_regression(*stack_loss(), quantile)
    assert coefficients == pytest.approx(published, abs=1e-5)


def test_the_errors_of_a_median_are_those_of_greene() -> None:
    """Of statsmodels 0.14, QuantReg(...).fit(q=0.5, p_tol=1e-12)."""
    _, covariance = quantile_regression(*stack_loss(), 0.5)
    errors = [10.08245111, 0.11429904, 0.31191893, 0.132467]
    assert np.sqrt(np.diag(covariance)) == pytest.approx(errors, rel=1e-5)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.75])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_no_line_through_trials_is_better(quantile: float, scale: float) -> None:
    """A best one goes through as many trials as there are coefficients (Koenker and Bassett 1978): all of them are tried."""
    matrix, values = drawn(3, 12, 3)
    found, _ = quantile_regression(matrix, values * scale, quantile)
    through = (
        np.linalg.solve(matrix[list(rows)], values[list(rows)] * scale) for rows in combinations(range(12), 3)
    )
    best = min(loss(matrix, values * scale, quantile, one) for one in through)
    assert loss(matrix, values * scale, quantile, found) == pytest.approx(best, rel=1e-9)


def test_the_median_of_a_sample_is_that_of_its_order() -> None:
    values = np.array([7.0, 1.0, 30.0, 5.0, 2.0])
    assert quantile_regression(np.ones((5, 1)), values, 0.5)[0] == pytest.approx([5.0])
    assert quantile_regression(np.ones((5, 1)), values, 0.9)[0] == pytest.approx([30.0])
