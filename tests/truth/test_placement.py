"""Intervals of machine and setting, on simulated trials with a known truth; and how often a machine is accused that is none."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from draws import count_between, draws

from iodyno import designs
from iodyno.analysis.placement import Row, take_apart
from iodyno.core.design import PlannedTrial
from iodyno.formats.experiment_file import parse_experiment


def plans(points: int, replicates: int, pairs: int) -> list[tuple[PlannedTrial, ...]]:
    text = (
        f"name: p\nhosts: {{w: {{access: simulated, count: {2 * pairs}}}}}\n"
        "workload: {kind: stream, sender: client, receiver: server}\n"
        f"placement: {{pairs: {pairs}, of: w}}\nfactors: {{connections: {[*range(1, points + 1)]}}}\n"
        f"design: {{replicates: {replicates}}}\n"
    )
    asked = parse_experiment(text, environment={})
    seeds = (replace(asked, design=replace(asked.design, seed=seed)) for seed in range(1, 9))
    return [designs.plan(each).trials for each in seeds]


def held(
    points: int, replicates: int, pairs: int, between: float, count: int, slow: float = 0.0
) -> Counter[str]:
    """Of how many campaigns each interval holds the truth, and what is claimed of pairs. Trials vary by 2 %."""
    within, source, made = 0.02, np.random.default_rng(11), plans(points, replicates, pairs)
    found: Counter[str] = Counter()
    for campaign in range(count):
        trials = made[campaign % len(made)]
        names = sorted({str(trial.pair) for trial in trials})
        of_pair = dict(zip(names, source.normal(0, between, pairs), strict=True))
        of_pair[names[-1]] += slow
        rows = [
            Row(
                t.point.id,
                str(t.pair),
                math.exp(0.1 * int(t.point.levels["connections"]) + of_pair[str(t.pair)] + error),
            )
            for t, error in zip(trials, source.normal(0, within, len(trials)), strict=True)
        ]
        ends = [
            next(t.point.id for t in trials if t.point.levels["connections"] == level)
            for level in (1, points)
        ]
        told = take_apart("x", rows, [("connections", points, 1, {ends[1]: 1.0, ends[0]: -1.0})])
        assert told.ratio and told.machine and told.rest and told.rest.low and told.rest.high
        (effect,) = told.effects
        found["effect"] += effect.low <= math.expm1(0.1 * (points - 1)) <= effect.high
        _, low, high = told.ratio
        found["ratio"] += low <= (between / within) ** 2 and (high is None or (between / within) ** 2 <= high)
        found["machine"] += told.machine.low <= between and (
            told.machine.high is None or between <= told.machine.high
        )  # type: ignore[operator]
        found["trials"] += told.rest.low <= within <= told.rest.high
        found["differ"] += told.differs
        accused = [pair.name for pair in told.pairs if pair.out_of_line]
        found["accused"] += bool(accused)
        found["named"] += accused == names[-1:]
    return found


@pytest.mark.parametrize(("points", "replicates", "pairs"), [(4, 4, 4), (8, 3, 8)])
def test_intervals_hold_the_truth(points: int, replicates: int, pairs: int) -> None:
    count = draws(500)
    found = held(points, replicates, pairs, 0.05, count)
    low, high = count_between(0.95, count)
    for name in ("effect", "ratio", "machine", "trials"):
        assert low <= found[name] <= high, name
    assert found["accused"] <= count_between(0.05, count)[1]


def test_machines_that_are_alike_are_seldom_told_apart() -> None:
    count = draws(500)
    found = held(4, 4, 4, 0.0, count)
    assert found["differ"] <= count_between(0.025, count)[1]
    assert found["accused"] <= count_between(0.05, count)[1]
    assert found["effect"] >= count_between(0.95, count)[0]


def test_one_that_is_a_fifth_slower_than_seven_others_is_named() -> None:
    count = draws(100)
    found = held(4, 8, 8, 0.02, count, slow=-0.2)
    assert found["named"] >= 0.9 * count
