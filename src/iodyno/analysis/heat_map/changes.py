"""Change points: times from which on the columns' median, 99th percentile or rate is another one (`change_points.RankTest`).

Each column is one observation, so that what wanders from column to column is its noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iodyno.analysis.change_points import RankTest, change_points
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
    """Change of a quantity ("median", "p99" in the grid's unit, "rate" in events per second): when, from and to, and its chance.

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
    for name, compared, shown in (
        ("median", places[0], bounds[0]),
        ("p99", places[1], bounds[1]),
        ("rate", rates, rates),
    ):
        known = [column for column, value in enumerate(compared) if value is not None]
        series = [compared[column] or 0.0 for column in known]
        cuts = change_points(len(series), RankTest(series, ALPHA, LEAST_COLUMNS, len(SERIES)))
        borders = [0, *(cut for cut, _ in cuts), len(known)]
        for number, (cut, p) in enumerate(cuts):
            sides = known[borders[number] : cut], known[cut : borders[number + 2]]
            before, after = (median(shown[column] or 0.0 for column in side) for side in sides)
            if before != after and _differ(*(median(compared[column] or 0.0 for column in s) for s in sides)):
                found.append(Change(begin + known[cut] * second, name, before, after, p))
    return tuple(sorted(found, key=lambda change: (change.at_s, SERIES.index(change.of))))


def _differ(before: float, after: float) -> bool:
    if not (math.isfinite(before) and math.isfinite(after)):
        return False
    low, high = sorted((before, after))
    return low >= 0 and high > low * LEAST_RATIO
