"""Pause frames of Ethernet (ethtool -a): a receiver whose queue is full has the sender wait."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, run

_ROW = re.compile(r"^(Autonegotiate|RX|TX):\s*(on|off)", re.MULTILINE)


@dataclass(frozen=True)
class FlowControl:
    """Both directions alike; that the ends agree on it is turned off with it."""

    name: str = "flow_control"
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """The settings."""
        return [{"run": ["ethtool", "-a", place.device]}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """On where either direction is."""
        found = dict(_ROW.findall(seen[0].text or ""))
        if "RX" not in found or "TX" not in found:
            return State(unsupported=seen[0].error or "the device has no flow control")
        return State(level="on" in (found["RX"], found["TX"]), before=found)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """One command."""
        word = "on" if level else "off"
        return [self._set(place, state.before | {"Autonegotiate": "off", "RX": word, "TX": word})]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Each as it was."""
        return [self._set(place, state.before)]

    def _set(self, place: Place, settings: dict[str, str]) -> Step:
        words = {"autoneg": settings.get("Autonegotiate"), "rx": settings["RX"], "tx": settings["TX"]}
        return run(
            "ethtool",
            "-A",
            place.device,
            *(word for pair in words.items() if pair[1] for word in pair if word),
        )
