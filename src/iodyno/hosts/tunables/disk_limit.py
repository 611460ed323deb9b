"""The rates to which a control group of somebody else's holds the disks of the host's agent (blkio.throttle.* of version 1,
io.max of version 2): those of the nearest group that has any, all of them by the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.groups import nearest
from iodyno.hosts.tunables.tunable import Place, Scope, State, write

_EACH = """for file in "$at"/io.max "$at"/blkio.throttle.*_iops_device "$at"/blkio.throttle.*_bps_device; do
  [ -f "$file" ] && sed "s|^|$file |" "$file"
done"""
_LINE = re.compile(r"(?P<file>/\S+) (?P<disk>\d+:\d+) (?P<limits>.+)")
_LIMIT = re.compile(r"(?:([rw](?:bps|iops))=)?(\d+)(?!\S)")


@dataclass(frozen=True)
class _Limit:
    """`name`: of io.max; empty in version 1, where the file says what it is."""

    file: str
    disk: str
    name: str
    rate: int

    @property
    def is_of_operations(self) -> bool:
        """Tell whether it is in operations, not in bytes."""
        return "iops" in (self.name or self.file.rpartition("/")[2])

    def step(self, ratio: float = 1.0) -> Step:
        """Sets it to `ratio` times what it is."""
        rate = max(1, round(self.rate * ratio))
        return write(self.file, f"{self.disk} {self.name}={rate}" if self.name else f"{self.disk} {rate}")


@dataclass(frozen=True)
class DiskLimit:
    """Its level is the least of them, of operations where there are such."""

    name: str = "disk_limit"
    scope: Scope = "host"

    def looks(self, place: Place) -> list[Look]:
        """Limits of the group of whoever looks, and of those above it."""
        return [nearest("blkio", _EACH)]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """Those of the nearest group."""
        lines = [match for line in (seen[0].text or "").splitlines() if (match := _LINE.match(line))]
        found = [
            _Limit(line["file"], line["disk"], name, int(rate))
            for line in lines
            if line["file"].rpartition("/")[0] == lines[0]["file"].rpartition("/")[0]
            for name, rate in _LIMIT.findall(line["limits"])
        ]
        if not found:
            return State(
                unsupported=seen[0].error or "no control group limits the disks of this host's agent"
            )
        least = min(found, key=lambda limit: (not limit.is_of_operations, limit.rate))
        return State(level=least.rate, low=1, before=found)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """A write for each."""
        assert isinstance(state.level, int)
        return [limit.step(int(level) / state.level) for limit in state.before]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Each as it was."""
        return [limit.step() for limit in state.before]
