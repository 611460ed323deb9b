"""The analysis finds again what a campaign was made from, and is as sure as it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_campaign import Layout, Truth, changed, make_campaign
from scipy import stats

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse

POINTS = 240


def coverage(folder: Path, outcome: str, true: float, truth: Truth, replicates: int) -> tuple[int, float]:
    """How many of 240 seeded points have the truth in their interval, and the mean of their estimates."""
    points = [({"connections": number}, truth) for number in range(1, POINTS + 1)]
    layout = Layout(intervals=8, replicates=replicates)
    summary = analyse(read_dataset(make_campaign(folder / outcome, points, layout=layout, seed=20081217)))
    found = [point.outcomes[outcome] for point in summary.points]
    covered = sum((e.low or 0) <= true <= (e.high or 0) for e in found)
    return covered, sum(e.estimate or 0 for e in found) / len(found)


@pytest.mark.parametrize(
    ("outcome", "true"),
    [("client.cpu_ns_per_kib", 400.0), ("goodput_bits_per_s", 8e9), ("client.cycles_per_kbyte", 800.0)],
)
def test_the_interval_over_three_trials_holds_the_truth_in_95_of_100(
    tmp_path: Path, outcome: str, true: float
) -> None:
    covered, mean = coverage(tmp_path, outcome, true, Truth(), replicates=3)
    # Bounds that a count of 240 with probability 0.95 leaves once in a thousand times.
    low, high = stats.binom.interval(0.999, POINTS, 0.95)
    assert low <= covered <= high
    assert mean == pytest.approx(true, rel=0.005)


def test_the_interval_of_one_trial_holds_the_truth_when_trials_do_not_differ(tmp_path: Path) -> None:
    covered, _ = coverage(tmp_path, "goodput_bits_per_s", 8e9, changed(Truth(), between=0.0), replicates=1)
    low, _ = stats.binom.interval(0.999, POINTS, 0.95)
    assert covered >= low - 10  # a little narrow: eight intervals tell little of their own autocorrelation


@pytest.mark.parametrize("background", [0.0, 0.05, 0.3])
def test_subtracting_the_background_removes_its_bias(tmp_path: Path, background: float) -> None:
    points = [({"connections": number}, changed(Truth(), background=background)) for number in range(1, 25)]
    summary = analyse(read_dataset(make_campaign(tmp_path / "c", points)))
    found = [point.outcomes["client.cpu_ns_per_kib"].estimate or 0 for point in summary.points]
    assert sum(found) / len(found) == pytest.approx(400, rel=0.01)
    raw = [point.outcomes["client.cpu_busy_ratio"].estimate or 0 for point in summary.points]
    expected = background + 400e-9 * 1e9 / 1024 / 2
    assert sum(raw) / len(raw) == pytest.approx(expected, rel=0.01)
