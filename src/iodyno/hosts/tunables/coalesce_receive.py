"""Interrupt blanking by the adapter itself: how long it waits for more packets before it interrupts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, run

_US_NS = 1000


@dataclass(frozen=True)
class CoalesceReceive:
    """`rx-usecs` of ethtool(8); adaptive coalescing, which would change it by itself, is turned off with it."""

    name: str = "coalesce_receive"
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """The coalescing settings."""
        return [{"run": ["ethtool", "-c", place.device]}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """The time in ns."""
        text = seen[0].text or ""
        usecs = re.search(r"^rx-usecs:\s*(\d+)", text, re.MULTILINE)
        if usecs is None:
            reason = seen[0].error or "no rx-usecs"
            return State(
                unsupported=f"the device's driver has no such setting ({reason}); `blanking` does it in software"
            )
        before = {"rx-usecs": usecs[1]}
        if adaptive := re.search(r"^Adaptive RX:\s*(on|off)", text, re.MULTILINE):
            before["adaptive-rx"] = adaptive[1]
        return State(level=int(usecs[1]) * _US_NS, before=before)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """Whole microseconds."""
        if int(level) % _US_NS:
            raise ValueError("adapters take whole microseconds")
        adaptive = ["adaptive-rx", "off"] if "adaptive-rx" in state.before else []
        return [run("ethtool", "-C", place.device, *adaptive, "rx-usecs", str(int(level) // _US_NS))]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Return the steps back to what was there."""
        return [run("ethtool", "-C", place.device, *(word for pair in state.before.items() for word in pair))]
