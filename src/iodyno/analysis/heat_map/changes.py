"""Change points: times from which on the columns' median, 99th percentile or rate is another one, by Pettitt's test.

Pettitt, "A non-parametric approach to the change-point problem", Applied Statistics 28 (1979) 126-135: of ranks, so that
outliers do
not count; each column is one observation, so that what wanders from column to column is its noise. A part with a change is
cut there and both sides are looked at again. A drift is no change point: a step must fit the ranks better than a straight line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.analysis.chance import ranks_of
from iodyno.analysis.heat_map.columns import column_quantiles, median
from iodyno.analysis.heat_map.modes import ALPHA
from iodyno.core.grid import Grid
from iodyno.core.quantity import counted

LEAST_COLUMNS = 8
"""Columns on either side of a change (chosen: Pettitt's formula is good from some 15 observations on)."""
LEAST_RATIO = 1.1
"""Changes that are smaller are not reported (chosen: what is seen in a picture)."""
SERIES = ("median", "p99", "rate")


@dataclass(frozen=True)
class Change:
    """When, of what ("median", "p99" in the grid's unit, "rate" in events per second), from and to, and its chance.

    Quantiles are upper edges of the rows that they lie in: a change within one row is none that has a size.
    """

    at_s: float
    of: str
    before: float
    after: float
    p: float


def why_no_changes(grid: Grid) -> str:
    """Why no changes are looked for in a grid; empty where they are."""
    filled = sum(1 for total in grid.column_totals() if total)
    if filled >= 2 * LEAST_COLUMNS:
        return ""
    return f"{counted(filled, 'column')} with events, {2 * LEAST_COLUMNS} are needed"


def find_changes(grid: Grid) -> tuple[Change, ...]:
    """All changes, by time. The level is shared between the series."""
    second, begin = grid.column_ns / 1e9, grid.begin_ns / 1e9
    shares = (0.5, 0.99)
    places, bounds = column_quantiles(grid, shares, inside=True), column_quantiles(grid, shares)
    # The last column may be cut off in its middle: it says nothing of the rate.
    totals = grid.column_totals()[:-1] if grid.columns > 2 * LEAST_COLUMNS else grid.column_totals()
    found = []
    rates = [total / second for total in totals]
    for name, compared, told in (
        ("median", places[0], bounds[0]),
        ("p99", places[1], bounds[1]),
        ("rate", rates, rates),
    ):
        known = [column for column, value in enumerate(compared) if value is not None]
        cuts = _cuts([compared[column] or 0.0 for column in known])
        borders = [0, *(cut for cut, _ in cuts), len(known)]
        for number, (cut, p) in enumerate(cuts):
            sides = known[borders[number] : cut], known[cut : borders[number + 2]]
            before, after = (median(told[column] or 0.0 for column in side) for side in sides)
            if before != after and _differ(*(median(compared[column] or 0.0 for column in s) for s in sides)):
                found.append(Change(begin + known[cut] * second, name, before, after, p))
    return tuple(sorted(found, key=lambda change: (change.at_s, SERIES.index(change.of))))


def _differ(before: float, after: float) -> bool:
    if not (math.isfinite(before) and math.isfinite(after)):
        return False
    low, high = sorted((before, after))
    return low >= 0 and high > low * LEAST_RATIO


def _cuts(values: Sequence[float], first: int = 0, last: int | None = None) -> list[tuple[int, float]]:
    """(index of the first value after a change, chance), ascending."""
    last = len(values) if last is None else last
    n = last - first
    if n < 2 * LEAST_COLUMNS:
        return []
    ranks = ranks_of(values[first:last])
    total, best, at = 0.0, 0.0, 0
    for number, rank in enumerate(ranks[:-1], start=1):
        total += rank
        statistic = abs(2 * total - number * (n + 1))
        if LEAST_COLUMNS <= number <= n - LEAST_COLUMNS and statistic > best:
            best, at = statistic, number
    p = min(1.0, len(SERIES) * 2 * math.exp(-6 * best * best / (n**3 + n**2)))
    if p > ALPHA or not _is_step(ranks, at):
        return []
    cut = first + at
    return [*_cuts(values, first, cut), (cut, p), *_cuts(values, cut, last)]


def _is_step(ranks: Sequence[float], at: int) -> bool:
    """Whether a step at `at` leaves less of the ranks' variation than a straight line."""
    n = len(ranks)
    mean = sum(ranks) / n
    left, right = sum(ranks[:at]) / at, sum(ranks[at:]) / (n - at)
    step = at * (left - mean) ** 2 + (n - at) * (right - mean) ** 2
    centre = (n - 1) / 2
    slope = sum((x - centre) * (rank - mean) for x, rank in enumerate(ranks))
    line = slope * slope / sum((x - centre) ** 2 for x in range(n))
    return step > line
