"""A picture as a list of shapes with roles, which SVG and PNG then draw in their own way. Roles have the colours.

Cells are not shapes of their own: a plot of cells has a frame in columns and rows, and levels by column and row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Box:
    """A filled rectangle. `name` lets the script of an SVG find it."""

    x: float
    y: float
    width: float
    height: float
    role: str
    name: str = ""


@dataclass(frozen=True)
class Words:
    """One line of text, its baseline at y. `spare` ones are left out where the picture is shown small."""

    x: float
    y: float
    text: str
    role: str = "small"
    anchor: Anchor = "start"
    spare: bool = False
    name: str = ""


@dataclass(frozen=True)
class Stroke:
    """A line through points, of the style `role`."""

    points: tuple[tuple[float, float], ...]
    role: str


@dataclass(frozen=True)
class Overlay:
    """A line over the cells, in columns and rows (row 0 at the bottom): runs of (column, row) that are joined."""

    name: str
    runs: tuple[tuple[tuple[float, float], ...], ...]
    style: int
    shown: bool = True


@dataclass(frozen=True)
class Cells:
    """A plot of cells at x, y; `levels` are steps of the ramp by (column, row), row 0 at the bottom."""

    x: float
    y: float
    width: float
    height: float
    columns: int
    rows: int
    levels: dict[tuple[int, int], int]
    overlays: tuple[Overlay, ...] = ()
    difference: bool = False
    name: str = "plot"


@dataclass(frozen=True)
class Toggle:
    """An entry of the legend that turns an overlay off and on: a piece of its line, and its name."""

    x: float
    y: float
    overlay: str
    text: str
    style: int
    shown: bool


Shape = Box | Words | Stroke | Cells | Toggle


@dataclass
class Picture:
    """Shapes in drawing order, on `width` x `height` units. `title` and `description` are for who cannot see it."""

    width: float
    height: float
    title: str
    description: str
    shapes: list[Shape] = field(default_factory=list)
