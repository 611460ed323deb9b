"""A noise ladder as a value: one point, repeated at every level at which something may vary."""

from __future__ import annotations

from dataclasses import dataclass

LEVELS = ("block", "restart", "trial", "interval")
"""From the slowest to the fastest: groups of restarts, starts of the agents, trials, interval records of a trial."""


@dataclass(frozen=True)
class NoiseSpec:
    """Repetitions of each level within the one above it; intervals are those of the measured window.

    `pause_ns`: how long the lab waits before a block, so that blocks see what changes slowly.
    """

    blocks: int = 3
    restarts: int = 3
    trials: int = 4
    pause_ns: int = 0

    @property
    def sessions(self) -> int:
        """Starts of the agents."""
        return self.blocks * self.restarts
