"""The analysis finds again what a campaign was made from, and is as sure as it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from draws import count_between, draws, within
from made_campaign import Layout, Truth, changed, make_campaign
from made_classes import ExactTruth

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.results import PointSummary
from iodyno.analysis.summary import analyse

POINTS = draws(240)
FEW = draws(100)
"""Where an interval may hold the truth more often than it says, so that only too few would be wrong."""


def many_points(folder: Path, truth: Truth, replicates: int, count: int = POINTS) -> list[PointSummary]:
    """Seeded points of one truth."""
    points = [({"connections": number}, truth) for number in range(1, count + 1)]
    layout = Layout(intervals=8, replicates=replicates)
    made = make_campaign(folder / "c", points, layout=layout, seed=20081217)
    return list(analyse(read_dataset(made)).points)


def covered(points: list[PointSummary], outcome: str, true: float) -> int:
    """How many of the intervals hold the truth."""
    found = [point.outcomes[outcome] for point in points]
    return sum((e.low or 0) <= true <= (e.high or 0) for e in found)


@pytest.fixture(scope="module")
def three_trials(tmp_path_factory: pytest.TempPathFactory) -> list[PointSummary]:
    truth = Truth(exact=ExactTruth(wander=0.05))
    return many_points(tmp_path_factory.mktemp("truth"), truth, 3)


@pytest.mark.parametrize(
    ("outcome", "true"),
    [
        ("client.cpu_ns_per_kib", 400.0),
        ("server.cpu_ns_per_kib", 300.0),
        ("client.cycles_per_kib", 800.0),
        ("client.cpu_usr_ns_per_kib", 0.08 * 400),
        ("client.cpu_sys_ns_per_kib", 0.55 * 400),
        ("client.cpu_irq_ns_per_kib", 0.02 * 400),
        ("client.cpu_softirq_ns_per_kib", 0.35 * 400),
        ("server.cpu_softirq_ns_per_kib", 0.35 * 300),
        ("server.cpu_softirq_ratio", 0.35 * 300 * 1e9 / 1024 / 2e9 + 0.2 * 0.05),
        ("goodput_bits_per_s", 8e9),
    ],
)
def test_the_interval_over_three_trials_holds_the_truth_in_95_of_100(
    three_trials: list[PointSummary], outcome: str, true: float
) -> None:
    low, high = count_between(0.95, POINTS)
    assert low <= covered(three_trials, outcome, true) <= high
    estimates = [point.outcomes[outcome].estimate or 0 for point in three_trials]
    assert sum(estimates) / POINTS == pytest.approx(true, rel=within(0.005, POINTS, 240))


def test_ticks_widen_the_interval_but_never_lose_the_truth(tmp_path: Path) -> None:
    """Idle time of /proc/stat is known to its ticks only; what that leaves open of the background is in the interval."""
    points = many_points(tmp_path, Truth(), 3, FEW)
    low, _ = count_between(0.95, FEW)
    assert covered(points, "client.cpu_ns_per_kib", 400.0) >= low
    assert "tier irq_time" in points[0].outcomes["client.cpu_ns_per_kib"].method


def test_the_interval_of_one_trial_holds_the_truth_when_trials_do_not_differ(tmp_path: Path) -> None:
    points = many_points(tmp_path, changed(Truth(), between=0.0), 1)
    low, _ = count_between(0.95, POINTS)
    assert covered(points, "goodput_bits_per_s", 8e9) >= low


@pytest.mark.parametrize("background", [0.0, 0.3])
def test_subtracting_the_background_removes_its_bias(tmp_path: Path, background: float) -> None:
    points = [({"connections": number}, changed(Truth(), background=background)) for number in range(1, 25)]
    summary = analyse(read_dataset(make_campaign(tmp_path / "c", points)))
    found = [point.outcomes["client.cpu_ns_per_kib"].estimate or 0 for point in summary.points]
    assert sum(found) / len(found) == pytest.approx(400, rel=0.01)
    raw = [point.outcomes["client.cpu_busy_ratio"].estimate or 0 for point in summary.points]
    expected = background + 400e-9 * 1e9 / 1024 / 2
    assert sum(raw) / len(raw) == pytest.approx(expected, rel=0.01)
