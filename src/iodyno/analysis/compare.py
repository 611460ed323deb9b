"""Change of an outcome when one factor goes from one level to another, all others held.

The verdict is cautious. Where points have few trials and all points of the campaign spread alike, it is that of a t test of the
logarithms with the pooled spread, and the bounds of the ratio hold with 99 % for all pairs of points at once (Bonferroni; so that
the least and the greatest of many may be compared). Else a change is claimed only where the two 95 % intervals do not overlap;
bounds of the ratio are those of the two intervals set against each other, so that they hold at least 90 %, mostly more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, sqrt
from typing import Literal

from iodyno.analysis import chance
from iodyno.analysis.shares import ratio_of
from iodyno.core.outcome import Estimate
from iodyno.core.workload import Level

Verdict = Literal["rises", "falls", "undecided"]
FEW = 4
"""Trials of a point up to which the pooled spread tells more than its own (chosen: from five on, the intervals of two points are
narrower than what holds for all pairs of many)."""
_ALPHA = 0.01
"""Chance that any pair of points is told to differ where none does (chosen: where spreads differ tenfold and two trials do not
show it, a comparison is then wrong in 4 of 100, not in 13)."""


@dataclass(frozen=True)
class Change:
    """One outcome from one estimate to another. `ratio` is second over first; bounds None where there are
    none. `pooled`: they are by the spread of all trials of the campaign.
    """

    first: Estimate
    second: Estimate
    ratio: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    pooled: bool = False


@dataclass(frozen=True)
class Effect:
    """A change between two levels of `factor`, at fixed `others`."""

    factor: str
    before: Level
    after: Level
    others: Mapping[str, Level]
    change: Change


def change(first: Estimate, second: Estimate) -> Change:
    """Compares two estimates of one outcome."""
    a, b = first.estimate, second.estimate
    ratio = b / a if a and b is not None else None
    low = high = None
    verdict: Verdict = "undecided"
    if ratio and (bounds := _by_pooled_spread(first, second, ratio)):
        low, high = bounds
        return Change(first, second, ratio, low, high, _leaves_out(low, high), pooled=True)
    if (
        first.low is not None
        and first.high is not None
        and second.low is not None
        and second.high is not None
    ):
        if second.low > first.high:
            verdict = "rises"
        elif second.high < first.low:
            verdict = "falls"
        if first.low > 0 and second.low > 0:
            low, high = second.low / first.high, second.high / first.low
    return Change(first, second, ratio, low, high, verdict)


def _leaves_out(low: float, high: float) -> Verdict:
    return "rises" if low > 1 else "falls" if high < 1 else "undecided"


def _by_pooled_spread(first: Estimate, second: Estimate, ratio: float) -> tuple[float, float] | None:
    """Bounds of the ratio; None where the points stand on their own trials."""
    spread, a, b = first.spread, first.estimate, second.estimate
    if spread is None or spread != second.spread or not (a and b and ratio > 0):
        return None
    if not 2 <= min(first.n, second.n) <= FEW:
        return None
    trials = spread.sd * sqrt(1 / first.n + 1 / second.n)
    in_common = hypot(first.counting / a, first.shared / a, second.counting / b, second.shared / b)
    pairs = max(1, spread.points * (spread.points - 1) // 2)
    tail = 1 - _ALPHA / 2 / pairs
    half = hypot(float(chance.t.ppf(tail, spread.freedom)) * trials, float(chance.norm.ppf(tail)) * in_common)
    return ratio * exp(-min(half, 700.0)), ratio * exp(min(half, 700.0))


def difference(first: Estimate, second: Estimate) -> Estimate:
    """Second less first. Half-widths of independent intervals add in quadrature."""
    if first.estimate is None or second.estimate is None:
        reason = first.missing or second.missing
        return Estimate(None, None, None, 0, first.unit, "none", missing=reason)
    step, n = second.estimate - first.estimate, min(first.n, second.n)
    if first.reach is None or second.reach is None:
        return Estimate(step, None, None, n, first.unit, "difference of two estimates without intervals")
    half = hypot(first.reach, second.reach)
    return Estimate(step, step - half, step + half, n, first.unit, "difference of two estimates")


def effects(
    points: Sequence[tuple[Mapping[str, Level], Estimate]], factor: str, before: Level, after: Level
) -> list[Effect]:
    """The effect of taking `factor` from `before` to `after`, at every combination of the others that has
    both.

    `points` are (levels of the factors, estimate of one outcome), in order.
    """
    found = []
    for levels, first in points:
        if levels.get(factor) != before:
            continue
        others = {name: level for name, level in levels.items() if name != factor}
        wanted = others | {factor: after}
        second = next((estimate for other, estimate in points if dict(other) == wanted), None)
        if second is not None and first.estimate is not None and second.estimate is not None:
            found.append(Effect(factor, before, after, others, change(first, second)))
    return found


@dataclass(frozen=True)
class OutcomeChange:
    """One outcome at two points, perhaps of two campaigns; `ratio` is second over first, with a 95 % interval."""

    outcome: str
    first: Estimate
    second: Estimate
    ratio: Estimate

    @property
    def verdict(self) -> Verdict:
        """`rises` or `falls` where the interval of the ratio leaves out 1."""
        if not leaves_out_one(self.ratio) or self.ratio.estimate is None:
            return "undecided"
        return "rises" if self.ratio.estimate > 1 else "falls"


def outcome_changes(first: Mapping[str, Estimate], second: Mapping[str, Estimate]) -> list[OutcomeChange]:
    """Every outcome that both have a value of, in the order of the first."""
    return [
        OutcomeChange(name, mine, other, ratio_estimate(mine, other))
        for name, mine in first.items()
        if (other := second.get(name)) and mine.estimate is not None and other.estimate is not None
    ]


def leaves_out_one(ratio: Estimate) -> bool:
    """Tell whether the interval of a ratio lies to one side of 1; it may have no upper end."""
    return (ratio.low is not None and ratio.low > 1) or (ratio.high is not None and ratio.high < 1)


def ratio_estimate(first: Estimate, second: Estimate) -> Estimate:
    """Second over first, with an interval where both have one (Zou and Donner 2008, on logarithms)."""
    n = min(first.n, second.n)
    absent = [each.missing for each in (first, second) if each.estimate is None]
    if absent or first.estimate is None or second.estimate is None:
        said = "; ".join(dict.fromkeys(text for text in absent if text))
        return Estimate(None, None, None, n, "1", "none", missing=said or "not known at both points")
    if not first.estimate:
        return Estimate(None, None, None, n, "1", "none", missing="nothing at the first point")
    value = second.estimate / first.estimate
    warnings = (*first.warnings, *second.warnings)
    ends = [bound for each in (first, second) for bound in (each.low, each.high)]
    known = [bound for bound in ends if bound is not None]
    found = (
        ratio_of((first.estimate, known[0], known[1]), (second.estimate, known[2], known[3]))
        if len(known) == 4
        else None
    )
    if found is None:
        method = "no interval: a bound is missing or not above 0"
        return Estimate(value, None, None, n, "1", method, warnings=warnings)
    method = f"variance estimates recovered from: {first.method}; {second.method}"
    return Estimate(value, found[1], found[2], n, "1", method, warnings=warnings)
