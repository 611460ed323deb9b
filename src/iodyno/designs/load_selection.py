"""Choice of the next trial of a search for several goals (the controller of RFC 9971), and the standing of each goal.

Loads are those of a ladder whose steps are as wide as the narrowest goal width, so that goals share their trials. The search of
a goal ends with two loads within its width, of which one is classified as a lower and the other as an upper bound. Which two
loads that will be is what the probability of `bisection` is for: next come those whose classification takes fewest trials in the
mean, the trials that are left over the chance that they end that way.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from iodyno.core.search import LoadTrial, SearchGoal, SearchSpec
from iodyno.designs.bisection import Wall, wall
from iodyno.designs.load_classification import Class, Sums, relevant_bounds, sums_of

REACH = 24
"""Steps of the ladder on either side of the probability's median among which the two loads are looked for. Chosen: further away
no two of them are likely to be the bounds."""
OVERLOAD = 4
"""Goal widths by which less has to be forwarded than was offered, for the forwarding rate to tell where the wall is. Chosen:
where less was lost, a trial was disturbed as likely as overloaded."""
NEAR = 0.02
"""Distance from the forwarding rate in overload, in the logarithm, within which the wall lies in half of the cases (Cauchy's
law). Chosen; its tails make the steps double where the rate in overload misleads."""


@dataclass(frozen=True)
class Standing:
    """State of the search for one goal: relevant bounds, the 95 % interval of the largest load and its median.

    `next_load` is None when nothing is left to try; `ended` then says why.
    """

    lower: int | None
    upper: int | None
    estimate: float
    low: float
    high: float
    classes: dict[int, Class]
    next_load: int | None
    next_duration_ns: int
    ended: Literal["", "regular", "edge"]


def standings(trials: Sequence[LoadTrial], spec: SearchSpec) -> list[Standing]:
    """Of each goal, after these trials. The same trials give the same standings."""
    return [_standing(trials, spec, goal, place) for place, goal in enumerate(spec.goals)]


def next_of(every: Sequence[Standing], trials: int) -> Standing | None:
    """The goal whose turn it is after so many trials; None: all have ended."""
    open_ones = [one for one in every if not one.ended]
    return open_ones[trials % len(open_ones)] if open_ones else None


@lru_cache(maxsize=8)
def ladder(spec: SearchSpec) -> tuple[int, ...]:
    """The loads from the least to the greatest: neighbours are within the narrowest width, or one apart."""
    width = min(goal.width for goal in spec.goals)
    loads = [spec.min_load]
    while loads[-1] < spec.max_load:
        loads.append(min(spec.max_load, max(loads[-1] + 1, math.floor(loads[-1] / (1 - width)))))
    return tuple(loads)


def _within(lower: int, upper: int, goal: SearchGoal) -> bool:
    # A width such as 0.9 % is no float: of 3000 it is less than 27.
    return upper - lower <= max(1, goal.width * upper * (1 + 1e-12))


def _standing(trials: Sequence[LoadTrial], spec: SearchSpec, goal: SearchGoal, place: int) -> Standing:
    sums = sums_of(trials, goal, place)
    classes = {load: its.classified(goal) for load, its in sums.items()}
    lower, upper = relevant_bounds(classes.items())
    met = _met_at_wall(goal)
    full = [trial for trial in trials if trial.duration_ns >= goal.final_trial_duration_ns]
    known = wall(_told(full, goal, place), spec.min_load, spec.max_load, met)
    estimate, low, high = (known.quantile(share) for share in (0.5, 0.025, 0.975))
    ended: Literal["", "regular", "edge"] = ""
    if lower is not None and upper is not None and _within(lower, upper, goal):
        ended = "regular"
    elif (upper is None and lower == spec.max_load) or upper == spec.min_load:
        ended = "edge"
    load, duration_ns = (None, 0) if ended else _next(trials, spec, goal, place, sums, (lower, upper))
    return Standing(lower, upper, estimate, low, high, classes, load, duration_ns, ended)


def _told(trials: Sequence[LoadTrial], goal: SearchGoal, place: int) -> list[tuple[int, bool]]:
    return [(trial.load, trial.loss_ratios[place] <= goal.loss_ratio) for trial in trials]


def _next(
    trials: Sequence[LoadTrial],
    spec: SearchSpec,
    goal: SearchGoal,
    place: int,
    sums: dict[int, Sums],
    bounds: tuple[int | None, int | None],
) -> tuple[int, int]:
    """The load of the next trial, and its duration: the first one at a load may be short."""
    if not trials and spec.factor == "rate":
        load = spec.max_load
    else:
        near = _forwarded(trials, goal, place)
        guess = wall(_told(trials, goal, place), spec.min_load, spec.max_load, _met_at_wall(goal), near)
        load = _cheapest(ladder(spec), guess, goal, sums, bounds)
    return load, goal.final_trial_duration_ns if load in sums else goal.initial_trial_duration_ns


def _forwarded(trials: Sequence[LoadTrial], goal: SearchGoal, place: int) -> tuple[float, float] | None:
    """Where the wall is by what was carried in overload, in the least that there was, and how near to that: the less, the more
    often it was less than that."""
    least, lost = 1 - OVERLOAD * goal.width, goal.loss_ratio if goal.outcome == "loss_ratio" else 0.0
    rates = [
        (trial.load, trial.forwarded / (1 - lost))
        for trial in trials
        if trial.forwarded and trial.loss_ratios[place] > goal.loss_ratio
        if trial.forwarded < trial.load * least
    ]
    return (min(rates)[1], max(NEAR, 2 * goal.width) * 2 ** (len(rates) - 1)) if rates else None


@dataclass(frozen=True)
class _Candidate:
    """A load, the trials that it takes at least to be a lower or an upper bound, and the chance that it will be one."""

    load: int
    to_lower: float
    to_upper: float
    chance: float


def _cheapest(
    loads: Sequence[int],
    guess: Wall,
    goal: SearchGoal,
    sums: dict[int, Sums],
    bounds: tuple[int | None, int | None],
) -> int:
    lower, upper = bounds
    first = 0 if lower is None else bisect_left(loads, lower)
    last = len(loads) - 1 if upper is None else bisect_left(loads, upper)
    middle = min(last, max(first, bisect_left(loads, guess.quantile(0.5))))
    if (new := _between(loads, middle, goal, sums, (first, last))) is not None:
        return new
    places = range(max(first, middle - REACH), min(last, middle + REACH) + 1)
    around = {
        place: _candidate(loads[place], guess, goal, sums.get(loads[place], Sums())) for place in places
    }
    best, chosen = (
        math.inf,
        min(
            (one.load for one in around.values() if one.to_lower and one.to_upper),
            key=lambda load: abs(load - loads[middle]),
        ),
    )
    for place, one in around.items():
        pairs: list[tuple[_Candidate | None, _Candidate | None]] = []
        if place == 0 and one.to_lower and upper is None:
            pairs.append((None, one))
        if place == len(loads) - 1 and one.to_upper:
            pairs.append((one, None))
        beyond = place + 1
        while beyond in around and _within(one.load, loads[beyond], goal):
            pairs.append((one, around[beyond]))
            beyond += 1
        for below, above in pairs:
            left = (below.to_lower if below else 0) + (above.to_upper if above else 0)
            chance = (below.chance if below else 1.0) * (1 - above.chance if above else 1.0)
            if 0 < left < math.inf and chance > 0 and left / chance < best:
                best, chosen = left / chance, _first_of(below, above)
    return chosen


def _between(
    loads: Sequence[int], middle: int, goal: SearchGoal, sums: dict[int, Sums], bounds: tuple[int, int]
) -> int | None:
    """A load near the middle, inside of the bounds (places), that was not tried and lies between a load that looks like a lower
    bound and one that looks like an upper bound.

    None where they are neighbours, and where it was tried itself: bounds are settled next.
    """
    low = {load: its.looks_lower(goal) for load, its in sums.items()}
    below = max((load for load, lower in low.items() if lower and load <= loads[middle]), default=0)
    above = min((load for load, lower in low.items() if not lower and load > below), default=math.inf)
    first, last = bounds
    places = [place for place in (middle, middle - 1, middle + 1) if first <= place <= last]
    return next((loads[at] for at in places if below < loads[at] < above and loads[at] not in sums), None)


def _first_of(below: _Candidate | None, above: _Candidate | None) -> int:
    """The load that is less sure to be the bound that it should be; the lower one when in doubt."""
    if below is None or above is None:
        one = below or above
        assert one is not None
        return one.load
    if not above.to_upper:
        return below.load
    if not below.to_lower:
        return above.load
    return below.load if below.chance <= 1 - above.chance else above.load


def _candidate(load: int, guess: Wall, goal: SearchGoal, sums: Sums) -> _Candidate:
    to_lower, to_upper = trials_left(sums, goal)
    return _Candidate(load, to_lower, to_upper, _first_to(to_lower, to_upper, guess.meets(load)))


@lru_cache(maxsize=4096)
def trials_left(sums: Sums, goal: SearchGoal) -> tuple[float, float]:
    """Full-length trials, all without loss or all with some, until the load is a lower or an upper bound; infinitely many where
    a loss is not made up for."""
    left = []
    for loss_ratio, bound in ((0.0, "lower"), (1.0, "upper")):
        trial, here, count = LoadTrial(0, goal.final_trial_duration_ns, (loss_ratio,)), sums, 0
        never = bound == "lower" and not goal.exceed_ratio and sums.classified(goal) == "upper"
        while not never and here.classified(goal) != bound:
            here, count = here.plus(trial, goal, 0), count + 1
        left.append(math.inf if never else float(count))
    return left[0], left[1]


def _first_to(low_loss: float, high_loss: float, chance: float) -> float:
    """Chance of so many low-loss trials to come before so many high-loss ones."""
    if not low_loss or not high_loss:
        return 1.0 if not low_loss else 0.0
    if low_loss == math.inf:
        return 0.0
    of = int(low_loss + high_loss) - 1
    return sum(
        math.comb(of, count) * chance**count * (1 - chance) ** (of - count)
        for count in range(int(low_loss), of + 1)
    )


@lru_cache(maxsize=32)
def _met_at_wall(goal: SearchGoal) -> float:
    """Share of trials that meet the goal at the load that is as often classified as a lower as as an upper bound."""
    low_loss, high_loss = trials_left(Sums(), goal)
    below, above = 0.0, 1.0
    for _ in range(50):
        middle = (below + above) / 2
        below, above = (middle, above) if _first_to(low_loss, high_loss, middle) < 0.5 else (below, middle)
    return round(above, 9)
