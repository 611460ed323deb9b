"""Bursts of outliers: times in which more of the highest values fall than chance would have put there.

Outliers are the upper hundredth at most. Given how many there are in all, those of one column are binomial with the
column's share of
all events (Przyborowski and Wilenski, Biometrika 31 (1940) 313); the chance is multiplied by the number of blocks of
columns looked at. The same must
hold among the columns around it alone: where a mode moves up there are more outliers from then on, and that is no burst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from iodyno.analysis.chance import binomial_tail
from iodyno.analysis.heat_map.columns import columns_of
from iodyno.analysis.heat_map.modes import ALPHA
from iodyno.analysis.heat_map.stripes import high_row
from iodyno.core.grid import Grid

OUTLIER_SHARE = 0.01
"""Share of the events that may be outliers (chosen: the upper hundredth)."""
LEAST_EVENTS = 5
"""Outliers that a burst has (chosen: with fewer, nobody would look)."""
MOST_COLUMNS_RATIO = 0.2
"""Share of the columns that stand out above which it is no burst: the values have changed (chosen)."""


@dataclass(frozen=True)
class Burst:
    """From when to when, how many outliers, how many were to be expected, and the least chance of its columns (corrected)."""

    begin_s: float
    end_s: float
    outliers: int
    expected: float
    p: float


@dataclass(frozen=True)
class Bursts:
    """All bursts by their begin; `above`: where outliers begin, in the grid's unit; `outliers`: how many there are in all."""

    found: tuple[Burst, ...]
    above: float | None
    outliers: int


def find_bursts(grid: Grid) -> Bursts:
    """The bursts of a grid; columns beside each other are one burst."""
    border, high = high_row(grid, OUTLIER_SHARE), outliers_of_columns(grid)
    above = None
    if border is not None:
        above = grid.edges[border]
    elif sum(high):
        above = grid.edges[-1]
    totals = grid.column_totals()
    outliers, everything = sum(high), sum(totals)
    if outliers < LEAST_EVENTS or outliers > OUTLIER_SHARE * everything:
        return Bursts((), above, outliers)
    busy = sum(1 for total in totals if total)
    chances: dict[int, float] = {}
    for block, p in _stand_out(high, totals).items():
        first, last = block
        while high[first] * everything <= outliers * totals[first]:
            first += 1
        while high[last - 1] * everything <= outliers * totals[last - 1]:
            last -= 1
        for column in range(first, last):
            chances[column] = min(p, chances.get(column, 1.0))
    if len(chances) > MOST_COLUMNS_RATIO * busy:
        return Bursts((), above, outliers)
    runs: list[list[int]] = []
    for column in sorted(chances):
        if runs and column == runs[-1][-1] + 1:
            runs[-1].append(column)
        else:
            runs.append([column])
    second, begin = grid.column_ns / 1e9, grid.begin_ns / 1e9
    found = []
    for run in runs:
        count = sum(high[column] for column in run)
        if count >= LEAST_EVENTS:
            expected = outliers * sum(totals[column] for column in run) / everything
            found.append(
                Burst(
                    begin + run[0] * second,
                    begin + (run[-1] + 1) * second,
                    count,
                    expected,
                    min(chances[column] for column in run),
                )
            )
    return Bursts(tuple(found), above, outliers)


def outliers_of_columns(grid: Grid) -> list[int]:
    """Count the outliers of each column."""
    high = list(grid.over)
    border = high_row(grid, OUTLIER_SHARE)
    if border is not None:
        for column, cells in enumerate(columns_of(grid)):
            high[column] += sum(count for row, count in cells if row >= border)
    return high


def _stand_out(high: Sequence[int], totals: Sequence[int]) -> dict[tuple[int, int], float]:
    """Blocks of columns, first to last and one more, with more outliers than chance allows; with the chance, corrected.

    Blocks of 1, 2, 4, ... columns, each moved on by half of itself: a burst may be shorter than a column or as long as twenty.
    """
    sums, alls = [0, *accumulate(high)], [0, *accumulate(totals)]
    outliers, everything, columns = sums[-1], alls[-1], len(high)
    blocks = []
    width = 1
    while width <= max(1, columns // 10):
        step = max(1, width // 2)
        blocks += [(first, first + width) for first in range(0, columns - width + 1, step)]
        width *= 2
    found = {}
    for first, last in blocks:
        count, total = sums[last] - sums[first], alls[last] - alls[first]
        if count < LEAST_EVENTS or count * everything <= outliers * total:
            continue
        around = max(10, columns // 8, 3 * (last - first))
        low, top = max(0, first - around), min(columns, last + around)
        p = max(
            binomial_tail(count, outliers, total / everything),
            binomial_tail(count, sums[top] - sums[low], total / (alls[top] - alls[low])),
        )
        if p * len(blocks) <= ALPHA:
            found[first, last] = p * len(blocks)
    return found
