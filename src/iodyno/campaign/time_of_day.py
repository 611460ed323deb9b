"""Time of day of a campaign: read once, and counted on with a clock that nobody sets."""

from __future__ import annotations

import time
from datetime import UTC, datetime

_STEP_NS = 500_000_000
"""Least step that is told (chosen: half a leap second, and longer than the lab waits for a CPU between two looks at clocks)."""


class TimeOfDay:
    """The time of day as it was when this was made, and the time since then: times of one campaign compare with each other
    also where somebody sets the machine's clock meanwhile.
    """

    def __init__(self) -> None:
        self._ahead_ns = self._seen_ns = _ahead_ns()

    def now_ns(self) -> int:
        """Return the time of day, in ns since 1970."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) + self._ahead_ns

    def text(self) -> str:
        """Return the time of day as ISO 8601, to the millisecond."""
        return datetime.fromtimestamp(self.now_ns() / 1e9, UTC).isoformat(timespec="milliseconds")

    def step_ns(self) -> int:
        """Return by how much the machine's clock was set since the last look: 0 where it was not."""
        ahead_ns = _ahead_ns()
        moved_ns, self._seen_ns = ahead_ns - self._seen_ns, ahead_ns
        return moved_ns if abs(moved_ns) > _STEP_NS else 0


def _ahead_ns() -> int:
    """Return the time by which the wall clock is ahead of the time since boot: changed by nothing but setting it."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
