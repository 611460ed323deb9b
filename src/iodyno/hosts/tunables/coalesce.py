"""A family of tunables: interrupt coalescing by the adapter itself (ethtool -c): how long it waits for more packets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, run

_US_NS = 1000
_ADAPTIVE = re.compile(r"^Adaptive RX:\s*(\S+)\s+TX:\s*(\S+)", re.MULTILINE)


def _adaptive(text: str) -> dict[str, str]:
    """The directions that the adapter can adapt by itself, each on or off."""
    found = _ADAPTIVE.search(text)
    words = dict(zip(("adaptive-rx", "adaptive-tx"), found.groups(), strict=True)) if found else {}
    return {word: state for word, state in words.items() if state in ("on", "off")}


def _set(place: Place, settings: dict[str, str]) -> Step:
    return run("ethtool", "-C", place.device, *(word for pair in settings.items() for word in pair))


@dataclass(frozen=True)
class CoalesceTime:
    """`rx-usecs` or `tx-usecs`; adaptive coalescing, which would change it by itself, is turned off with it."""

    name: str
    direction: str
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """The coalescing settings."""
        return [{"run": ["ethtool", "-c", place.device]}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """The time in ns."""
        text, word = seen[0].text or "", f"{self.direction}-usecs"
        usecs = re.search(rf"^{word}:\s*(\d+)", text, re.MULTILINE)
        if usecs is None:
            reason = seen[0].error or f"no {word}"
            return State(
                unsupported=f"the device's driver has no such setting ({reason}); `blanking` does it in software"
            )
        own = f"adaptive-{self.direction}"
        before = {word: usecs[1]} | {key: state for key, state in _adaptive(text).items() if key == own}
        return State(level=int(usecs[1]) * _US_NS, before=before)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """Whole microseconds."""
        if int(level) % _US_NS:
            raise ValueError("adapters take whole microseconds")
        settings = {
            key: str(int(level) // _US_NS) if key.endswith("usecs") else "off" for key in state.before
        }
        return [_set(place, settings)]

    def undo(self, place: Place, state: State) -> list[Step]:
        """What was there."""
        return [_set(place, state.before)]


@dataclass(frozen=True)
class CoalesceAdaptive:
    """Tell whether the adapter chooses these times by itself, in each direction in which it can."""

    name: str = "coalesce_adaptive"
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """The coalescing settings."""
        return [{"run": ["ethtool", "-c", place.device]}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """On where any direction is."""
        before = _adaptive(seen[0].text or "")
        if not before:
            return State(unsupported=seen[0].error or "the device does not adapt its interrupts by itself")
        return State(level="on" in before.values(), before=before)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """All directions alike."""
        return [_set(place, dict.fromkeys(state.before, "on" if level else "off"))]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Each as it was."""
        return [_set(place, state.before)]
