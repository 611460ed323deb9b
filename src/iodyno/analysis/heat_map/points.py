"""Findings in the heat maps of a campaign's points: the finders on the measured window of all trials of a point together.

A campaign has many maps, and each finder is wrong in one of a hundred. So a finding of a campaign must have a chance below the
level divided by the number of maps (Bonferroni), and of what remains the most telling one is `worst`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from iodyno.analysis.heat_map.findings import Findings, examine
from iodyno.analysis.heat_map.modes import ALPHA
from iodyno.analysis.heat_map.stored import Range, edges_for, grid_of
from iodyno.analysis.operation_times import OperationTimes, joined
from iodyno.analysis.two_processes import can_share, in_halves
from iodyno.core.grid import Grid

COLUMNS_MOST = 200
"""Intervals are joined above it, as `iodyno heatmap` does."""
LEAST_EVENTS = 100
"""Operations in the measured window, below which nothing is looked for: what the test of modes asks for."""
SHARED_LEAST = 10
"""Maps from which on two processes have half of them each (chosen: 0.2 s of work)."""
STEP = 1.5
"""Ratio from which on a change or a moving mode matters (chosen: an average over both ends is then a fifth off either)."""
BURST = 10.0
"""Times as many outliers as were to be expected, from which on a burst matters (chosen: of a hundredth it makes a tenth)."""
STRIPE = 3.0
"""Times as many high values in phase as out of it, from which on stripes matter (chosen)."""
APART, SHARE = 3.0, 0.1
"""Ratio of the outermost modes and the least share of each, from which on a mean is hardly ever seen (chosen)."""


@dataclass(frozen=True)
class MapFindings:
    """Findings in one map: its point, operation and clock, its grid (seconds since a trial began), and what was found."""

    point: str
    operation: str
    clock: str
    beside: str
    grid: Grid
    found: Findings


@dataclass(frozen=True)
class Worst:
    """The finding that matters most: `kind` and `place` of it in the findings of `of`, and how far it is above what matters."""

    of: MapFindings
    kind: str
    place: int
    excess: float


def examine_points(points: Mapping[str, Sequence[OperationTimes]]) -> tuple[MapFindings, ...]:
    """Looks into the measured window of every map of `points`; findings that many maps have by chance are left out."""
    maps = [
        (point, measured)
        for point, each in points.items()
        for times in each
        if (measured := _measured(times)).count >= LEAST_EVENTS and len(measured.columns) > 1
    ]

    def found(each: Sequence[int]) -> dict[int, MapFindings]:
        return {place: _of_map(*maps[place], len(maps)) for place in each}

    every = range(len(maps))
    by_place = in_halves(found, every) if len(maps) >= SHARED_LEAST and can_share() else found(every)
    return tuple(by_place.values())


def worst(found: Sequence[MapFindings]) -> Worst | None:
    """The finding that matters most: first what breaks a steady state (a change, a moving mode), then bursts, stripes and
    modes that lie apart; among those of one kind the one that is furthest above its threshold. None where nothing matters.
    """
    candidates = [each for one in found for each in _mattering(one)]
    order = {kind: rank for rank, kind in enumerate(("changes", "movements", "bursts", "stripes", "modes"))}
    return min(candidates, key=lambda each: (order[each.kind], -each.excess), default=None)


def _measured(times: OperationTimes) -> OperationTimes:
    columns = tuple(column for column in times.columns if column.window == "measured")
    return joined(replace(times, columns=columns), COLUMNS_MOST) if columns else replace(times, columns=())


def _of_map(point: str, times: OperationTimes, maps: int) -> MapFindings:
    shown = Range()
    grid = grid_of(times, edges_for([times], shown), shown.scale)
    found = examine(grid)
    level = ALPHA / maps
    kept = replace(
        found,
        movements=tuple(each for each in found.movements if each.p <= level),
        stripes=found.stripes if found.stripes is not None and found.stripes.p <= level else None,
        bursts=replace(found.bursts, found=tuple(b for b in found.bursts.found if b.p <= level)),
        changes=tuple(each for each in found.changes if each.p <= level),
    )
    return MapFindings(point, times.operation, times.clock, times.beside, grid, kept)


def _mattering(one: MapFindings) -> Iterator[Worst]:
    found = one.found
    for place, change in enumerate(found.changes):
        yield from _above(one, "changes", place, _ratio(change.before, change.after), STEP)
    for place, movement in enumerate(found.movements):
        yield from _above(one, "movements", place, _ratio(movement.first, movement.last), STEP)
    for place, burst in enumerate(found.bursts.found):
        yield from _above(one, "bursts", place, burst.outliers / max(burst.expected, 1e-9), BURST)
    if found.stripes is not None:
        contrast = found.stripes.contrast
        yield from _above(one, "stripes", 0, STRIPE * 10 if contrast is None else contrast, STRIPE)
    large = [mode for mode in found.modes.found if mode.share >= SHARE]
    if len(large) > 1 and found.modes.p is not None:
        yield from _above(one, "modes", 0, _ratio(large[0].value, large[-1].value), APART)


def _ratio(one: float, other: float) -> float:
    low, high = sorted((one, other))
    return high / low if low > 0 else float("inf") if high > 0 else 1.0


def _above(one: MapFindings, kind: str, place: int, ratio: float, threshold: float) -> Iterator[Worst]:
    if ratio >= threshold:
        yield Worst(one, kind, place, log(ratio / threshold) if ratio < float("inf") else 99.0)
