"""The cumulative distribution of a grid at its rows' edges, and above them where that is known.

>>> grid = Grid("latency", "ns", 0, 10, 1, (0.0, 4.0, 8.0), "linear", ((0, 0, 3), (0, 1, 1)), (0,), (1,), 0, 5, 0, ())
>>> cumulative_curve(grid)
((0.0, 0.0), (4.0, 0.6), (8.0, 0.8))
"""

from __future__ import annotations

from iodyno.core.grid import Grid


def cumulative_curve(grid: Grid) -> tuple[tuple[float, float], ...]:
    """(edge, share of all events at or below it), ascending: exact at the edges. Empty when there is no event."""
    totals, seen = grid.row_totals(), sum(grid.under)
    everything = seen + sum(totals) + sum(grid.over)
    if not everything:
        return ()
    found = [(grid.edges[0], seen / everything)]
    for row, count in enumerate(totals):
        seen += count
        found.append((grid.edges[row + 1], seen / everything))
    for _, high, count in grid.above:
        seen += count
        found.append((high, seen / everything))
    return tuple(found)
