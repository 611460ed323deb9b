"""The cumulative distribution of a grid: by value where that is known, else at its rows' edges.

>>> grid = Grid("latency", "ns", 0, 10, 1, (0.0, 4.0, 8.0), "linear", ((0, 0, 3), (0, 1, 1)), (0,), (1,), 0, 5, 0, ())
>>> cumulative_curve(grid)
((0.0, 0.0), (4.0, 0.6), (8.0, 0.8))
"""

from __future__ import annotations

from iodyno.core.grid import Grid


def cumulative_curve(grid: Grid) -> tuple[tuple[float, float], ...]:
    """(value, share of all events at or below it), ascending: exact at these values. Empty when there is no event."""
    everything = sum(grid.column_totals())
    if not everything:
        return ()
    parts = grid.by_value
    seen = 0
    if not parts:
        edges = grid.edges
        parts = tuple((edges[row], edges[row + 1], count) for row, count in enumerate(grid.row_totals()))
        seen = sum(grid.under)
    found: list[tuple[float, float]] = []
    for low, high, count in parts:
        # Between two parts there is no event: the curve is level there.
        if not found or found[-1][0] < low:
            found.append((low, seen / everything))
        seen += count
        found.append((high, seen / everything))
    return tuple(found)
