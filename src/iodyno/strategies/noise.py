"""A noise ladder: one point again and again, with agents that are started anew for each block of its design."""

from __future__ import annotations

from iodyno.core.design import Design, PlannedTrial
from iodyno.core.noise import NoiseSpec
from iodyno.strategies.fixed import Fixed


class Noise(Fixed):
    """The trials of the ladder, in order."""

    def __init__(self, design: Design, spec: NoiseSpec) -> None:
        super().__init__(design)
        self._spec = spec

    def pause_ns(self, last: PlannedTrial, planned: PlannedTrial) -> int | None:
        """Other agents for each block of the design, which is a restart; before a block of the ladder, a pause."""
        if planned.block == last.block:
            return None
        return 0 if planned.block % self._spec.restarts else self._spec.pause_ns
