"""Quantiles of every column of a grid, in one pass over its cells.

>>> cells = ((0, 0, 4), (0, 1, 4), (1, 1, 1))
>>> grid = Grid("latency", "ns", 0, 10, 2, (0.0, 4.0, 8.0), "linear", cells, (0, 0), (0, 1), 0, 10, 0, ())
>>> column_quantiles(grid, (0.5, 1.0))
((3.5, 6.0), (7.5, inf))
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from iodyno.core.grid import Grid


def columns_of(grid: Grid) -> list[list[tuple[int, int]]]:
    """(row, count) of each column's cells, rows ascending."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(grid.columns)]
    for column, row, count in grid.cells:
        found[column].append((row, count))
    for cells in found:
        cells.sort()
    return found


def column_quantiles(grid: Grid, shares: Sequence[float]) -> tuple[tuple[float | None, ...], ...]:
    """For each share, the value that it of a column's events does not exceed, a column each, in the grid's unit.

    Interpolated within its row. None where the column has no event. Minus or plus infinity where the value lies below or above
    the rows: it is there, but where is not known.
    """
    columns = columns_of(grid)
    return tuple(
        tuple(
            quantile_of(cells, under, over, grid.edges, share)
            for cells, under, over in zip(columns, grid.under, grid.over, strict=True)
        )
        for share in shares
    )


def quantile_of_all(grid: Grid, share: float) -> float | None:
    """The quantile of all events of a grid, as `column_quantiles` has it; above the rows too, where that is known: within
    0.8 %, and the greatest value exactly."""
    cells = [(row, count) for row, count in enumerate(grid.row_totals()) if count]
    return quantile_of(cells, sum(grid.under), sum(grid.over), grid.edges, share, grid.above)


def quantile_of(
    cells: Sequence[tuple[int, int]],
    under: int,
    over: int,
    edges: Sequence[float],
    share: float,
    above: Sequence[tuple[float, float, int]] = (),
) -> float | None:
    """The quantile of (row, count) cells with rows ascending, as `column_quantiles` has it.

    The n events of a row are taken to lie in the middles of its n equal parts; the last of those in a part of `above` lies at
    its end.
    """
    total = under + sum(count for _, count in cells) + over
    if total == 0:
        return None
    # The number of the event from below, 1 to total (the inverse of the empirical distribution).
    rank = max(1, math.ceil(share * total - 1e-9))
    if rank <= under:
        return -math.inf
    seen = under
    for row, count in cells:
        if rank <= seen + count:
            low, high = edges[row], edges[row + 1]
            return low + (high - low) * (rank - seen - 0.5) / count
        seen += count
    for low, high, count in above:
        if rank <= seen + count:
            return low + (high - low) * (rank - seen) / count
        seen += count
    return math.inf
