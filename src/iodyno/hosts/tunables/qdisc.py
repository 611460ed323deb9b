"""The queue before the device (tc(8)): the kernel's default, or a plain one of so many packets or bytes.

A rate is not a tunable but a property of the path: `link_rate` of the workload.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.invalid import invalid
from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, run

_PLAIN = re.compile(r"(pfifo|bfifo)-([1-9][0-9]{0,8})")


@dataclass(frozen=True)
class QueueingDiscipline:
    """The root qdisc."""

    name: str = "qdisc"
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """All qdiscs of the device."""
        return [{"run": ["tc", "-r", "-j", "qdisc", "show", "dev", place.device]}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """`default` is what the kernel chose: it has the handle 0, and comes back when another is deleted."""
        try:
            root = next(entry for entry in json.loads(seen[0].text or "[]") if entry.get("root"))
        except (ValueError, StopIteration):
            return State(unsupported=seen[0].error or "the device has no qdisc")
        kind, limit = root["kind"], root.get("options", {}).get("limit")
        if root.get("handle") == "0:":
            return State(level="default", before="default")
        if kind in ("pfifo", "bfifo") and limit:
            return State(level=f"{kind}-{limit}", before=f"{kind}-{limit}")
        return State(unsupported=f"somebody has set {kind} there, which could not be brought back as it is")

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """One command."""
        return [self._set(place, str(level))]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Return the steps back to what was there; that nothing is there to be deleted is as good."""
        if state.before == "default":
            device = place.device
            script = (
                f"tc qdisc del dev {device} root 2>/dev/null; tc qdisc show dev {device} | grep -q ' 0: root'"
            )
            return [run("sh", "-c", script)]
        return [self._set(place, state.before)]

    def _set(self, place: Place, level: str) -> Step:
        if level == "default":
            return run("tc", "qdisc", "del", "dev", place.device, "root")
        match = _PLAIN.fullmatch(level)
        if not match:
            raise ValueError(invalid(level, "default, pfifo-PACKETS, bfifo-BYTES"))
        return run("tc", "qdisc", "replace", "dev", place.device, "root", match[1], "limit", match[2])
