"""All that is found in a grid, as values; `report.heat_map.sentences` says it in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from iodyno.analysis.chance import binomial_tail
from iodyno.analysis.heat_map.bursts import OUTLIER_SHARE, Burst, Bursts, find_bursts, outliers_of_columns
from iodyno.analysis.heat_map.changes import Change, find_changes, why_no_changes
from iodyno.analysis.heat_map.modes import (
    ALPHA,
    Modes,
    Movement,
    find_movements,
    modes_of,
    resolutions_in,
    why_no_movements,
)
from iodyno.analysis.heat_map.stripes import HIGH_SHARE, Stripes, find_stripes, periods_tried, why_no_stripes
from iodyno.core.grid import Grid


@dataclass(frozen=True)
class Findings:
    """Findings in a grid of counts. Every finder has level 0.01, so that one plain grid in twenty has a false finding.

    `not_looked_for`: by the name of a finding, why nothing could have been found.
    """

    modes: Modes
    movements: tuple[Movement, ...]
    stripes: Stripes | None
    bursts: Bursts
    changes: tuple[Change, ...]
    not_looked_for: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain values: `modes` is the list of them, `mode_test` what the test says."""
        test = asdict(self.modes)
        found = test.pop("found")
        return {
            "modes": [dict(mode) for mode in found],
            "mode_test": test,
            "moving_modes": [asdict(movement) for movement in self.movements],
            "stripes": asdict(self.stripes) if self.stripes is not None else None,
            "bursts": [asdict(burst) for burst in self.bursts.found],
            "outliers_above": self.bursts.above,
            "change_points": [asdict(change) for change in self.changes],
            "not_looked_for": dict(self.not_looked_for),
        }


def examine(grid: Grid) -> Findings:
    """Looks for everything in `grid`."""
    resolutions = resolutions_in(grid)
    movements, bursts = find_movements(grid, resolutions), find_bursts(grid)
    if movements:
        # Where a mode moves, the highest values are at one end of the time: that is the movement and no burst.
        begin = grid.begin_ns / 1e9
        end = begin + grid.columns * grid.column_ns / 1e9
        edge = grid.column_ns / 2e9
        inner = tuple(b for b in bursts.found if b.begin_s > begin + edge and b.end_s < end - edge)
        bursts = replace(bursts, found=inner)
    stripes = _stripes_among(grid, bursts)
    if stripes is not None:
        bursts = replace(bursts, found=_beside(grid, bursts, stripes))
    reasons = {
        "moving_modes": why_no_movements(grid),
        "stripes": why_no_stripes(grid),
        "change_points": why_no_changes(grid),
    }
    return Findings(
        modes_of(grid, resolutions),
        movements,
        stripes,
        bursts,
        find_changes(grid),
        {name: reason for name, reason in reasons.items() if reason},
    )


def _columns_of(grid: Grid, burst: Burst) -> range:
    begin_s, second = grid.begin_ns / 1e9, grid.column_ns / 1e9
    return range(round((burst.begin_s - begin_s) / second), round((burst.end_s - begin_s) / second))


def _stripes_among(grid: Grid, bursts: Bursts) -> Stripes | None:
    """Stripes beside the bursts; else those that the bursts are, where too many come in phase for chance: of values that are high
    within a burst each is no evidence of its own. Each try has its part of the level."""
    in_bursts = {column for burst in bursts.found for column in _columns_of(grid, burst)}
    beside = find_stripes(grid, in_bursts)
    if beside is not None and (not in_bursts or beside.p * 3 <= ALPHA):
        return beside
    for share in (HIGH_SHARE, OUTLIER_SHARE) if in_bursts else ():
        found = find_stripes(grid, share=share)
        if found is not None:
            each = _stripe_columns(grid, found)
            chance = sum(map(len, each)) / grid.columns
            inside = sum(any(_is_in(grid, burst, stripe) for stripe in each) for burst in bursts.found)
            p = (
                max(found.p, binomial_tail(inside, len(bursts.found), chance) / chance * periods_tried(grid))
                * 3
            )
            if p <= ALPHA:
                return replace(found, p=p)
    return None


def _stripe_columns(grid: Grid, stripes: Stripes) -> list[set[int]]:
    """The columns of each stripe, which begins and ends somewhere in a column."""
    begin_s, second = grid.begin_ns / 1e9, grid.column_ns / 1e9
    each: list[set[int]] = []
    for column in range(grid.columns):
        if any(stripes.hold(begin_s + (column + part) * second) for part in (0.0, 0.5, 1.0)):
            if not each or column - 1 not in each[-1]:
                each.append(set())
            each[-1].add(column)
    return each


def _is_in(grid: Grid, burst: Burst, stripe: set[int]) -> bool:
    """Tell whether at least half of a burst lies in a stripe."""
    own = set(_columns_of(grid, burst))
    return 2 * len(own & stripe) >= len(own)


def _beside(grid: Grid, bursts: Bursts, stripes: Stripes) -> tuple[Burst, ...]:
    """The bursts that the stripes are not: those out of phase, and those in a stripe with more outliers than the others have."""
    each = _stripe_columns(grid, stripes)
    high, totals = outliers_of_columns(grid), grid.column_totals()

    def sums(columns: set[int]) -> tuple[int, int]:
        return sum(high[column] for column in columns), sum(totals[column] for column in columns)

    found = []
    for burst in bursts.found:
        mine = next((stripe for stripe in each if _is_in(grid, burst, stripe)), set[int]())
        (count, events), (usual, around) = sums(mine), sums(set[int]().union(*each) - mine)
        share = usual / around if around else 0.0
        if not mine or binomial_tail(count, events, share) * len(bursts.found) <= ALPHA:
            found.append(burst)
    return tuple(found)
