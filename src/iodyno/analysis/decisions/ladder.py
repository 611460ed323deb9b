"""The noise ladder of a campaign: its outcomes level by level, what each level costs in time, and the floors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, median

from iodyno.analysis.dataset import Dataset
from iodyno.analysis.decisions.noise import Allocation, Noise, Tree, allocation, noise
from iodyno.analysis.outcomes import measure
from iodyno.analysis.summary import asked_outcomes, basis_of
from iodyno.analysis.trial import Trial
from iodyno.core.errors import StoreError
from iodyno.core.noise import LEVELS, NoiseSpec


@dataclass(frozen=True)
class Ladder:
    """Findings of a noise ladder. `costs_s`: seconds that one more of each level takes, by level; `trials`: finished ones.

    `allocations`: by outcome, how often to repeat each level.
    """

    spec: NoiseSpec
    trials: int
    outcomes: tuple[Noise, ...]
    allocations: dict[str, tuple[Allocation, ...]]
    costs_s: dict[str, float]


def spec_of(dataset: Dataset) -> NoiseSpec:
    """Return the specification by which the ladder was built. Raises StoreError when the campaign is none."""
    stored = dataset.experiment.get("noise")
    if not stored:
        raise StoreError(
            "is no noise ladder", where=str(dataset.folder), advice="make one: iodyno noise EXPERIMENT"
        )
    return NoiseSpec(**{name: stored[name] for name in NoiseSpec.__dataclass_fields__ if name in stored})


def ladder(dataset: Dataset, *, trials: int = 3) -> Ladder:
    """The components of every outcome that the experiment asks for, and the floors of `trials` trials a point.

    Raises StoreError when the campaign is no noise ladder.
    """
    spec = spec_of(dataset)
    finished = [trial for trial in dataset.trials if trial.finished]
    basis = basis_of(dataset)
    measured = {trial.name: measure(trial, basis) for trial in finished}
    costs = _costs(finished)
    found, allocated = [], {}
    for outcome in asked_outcomes(dataset):
        with_intervals = all(
            len(measured[t.name][outcome].intervals) >= 2 for t in finished if outcome in measured[t.name]
        )
        levels = LEVELS if with_intervals else LEVELS[:-1]
        sessions: dict[int, list[Tree]] = {}
        for trial in finished:
            one = measured[trial.name].get(outcome)
            if one is not None and one.value is not None:
                value: Tree = list(one.intervals) if with_intervals else one.value
                sessions.setdefault(trial.block, []).append(value)
        blocks: dict[int, list[Tree]] = {}
        for session, values in sorted(sessions.items()):
            blocks.setdefault(session // spec.restarts, []).append(values)
        each = noise(outcome, list(blocks.values()), levels, trials=trials)
        found.append(each)
        allocated[outcome] = tuple(allocation(each, [costs[level] for level in levels], levels))
    return Ladder(spec, len(finished), tuple(found), allocated, costs)


def _costs(trials: Sequence[Trial]) -> dict[str, float]:
    """Seconds for one more at each level, beside what it holds: medians of what was seen."""
    intervals = [
        record.span_ns for trial in trials for host in trial.hosts.values() for record in host.measured
    ]
    interval_s = fmean(intervals) / 1e9 if intervals else 0.0
    measured_s = (
        median([max((h.measured_ns for h in t.hosts.values()), default=0) for t in trials]) / 1e9
        if trials
        else 0.0
    )
    begun = {trial.order: _seconds(trial.started_wall) for trial in trials}
    same: list[float] = []
    other: list[float] = []
    for before, after in itertools.pairwise(trials):
        one, two = begun[before.order], begun[after.order]
        if one is not None and two is not None and after.order == before.order + 1:
            (same if before.block == after.block else other).append(two - one)
    whole_s = median(same) if same else measured_s
    restart_s = max(0.0, median(other) - whole_s) if other else 0.0
    return {
        "interval": interval_s,
        "trial": max(0.0, whole_s - measured_s),
        "restart": restart_s,
        "block": restart_s,
    }


def _seconds(written: str) -> float | None:
    try:
        return datetime.fromisoformat(written).timestamp()
    except ValueError:
        return None
