"""Interrupt blanking in software: after a poll that found packets, interrupts stay off and a timer looks again.

Two files of the device (Documentation/networking/napi.rst): `gro_flush_timeout` is the timer, `napi_defer_hard_irqs` is
how many empty polls in a row end it. On a veth it needs GRO, and the other end's TSO off: only then do packets of TCP
pass the receive queue (`veth_skb_is_eligible_for_gro` in drivers/net/veth.c).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables import receive_queue
from iodyno.hosts.tunables.tunable import Place, Scope, State, write

_EMPTY_POLLS = 1_000_000
"""Empty polls until interrupts are on again (chosen: never during a trial; with few, the first pause of a load ends the
blanking that the level asks for)."""


@dataclass(frozen=True)
class Blanking:
    """Both files together; the level is the timer."""

    name: str = "blanking"
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """Both files, and whether there is a queue to be held back."""
        return [*({"file": file} for file in _files(place)), *receive_queue.looks(place)]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """The timer in ns; 0 where interrupts are not held back, whatever the timer says."""
        if error := next((one.error for one in seen[:2] if one.error), None):
            return State(unsupported=error)
        timeout, polls = (int((one.text or "0").strip()) for one in seen[:2])
        needs = receive_queue.absent(seen[2:])
        return State(level=timeout if polls else 0, before=(timeout, polls), needs=needs)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """The timer first: interrupts that are held back without one would never come."""
        if level and state.needs:
            raise ValueError(state.needs)
        timeout, polls = _files(place)
        return [write(timeout, int(level)), write(polls, _EMPTY_POLLS if level else 0)]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Interrupts first, for the same reason."""
        timeout, polls = _files(place)
        return [write(polls, state.before[1]), write(timeout, state.before[0])]


def _files(place: Place) -> tuple[str, str]:
    return f"{place.sysfs}/gro_flush_timeout", f"{place.sysfs}/napi_defer_hard_irqs"
