"""Elasticity: per cent of rate per per cent of resource, from trials in which one resource was changed.

Each block of a proof holds a trial without change and one of every change, near in time. The log ratio of the rates in
a block, over the log ratio of the resource, is one observation of d ln rate / d ln resource (Varian, Microeconomic
Analysis); what drifts from block to block falls out of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from iodyno.analysis import arrivals
from iodyno.analysis.goodput import goodput
from iodyno.analysis.interval import t_interval
from iodyno.analysis.trial import Trial
from iodyno.core.limiter import Elasticity, Perturbation, Proof, kind_of
from iodyno.loads.disk.analysis import classes

LEAST = 0.2
"""Elasticity from which on a resource counts as one that the rate follows (chosen: a fifth of what a sole limiter has,
and more than trials that differ by some percent make of six pairs)."""
MOST = 1.1
"""Elasticity above which a resource cannot be all that changed: of a sole limiter the rate follows as far as it goes (chosen: a
tenth for what a change brings with it)."""
PAIRS_LEAST = 2


@dataclass(frozen=True)
class Pair:
    """Rates of a trial without a change and of one with it, from one block."""

    perturbation: Perturbation
    unchanged: float
    changed: float


def elasticity(pairs: Sequence[Pair]) -> Elasticity | None:
    """The elasticity from pairs of one or more changes of a resource; None without a pair."""
    found = [
        math.log(pair.changed / pair.unchanged) / math.log(pair.perturbation.resource_ratio)
        for pair in pairs
        if pair.changed > 0 and pair.unchanged > 0 and pair.perturbation.resource_ratio not in (0.0, 1.0)
    ]
    if not found:
        return None
    n = len(found)
    low, high = t_interval(found) if n >= PAIRS_LEAST else (None, None)
    return Elasticity(fmean(found), low, high, n, f"t interval over {n} paired log ratios")


def judge(limiter: str, pairs: Sequence[Pair]) -> Proof:
    """Judge the limiter by the pairs.

    A resource with slack makes itself felt when there is less of it, but not when there is more. So what counts is more
    of it, where that could be had; and only if that raised the rate, surely and by enough, less of it counts with it: where
    the raise may have been chance, the rate would be said to follow what it only falls with. Where there could not be
    more, the change is small, and what idles counts as resource too, so that one with slack is not felt.
    """
    by_direction = {
        direction: found
        for direction in ("relax", "tighten")
        if (found := elasticity([pair for pair in pairs if pair.perturbation.direction == direction]))
    }
    relaxed = by_direction.get("relax")
    raised = relaxed is None or (relaxed.estimate > LEAST and (relaxed.low is None or relaxed.low > 0))
    counts = elasticity(pairs) if raised else relaxed
    if counts is None or counts.low is None or counts.high is None:
        return Proof(
            limiter, "undecided", "too few of the trials of the proof finished", counts, by_direction
        )
    how = (
        "less"
        if relaxed is None
        else "more"
        if counts is relaxed or len(by_direction) == 1
        else "more or less"
    )
    changed = f"{how} {kind_of(limiter).resource}"
    shown = f"{counts.estimate:.2f} % of rate per % of it [{counts.low:.2f}, {counts.high:.2f}]"
    shown += f", {counts.n} pairs"
    if counts.low > MOST:
        more = "more than the resource alone can give: something else changed with it"
        return Proof(limiter, "undecided", f"{changed}: {shown}, {more}", counts, by_direction)
    if counts.low > LEAST:
        return Proof(limiter, "proved", f"{changed}: {shown}", counts, by_direction)
    if counts.high < LEAST:
        return Proof(limiter, "contradicted", f"{changed} changes little: {shown}", counts, by_direction)
    return Proof(limiter, "undecided", f"{changed}: {shown}, which spans {LEAST}", counts, by_direction)


def proofs_of(trials: Sequence[Trial], untestable: Mapping[str, str]) -> tuple[Proof, ...]:
    """Judge each limiter by the trials of a proof at one point, in the order in which they were planned.

    `untestable`: limiters of which the plan says that no setting tests them, and why.
    """
    unchanged = {
        trial.block: rate for trial in trials if _change(trial).direction == "none" and (rate := _rate(trial))
    }
    pairs: dict[str, list[Pair]] = {}
    for trial in sorted(trials, key=lambda trial: trial.order):
        change, rate = _change(trial), _rate(trial)
        if change.direction == "none":
            continue
        found = pairs.setdefault(change.limiter, [])
        if rate and trial.block in unchanged:
            found.append(Pair(change, unchanged[trial.block], rate))
    tested = tuple(judge(limiter, found) for limiter, found in pairs.items())
    return (*tested, *(Proof(limiter, "not_testable", why) for limiter, why in untestable.items()))


AT_A_TIME = ("queue_depth", "workers")
"""Settings of a load on storage that say how many operations its closed loops have in flight at a time."""
CONCURRENCY = "concurrency"


def proof_by_design(design: Sequence[Trial], mine: Sequence[Trial]) -> Proof | None:
    """Judge `concurrency` at a point, whose trials are `mine`, by trials of the design that had more operations in flight in the
    same block and were equal otherwise: those with the next more. None: there are none, or they do not tell.
    """
    pairs = []
    for one in mine:
        more = [
            (ratio, changed, setting)
            for setting in AT_A_TIME
            for changed in design
            if changed.block == one.block and (ratio := _more_at_a_time(one, changed, setting)) > 1
        ]
        if not more or not (rate := _rate(one)):
            continue
        ratio, changed, setting = min(more, key=lambda found: found[0])
        before, after = one.levels[setting], changed.levels[setting]
        change = Perturbation(CONCURRENCY, "relax", setting, before, after, ratio)
        if with_more := _rate(changed):
            pairs.append(Pair(change, rate, with_more))
    if len(pairs) < PAIRS_LEAST:
        return None
    found = judge(CONCURRENCY, pairs)
    return None if found.verdict == "undecided" else found


def _more_at_a_time(one: Trial, other: Trial, setting: str) -> float:
    """How many times as many operations `other` has in flight by that setting; 0 where they differ otherwise."""
    fewer, more = one.levels.get(setting), other.levels.get(setting)
    alike = {**one.levels, setting: more} == {**other.levels}
    if (
        not alike
        or not isinstance(fewer, int)
        or not isinstance(more, int)
        or not fewer
        or arrivals.is_open(one)
    ):
        return 0.0
    return more / fewer


def _change(trial: Trial) -> Perturbation:
    return trial.perturbation or Perturbation("", "none")


def _rate(trial: Trial) -> float | None:
    if not trial.finished:
        return None
    return (classes.operations_per_s(trial) if trial.clients else goodput(trial)).value
