"""A heat map as one JSON object: the grid with its account, and what was found in it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from iodyno.analysis.heat_map.findings import Findings
from iodyno.core.grid import Grid


def as_values(
    grid: Grid, found: Findings, quantiles: Mapping[str, float | None], seconds: float
) -> dict[str, Any]:
    """Plain values. events = in_cells + under + over + outside + unreadable; all values in `unit`.

    `quantiles`: of all events, by name; those that are not known are null.
    """
    return {
        "quantity": grid.quantity,
        "unit": grid.unit,
        "scale": grid.scale,
        "form": grid.form,
        "events": grid.events,
        "in_cells": grid.in_cells(),
        "under": sum(grid.under),
        "over": sum(grid.over),
        "outside": grid.outside,
        "unreadable": grid.unreadable,
        "unreadable_first": [list(line) for line in grid.unreadable_first],
        "columns": grid.columns,
        "rows": grid.rows,
        "begin_s": grid.begin_ns / 1e9,
        "column_s": grid.column_ns / 1e9,
        "sub_second": grid.sub_second,
        "edges": list(grid.edges),
        "cells": [list(cell) for cell in grid.cells],
        "over_by_column": list(grid.over),
        "under_by_column": list(grid.under),
        "by_value": [list(part) for part in grid.by_value],
        "quantiles": {
            name: value if value is not None and isfinite(value) else None
            for name, value in quantiles.items()
        },
        **found.to_json(),
        "notes": list(grid.notes),
        "seconds": round(seconds, 4),
    }
