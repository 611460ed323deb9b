"""A family of tunables: the offloads of a device, by ethtool(8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, first_json, run

_WORDS = {"generic-segmentation-offload": "gso", "generic-receive-offload": "gro"}
"""Names that ethtool takes for features which it shows under others."""


@dataclass(frozen=True)
class Offload:
    """`features`: the names that ethtool shows, which are the kernel's own (net/ethtool/common.c) but for a few. Each
    that the device has and lets change is set, and brought back to what was requested of it before. The first decides
    whether the offload counts as on.

    `any_of`: any of them decides, where a device has one or the other.
    """

    name: str
    features: tuple[str, ...]
    any_of: bool = False
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """All features of the device: one command serves all offloads."""
        return [{"run": ["ethtool", "--json", "-k", place.device]}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """Return whether it is active, which is not the same as requested: an offload may need another one."""
        if seen[0].error is not None:
            return State(unsupported=seen[0].error)
        found = first_json(seen[0])
        there = {name: found[name] for name in self.features if name in found}
        if not there:
            return State(unsupported=f"the device has no {self.features[0]}")
        deciding = [entry for entry in there.values() if not entry["fixed"]] if self.any_of else []
        first = deciding or [next(iter(there.values()))]
        active = any(entry["active"] for entry in first)
        if all(entry["fixed"] for entry in first):
            return State(unsupported=f"the device has it fixed at {'on' if active else 'off'}")
        before = {name: bool(entry["requested"]) for name, entry in there.items() if not entry["fixed"]}
        return State(level=active, before=before)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """All its features at once."""
        return [_set(place, dict.fromkeys(state.before, bool(level)))]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Each feature as it was requested before."""
        return [_set(place, state.before)]


def _set(place: Place, features: dict[str, bool]) -> Step:
    words = [
        word for name, on in features.items() for word in (_WORDS.get(name, name), "on" if on else "off")
    ]
    return run("ethtool", "-K", place.device, *words)
