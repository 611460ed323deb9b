"""Verdicts of few trials by the spread of all: a large change is told from two, and a change that is none rarely."""

from __future__ import annotations

import io
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from draws import count_between, draws
from made_campaign import Layout, Truth, make_campaign
from scipy import stats

from iodyno.analysis.compare import Change, change
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.interval import t_interval
from iodyno.analysis.pooled_spread import pooled_spread
from iodyno.analysis.summary import analyse
from iodyno.core.outcome import Estimate
from iodyno.report.method import method_rows
from iodyno.report.terminal import show_tables


def estimates(points: np.ndarray) -> list[Estimate]:
    """Of points with a row of values each."""
    spread = pooled_spread(points.tolist())
    return [
        Estimate(float(row.mean()), *t_interval(row.tolist()), len(row), "1/s", "t", spread=spread)
        for row in points
    ]


def verdicts(points: np.ndarray) -> list[Change]:
    return [change(a, b) for a, b in combinations(estimates(points), 2)]


def drawn(source: np.random.Generator, points: int, trials: int, spreads: list[float]) -> np.ndarray:
    scale = np.resize(spreads, points)[:, None]
    return np.asarray(np.exp(source.normal(0, 1, (points, trials)) * scale))


@pytest.mark.parametrize("spreads", [[0.02], [0.3], [0.03, 0.1], [0.01, 0.1]])
@pytest.mark.parametrize(("points", "trials"), [(2, 2), (2, 3), (4, 2), (8, 2), (4, 4)])
def test_of_points_that_do_not_differ_a_change_is_told_in_one_of_twenty_at_the_most(
    points: int, trials: int, spreads: list[float]
) -> None:
    source, count = np.random.default_rng(points * 100 + trials), draws(2000)
    wrong = [
        [step.verdict != "undecided" for step in verdicts(drawn(source, points, trials, spreads))]
        for _ in range(count)
    ]
    most = count_between(0.05, count)[1]
    assert sum(map(fmean, wrong)) <= most
    if len(spreads) == 1:
        # Of all pairs together, where all points spread alike.
        assert sum(map(any, wrong)) <= most


@pytest.mark.parametrize(("points", "spread"), [(2, 0.08), (3, 0.2), (12, 0.3)])
def test_a_tenfold_change_is_told_from_two_trials(points: int, spread: float) -> None:
    source, count = np.random.default_rng(5), draws(500)
    told = 0
    for _ in range(count):
        values = drawn(source, points, 2, [spread])
        values[-1] *= 10
        found = estimates(values)
        step = change(found[0], found[-1])
        told += step.verdict == "rises"
    # The others have spreads that seem to differ by chance, and stand on their own.
    assert told > 0.8 * count


def test_the_guard_is_the_test_of_bartlett() -> None:
    source = np.random.default_rng(2)
    known = [np.exp(source.normal(0, sd, 5)) for sd in (0.1, 0.1, 0.3, 0.2)]
    p = float(stats.bartlett(*(np.log(values) for values in known)).pvalue)
    assert (pooled_spread([values.tolist() for values in known]) is None) == (p < 0.1)
    alike = [[1.0, 1.1], [2.0, 2.3], [5.0, 5.2]]
    found = pooled_spread(alike)
    assert found is not None and (found.freedom, found.points) == (3, 3)
    assert found.sd**2 == pytest.approx(float(np.mean([np.var(np.log(v), ddof=1) for v in alike])))


@pytest.mark.parametrize(
    "values", [[], [[1.0], [2.0]], [[1.0, 2.0]], [[0.0, 1.0], [1.0, 2.0]], [[1.0, 1.0], [3.0, 3.0]]]
)
def test_where_there_is_no_spread_points_stand_on_their_own(values: list[list[float]]) -> None:
    assert pooled_spread(values) is None


def test_the_report_of_two_trials_a_point_concludes_and_says_by_what(tmp_path: Path) -> None:
    points = [
        ({"connections": number}, Truth(bytes_per_s=rate, between=0.1))
        for number, rate in ((1, 0.7e9), (4, 3.3e9), (16, 3.3e9))
    ]
    factors = [{"name": "connections", "levels": [1, 4, 16], "together": {}}]
    folder = make_campaign(tmp_path / "c", points, factors=factors, layout=Layout(replicates=2))
    summary, out = analyse(read_dataset(folder)), io.StringIO()
    show_tables(summary, out)
    rate = next(line for line in out.getvalue().splitlines() if " at the least " in line)
    assert "at the least (1 connection)" in rate and "a factor of" in rate
    assert "Changes are judged by the relative spread of the trials, pooled over all points" in out.getvalue()
    assert "pooled over all points" in dict(method_rows(summary))["Changes"]
