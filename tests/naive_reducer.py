"""A reader of two columns as slow and plain as can be: stands in for the agent's reducer where a test is of what comes
after it."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from iodyno.core.errors import ExperimentError
from iodyno.core.grid import Grid

UNITS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}


def reduce(
    paths: list[str],
    *,
    time_unit: str | None = None,
    value_unit: str | None = None,
    low: str | None = None,
    high: str | None = None,
    rows: int | None = None,
    column: str | None = None,
    scale: str | None = None,
    **_: Any,
) -> Grid:
    texts = [sys.stdin.read() if path == "-" else Path(path).read_text() for path in paths]
    lines = [line for text in texts for line in text.splitlines()]
    of_time, of_value = UNITS[time_unit or "s"], UNITS[value_unit or "us"]
    events, bad = [], []
    for number, line in enumerate(lines, start=1):
        try:
            at, value = (float(word) for word in line.split())
            events.append((at * of_time, value * of_value))
        except ValueError:
            bad.append((number, "no two numbers"))
    if not lines:
        raise ExperimentError("the trace is empty", where=paths[0])
    first = min((at for at, _ in events), default=0.0)
    bottom = _value(low, of_value, 0.0)
    top = _value(high, of_value, max((v for _, v in events), default=1.0) or 1.0)
    width = int(_value(column, 1e9, 1e9))
    count = rows or 50
    columns = max((int((at - first) // width) + 1 for at, _ in events), default=1)
    if scale == "log":
        bottom = bottom or min(v for _, v in events)
        edges = tuple(bottom * (top / bottom) ** (i / count) for i in range(count + 1))
    else:
        edges = tuple(bottom + (top - bottom) * i / count for i in range(count + 1))
    cells: dict[tuple[int, int], int] = {}
    under, over = [0] * columns, [0] * columns
    for at, value in events:
        at_column = int((at - first) // width)
        if value < edges[0]:
            under[at_column] += 1
        elif value > edges[-1]:
            over[at_column] += 1
        else:
            row = min(count - 1, max(r for r in range(count) if edges[r] <= value))
            cells[at_column, row] = cells.get((at_column, row), 0) + 1
    grid = Grid(
        "latency",
        "ns",
        0,
        width,
        columns,
        edges,
        scale or "linear",
        tuple((c, r, n) for (c, r), n in sorted(cells.items())),
        tuple(under),
        tuple(over),
        0,
        len(lines),
        len(bad),
        tuple(bad[:10]),
        form="two-column",
    )
    grid.check()
    return grid


def outliers(paths: list[str], region: str, *, out: Any, limit: int | None = None, **_: Any) -> int:
    least = float(region.partition(":")[0])
    found = [line for line in Path(paths[0]).read_text().splitlines() if float(line.split()[-1]) >= least][
        :limit
    ]
    out.write("".join(line + "\n" for line in found).encode())
    return len(found)


def _value(text: str | None, unit: float, default: float) -> float:
    if text is None:
        return default
    for name in ("ns", "us", "ms", "s"):
        if text.endswith(name):
            return float(text.removesuffix(name)) * UNITS[name]
    assert math.isfinite(float(text))
    return float(text) * unit
