"""Better, worse, same or undecided: two sets of trials of one outcome, by a minimum effect of interest.

A 95 % interval of the ratio lies beyond that effect (better or worse), within it (the same), or on its edge
(undecided). Both claims are tests: "differs by more" is a t test against the edge, "the same" two one-sided t tests
(TOST: Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15). Not both of them can be wrong, so
that a comparison is one test, and the many comparisons of two campaigns are corrected as one family (Holm 1979,
Scandinavian Journal of Statistics 6; or Benjamini and Hochberg 1995, Journal of the Royal Statistical Society B 57).

Trials of one campaign that lie in the same block are pairs; those of two campaigns are compared without assuming equal
spreads (Welch 1947, Biometrika 34). Campaigns differ also when nothing was changed, and two do not tell by how much: such a
verdict holds within these two sessions. Where further campaigns of the first kind are known, a campaign is the unit: the second
one is held against the spread of the means of the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Literal

from iodyno.analysis.chance import t
from iodyno.core.decision import LEAST_EFFECT
from iodyno.core.outcome import OUTCOMES

Answer = Literal["better", "worse", "higher", "lower", "same", "undecided"]
Control = Literal["holm", "bh", "none"]
Scope = Literal["campaign", "two sessions", "sessions"]
"""Scope of a verdict: one campaign, two sessions as they were, or whatever session comes."""

ALPHA = 0.05
POWER = 0.8
"""Chance of an answer after the further trials that are named (the usual one: Cohen 1988)."""
ADJUSTMENTS: Mapping[Control, str] = {"holm": "Holm", "bh": "Benjamini-Hochberg", "none": "none"}
_MOST_TRIALS = 100_000
_MOST_FREEDOM = 1e6
"""From where on Student's t is the normal distribution to six digits."""


@dataclass(frozen=True)
class Sides:
    """The values of one outcome on both sides. `first` and `second` by block where they are `paired`.

    `apart`: relative effect by which sessions differ with nothing changed, from a noise ladder, which raises the least effect;
    None: there is none. `counting`: standard uncertainty of the
    logarithm of the ratio that no number of trials takes away, as whole operations were counted. `sessions`: values of further
    campaigns of the first kind, each of which differs from it by its session alone.
    """

    outcome: str
    first: Mapping[int, float]
    second: Mapping[int, float]
    paired: bool = False
    missing: str = ""
    apart: float | None = None
    counting: float = 0.0
    sessions: tuple[tuple[float, ...], ...] = ()

    @property
    def scope(self) -> Scope:
        """Scope of a verdict on them. A noise ladder tells what sessions differ by, too."""
        if self.paired:
            return "campaign"
        return "sessions" if self.sessions or self.apart is not None else "two sessions"


@dataclass(frozen=True)
class Verdict:
    """Verdict of one comparison. `ratio` is second over first; bounds of its 95 % interval, before any correction.

    `p_value` is that of the claim made, or of the nearer one, by itself, and `p_adjusted` the same after the correction of all
    comparisons by `adjustment`; `least`: the effect that it was held against; `more_trials`: about how many more each side
    needs; None: cannot be said. `direction`: `rises` or `falls` where the interval leaves out 1. `scope`: what it holds for;
    `sessions`: campaigns of the first kind that it is held against.
    """

    outcome: str
    answer: Answer
    ratio: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_adjusted: float | None
    adjustment: str
    trials: tuple[int, int]
    method: str
    more_trials: int | None = None
    direction: str = ""
    reason: str = ""
    least: float = LEAST_EFFECT
    scope: Scope = "campaign"
    sessions: int = 1


@dataclass(frozen=True)
class _Step:
    """A difference on a logarithmic scale. `parts`: variance and trials of each side, or of the pairs, or of the means of
    campaigns; `counting`: as of the sides, part of the error.
    """

    estimate: float
    error: float
    freedom: float
    parts: tuple[tuple[float, int], ...]
    counting: float


def judge(
    compared: Sequence[Sides], *, least: float = LEAST_EFFECT, control: Control = "holm"
) -> list[Verdict]:
    """A verdict on each comparison, corrected for all of them together.

    `least`: the smallest relative effect of interest, above 0. Raises ValueError when it is not.
    """
    if not 0 < least < 10:
        raise ValueError(
            f"invalid value: a least effect of {least:g}; expected above 0 and below 10 (1000 %)"
        )
    margins = [math.log1p(least) + math.log1p(each.apart or 0.0) for each in compared]
    steps = [_step(each) for each in compared]
    claims = [
        _claims(step, margin) if isinstance(step, _Step) else None
        for step, margin in zip(steps, margins, strict=True)
    ]
    known = [min(claim) for claim in claims if claim is not None]
    corrected = iter(correct(known, control))
    found = []
    for sides, step, claim, margin in zip(compared, steps, claims, margins, strict=True):
        counts = (len(sides.first), len(sides.second))
        if not isinstance(step, _Step) or claim is None:
            found.append(
                Verdict(
                    outcome=sides.outcome,
                    answer="undecided",
                    ratio=None,
                    low=None,
                    high=None,
                    p_value=None,
                    p_adjusted=None,
                    adjustment=ADJUSTMENTS[control],
                    trials=counts,
                    method="none",
                    reason=str(step),
                    scope=sides.scope,
                    sessions=1 + len(sides.sessions),
                )
            )
            continue
        found.append(_verdict(sides, step, claim, next(corrected), margin, len(known), control))
    return found


def correct(p_values: Sequence[float], control: Control) -> list[float]:
    """Adjusted p values in the order given: Holm's step-down, Benjamini and Hochberg's step-up, or as they are."""
    if control == "none":
        return list(p_values)
    m = len(p_values)
    order = sorted(range(m), key=lambda place: p_values[place])
    adjusted = [0.0] * m
    if control == "holm":
        highest = 0.0
        for rank, place in enumerate(order):
            highest = max(highest, min(1.0, (m - rank) * p_values[place]))
            adjusted[place] = highest
        return adjusted
    lowest = 1.0
    for rank in range(m, 0, -1):
        place = order[rank - 1]
        lowest = min(lowest, p_values[place] * m / rank)
        adjusted[place] = lowest
    return adjusted


def _step(sides: Sides) -> _Step | str:
    """The difference of the logarithms, or why there is none."""
    if sides.missing:
        return sides.missing
    first, second = sides.first, sides.second
    if sides.paired:
        both = [block for block in first if block in second]
        first, second = {block: first[block] for block in both}, {block: second[block] for block in both}
    if min(len(first), len(second)) < 2:
        return "one trial a side says nothing of the spread"
    values = [*first.values(), *second.values(), *(value for each in sides.sessions for value in each)]
    if min(values) <= 0:
        if max(values) == min(values) == 0:
            return "0 in every trial of both sides"
        return "0 or less in a trial, of which there is no ratio"
    a, b = [math.log(value) for value in first.values()], [math.log(value) for value in second.values()]
    if sides.sessions:
        return _step_of_sessions(
            [a, *([math.log(value) for value in each] for each in sides.sessions)], b, sides.counting
        )
    if sides.paired:
        pairs = [y - x for x, y in zip(a, b, strict=True)]
        parts: tuple[tuple[float, int], ...] = ((variance(pairs), len(pairs)),)
    else:
        parts = ((variance(a), len(a)), (variance(b), len(b)))
    error, freedom = _error(parts, sides.counting)
    # Rounding of logarithms of equal numbers is no spread.
    if error < 1e-14:
        if sides.paired and first == second:
            return "both sides are the same trials, or gave the same values: there is nothing to compare"
        alike = (
            "every pair of trials has the same ratio"
            if sides.paired
            else "all trials of each side gave the same value"
        )
        return f"{alike}: there is no spread to judge by"
    return _Step(fmean(b) - fmean(a), error, freedom, parts, sides.counting)


def _step_of_sessions(known: Sequence[Sequence[float]], new: Sequence[float], counting: float) -> _Step | str:
    """The mean of a new campaign less that of the known ones, whose means spread as sessions and their trials do.

    A new campaign with fewer trials spreads by what its trials do beyond that.
    """
    means = [fmean(each) for each in known]
    between = variance(means)
    if between < 1e-28:
        return "all campaigns gave the same value: there is no spread to judge by"
    error2, freedom = between * (1 + 1 / len(means)), float(len(means) - 1)
    groups = [each for each in (*known, new) if len(each) > 1]
    within_freedom = sum(len(each) - 1 for each in groups)
    within = sum((len(each) - 1) * variance(each) for each in groups) / within_freedom
    fewer = within * max(0.0, 1 / len(new) - fmean(1 / len(each) for each in known))
    total = error2 + fewer + counting**2
    weights = error2**2 / freedom + fewer**2 / within_freedom
    return _Step(
        fmean(new) - fmean(means), math.sqrt(total), min(total**2 / weights, _MOST_FREEDOM), (), counting
    )


def _error(parts: Sequence[tuple[float, int]], counting: float, more: int = 0) -> tuple[float, float]:
    """Standard error and degrees of freedom (Welch and Satterthwaite; what is of counting has infinitely many: JCGM 100:2008,
    G.4), with so many more trials a side.
    """
    each = [(spread / (n + more), n + more) for spread, n in parts]
    total = sum(part for part, _ in each) + counting**2
    weights = sum(part**2 / (n - 1) for part, n in each)
    return math.sqrt(total), min(total**2 / weights, _MOST_FREEDOM) if weights else _MOST_FREEDOM


def _claims(step: _Step, margin: float) -> tuple[float, float]:
    """p values of "differs by more than the margin" (two-sided) and of "differs by less" (both one-sided tests)."""
    beyond = (abs(step.estimate) - margin) / step.error
    differs = min(1.0, 2 * float(t.sf(beyond, step.freedom)))
    same = float(t.sf((margin - abs(step.estimate)) / step.error, step.freedom))
    return differs, same


def _verdict(
    sides: Sides,
    step: _Step,
    claim: tuple[float, float],
    p_adjusted: float,
    margin: float,
    family: int,
    control: Control,
) -> Verdict:
    half = float(t.ppf(1 - ALPHA / 2, step.freedom)) * step.error
    low, high = step.estimate - half, step.estimate + half
    rises = step.estimate > 0
    answer: Answer = "undecided"
    if p_adjusted <= ALPHA:
        answer = "same" if claim[1] < claim[0] else _word(sides.outcome, rises)
    method = "Welch's t"
    if sides.paired:
        method = f"paired t over {len(set(sides.first) & set(sides.second))} blocks"
    elif sides.sessions:
        method = f"t of a campaign against the means of {1 + len(sides.sessions)}"
    more = None
    if answer == "undecided" and step.parts:
        more = _more(step, margin, ALPHA if control == "none" else ALPHA / family)
    return Verdict(
        outcome=sides.outcome,
        answer=answer,
        ratio=_exp(step.estimate),
        low=_exp(low),
        high=_exp(high),
        p_value=min(claim),
        p_adjusted=p_adjusted,
        adjustment=ADJUSTMENTS[control],
        trials=(len(sides.first), len(sides.second)),
        method=f"{method} on logarithms",
        more_trials=more,
        least=math.expm1(margin),
        direction="" if low <= 0 <= high else ("rises" if rises else "falls"),
        scope=sides.scope,
        sessions=1 + len(sides.sessions),
    )


def _word(outcome: str, rises: bool) -> Answer:
    kind = OUTCOMES.get(outcome.rpartition(".")[2])
    if kind is None or kind.better == "none":
        return "higher" if rises else "lower"
    return "better" if rises == (kind.better == "higher") else "worse"


def _more(step: _Step, margin: float, level: float) -> int | None:
    """Further trials a side until an answer has the chance POWER, were estimate and spread the truth.

    The distance to the edge must be the sum of two t quantiles, of the level and of the power, times the standard
    error (Chow, Shao and Wang, Sample Size Calculations in Clinical Research 2003, chapter 3).
    """
    distance = abs(abs(step.estimate) - margin)
    tail = level / (2 if abs(step.estimate) > margin else 1)

    def enough(more: int) -> bool:
        error, freedom = _error(step.parts, step.counting, more)
        return float(t.ppf(1 - tail, freedom) + t.ppf(POWER, freedom)) * error <= distance

    most = 1
    while not enough(most):
        most *= 2
        if most > _MOST_TRIALS:
            return None
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if enough(middle) else (middle, most)
    return most


def _exp(value: float) -> float | None:
    return math.exp(value) if abs(value) < 700 else None
