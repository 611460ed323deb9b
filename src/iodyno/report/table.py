"""A table as a value: columns, rows of cells, a title."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """`group` stands above the columns of one host. `right`: texts end below each other."""

    title: str
    group: str = ""
    hint: str = ""
    right: bool = False


@dataclass(frozen=True)
class Cell:
    """Text of a cell, its hint for a pointer resting on it, and the part of the page that it leads to, if that is there."""

    text: str
    hint: str = ""
    link: str = ""


@dataclass(frozen=True)
class Table:
    """Columns and rows under a title. The first `keys` columns say what a row is of."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    keys: int = 1
