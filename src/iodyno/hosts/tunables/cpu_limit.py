"""The CPU time of the control group that the host's agent runs in, where somebody has limited it: the nearest group that has a
limit (cpu.cfs_quota_us of version 1, cpu.max of version 2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.groups import nearest
from iodyno.hosts.tunables.tunable import Place, Scope, State, write

_EACH = """for file in cpu.max cpu.cfs_quota_us; do
  [ -f "$at/$file" ] && echo "$at/$file $(cat "$at/$file") $(cat "$at/cpu.cfs_period_us" 2>/dev/null)"
done"""
_LIMITED = re.compile(r"(?P<file>/\S+) (?P<quota>[0-9]+) (?P<period>[0-9]+)")


@dataclass(frozen=True)
class CpuLimit:
    """In percent of one CPU."""

    name: str = "cpu_limit"
    scope: Scope = "host"

    def looks(self, place: Place) -> list[Look]:
        """Limits of the group of whoever looks, and of those above it."""
        return [nearest("cpu", _EACH)]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """The nearest limit."""
        limits = [match for line in (seen[0].text or "").splitlines() if (match := _LIMITED.match(line))]
        if not limits:
            return State(
                unsupported=seen[0].error or "no control group limits the CPU time of this host's agent"
            )
        nearest = limits[0]
        percent = round(100 * int(nearest["quota"]) / int(nearest["period"]))
        return State(level=percent, low=1, before=(nearest["file"], nearest["quota"], nearest["period"]))

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """One write."""
        file, _, period = state.before
        return [_limit(file, str(round(int(level) * int(period) / 100)), period)]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Return the steps back to what was there."""
        return [_limit(*state.before)]


def _limit(file: str, quota: str, period: str) -> Step:
    return write(file, f"{quota} {period}" if file.endswith("/cpu.max") else quota)
