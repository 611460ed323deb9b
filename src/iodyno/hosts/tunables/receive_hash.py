"""Receive side scaling (Documentation/networking/scaling.rst): over how many queues packets are spread, and by what of a flow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, run

_RINGS = re.compile(r"with (\d+) RX ring")
_ROW = re.compile(r"^\s*\d+:\s+(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class HashedQueues:
    """The indirection table (ethtool -x): its level is N where the entries go round the first N queues."""

    name: str = "rss_queues"
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """The table."""
        return [{"run": ["ethtool", "-x", place.device]}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """A table that does not go round is left alone: ethtool(8) could not bring it back."""
        text = seen[0].text or ""
        rings = _RINGS.search(text)
        table = [int(queue) for row in _ROW.findall(text) for queue in row.split()]
        if not rings or not table:
            return State(
                unsupported=seen[0].error or "the device has no table of its own to spread packets by"
            )
        queues = max(table) + 1
        if any(queue != number % queues for number, queue in enumerate(table)):
            return State(
                unsupported="somebody has set a table there, which could not be brought back as it is"
            )
        return State(level=queues, low=1, high=min(int(rings[1]), len(table)), before=(queues, int(rings[1])))

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """One command."""
        return [run("ethtool", "-X", place.device, "equal", str(level))]

    def undo(self, place: Place, state: State) -> list[Step]:
        """A table of all queues is the driver's own, which follows the number of queues."""
        queues, rings = state.before
        words = ("default",) if queues == rings else ("equal", str(queues))
        return [run("ethtool", "-X", place.device, *words)]


_FIELDS = {"IP SA": "s", "IP DA": "d", "L4 bytes 0 & 1": "f", "L4 bytes 2 & 3": "n"}
"""Fields as ethtool(8) shows them, each with the letter by which it takes it."""
_LEVELS = {"addresses": "sd", "ports": "sdfn"}


@dataclass(frozen=True)
class HashedFields:
    """The fields of a packet of `flow` (tcp4, udp4) that choose its queue (ethtool -n DEVICE rx-flow-hash)."""

    name: str
    flow: str
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """The fields."""
        return [{"run": ["ethtool", "-n", place.device, "rx-flow-hash", self.flow]}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """A set of fields without a name is shown by its letters, and is brought back."""
        text = seen[0].text or ""
        letters = "".join(
            letter for field, letter in _FIELDS.items() if re.search(rf"^{field}", text, re.MULTILINE)
        )
        if not letters:
            return State(unsupported=seen[0].error or "the device's driver does not tell them")
        word = next((word for word, its in _LEVELS.items() if its == letters), letters)
        return State(level=word, before=letters)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """One command."""
        return [self._set(place, _LEVELS[str(level)])]

    def undo(self, place: Place, state: State) -> list[Step]:
        """The fields that were there."""
        return [self._set(place, state.before)]

    def _set(self, place: Place, letters: str) -> Step:
        return run("ethtool", "-N", place.device, "rx-flow-hash", self.flow, letters)
