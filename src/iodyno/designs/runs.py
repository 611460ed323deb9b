"""Points of a kind of design, and which of them a replicate visits, before `order` puts them in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from iodyno.core.design import Point, Structure
from iodyno.core.workload import Level

Group = tuple[int, ...]
"""Visits that stay together in time, as positions in `Runs.points`."""


@dataclass(frozen=True)
class Runs:
    """The points of a design, and one replicate of it.

    `parts`: the blocks that a replicate is divided into, each of groups that stay together. `ordered`: parts, groups and
    visits are in the design's own order, not in a random one; `ordered_inside`: the visits of a group only.
    """

    points: tuple[Point, ...]
    parts: tuple[tuple[Group, ...], ...]
    ordered: bool = False
    ordered_inside: bool = False
    structure: Structure | None = None

    @property
    def visits(self) -> int:
        """Trials of one replicate."""
        return sum(len(group) for part in self.parts for group in part)


def of_points(points: Iterable[Point]) -> Runs:
    """Runs that visit each of these points once."""
    every = tuple(points)
    return Runs(every, ((tuple(range(len(every))),),))


def of_levels(
    rows: Iterable[Mapping[str, Level]],
    *,
    parts: Sequence[int] | None = None,
    ordered: bool = False,
    structure: Structure | None = None,
    names: Sequence[str] | None = None,
) -> Runs:
    """Runs that visit these combinations of levels, one after the other.

    Equal combinations are one point that is visited again. `parts`: the part of each row, counted from 0. Points are
    named p01, p02, ... in the order in which they come, or by `names`, that of each row, where equal rows have one name.
    """
    positions: dict[tuple[tuple[str, Level], ...], int] = {}
    levels: list[Mapping[str, Level]] = []
    visits: list[int] = []
    for row in rows:
        # 1 and True are equal in Python, and two levels here.
        key = tuple((name, level) for name, level in row.items())
        identity = tuple((name, repr(level)) for name, level in key)
        if identity not in positions:
            positions[identity] = len(levels)
            levels.append(row)
        visits.append(positions[identity])
    belongs = list(parts) if parts is not None else [0] * len(visits)
    divided = tuple(
        (tuple(visit for visit, part in zip(visits, belongs, strict=True) if part == number),)
        for number in sorted(set(belongs))
    )
    points = _named(levels)
    if names is not None:
        names_of = dict(zip(visits, names, strict=True))
        if len({*zip(visits, names, strict=True)}) == len({*names}) == len(levels):
            points = tuple(Point(names_of[place], row) for place, row in enumerate(levels))
    return Runs(points, divided, ordered=ordered, structure=structure)


def with_centre(runs: Runs, rows: Sequence[Mapping[str, Level]], count: int) -> Runs:
    """The runs with `count` visits of each of the rows more, spread evenly over the parts."""
    if not count:
        return runs
    levels = [point.levels for point in runs.points]
    places = []
    for row in rows:
        if row not in levels:
            levels.append(row)
        places.append(levels.index(row))
    visits = [place for _ in range(count) for place in places]
    parts = []
    for number, part in enumerate(runs.parts):
        share = tuple(visits[number :: len(runs.parts)])
        # In one group with the rest, so that they come anywhere between; where groups are whole plots, in one of their own.
        parts.append(((*part[0], *share),) if len(part) == 1 else (*part, share) if share else part)
    return replace(runs, points=_named(levels), parts=tuple(parts))


def grouped(runs: Runs, slow: Sequence[str]) -> Runs:
    """The runs with those together in time that have the same levels of the slow factors: whole plots."""
    parts = []
    for part in runs.parts:
        plots: dict[tuple[str, ...], list[int]] = {}
        for visit in (visit for group in part for visit in group):
            levels = runs.points[visit].levels
            plots.setdefault(tuple(repr(levels[name]) for name in slow), []).append(visit)
        parts.append(tuple(tuple(plot) for plot in plots.values()))
    return replace(runs, parts=tuple(parts))


def _named(levels: Sequence[Mapping[str, Level]]) -> tuple[Point, ...]:
    digits = max(2, len(str(len(levels))))
    return tuple(Point(f"p{number:0{digits}}", row) for number, row in enumerate(levels, start=1))
