"""Many small least-squares problems at once, with bounds: a fit, its resamples and its leave-one-out fits.

A bootstrap solves the same problem some thousand times with other numbers. Levenberg-Marquardt (Marquardt 1963; damping by
the diagonal: Nocedal and Wright, Numerical Optimization, 2006, section 10.3) on arrays with one row a problem does it in a
few dozen numpy calls. Bounds by projection: a parameter at a bound that the gradient pushes outwards is held there
(Kelley, Iterative Methods for Optimization, 1999, section 5.5). scipy's `least_squares` is its oracle in the tests.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Curve = Callable[[Numbers], Numbers]
"""Predictions of many problems: parameters, a row each, to predictions, a row each. A row must not depend on others."""

_ROUNDS = 60
_STEP = 1e-6
"""Relative step of the forward difference (chosen: near the root of the precision of a double, with some to spare)."""
_DONE, _DONE_STEP = 1e-9, 1e-8
"""Relative gain of a round, and step relative to a parameter's size, below which a row is done (chosen: far below what the
noise of a resample does to it).
"""


def minimise(
    curve: Curve, targets: Numbers, weights: Numbers, starts: Numbers, lower: Numbers, upper: Numbers
) -> tuple[Numbers, Numbers]:
    """Parameters that minimise sum(weights (curve - targets)^2), a row each, and that sum.

    `targets` (rows, points), `weights` (rows, points) or (points,), `starts` (rows, parameters), bounds (parameters,).
    Rows whose curve is not finite at the start come back as they were, with an infinite sum.
    """
    at = np.clip(starts, lower, upper).astype(float)
    roots = np.sqrt(np.broadcast_to(weights, targets.shape))
    scale = np.maximum(np.abs(at), 1e-3 * np.max(np.abs(at), axis=0))
    scale = np.where(scale > 0, scale, 1.0)
    residual = _residual(curve, at, targets, roots)
    best = _sum(residual)
    damping = np.full(len(at), 1e-3)
    open_rows = np.flatnonzero(np.isfinite(best))
    for _ in range(_ROUNDS):
        if not len(open_rows):
            break
        rows = open_rows
        here, there, root = at[rows], targets[rows], roots[rows]
        jacobian = _jacobian(curve, here, residual[rows], there, root, scale[rows], upper)
        slope = np.einsum("rkp,rk->rp", jacobian, residual[rows])
        held = ((here <= lower) & (slope > 0)) | ((here >= upper) & (slope < 0))
        free = np.where(held, 0.0, 1.0)
        normal = np.einsum("rkp,rkq->rpq", jacobian, jacobian) * free[:, :, None] * free[:, None, :]
        diagonal = np.einsum("rpp->rp", normal)
        most = np.max(diagonal, axis=1, keepdims=True)
        size = np.where(most > 0, np.maximum(diagonal, 1e-12 * most), 1.0)
        index = np.arange(at.shape[1])
        normal[:, index, index] += np.where(held, 1.0, damping[rows, None] * size)
        step = -np.linalg.solve(normal, (slope * free)[:, :, None])[:, :, 0]
        tried = np.clip(here + step, lower, upper)
        new = _residual(curve, tried, there, root)
        total = _sum(new)
        better = total < best[rows]
        small = np.max(np.abs(tried - here) / scale[rows], axis=1) < _DONE_STEP
        done = small | (better & (best[rows] - total <= _DONE * best[rows])) | (damping[rows] > 1e9)
        at[rows[better]], residual[rows[better]] = tried[better], new[better]
        best[rows[better]] = total[better]
        damping[rows] = np.clip(np.where(better, damping[rows] / 5, damping[rows] * 6), 1e-12, 1e12)
        open_rows = rows[~done]
    return at, best


def _residual(curve: Curve, at: Numbers, targets: Numbers, roots: Numbers) -> Numbers:
    with np.errstate(all="ignore"):
        found = (curve(at) - targets) * roots
    return np.asarray(found)


def _sum(residual: Numbers) -> Numbers:
    total = np.einsum("rk,rk->r", residual, residual)
    return np.where(np.isfinite(total), total, np.inf)


def _jacobian(
    curve: Curve,
    at: Numbers,
    residual: Numbers,
    targets: Numbers,
    roots: Numbers,
    scale: Numbers,
    upper: Numbers,
) -> Numbers:
    """Derivatives of the residuals by forward differences; backward where that would leave the bounds."""
    rows, parameters = at.shape
    found = np.empty((rows, targets.shape[1], parameters))
    for number in range(parameters):
        step = _STEP * np.maximum(np.abs(at[:, number]), 1e-3 * scale[:, number])
        step = np.where(at[:, number] + step > upper[number], -step, step)
        moved = at.copy()
        moved[:, number] += step
        found[:, :, number] = (_residual(curve, moved, targets, roots) - residual) / step[:, None]
    return np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0)
