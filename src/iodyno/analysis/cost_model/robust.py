"""Linear fits that far-off trials hardly move: Huber's M-estimate, and the regression of a quantile.

Both return coefficients with their covariance. numpy and scipy alone; statsmodels and the published fits of the stack loss data
agree (tests).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from iodyno.analysis.chance import norm

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Solution = tuple[Vector, Matrix]

TUNING = 1.345
"""Huber's k: 95 % of the efficiency of least squares where errors are normal (Holland and Welsch 1977)."""
_ITERATIONS = 2000
"""At most (chosen: with few degrees of freedom the scale may move for some hundred rounds, of 50 us each)."""
_CONVERGED = 1e-11
"""Change of the fitted values over their spread at which iterating ends (chosen: a tenth of what equal results may differ by)."""


def huber(matrix: Matrix, values: Vector) -> Solution:
    """Huber's M-estimate (1964) with the scale by the median absolute residual, by iteratively reweighted least squares.

    The covariance is Huber's first (Huber and Ronchetti, Robust Statistics, 2009, equation 7.81).
    """
    coefficients = _least_squares(matrix, values)
    spread = float(np.std(values)) or 1.0
    for _ in range(_ITERATIONS):
        residuals = values - matrix @ coefficients
        scale = _scale(residuals)
        if not scale:
            break
        root = np.sqrt(np.minimum(1.0, TUNING * scale / np.maximum(np.abs(residuals), 1e-300)))
        found = _least_squares(matrix * root[:, None], values * root)
        moved = float(np.max(np.abs(matrix @ (found - coefficients))))
        coefficients = found
        if moved <= _CONVERGED * spread:
            break
    residuals = values - matrix @ coefficients
    count, columns = matrix.shape
    scale = _scale(residuals)
    limit = TUNING * scale
    inside = float(np.mean(np.abs(residuals) <= limit))
    # Of psi', which is 1 inside and 0 outside, the variance is inside (1 - inside).
    correction = 1 + columns / count * (1 - inside) / inside
    psi = np.clip(residuals, -limit, limit)
    variance = (correction / inside) ** 2 * float(psi @ psi) / (count - columns)
    return coefficients, variance * _normal_inverse(matrix)


def quantile_regression(matrix: Matrix, values: Vector, quantile: float) -> Solution:
    """The regression of a quantile (Koenker and Bassett 1978), solved exactly as a linear programme in its dual form.

    The covariance is the sandwich of Greene (Econometric Analysis, 6th edition, section 14.3.2) with the density at the quantile
    by Epanechnikov's kernel and the bandwidth of Hall and Sheather (1988).
    """
    from scipy.optimize import linprog  # slow to import, and few need it

    # Around the least squares line and in units of the spread, so that the solver's tolerances mean something.
    start = _least_squares(matrix, values)
    rest = values - matrix @ start
    spread = float(np.std(rest)) or 1.0
    length = np.linalg.norm(matrix, axis=0) / math.sqrt(len(values))
    scaled = matrix / length
    solved = linprog(
        -rest / spread,
        A_eq=scaled.T,
        b_eq=(1 - quantile) * scaled.sum(axis=0),
        bounds=(0, 1),
        method="highs-ds",
        options={"dual_feasibility_tolerance": 1e-10, "primal_feasibility_tolerance": 1e-10},
    )
    coefficients: Vector = start - spread * solved.eqlin.marginals / length
    residuals = values - matrix @ coefficients
    count = len(values)
    z = norm.ppf(quantile)
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    width = (norm.ppf(0.975) ** 2 * 1.5 * density**2 / (2 * z * z + 1) / count) ** (1 / 3)
    between = float(np.subtract(*np.percentile(residuals, (75, 25)))) / 1.34
    near = norm.ppf(quantile + width) - norm.ppf(quantile - width)
    with np.errstate(divide="ignore", invalid="ignore"):
        bandwidth = min(float(np.std(values)), between) * near
        at = residuals / bandwidth
        sparsity = count * bandwidth / float(np.sum(0.75 * (1 - at**2) * (np.abs(at) <= 1)))
    # As many trials as coefficients lie on the fit, up to rounding.
    above = residuals > 1e-9 * spread
    weights = np.where(above, quantile, 1 - quantile) * sparsity
    inverse = _normal_inverse(matrix)
    half = inverse @ (matrix * weights[:, None]).T
    return coefficients, half @ half.T


def _scale(residuals: Vector) -> float:
    """The standard deviation of normal residuals with this median of their sizes."""
    return float(np.median(np.abs(residuals))) / float(norm.ppf(0.75))


def _least_squares(matrix: Matrix, values: Vector) -> Vector:
    return np.asarray(np.linalg.lstsq(matrix, values, rcond=None)[0], dtype=np.float64)


def _normal_inverse(matrix: Matrix) -> Matrix:
    r = np.linalg.qr(matrix, mode="r")
    inverse = np.linalg.inv(r)
    found: Matrix = inverse @ inverse.T
    return found
