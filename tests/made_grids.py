"""Grids made from drawn events with a known truth, counted in the plainest way."""

from __future__ import annotations

import math
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise

from iodyno.core.grid import Grid

SECOND = 10**9
Event = tuple[float, float]
"""Time in s, value in ns."""


def linear(high: float, rows: int = 50, low: float = 0.0) -> tuple[float, ...]:
    return tuple(low + (high - low) * row / rows for row in range(rows + 1))


def logarithmic(low: float, high: float, rows: int = 60) -> tuple[float, ...]:
    return tuple(low * (high / low) ** (row / rows) for row in range(rows + 1))


def by_value(values: list[float]) -> tuple[tuple[float, float, int], ...]:
    """As the reducer has it: by the first 19 bits of the double, from the least value to the greatest."""
    if not values or min(values) < 0:
        return ()
    buckets = Counter(struct.unpack("<Q", struct.pack("<d", value))[0] >> 45 for value in values)

    def edge(bucket: int) -> float:
        return float(struct.unpack("<d", struct.pack("<Q", bucket << 45))[0])

    least, greatest = min(values), max(values)
    return tuple(
        (max(edge(at), least), min(edge(at + 1), greatest) if at else 0.0, buckets[at])
        for at in sorted(buckets)
    )


def counted(
    events: Iterable[Event], edges: tuple[float, ...], columns: int, column_s: float = 1.0, **more: object
) -> Grid:
    cells: dict[tuple[int, int], int] = {}
    under, over, outside, total = [0] * columns, [0] * columns, 0, 0
    bounds = list(pairwise(edges))
    values = []
    ratio = math.log(edges[1] / edges[0]) if edges[0] > 0 else 0.0
    log = ratio > 0 and abs(edges[2] / edges[1] - edges[1] / edges[0]) < 1e-9
    for at, value in events:
        total += 1
        column = math.floor(at / column_s)
        if not 0 <= column < columns:
            outside += 1
            continue
        values.append(value)
        if value < edges[0]:
            under[column] += 1
        elif value > edges[-1]:
            over[column] += 1
        else:
            row = (
                int(math.log(value / edges[0]) / ratio)
                if log
                else int((value - edges[0]) / (edges[1] - edges[0]))
            )
            row = min(row, len(bounds) - 1)
            while row and value < bounds[row][0]:
                row -= 1
            while row < len(bounds) - 1 and value >= bounds[row][1]:
                row += 1
            cells[column, row] = cells.get((column, row), 0) + 1
    grid = Grid(
        "latency", "ns", 0, round(column_s * SECOND), columns, edges, "log" if log else "linear",
        tuple((c, r, n) for (c, r), n in sorted(cells.items())), tuple(under), tuple(over), outside, total, 0, (),
        by_value=by_value(values),
    )  # fmt: skip
    grid.check()
    return grid


def drawn(
    value: Callable[[random.Random, float], float],
    *,
    events: int = 6000,
    columns: int = 60,
    seed: int = 1,
    edges: tuple[float, ...] | None = None,
) -> Grid:
    """Events at uniform times, their values by `value(random, time)`."""
    chance = random.Random(seed)
    times = [chance.uniform(0, columns) for _ in range(events)]
    pairs = [(at, value(chance, at)) for at in times]
    return counted(pairs, edges or logarithmic(1e4, 1e7, 80), columns)
