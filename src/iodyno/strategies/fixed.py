"""The trials of a design, all of them, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from iodyno.campaign.strategy import Strategy
from iodyno.core.design import Design, PlannedTrial


class Fixed(Strategy):
    """Asks once for all that was planned."""

    def __init__(self, design: Design) -> None:
        self._trials: Sequence[PlannedTrial] = design.trials

    def ask(self) -> Sequence[PlannedTrial]:
        """All trials; then none."""
        trials, self._trials = self._trials, ()
        return trials
