"""A family of tunables: files of the queue of each disk under the host's targets (Documentation/ABI/stable/sysfs-block)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, run, write

_CHOSEN = re.compile(r"\[(\S+)\]")


@dataclass(frozen=True)
class DiskQueueFile:
    """`file` of the queue. `unit`: how many base units (bytes, ns) one of the file is. `moves`: other files, whose value the
    kernel chooses anew when this one is written.
    """

    name: str
    file: str
    unit: int = 1
    kind: type[int] | type[str] = int
    moves: tuple[str, ...] = ()
    scope: Scope = "disk"

    def looks(self, place: Place) -> list[Look]:
        """Its file and those that it moves, of each disk."""
        return [{"file": f"{queue}/{file}"} for queue in place.queues for file in (self.file, *self.moves)]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """The value of the first disk; each as it is."""
        if not seen:
            return State(unsupported="no disk is known under the targets of this host")
        each = 1 + len(self.moves)
        texts = [(one.text or "").strip() for one in seen]
        before = [texts[number : number + each] for number in range(0, len(texts), each)]
        for values in before:
            if self.kind is str:  # all that there are, with the one in brackets
                chosen = _CHOSEN.search(values[0])
                values[0] = chosen[1] if chosen else ""
            elif not values[0].isdecimal():  # `auto` and `any` of power states
                values[0] = ""
            if not values[0]:
                error = next((one.error for one in seen[::each] if one.error), None)
                return State(unsupported=error or f"the disk has no {self.file}")
        first = before[0][0]
        return State(level=first if self.kind is str else int(first) * self.unit, before=before)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """A write for each disk."""
        if self.kind is int and int(level) % self.unit:
            raise ValueError(f"the kernel takes whole steps of {self.unit}")
        text = level if self.kind is str else int(level) // self.unit
        return [write(f"{queue}/{self.file}", str(text)) for queue in place.queues]

    def undo(self, place: Place, state: State) -> list[Step]:
        """What each file held; those that it moves only where they are not as they were by themselves."""
        steps = []
        for queue, (own, *moved) in zip(place.queues, state.before, strict=True):
            steps.append(write(f"{queue}/{self.file}", own))
            for file, text in zip(self.moves, moved, strict=True):
                at = f"{queue}/{file}"
                if text:
                    steps.append(run("sh", "-c", f'[ "$(cat {at})" = {text} ] || echo {text} > {at}'))
        return steps
