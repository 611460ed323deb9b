"""A family of tunables: the tables of numbers that ethtool(8) prints in two sections, maximums and current settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables import cpu_masks
from iodyno.hosts.tunables.tunable import Place, Scope, State, run


@dataclass(frozen=True)
class TableNumber:
    """`rows`: the rows that hold the number, with ethtool's word to set each. Of several such sets (`Combined`, or `RX` and
    `TX`) the first counts that is in use: drivers with queues of both kinds refuse to be given both. `masks`: setting it has the
    driver choose the CPUs of queues and interrupts anew.
    """

    name: str
    show: str
    change: str
    rows: tuple[Mapping[str, str], ...]
    masks: bool = False
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """The table, and the masks."""
        return [
            {"run": ["ethtool", self.show, place.device]},
            *([cpu_masks.every_mask(place)] if self.masks else []),
        ]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """The first of the rows that the device has, up to the least of their maximums."""
        if seen[0].error is not None:
            return State(unsupported=f"the device's driver has no such setting ({seen[0].error})")
        most, now = tables(seen[0].text or "")
        there = [
            {row: word for row, word in rows.items() if most.get(row) and row in now} for rows in self.rows
        ]
        own = next((rows for rows in there if any(now[row] for row in rows)), {})
        if not own:
            names = ", ".join(row for rows in self.rows for row in rows)
            return State(unsupported=f"the device has none of {names} in use")
        high = min(most[row] for row in own)
        before = {word: now[row] for row, word in own.items()}
        return State(level=next(iter(before.values())), low=1, high=high, before=(before, seen[1:]))

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """All rows to one number, in one command."""
        return self._set(place, dict.fromkeys(state.before[0], int(level)))

    def undo(self, place: Place, state: State) -> list[Step]:
        """Each row as it was."""
        numbers, masks = state.before
        return [*self._set(place, numbers), *(step for seen in masks for step in cpu_masks.masks_back(seen))]

    def _set(self, place: Place, numbers: dict[str, int]) -> list[Step]:
        words = [word for name, number in numbers.items() for word in (name, str(number))]
        return [run("ethtool", self.change, place.device, *words)]


def tables(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """The maximums and the current settings; rows without a number are left out."""
    found: tuple[dict[str, int], dict[str, int]] = ({}, {})
    section = 0
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        section = 1 if name.startswith("Current hardware settings") else section
        if value.isdecimal():
            found[section][name] = int(value)
    return found
