"""Periodic stripes: whether high values come back at a fixed time.

The share of high values a column is folded at many trial periods; a period is real when the phases differ more than they would by
chance. Folding finds narrow stripes, whose power a periodogram spreads over many harmonics (Leahy and others,
Astrophysical Journal
266 (1983) 160). The test is an analysis of variance of ranks (Conover and Iman, American Statistician 35 (1981) 124), so that one
burst is no stripe, with the chance multiplied by the number of periods tried.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from iodyno.analysis.heat_map.columns import columns_of
from iodyno.analysis.heat_map.modes import ALPHA
from iodyno.analysis.heat_map.tails import binomial_tail, f_tail, ranks_of
from iodyno.core.grid import Grid

MOST_COLUMNS = 400
"""More columns are added up in groups first (chosen: the search takes columns squared, and must not be noticed)."""
LEAST_COLUMNS, LEAST_CYCLES = 24, 4
"""Columns that are needed at all; how often a stripe must come (chosen: three could be anything that came thrice)."""
PHASES = 8
"""Phases that a period is cut into, at most (chosen: a stripe of an eighth of the period has one of its own)."""
CYCLES_CHANCE = 0.07
"""Sign test over the cycles (chosen: of four cycles all four, whose chance is 1 in 16)."""
HIGH_SHARE = 0.10
"""What of the events is high: the upper tenth (chosen)."""


@dataclass(frozen=True)
class Stripes:
    """High values that come back every `period_s`: what they begin from, when in the trace first, how much of them is in phase.

    `contrast`: share of high values in the stripe over that outside it; None where outside there is none.
    """

    period_s: float
    first_s: float
    above: float
    contrast: float | None
    p: float


def find_stripes(grid: Grid, without: Collection[int] = ()) -> Stripes | None:
    """The most significant period of the grid, when there is one. Columns in `without` are taken as usual ones: those of
    bursts."""
    border = high_row(grid, HIGH_SHARE)
    if border is None:
        return None
    high = list(grid.over)
    for column, cells in enumerate(columns_of(grid)):
        high[column] += sum(count for row, count in cells if row >= border)
    totals = list(grid.column_totals())
    for column in without:
        high[column] = totals[column] = 0
    group = -(-grid.columns // MOST_COLUMNS)
    highs, alls = _grouped(high, group), _grouped(totals, group)
    if len(alls) < LEAST_COLUMNS or sum(highs) < LEAST_COLUMNS or sum(1 for n in alls if n) < 0.8 * len(alls):
        return None
    usual = sum(highs) / sum(alls)
    series = [h / n if n else usual for h, n in zip(highs, alls, strict=True)]
    best = _best_period(series)
    if best is None:
        return None
    period, p = best
    inside, outside, phase = _contrast(highs, alls, period)
    column_s = group * grid.column_ns / 1e9
    return Stripes(
        period * column_s,
        grid.begin_ns / 1e9 + phase * column_s,
        grid.edges[border],
        inside / outside if outside else None,
        p,
    )


def high_row(grid: Grid, share: float) -> int | None:
    """The lowest row that no more than `share` of the events lie in or above; None where there is none such."""
    totals = grid.row_totals()
    above, everything = sum(grid.over), sum(grid.column_totals())
    found = None
    for row in range(grid.rows - 1, -1, -1):
        above += totals[row]
        if above > share * everything:
            break
        if above:
            found = row
    return found


def _grouped(values: Sequence[int], group: int) -> list[int]:
    return [sum(values[at : at + group]) for at in range(0, len(values), group)]


def _best_period(series: Sequence[float]) -> tuple[float, float] | None:
    """The period in columns and its chance, corrected for all that were tried."""
    n = len(series)
    # Ranked first: columns without a high value are equal, and the trend must not put them in order.
    ranks = ranks_of(series)
    flat = _without_trend(ranks)
    tried: list[tuple[float, float, float]] = []
    step = 1 / (4 * n)
    frequency = LEAST_CYCLES / n
    while frequency <= 0.5 + 1e-9:
        period = 1 / frequency
        statistic, above, below = _fold(flat, period)
        tried.append(
            (f_tail(statistic, above, below), period, statistic * above / (statistic * above + below))
        )
        frequency += step
    trials = len(tried)
    p, period, explained = min(tried)
    # Twice and thrice the period fold as well: the shortest that explains nearly as much is the period.
    shorter = [
        (other, chance)
        for chance, other, part in tried
        if other < period * 0.7 and part >= 0.8 * explained and chance * trials <= ALPHA
    ]
    if shorter:
        period = min(shorter, key=lambda each: each[1])[0]
    corrected = min(1.0, p * trials)
    if corrected > ALPHA or not _most_cycles(ranks, period):
        return None
    return period, corrected


def _without_trend(series: Sequence[float]) -> list[float]:
    """Less the mean over the longest period around: what drifts is no stripe, and what is shorter stays as it is."""
    half = max(1, round(len(series) / LEAST_CYCLES / 2))
    sums = [0.0, *accumulate(series)]
    n = len(series)
    flat = []
    for at, value in enumerate(series):
        first, last = max(0, at - half), min(n, at + half + 1)
        flat.append(value - (sums[last] - sums[first]) / (last - first))
    return flat


def _phase(column: int, period: float, phases: int) -> int:
    return min(phases - 1, int((column / period) % 1.0 * phases))


def _phases(period: float) -> int:
    return max(2, min(PHASES, math.floor(period + 1e-9)))


def _fold(values: Sequence[float], period: float) -> tuple[float, float, float]:
    """F of the phases' means, and its degrees of freedom."""
    phases = _phases(period)
    sums, numbers = [0.0] * phases, [0] * phases
    for column, value in enumerate(values):
        at = _phase(column, period, phases)
        sums[at] += value
        numbers[at] += 1
    n, mean = len(values), sum(values) / len(values)
    total = sum((value - mean) ** 2 for value in values)
    between = sum(s * s / k for s, k in zip(sums, numbers, strict=True) if k) - n * mean * mean
    used = sum(1 for k in numbers if k)
    above, below = used - 1, n - used
    if above < 1 or below < 1 or total <= 0:
        return 0.0, 1.0, 1.0
    within = max(total - between, 1e-9 * total)
    return max(0.0, between / above) / (within / below), float(above), float(below)


def _most_cycles(ranks: Sequence[float], period: float) -> bool:
    """Whether the strongest phase stands above the rest of its own cycle in most cycles: a burst does so in one of them."""
    phases = _phases(period)
    by_cycle: dict[int, tuple[list[float], list[float]]] = {}
    sums, numbers = [0.0] * phases, [0] * phases
    for column, rank in enumerate(ranks):
        at = _phase(column, period, phases)
        sums[at] += rank
        numbers[at] += 1
    best = max(range(phases), key=lambda at: sums[at] / numbers[at] if numbers[at] else -math.inf)
    for column, rank in enumerate(ranks):
        inside, outside = by_cycle.setdefault(int(column / period), ([], []))
        (inside if _phase(column, period, phases) == best else outside).append(rank)
    whole = [(sum(i) / len(i), sum(o) / len(o)) for i, o in by_cycle.values() if i and o]
    above = sum(1 for inside, outside in whole if inside > outside)
    return binomial_tail(above, len(whole), 0.5) <= CYCLES_CHANCE


def _contrast(highs: Sequence[int], alls: Sequence[int], period: float) -> tuple[float, float, float]:
    """Share of high values in the strongest phase and in the others, and where that phase begins first (columns)."""
    phases = _phases(period)
    high, everything = [0] * phases, [0] * phases
    for column, (h, n) in enumerate(zip(highs, alls, strict=True)):
        at = _phase(column, period, phases)
        high[at] += h
        everything[at] += n
    best = max(range(phases), key=lambda at: high[at] / everything[at] if everything[at] else 0.0)
    rest = sum(everything) - everything[best]
    return (
        high[best] / everything[best] if everything[best] else 0.0,
        (sum(high) - high[best]) / rest if rest else 0.0,
        best * period / phases,
    )
