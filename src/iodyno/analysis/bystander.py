"""Effects of a setting on the workload and on the bystander: no tuning may favour one flow at another's cost.

Both are measured in the same trials; a contrast is two points that differ in one factor. As everywhere, a change is claimed
only where the intervals of the two points do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from iodyno.analysis.compare import Change, change
from iodyno.core.outcome import BYSTANDER, OUTCOMES, Estimate
from iodyno.core.workload import Level

INSTEAD: Mapping[str, str] = {
    "latency_from_schedule_p99_ns": "latency_from_schedule_p50_ns",
    "latency_p99_ns": "latency_p50_ns",
}
"""Outcome that stands for one that cannot be had: trials with few operations have no 99th percentile."""


@dataclass(frozen=True)
class Felt:
    """A change of one outcome that users feel. `better`: True, False, or None where it is undecided."""

    outcome: str
    change: Change
    better: bool | None


@dataclass(frozen=True)
class Trade:
    """Effects on both of taking `factor` from one level to the next, at fixed `others` (labels of the points). `beside`: the
    bystander's name.
    """

    factor: str
    before: str
    after: str
    others: Mapping[str, str]
    workload: tuple[Felt, ...]
    bystander: tuple[Felt, ...]
    beside: str = BYSTANDER

    @property
    def at_its_cost(self) -> bool:
        """True where one of the two is better off, and the other worse."""
        ours, theirs = ({felt.better for felt in side} for side in (self.workload, self.bystander))
        return (True in ours and False in theirs) or (False in ours and True in theirs)


Outcomes = Mapping[str, Estimate]


def trades(
    points: Sequence[tuple[Mapping[str, Level], Mapping[str, str], Outcomes]],
    levels: Mapping[str, Sequence[Level]],
    felt: tuple[Sequence[str], Sequence[str]],
    beside: str = BYSTANDER,
) -> Iterator[Trade]:
    """Every contrast of neighbouring levels. `points`: levels, labels, outcomes; `levels`: those of each factor that
    varies, in order; `felt`: outcomes that users of the workload and of the bystander feel.
    """
    for factor, ordered in levels.items():
        for before, after in pairwise(ordered):
            for at, labels, outcomes in points:
                if at.get(factor) != before:
                    continue
                wanted = {name: at.get(name) for name in levels} | {factor: after}
                other = next((p for p in points if {name: p[0].get(name) for name in levels} == wanted), None)
                if other is None:
                    continue
                ours = tuple(_felt(outcomes, other[2], felt[0]))
                watched = [f"{beside}.{name}" for name in felt[1]]
                theirs = tuple(_felt(outcomes, other[2], watched))
                others = {name: label for name, label in labels.items() if name != factor and name in levels}
                yield Trade(factor, labels[factor], other[1][factor], others, ours, theirs, beside)


def _felt(first: Outcomes, second: Outcomes, names: Sequence[str]) -> Iterator[Felt]:
    for wanted_name in names:
        host, dot, outcome = wanted_name.rpartition(".")
        known = (
            (name, first[name], second[name])
            for name in (wanted_name, f"{host}{dot}{INSTEAD.get(outcome, outcome)}")
            if all(side.get(name) is not None and side[name].estimate is not None for side in (first, second))
        )
        name, a, b = next(known, (None, None, None))
        if name is None or a is None or b is None:
            continue
        step = change(a, b)
        wanted = {"higher": "rises", "lower": "falls"}.get(OUTCOMES[name.rpartition(".")[2]].better)
        better = None if step.verdict == "undecided" else step.verdict == wanted
        yield Felt(name, step, better)
