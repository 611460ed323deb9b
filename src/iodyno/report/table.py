"""A table as a value: columns, rows of cells, a title."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iodyno.core.outcome import Estimate
from iodyno.core.workload import Level

if TYPE_CHECKING:  # every command that answers in a table imports this
    from iodyno.analysis.results import PointSummary


@dataclass(frozen=True)
class Column:
    """`group` stands above the columns of one host. `right`: texts end below each other. `parts`: names of the estimates of a
    cell that has several.
    """

    title: str
    group: str = ""
    hint: str = ""
    right: bool = False
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """Text of a cell, its hint for a pointer resting on it, and the part of the page that it leads to, if that is there; the
    estimates or the level that it tells of.
    """

    text: str
    hint: str = ""
    link: str = ""
    estimates: tuple[Estimate, ...] = ()
    level: Level | None = None


@dataclass(frozen=True)
class Table:
    """Columns and rows under a title. The first `keys` columns say what a row is of."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    keys: int = 1


def level_cell(point: PointSummary, factor: str) -> Cell:
    """Return the level that a point has of a factor."""
    return Cell(point.labels.get(factor, ""), level=point.levels.get(factor))
