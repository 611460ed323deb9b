"""Why one point costs more than another: the difference of two profiles, function by function.

A function's difference is that of its exclusive cost in CPU nanoseconds per KiB; over all functions these add up to
the difference of the whole. Its ratio is normalised to bandwidth, as "CPU Utilization in networking" (2008) has it:
share of the host's CPU time over rate at the second point, over the same at the first; that is the ratio of the two
costs per KiB. A function is said to change where the 95 % interval of its ratio leaves out 1, which is where that of its
difference leaves out 0. Of many unchanged
functions one in twenty would be called changed by chance; `certain` says that it holds when the interval is widened for
all that were compared (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from iodyno.analysis.compare import leaves_out_one
from iodyno.analysis.functions import Part, PointProfile
from iodyno.analysis.shares import (
    LEVEL,
    Bounds,
    SampledCosts,
    difference,
    ratio,
    ratio_by_difference,
    ratio_on_logarithms,
)
from iodyno.analysis.stacks import Function
from iodyno.core.outcome import Estimate

LEAST_SAMPLES = 10
"""Samples at both points together under which a function is not compared (chosen: fewer than 6 against 0 cannot be
told from chance at 95 %, and every comparison costs the others certainty)."""

Verdict = Literal["rises", "falls", "unchanged"]


@dataclass(frozen=True)
class FunctionChange:
    """A function from the first point to the second.

    `explains`: its part of the whole difference; None where the wholes do not differ. `ratio` is normalised to
    bandwidth; None where the function was not seen at the first point, without an upper end where it may have cost nothing
    there.
    """

    function: Function
    samples: tuple[int, int]
    exclusive: tuple[Estimate, Estimate]
    inclusive: tuple[Estimate, Estimate]
    difference: Estimate
    explains: Estimate
    ratio: Estimate
    inclusive_ratio: Estimate
    verdict: Verdict
    inclusive_verdict: Verdict
    certain: bool
    inclusive_certain: bool


@dataclass(frozen=True)
class ProfileChange:
    """Two profiles of one host set against each other. `rest`: the difference that no compared function explains."""

    first: PointProfile
    second: PointProfile
    total: Estimate
    total_ratio: Estimate
    functions: tuple[FunctionChange, ...]
    rest: float
    too_few: int

    @property
    def compared(self) -> int:
        """Number of functions that were compared."""
        return len(self.functions)

    @property
    def moved(self) -> bool:
        """True where the cost of a KiB differs at all, by difference and by ratio."""
        return _differ(self.total, self.total_ratio)

    def ranked(self, by: Part = "exclusive", top: int | None = None) -> list[FunctionChange]:
        """Those that move most first, whichever way; by themselves, or with all that they call (without the load's own functions
        that only call others, at either point).
        """
        shown = self.functions
        if by == "inclusive":
            folded = [
                {side.table.functions[number] for number in side.folded} for side in (self.first, self.second)
            ]
            shown = tuple(one for one in shown if not all(one.function in each for each in folded))

        def moved(change: FunctionChange) -> tuple[float, float]:
            first, second = change.inclusive
            within = abs((second.estimate or 0.0) - (first.estimate or 0.0))
            alone = abs(change.difference.estimate or 0.0)
            return (alone, within) if by == "exclusive" else (within, alone)

        return sorted(shown, key=moved, reverse=True)[:top]


def why_not_compared(first: PointProfile, second: PointProfile) -> str:
    """Why two profiles are of different things, so that nothing follows from their difference; empty: they are not."""
    if first.per != second.per:
        return f"one cost is that of a {first.per}, the other that of a {second.per}".replace("a op", "an op")
    if first.reach == second.reach:
        return ""
    lacks = "; ".join(dict.fromkeys((*first.lacks, *second.lacks)))
    return f"not as much of {first.host} was sampled at one of the points as at the other: {lacks}"


def profile_change(first: PointProfile, second: PointProfile) -> ProfileChange:
    """The change from the first profile to the second; they may be of two campaigns."""
    names, a, b = _aligned(first, second)
    unit = second.unit
    exclusive = (_take(first.exclusive, a), _take(second.exclusive, b))
    inclusive = (_take(first.inclusive, a), _take(second.inclusive, b))
    seen = inclusive[0].counts.sum(axis=0), inclusive[1].counts.sum(axis=0)
    compared = np.flatnonzero(seen[0] + seen[1] >= LEAST_SAMPLES).tolist()
    # Two ratios of each are looked at, each in two ways.
    strict = 1 - (1 - LEVEL) / max(1, 4 * len(compared))
    moved, whole = difference(*exclusive), difference(first.whole, second.whole)
    ratios, inclusive_ratios = ratio(*exclusive), ratio(*inclusive)
    surely, surely_inclusive = (_surely(*each, strict, compared) for each in (exclusive, inclusive))
    costs = [each.cost_bounds() for each in (*exclusive, *inclusive)]
    n = min(len(first.rows), len(second.rows))
    method = f"first: {first.method}; second: {second.method}; variance estimates recovered, and Welch's t"
    total = _estimate(whole, 0, unit, n, method)
    total_ratio = _estimate(ratio(first.whole, second.whole), 0, "1", n, method)
    differ = _differ(total, total_ratio)
    found = []
    for number in compared:
        step = _estimate(moved, number, unit, n, method)
        mine, inside = (_estimate(r, number, "1", n, method) for r in (ratios, inclusive_ratios))
        verdict, within = verdict_of(ratios, number), verdict_of(inclusive_ratios, number)
        found.append(
            FunctionChange(
                function=names[number],
                samples=(int(seen[0][number]), int(seen[1][number])),
                exclusive=(first.estimate(costs[0], number, unit), second.estimate(costs[1], number, unit)),
                inclusive=(first.estimate(costs[2], number, unit), second.estimate(costs[3], number, unit)),
                difference=step,
                explains=_part(step, total, differ),
                ratio=mine,
                inclusive_ratio=inside,
                verdict=verdict,
                inclusive_verdict=within,
                certain=verdict != "unchanged" and verdict in surely[number],
                inclusive_certain=within != "unchanged" and within in surely_inclusive[number],
            )
        )  # fmt: skip
    explained = float(moved.value[compared].sum()) if compared else 0.0
    return ProfileChange(
        first,
        second,
        total,
        total_ratio,
        tuple(found),
        rest=(total.estimate or 0.0) - explained,
        too_few=int(((seen[0] + seen[1] > 0) & (seen[0] + seen[1] < LEAST_SAMPLES)).sum()),
    )


def _surely(
    first: SampledCosts, second: SampledCosts, level: float, compared: Sequence[int]
) -> dict[int, set[Verdict]]:
    """Return the verdicts of the wide intervals of the ratios that are compared, by logarithms and by difference.

    Either way will do, as both are paid for by `level`: few samples are told by the difference, a large ratio of few trials
    by logarithms.
    """
    ways = (ratio_on_logarithms(first, second, level), ratio_by_difference(first, second, level))
    return {number: {verdict_of(way, number) for way in ways} for number in compared}


def _aligned(first: PointProfile, second: PointProfile) -> tuple[list[Function], list[int], list[int]]:
    """All functions of both, and where each is in the first and in the second; -1 where it is not."""
    if first.table is second.table:
        every = list(range(len(first.table.functions)))
        return list(first.table.functions), every, every
    # The side of a system call is a conclusion of its own table: two tables are joined by symbol and module.
    tables = (first.table, second.table)
    places = [{(f.name, f.module): n for n, f in enumerate(table.functions)} for table in tables]
    keys = list(dict.fromkeys([*places[0], *places[1]]))
    a, b = ([place.get(key, -1) for key in keys] for place in places)
    names = [
        first.table.functions[one] if one >= 0 else second.table.functions[other]
        for one, other in zip(a, b, strict=True)
    ]
    return names, a, b


def _take(costs: SampledCosts, places: list[int]) -> SampledCosts:
    padded = np.concatenate((costs.counts, np.zeros((costs.trials, 1))), axis=1)
    return costs.with_counts(padded[:, places])


def _estimate(found: Bounds, number: int, unit: str, n: int, method: str) -> Estimate:
    value, low, high = (float(part[number]) for part in (found.value, found.low, found.high))
    if not np.isfinite(value):
        return Estimate(None, low, None, n, unit, method, missing="not seen at the first point")
    return Estimate(value, low, high if np.isfinite(high) else None, n, unit, method)


def _differ(total: Estimate, ratio: Estimate) -> bool:
    apart = total.low is not None and total.high is not None and not total.low <= 0 <= total.high
    return apart and leaves_out_one(ratio)


def _part(step: Estimate, total: Estimate, differ: bool) -> Estimate:
    """Part of the whole difference. The whole is taken as known: its own error moves all parts alike."""
    if not differ or not total.estimate:
        text = "the two points do not differ in this cost"
        return Estimate(None, None, None, step.n, "1", step.method, missing=text)
    ends = sorted(bound / total.estimate for bound in (step.low, step.high) if bound is not None)
    value = (step.estimate or 0.0) / total.estimate
    return Estimate(value, ends[0], ends[-1], step.n, "1", step.method, ("the whole difference is known",))


def verdict_of(found: Bounds, number: int) -> Verdict:
    """Return the verdict of the interval of one of many ratios."""
    if found.low[number] > 1:
        return "rises"
    return "falls" if found.high[number] < 1 else "unchanged"
