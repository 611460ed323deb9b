"""Quantiles of every column of a grid, in one pass over its cells: bounds, as where in its row a value lies is not known.

>>> cells = ((0, 0, 4), (0, 1, 4), (1, 1, 1))
>>> grid = Grid("latency", "ns", 0, 10, 2, (0.0, 4.0, 8.0), "linear", cells, (0, 0), (0, 1), 0, 10, 0, ())
>>> column_quantiles(grid, (0.5, 1.0))
((4.0, 8.0), (8.0, inf))
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from iodyno.core.grid import Grid


def columns_of(grid: Grid) -> list[list[tuple[int, int]]]:
    """(row, count) of each column's cells, rows ascending."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(grid.columns)]
    for column, row, count in grid.cells:
        found[column].append((row, count))
    for cells in found:
        cells.sort()
    return found


def column_quantiles(
    grid: Grid, shares: Sequence[float], *, inside: bool = False
) -> tuple[tuple[float | None, ...], ...]:
    """For each share, the least edge of a row that it of a column's events does not exceed, a column each, in the grid's unit.

    `inside`: a place within the row instead, as if its events lay in the middles of equal parts: good to compare columns by,
    and no value of anything. None where the column has no event. Minus or plus infinity where the value lies below or above
    the rows: it is there, but where is not known.
    """
    columns = columns_of(grid)
    return tuple(
        tuple(
            _quantile_of(cells, under, over, grid.edges, share, inside)
            for cells, under, over in zip(columns, grid.under, grid.over, strict=True)
        )
        for share in shares
    )


def quantile_of_all(grid: Grid, share: float) -> float | None:
    """The quantile of all events of a grid: within 0.8 %, and the greatest value exactly. A bound as `column_quantiles` has it
    where values are known by their rows alone; None where there is no event."""
    if not grid.by_value:
        cells = [(row, count) for row, count in enumerate(grid.row_totals()) if count]
        return _quantile_of(cells, sum(grid.under), sum(grid.over), grid.edges, share, False)
    rank = _rank(share, sum(count for _, _, count in grid.by_value))
    seen = 0
    for low, high, count in grid.by_value:
        if rank <= seen + count:
            return low + (high - low) * (rank - seen) / count
        seen += count
    return grid.greatest


def _quantile_of(
    cells: Sequence[tuple[int, int]],
    under: int,
    over: int,
    edges: Sequence[float],
    share: float,
    inside: bool,
) -> float | None:
    """The quantile of (row, count) cells with rows ascending, as `column_quantiles` has it."""
    total = under + sum(count for _, count in cells) + over
    if total == 0:
        return None
    rank = _rank(share, total)
    if rank <= under:
        return -math.inf
    seen = under
    for row, count in cells:
        if rank <= seen + count:
            low, high = edges[row], edges[row + 1]
            return low + (high - low) * (rank - seen - 0.5) / count if inside else high
        seen += count
    return math.inf


def _rank(share: float, total: int) -> int:
    """The number of the event from below, 1 to total (the inverse of the empirical distribution)."""
    return max(1, math.ceil(share * total - 1e-9))


def median(values: Iterable[float]) -> float:
    """The median; `statistics` takes longer to import than all else here takes to run. Errors: IndexError without a value."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
