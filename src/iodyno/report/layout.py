"""Layout of the factors of a campaign: which one runs along a table or an axis, which ones make sections.

Along run the connections, where they vary, as in the tables of 2008; else the numeric factor with the most levels, or
the factor with the most levels. Sections are made by the message size, or else the first of the other factors that vary;
the rest become columns, and part of a line's name in figures. A `variant` is always a column: its names are to be read
one below the other. Where nearly every point has a level of its own, as in designs that fill a space, there is one table with a
row for each point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.analysis.trial_views import POINTS_MOST
from iodyno.core.factor import VARIANT
from iodyno.core.workload import Level

_Told = TypeVar("_Told")
SERIES_MOST = 7
"""Lines of a figure that are told apart: as many as there are colours that stay apart (Okabe and Ito 2008)."""
SHORT = {"connections": "#conn", "window": "Wnd", "size": "size"}
"""Column heads of the tables of 2008, where they have one."""


@dataclass(frozen=True)
class Layout:
    """`along` is None when nothing varies; `section` when only one factor does, or sections would have a row each.

    `scattered`: of a figure, the factors that make no lines, as nearly every point has a level of its own.
    """

    along: FactorLevels | None
    section: FactorLevels | None
    rest: tuple[FactorLevels, ...]
    scattered: tuple[FactorLevels, ...] = ()

    @property
    def lines(self) -> tuple[FactorLevels, ...]:
        """The factors that tell the lines of a figure apart."""
        return ((self.section,) if self.section else ()) + self.rest

    @property
    def factors(self) -> tuple[FactorLevels, ...]:
        """Every factor that varies."""
        return ((self.along,) if self.along else ()) + self.lines + self.scattered


def layout_of(summary: CampaignSummary) -> Layout:
    """The layout of a campaign's factors."""
    varying = [factor for factor in summary.factors if factor.varies]
    if not varying:
        return Layout(None, None, ())
    along = max(varying, key=lambda f: (f.name == "connections", f.numeric, len(f.levels)))
    others = [factor for factor in varying if factor is not along]
    others.sort(key=lambda factor: factor.name != "size")
    section = next((factor for factor in others if factor.name != VARIANT), None)
    if section is not None and _is_scattered(section, summary):
        section = None
    return Layout(along, section, tuple(factor for factor in others if factor is not section))


def figure_layout(summary: CampaignSummary) -> Layout:
    """The layout of a figure: that of the tables, unless its lines are more than can be told apart and a factor of names has
    rows for them."""
    layout = layout_of(summary)
    scattered = tuple(factor for factor in layout.rest if _is_scattered(factor, summary))
    if scattered:
        lines = tuple(factor for factor in layout.rest if factor not in scattered)
        return Layout(layout.along, None, lines, scattered)
    if layout.along is None or prod(len(factor.levels) for factor in layout.lines) <= SERIES_MOST:
        return layout
    names = max((f for f in layout.lines if not f.numeric), key=lambda f: len(f.levels), default=None)
    if names is None:
        return layout
    others = tuple(factor for factor in layout.factors if factor is not names)
    if prod(len(factor.levels) for factor in others) > SERIES_MOST:
        return layout
    section = others[0] if others else None
    return Layout(names, section, others[1:])


def sections(summary: CampaignSummary, layout: Layout) -> Iterator[tuple[Level | None, list[PointSummary]]]:
    """The points of each level of the section factor, sorted by the rest and then along."""
    order = [*layout.rest, *([layout.along] if layout.along else [])]
    points = sorted(
        summary.points,
        key=lambda point: [_rank(factor.levels, point.levels.get(factor.name)) for factor in order],
    )
    if layout.section is None:
        yield None, points
        return
    for level in layout.section.levels:
        yield level, [point for point in points if point.levels.get(layout.section.name) == level]


def line_name(layout: Layout, point: PointSummary) -> str:
    """Return the name that tells the point's line from others: `64KiB`, a name alone, or `64KiB, nagle on`."""
    if len(layout.lines) == 1 and (not layout.lines[0].numeric or layout.lines[0].name == "size"):
        return point.labels[layout.lines[0].name]
    return ", ".join(
        point.labels[f.name] if f.name == "size" else f"{f.name.replace('_', ' ')} {point.labels[f.name]}"
        for f in layout.lines
    )


def each_told(
    summary: CampaignSummary, told: Callable[[PointSummary], Sequence[_Told]]
) -> list[tuple[str, _Told]]:
    """All that is told of each of the first `POINTS_MOST` points of which there is something, with where that is."""
    points = [point for point in summary.points if told(point)][:POINTS_MOST]
    factors = layout_of(summary).factors
    return [(place_name(point, factors) or "the only point", one) for point in points for one in told(point)]


def place_name(point: PointSummary, factors: Sequence[FactorLevels]) -> str:
    """The point in a sentence: `32 connections, 64KiB messages`."""
    return place_of(point.labels, [factor.name for factor in factors])


def place_of(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """Levels in a sentence, of the factors named."""
    parts = []
    for name in names:
        text = labels.get(name, "")
        if name == "connections":
            parts.append(f"{text} connection{'' if text == '1' else 's'}")
        elif name == "size":
            parts.append(f"{text} messages")
        else:
            parts.append(f"{name.replace('_', ' ')} {text}")
    return ", ".join(parts)


def _is_scattered(factor: FactorLevels, summary: CampaignSummary) -> bool:
    """Tell whether there are no more points than levels of a factor, so that sections by it would have a row each, or none."""
    return len(summary.points) <= len(factor.levels)


def _rank(levels: Sequence[Level], level: Level | None) -> int:
    return levels.index(level) if level in levels else len(levels)
