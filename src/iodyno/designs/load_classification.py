"""Classification of loads by the trials made at them, and what follows of it (RFC 9971, appendices A and B).

A load is a lower bound for a goal where at most the goal exceed ratio of the goal duration sum can still be of high-loss trials,
an upper bound where more than that is. Times are in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from iodyno.core.search import Bound, LoadTrial, SearchGoal

Class = Literal["lower", "upper", "undecided"]


@dataclass(frozen=True)
class Sums:
    """Durations of the trials at a load: full-length ones and short ones, with a loss by the goal or without."""

    full_low: int = 0
    full_high: int = 0
    short_low: int = 0
    short_high: int = 0

    def plus(self, trial: LoadTrial, goal: SearchGoal, place: int) -> Sums:
        """With this trial, whose loss by the goal is at that place of its ratios."""
        full = trial.duration_ns >= goal.final_trial_duration_ns
        low = trial.loss_ratios[place] <= goal.loss_ratio
        return Sums(
            self.full_low + trial.duration_ns * (full and low),
            self.full_high + trial.duration_ns * (full and not low),
            self.short_low + trial.duration_ns * (not full and low),
            self.short_high + trial.duration_ns * (not full and not low),
        )

    @property
    def mostly_low(self) -> bool:
        """True where more of the time was without loss than with it."""
        return self.full_low + self.short_low > self.full_high + self.short_high

    def classified(self, goal: SearchGoal) -> Class:
        """Classify the load."""
        optimistic, pessimistic = self.estimates(goal)
        return "lower" if pessimistic else "undecided" if optimistic else "upper"

    def looks_lower(self, goal: SearchGoal) -> bool:
        """True of a lower bound, and of an undecided load where more of the time was without loss than with it."""
        return self.mostly_low if (found := self.classified(goal)) == "undecided" else found == "lower"

    def estimates(self, goal: SearchGoal) -> tuple[bool, bool]:
        """Tell whether it is a lower bound if all that is missing is without loss, and if all of it has some."""
        exceed = _exceed_ratio(goal)
        excess = max(Fraction(0), self.short_high - self.short_low * exceed / (1 - exceed))
        high = self.full_high + excess
        whole = max(self.full_low + high, Fraction(goal.duration_sum_ns))
        return high <= whole * exceed, whole - self.full_low <= whole * exceed


def _exceed_ratio(goal: SearchGoal) -> Fraction:
    """The goal exceed ratio, exact: 20 % of five trials are one trial."""
    return Fraction(goal.exceed_ratio).limit_denominator(10**6)


def sums_of(trials: Iterable[LoadTrial], goal: SearchGoal, place: int) -> dict[int, Sums]:
    """Durations by load, for the goal at that place."""
    sums: dict[int, Sums] = {}
    for trial in trials:
        sums[trial.load] = sums.get(trial.load, Sums()).plus(trial, goal, place)
    return dict(sorted(sums.items()))


def relevant_bounds(classes: Iterable[tuple[int, Class]]) -> tuple[int | None, int | None]:
    """The smallest upper bound, and the largest lower bound below it (below every load, where there is none)."""
    every = list(classes)
    upper = min((load for load, kind in every if kind == "upper"), default=None)
    below = [load for load, kind in every if kind == "lower" and (upper is None or load < upper)]
    return max(below, default=None), upper


def bound_at(load: int, trials: Sequence[LoadTrial], goal: SearchGoal, place: int) -> Bound:
    """Count the trials at the load."""
    here = [trial.loss_ratios[place] <= goal.loss_ratio for trial in trials if trial.load == load]
    return Bound(load, sum(here), len(here))


def conditional_throughput(load: int, trials: Sequence[LoadTrial], goal: SearchGoal, place: int) -> float:
    """Forwarding rate at a lower bound: of the full-length trial that the goal exceed ratio of the time lies beyond."""
    full = sorted(
        (trial.loss_ratios[place], trial.duration_ns)
        for trial in trials
        if trial.load == load and trial.duration_ns >= goal.final_trial_duration_ns
    )
    whole = max(goal.duration_sum_ns, sum(duration for _, duration in full))
    remaining, ratio = whole * (1 - _exceed_ratio(goal)), 1.0
    for place_of, (loss_ratio, duration) in enumerate(full):
        if place_of and remaining <= 0:
            break
        ratio, remaining = loss_ratio, remaining - duration
    return load * (1 - (1.0 if remaining > 0 else ratio))
