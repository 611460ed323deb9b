"""All that is found in a grid, as values; `report.heat_map.sentences` says it in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from iodyno.analysis.heat_map.bursts import Bursts, find_bursts
from iodyno.analysis.heat_map.changes import Change, find_changes, why_no_changes
from iodyno.analysis.heat_map.modes import Modes, Movement, find_movements, modes_of, why_no_movements
from iodyno.analysis.heat_map.stripes import Stripes, find_stripes, why_no_stripes
from iodyno.core.grid import Grid


@dataclass(frozen=True)
class Findings:
    """What a grid holds besides counts. Every finder has level 0.01, so that one plain grid in twenty has a false finding.

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
    movements, bursts = find_movements(grid), find_bursts(grid)
    if movements:
        # Where a mode moves, the highest values are at one end of the time: that is the movement and no burst.
        begin = grid.begin_ns / 1e9
        end = begin + grid.columns * grid.column_ns / 1e9
        edge = grid.column_ns / 2e9
        inner = tuple(b for b in bursts.found if b.begin_s > begin + edge and b.end_s < end - edge)
        bursts = replace(bursts, found=inner)
    begin_s, second = grid.begin_ns / 1e9, grid.column_ns / 1e9
    in_bursts = {
        column
        for burst in bursts.found
        for column in range(
            round((burst.begin_s - begin_s) / second), round((burst.end_s - begin_s) / second)
        )
    }
    stripes = find_stripes(grid, in_bursts)
    reasons = {
        "moving_modes": why_no_movements(grid),
        "stripes": why_no_stripes(grid),
        "change_points": why_no_changes(grid),
    }
    return Findings(
        modes_of(grid),
        movements,
        stripes,
        bursts,
        find_changes(grid),
        {name: reason for name, reason in reasons.items() if reason},
    )
