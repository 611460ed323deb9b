"""A family of tunables: attributes of a device that ip-link(8) sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, first_json, run


@dataclass(frozen=True)
class LinkAttribute:
    """`low`, `high`: the attributes that hold its range."""

    name: str
    low: str | None = None
    high: str | None = None
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """All attributes of the device: one command serves all of this family."""
        return [{"run": ["ip", "-d", "-j", "link", "show", "dev", place.device]}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """Its value, with the device's own range."""
        if seen[0].error is not None:
            return State(unsupported=seen[0].error)
        found = first_json(seen[0])
        if self.name not in found:
            return State(
                unsupported=f"this host's ip command does not show {self.name} (iproute2 is too old)"
            )
        # Older commands do not show the range; 0 is none.
        low, high = (found.get(name or "") or None for name in (self.low, self.high))
        return State(level=int(found[self.name]), low=low, high=high, before=int(found[self.name]))

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """One command."""
        return [run("ip", "link", "set", "dev", place.device, self.name, str(level))]

    def undo(self, place: Place, state: State) -> list[Step]:
        """The value that was there."""
        return self.steps(place, state, state.before)
