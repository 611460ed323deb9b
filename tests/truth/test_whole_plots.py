"""Intervals of designs with slow factors, on simulated trials with a known truth."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from iodyno.analysis.cost_model.coding import FactorScale
from iodyno.analysis.cost_model.data import CostData, read_csv
from iodyno.analysis.cost_model.fit import fit
from iodyno.analysis.cost_model.study import study

SLOW, FAST = 2.0, 1.0
"""Effects from -1 to +1."""


def trials(source: np.random.Generator, plot_sd: float, replicates: int = 4) -> CostData:
    """A slow factor kept still for the four trials of a plot, two fast ones within; two plots a replicate."""
    rows, values, plots = [], [], []
    for replicate in range(replicates):
        for slow in (0.0, 1.0):
            of_plot = source.normal(0, plot_sd)
            for fast in (0.0, 1.0):
                for other in (0.0, 1.0):
                    rows.append({"slow": slow, "fast": fast, "other": other})
                    values.append(10 + SLOW * slow + FAST * fast + of_plot + source.normal(0, 0.5))
                    plots.append(f"{replicate}/{slow}")
    scales = tuple(FactorScale(name, "number", (0.0, 1.0)) for name in ("slow", "fast", "other"))
    return CostData("cost", "ns", scales, tuple(rows), np.array(values), plots=tuple(plots))


def coverage(plot_sd: float, repeats: int = 400) -> dict[str, float]:
    source = np.random.default_rng(7)
    held = {"slow": 0, "fast": 0}
    for _ in range(repeats):
        model = fit(trials(source, plot_sd), "slow + fast + other").model
        assert model.covariance is not None
        for place, (name, truth) in enumerate((("slow", SLOW / 2), ("fast", FAST / 2)), start=1):
            row = np.eye(4)[place]
            half = model.quantile(row) * math.sqrt(float(row @ model.covariance @ row))
            held[name] += abs(float(model.coefficients[place]) - truth) <= half
    return {name: count / repeats for name, count in held.items()}


@pytest.mark.parametrize("plot_sd", [0.5, 3.0])
def test_intervals_of_slow_and_fast_factors_hold_the_truth(plot_sd: float) -> None:
    slack = 3 * math.sqrt(0.95 * 0.05 / 400)
    for name, share in coverage(plot_sd).items():
        assert share == pytest.approx(0.95, abs=slack), name


def test_where_plots_do_not_differ_the_interval_is_wide_rather_than_wrong() -> None:
    """The variance of plots is not below 0: a little too much on average, and few degrees of freedom."""
    held = coverage(0.0)
    assert held["slow"] > 0.93 and 0.92 < held["fast"] < 0.98


def test_a_balanced_design_is_the_analysis_of_plot_means() -> None:
    """An independent oracle: a balanced slow effect is a t test of the means of plots."""
    from scipy.stats import ttest_ind

    data = trials(np.random.default_rng(1), 3.0)
    model = fit(data, "slow + fast + other").model
    means = {
        plot: float(np.mean([v for v, p in zip(data.values, data.plots, strict=True) if p == plot]))
        for plot in data.plots
    }
    high = [mean for plot, mean in means.items() if plot.endswith("1.0")]
    low = [mean for plot, mean in means.items() if plot.endswith("0.0")]
    assert model.covariance is not None and model.plot_df == 6
    t = float(model.coefficients[1]) / math.sqrt(float(model.covariance[1, 1]))
    assert t == pytest.approx(float(ttest_ind(high, low).statistic), rel=1e-9)


def test_a_file_with_a_column_of_plots_is_fitted_so_and_says_so(tmp_path: Path) -> None:
    data = trials(np.random.default_rng(2), 2.0)
    lines = ["plot,slow,fast,other,cost"]
    lines += [
        f"{p},{r['slow']},{r['fast']},{r['other']},{v}"
        for p, r, v in zip(data.plots, data.rows, data.values, strict=True)
    ]
    path = tmp_path / "trials.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    made = study(fit(read_csv(path), "slow + fast"))
    assert "in 8 whole plots" in made.model.method
    assert any(check.name == "whole plots" and "6 degrees of freedom" in check.found for check in made.checks)


def test_one_plot_a_level_tells_no_error_of_plots_and_is_warned_of() -> None:
    made = study(fit(trials(np.random.default_rng(3), 2.0, replicates=1), "slow + fast"))
    (check,) = [check for check in made.checks if check.name == "whole plots"]
    assert (
        check.warning is not None and "too narrow for what changes only between plots (slow)" in check.found
    )
