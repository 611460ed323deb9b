"""Queues of NVMe disks whose completions are polled for, as `iopoll` does: a number of the driver that a reset makes hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, write

_NUMBER = "/sys/module/nvme/parameters/poll_queues"


@dataclass(frozen=True)
class PollQueues:
    """The module's parameter, which its driver reads when a controller is reset (drivers/nvme/host/pci.c: nvme_setup_io_queues).

    Whether a disk has any such queues is decided when the driver takes it.
    """

    name: str = "poll_queues"
    scope: Scope = "disk"

    def looks(self, place: Place) -> list[Look]:
        """Return the parameter, and whether each disk is one of NVMe that polls."""
        scripts = (f"test -e {_reset(queue)} && cat {queue}/io_poll" for queue in place.queues)
        return [{"file": _NUMBER}, *({"run": ["sh", "-c", script]} for script in scripts)]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """Return the number, which all disks of the driver have in common."""
        number, *polls = ((one.text or "").strip() for one in seen)
        if not polls:
            return State(unsupported="no disk is known under the targets of this host")
        if not number.isdecimal() or not all(polls):
            return State(unsupported="the disk is none of the driver nvme")
        if "0" in polls:
            advice = "boot with nvme.poll_queues=1, or load nvme with poll_queues=1"
            return State(unsupported=f"the driver took the disk without queues that are polled: {advice}")
        return State(level=int(number), before=number)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """Return a write, and a reset of each controller: what is in flight waits for it."""
        return [write(_NUMBER, level), *(write(_reset(queue), 1) for queue in place.queues)]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Return the same with the number that there was."""
        return self.steps(place, state, state.before)


def _reset(queue: str) -> str:
    """The file that resets the controller of a disk, by the folder of its queue."""
    return f"{queue}/../device/reset_controller"
