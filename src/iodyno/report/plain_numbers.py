"""Numbers behind the figures and tables of a page, as rows that its script saves as CSV."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence

from iodyno.report.figures import AnyFigure
from iodyno.report.figures.panel import CurvePanel, Panel
from iodyno.report.figures.scatter import ScatterFigure, ScatterPanel
from iodyno.report.figures.stacks import StackFigure, StackPanel
from iodyno.report.table import Cell, Column, Table
from iodyno.report.void import MARK, WHY

Value = float | int | str | None
Row = Sequence[Value]
_DIGITS = 5
"""Chosen: two more than an interval ever needs."""
_VOID = "void"
"""Head of the column that says why nothing is claimed of a number, as `iodyno report --format csv` has it."""


def figure_rows(figure: AnyFigure) -> list[Row]:
    """Return a row for each mark of a figure under its heads, in the units of its axes, and why nothing is claimed of it."""
    if isinstance(figure, StackFigure):
        heads = ["panel", "bar", "layer", "value", "low", "high", "unit", _VOID]
        return [heads, *(row for panel in figure.panels for row in _of_stacks(panel))]
    heads = ["panel", "series", "x", "y", "low", "high", "x axis", "y axis"]
    if isinstance(figure, ScatterFigure):
        return [heads, *(row for panel in figure.panels for row in _of_dots(panel))]
    return [[*heads, _VOID], *(row for panel in figure.panels for row in _of_panel(panel))]


def _of_stacks(panel: StackPanel) -> Iterator[Row]:
    for stack in panel.stacks:
        void = WHY if stack.void else None
        for layer in stack.layers:
            yield panel.title, stack.label, layer.name, _short(layer.y), None, None, panel.y_title, void
        total = _short(stack.total), _short(stack.low), _short(stack.high)
        yield panel.title, stack.label, "total", *total, panel.y_title, void


def _of_dots(panel: ScatterPanel) -> Iterator[Row]:
    axes = panel.x_title, panel.y_title
    for dot in panel.dots:
        yield panel.title, dot.name, *map(_short, (dot.x, dot.y, dot.low, dot.high)), *axes
    for limit in panel.limits:
        yield panel.title, limit.name, None, _short(limit.y), None, None, *axes


def _of_panel(panel: Panel) -> Iterator[Row]:
    axes, names = (panel.x.title, panel.y.title), dict(panel.x.places) if panel.x.nominal else {}
    for series in panel.series:
        for mark in series.marks:
            why = WHY if mark.void else None
            numbers = map(_short, (mark.y, mark.low, mark.high))
            yield panel.title, series.label, names.get(mark.x, _short(mark.x)), *numbers, *axes, why
    for curve in panel.curves if isinstance(panel, CurvePanel) else ():
        band = {x: (_short(low), _short(high)) for x, low, high in curve.band}
        for x, y in curve.line:
            yield panel.title, curve.label, _short(x), _short(y), *band.get(x, (None, None)), *axes, None


def table_rows(table: Table) -> list[Row]:
    """Return the rows of a table under its heads: levels and estimates in base units, and texts where a cell has no more."""
    columns = [
        _column(column, [row[place] for row in table.rows]) for place, column in enumerate(table.columns)
    ]
    heads, *rows = ([value for part in row for value in part] for row in zip(*columns, strict=True))
    return [heads, *rows]


def _column(column: Column, cells: Sequence[Cell]) -> list[Row]:
    """The heads of a column and what each of its cells holds: an estimate makes three columns, of it and of its interval; where
    nothing is claimed of some of them, a fourth has the reason.
    """
    first = max((cell.estimates for cell in cells), key=len, default=())
    if not first:
        name = f"{column.group} {column.title}".strip()
        return [[name], *([cell.text if cell.level is None else cell.level] for cell in cells)]
    parts = column.parts or (column.title,)
    named = [
        f"{column.group} {part}".strip() + (f" [{each.unit}]" if each.unit != "1" else "")
        for part, each in zip(parts, first, strict=True)
    ]
    void = any(map(_why, cells))
    return [
        [
            *(f"{name}{end}" for name in named for end in ("", " low", " high")),
            *([f"{column.group} {column.title} {_VOID}".strip()] if void else []),
        ],
        *(
            [
                *(
                    [_short(v) for each in cell.estimates for v in (each.estimate, each.low, each.high)]
                    or [None] * (3 * len(first))
                ),
                *([_why(cell)] if void else []),
            ]
            for cell in cells
        ),
    ]


def _why(cell: Cell) -> str | None:
    """Why a cell has the mark that nothing is claimed of it: the last part of its hint; None without the mark."""
    return cell.hint.rpartition("; ")[2] if cell.estimates and cell.text.endswith(MARK) else None


def packed(rows: Mapping[str, Sequence[Row]]) -> str:
    """All of them by name as JSON, compressed (zlib), in base64, which no symbol can break out of."""
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _short(value: Value) -> Value:
    """The number with as many digits as an interval ever has; infinities are no numbers of JSON."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{_DIGITS}g}") if abs(value) < float("inf") else None
