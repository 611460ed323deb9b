"""Designs that keep slow factors still for several trials: an error of those whole plots beside that of the trials.

A factor that changes only between plots is compared over plots, of which there are few: an analysis of single trials calls
its interval too narrow (Jones and Nachtsheim, Split-plot designs: what, why, and how, J. Quality Technology 41:4, 2009).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from iodyno.analysis.cost_model.terms import Matrix, Vector

_STILL = 1e-12


@dataclass(frozen=True)
class PlotFit:
    """Generalised least squares with two variances.

    `still`: the columns that do not vary within any plot, whose effects have `plot_df` degrees of freedom, those of the
    others `trial_df` (containment: an effect has those of the narrowest stratum that it lies in). `plot_sd` is that of
    plots beyond what trials explain, 0 where they explain it all.
    """

    coefficients: Vector
    covariance: Matrix
    still: tuple[bool, ...]
    plot_df: int
    trial_df: int
    plot_sd: float
    trial_sd: float


def still_columns(matrix: Matrix, plots: tuple[str, ...]) -> tuple[bool, ...]:
    """Which columns have one value in each plot."""
    first = {plot: row for row, plot in reversed(list(enumerate(plots)))}
    moved = np.abs(matrix - matrix[[first[plot] for plot in plots]]).max(axis=0)
    return tuple(bool(one <= _STILL) for one in moved)


def plot_df(matrix: Matrix, plots: tuple[str, ...]) -> int:
    """Plots less the columns that are still in them: what is left to tell the error of plots."""
    still = np.array(still_columns(matrix, plots))
    return len(set(plots)) - (int(np.linalg.matrix_rank(matrix[:, still])) if still.any() else 0)


def fit_plots(matrix: Matrix, values: Vector, plots: tuple[str, ...]) -> PlotFit | None:
    """The fit; None where the trials do not tell both errors apart: no plot to spare, or no trial within the plots.

    Both variances by fitting constants (Henderson's method 3, Biometrics 9, 1953; as Fuller and Battese, J. Econometrics 2,
    1974): that of trials from what is left when every plot has a mean of its own, that of plots from what the model leaves.
    """
    names = list(dict.fromkeys(plots))
    member = np.array([[plot == name for name in names] for plot in plots], dtype=float)
    count, columns = matrix.shape
    within = np.column_stack([member, matrix])
    trial_df = count - int(np.linalg.matrix_rank(within))
    spare = plot_df(matrix, plots)
    if trial_df < 1 or spare < 1:
        return None
    left = values - within @ np.linalg.lstsq(within, values, rcond=None)[0]
    trial_variance = float(left @ left) / trial_df
    q, _ = np.linalg.qr(matrix)
    rest = values - q @ (q.T @ values)
    projected = member - q @ (q.T @ member)
    seen = float(np.sum(member * projected))
    plot_variance = (
        max(0.0, (float(rest @ rest) - trial_variance * (count - columns)) / seen) if seen > 0 else 0.0
    )
    # The inverse of s I + p Z Z' is (I - Z diag(p / (s + p n)) Z') / s, with n trials in a plot.
    scale = max(trial_variance, 1e-9 * plot_variance) or 1.0
    sizes = member.sum(axis=0)
    shrink = (plot_variance / (scale + plot_variance * sizes))[:, None]

    def weigh(right: Matrix) -> Matrix:
        found: Matrix = (right - member @ (shrink * (member.T @ right))) / scale
        return found

    inverse = np.linalg.inv(matrix.T @ weigh(matrix))
    coefficients: Vector = inverse @ (matrix.T @ weigh(values[:, None]))[:, 0]
    covariance: Matrix = (
        inverse.astype(np.float64) if trial_variance + plot_variance > 0 else np.zeros_like(inverse)
    )
    return PlotFit(
        coefficients,
        covariance,
        still_columns(matrix, plots),
        spare,
        trial_df,
        math.sqrt(plot_variance),
        math.sqrt(trial_variance),
    )
