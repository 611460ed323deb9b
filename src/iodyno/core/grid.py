"""Counts of events over time (columns) and over a quantity (rows): what a heat map is drawn from.

A grid loses nothing: every event that went in is in a cell, below the rows, above them, outside the time that was asked
for, or was unreadable. `Grid.check` holds the sum against it, and `Grid.from_json` calls it.

>>> grid = Grid("latency", "ns", 0, 10, 2, (0.0, 5.0, 10.0), "linear", ((0, 0, 3), (1, 1, 1)), (0, 0), (0, 2), 0, 6, 0, ())
>>> grid.in_cells(), grid.column_totals(), grid.row_totals()
(4, (3, 3), (3, 1))
>>> Grid.from_json(grid.to_json()) == grid
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

SCALES = ("linear", "log")
"""Scales of the rows: equal steps or equal ratios."""
FIRST_UNREADABLE = 10
"""Unreadable lines that are shown with their number. Chosen: what a person reads before looking at the file."""


@dataclass(frozen=True)
class Grid:
    """Counts of events over time (columns) and a quantity (rows).

    Row r holds edges[r] <= value < edges[r + 1]; the last row holds its upper edge too. Column c holds
    begin_ns + c * column_ns <= time < begin_ns + (c + 1) * column_ns.
    """

    quantity: str
    """Quantity of the rows: "latency", "size", "offset", "utilisation", ..."""
    unit: str
    """Base unit of values: "ns", "bytes", "count", "ratio"; "" where it is unknown."""
    begin_ns: int
    """Begin of the first column, on the clock of the trace."""
    column_ns: int
    """Width of a column."""
    columns: int
    edges: tuple[float, ...]
    """rows + 1 ascending edges in `unit`."""
    scale: str
    """"linear" or "log"."""
    cells: tuple[tuple[int, int, int], ...]
    """(column, row, count), sorted, count > 0."""
    under: tuple[int, ...]
    """Per column: events below edges[0]."""
    over: tuple[int, ...]
    """Per column: events above edges[-1], drawn as the overflow row."""
    outside: int
    """Events before or after the time range asked for."""
    events: int
    """Number of events that went in."""
    unreadable: int
    """Lines that are no event, as they cannot be understood."""
    unreadable_first: tuple[tuple[int, str], ...]
    """Number and reason of the first of them."""
    sub_second: bool = False
    """Columns are whole seconds and rows are offsets within them, not values."""
    form: str = ""
    """Form in which the trace was read: "two-column", "iosnoop", ...; "" where it was not read from a trace."""
    by_value: tuple[tuple[float, float, int], ...] = ()
    """All events in columns by value, whatever the rows are: (from, to, events), ascending, 0.8 % wide; from the least value of
    a trace to its greatest (of histograms: to the ends of their buckets). Empty where it is not known."""
    notes: tuple[str, ...] = ()
    """Notes on choices made: how the upper end of the rows was found, what was filtered out, where a file broke."""

    @property
    def rows(self) -> int:
        """Number of rows, without under and over."""
        return len(self.edges) - 1

    def in_cells(self) -> int:
        """Events that a cell holds."""
        return sum(count for _, _, count in self.cells)

    def column_totals(self) -> tuple[int, ...]:
        """Events in each column, those under and over included."""
        totals = [low + high for low, high in zip(self.under, self.over, strict=True)]
        for column, _, count in self.cells:
            totals[column] += count
        return tuple(totals)

    def row_totals(self) -> tuple[int, ...]:
        """Events in each row."""
        totals = [0] * self.rows
        for _, row, count in self.cells:
            totals[row] += count
        return tuple(totals)

    def column(self, column: int) -> tuple[int, ...]:
        """Events in each row of one column."""
        counts = [0] * self.rows
        for at, row, count in self.cells:
            if at == column:
                counts[row] += count
        return tuple(counts)

    @property
    def greatest(self) -> float | None:
        """The greatest value, in `unit`; None where it is not known."""
        return self.by_value[-1][1] if self.by_value else None

    @property
    def above(self) -> tuple[tuple[float, float, int], ...]:
        """Return the part of `by_value` that lies above the rows."""
        found: list[tuple[float, float, int]] = []
        left = sum(self.over)
        for low, high, count in reversed(self.by_value):
            if not left:
                break
            # The part that the upper edge lies in belongs to both sides: how many are above is known by the columns.
            found.append((max(low, self.edges[-1]), high, min(count, left)))
            left -= found[-1][2]
        return tuple(reversed(found))

    def check(self) -> None:
        """Holds the counts against the number of events.

        Errors: ValueError where an event is missing or counted twice, or a column, row or edge is out of place.
        """
        if self.columns != len(self.under) or self.columns != len(self.over):
            raise ValueError(
                f"{self.columns} columns, but {len(self.under)} and {len(self.over)} totals beside them"
            )
        if any(low >= high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise ValueError("the edges of the rows do not ascend")
        if any(
            not (0 <= column < self.columns and 0 <= row < self.rows and count > 0)
            for column, row, count in self.cells
        ):
            raise ValueError("a cell lies outside the grid or is empty")
        counted = self.in_cells() + sum(self.under) + sum(self.over) + self.outside + self.unreadable
        if counted != self.events:
            raise ValueError(f"{self.events} events went in, but {counted} are counted")
        if self.by_value and sum(count for _, _, count in self.by_value) != counted - (
            self.outside + self.unreadable
        ):
            raise ValueError("the events by value are not as many as those by column")

    def same_frame(self, other: Grid) -> bool:
        """Tell whether both have the same rows and their columns begin at the same times, so that counts can be added."""
        return (self.quantity, self.unit, self.begin_ns, self.column_ns, self.edges, self.sub_second) == (
            other.quantity,
            other.unit,
            other.begin_ns,
            other.column_ns,
            other.edges,
            other.sub_second,
        )

    def merged(self, other: Grid) -> Grid:
        """Both together, exactly. Errors: ValueError where the frames are not the same."""
        self._must_share_frame(other)
        counts: dict[tuple[int, int], int] = {}
        for column, row, count in (*self.cells, *other.cells):
            counts[column, row] = counts.get((column, row), 0) + count
        return replace(
            self,
            columns=max(self.columns, other.columns),
            cells=tuple((column, row, count) for (column, row), count in sorted(counts.items())),
            under=_added(self.under, other.under),
            over=_added(self.over, other.over),
            outside=self.outside + other.outside,
            events=self.events + other.events,
            unreadable=self.unreadable + other.unreadable,
            unreadable_first=(*self.unreadable_first, *other.unreadable_first)[:FIRST_UNREADABLE],
            form=self.form if self.form == other.form else "",
            by_value=_both_by_value(self, other),
            notes=tuple(dict.fromkeys((*self.notes, *other.notes))),
        )

    def minus(self, other: Grid) -> tuple[tuple[int, int, int], ...]:
        """(column, row, difference of counts) where they differ, sorted: what a difference map is drawn from.

        Errors: ValueError where the frames are not the same.
        """
        self._must_share_frame(other)
        counts = {(column, row): count for column, row, count in self.cells}
        for column, row, count in other.cells:
            counts[column, row] = counts.get((column, row), 0) - count
        return tuple((column, row, count) for (column, row), count in sorted(counts.items()) if count)

    def _must_share_frame(self, other: Grid) -> None:
        if not self.same_frame(other):
            raise ValueError(
                "the two grids have other rows or columns: reduce both with the same ranges and widths"
            )

    def to_json(self) -> dict[str, Any]:
        """As plain values, with the names of the fields."""
        return {
            "quantity": self.quantity,
            "unit": self.unit,
            "begin_ns": self.begin_ns,
            "column_ns": self.column_ns,
            "columns": self.columns,
            "edges": list(self.edges),
            "scale": self.scale,
            "cells": [list(cell) for cell in self.cells],
            "under": list(self.under),
            "over": list(self.over),
            "outside": self.outside,
            "events": self.events,
            "unreadable": self.unreadable,
            "unreadable_first": [list(line) for line in self.unreadable_first],
            "sub_second": self.sub_second,
            "form": self.form,
            "by_value": [list(part) for part in self.by_value],
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Grid:
        """From plain values; what else stands beside them is left alone. Errors: KeyError, and those of `check`."""
        grid = cls(
            quantity=said["quantity"],
            unit=said["unit"],
            begin_ns=int(said["begin_ns"]),
            column_ns=int(said["column_ns"]),
            columns=int(said["columns"]),
            edges=tuple(float(edge) for edge in said["edges"]),
            scale=said["scale"],
            cells=tuple((int(column), int(row), int(count)) for column, row, count in said["cells"]),
            under=tuple(int(count) for count in said["under"]),
            over=tuple(int(count) for count in said["over"]),
            outside=int(said["outside"]),
            events=int(said["events"]),
            unreadable=int(said["unreadable"]),
            unreadable_first=tuple((int(line), str(reason)) for line, reason in said["unreadable_first"]),
            sub_second=bool(said.get("sub_second", False)),
            form=str(said.get("form", "")),
            by_value=tuple(
                (float(low), float(high), int(count)) for low, high, count in said.get("by_value", ())
            ),
            notes=tuple(str(note) for note in said.get("notes", ())),
        )
        grid.check()
        return grid


def _added(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    return tuple(count + (shorter[at] if at < len(shorter) else 0) for at, count in enumerate(longer))


def _both_by_value(first: Grid, second: Grid) -> tuple[tuple[float, float, int], ...]:
    """The events of both by value; empty where one does not know its own. Parts that overlap are of one bucket, cut at the
    least or the greatest value of one of both."""
    if any(sum(grid.column_totals()) and not grid.by_value for grid in (first, second)):
        return ()
    found: list[tuple[float, float, int]] = []
    for low, high, count in sorted((*first.by_value, *second.by_value)):
        if found and (low < found[-1][1] or low == found[-1][0]):
            begin, end, before = found.pop()
            found.append((begin, max(end, high), before + count))
        else:
            found.append((low, high, count))
    return tuple(found)
