"""How an outcome changes when one factor goes from one level to another, all others held.

The verdict is cautious: a change is claimed only where the two 95 % intervals do not overlap. Bounds of the
ratio are those of the two intervals set against each other, so that they hold at least 90 % (Bonferroni),
mostly more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Literal

from iodyno.core.outcome import Estimate
from iodyno.core.workload import Level

Verdict = Literal["rises", "falls", "undecided"]


@dataclass(frozen=True)
class Change:
    """One outcome from one estimate to another. `ratio` is second over first; bounds None where there are
    none.
    """

    first: Estimate
    second: Estimate
    ratio: float | None
    low: float | None
    high: float | None
    verdict: Verdict


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


def difference(first: Estimate, second: Estimate) -> Estimate:
    """Second less first. Half-widths of independent intervals add in quadrature."""
    if first.estimate is None or second.estimate is None:
        reason = first.missing or second.missing
        return Estimate(None, None, None, 0, first.unit, "none", missing=reason)
    step, n = second.estimate - first.estimate, min(first.n, second.n)
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return Estimate(step, None, None, n, first.unit, "difference of two estimates without intervals")
    half = hypot(first.high - first.low, second.high - second.low) / 2
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
