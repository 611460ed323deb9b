"""Receive processing in kernel threads (Documentation/networking/napi.rst), pinned to the host's CPUs.

The stand-in for an interrupt of each queue on a CPU of its own (MSI-X) on devices that raise no interrupts. On a veth
it needs GRO, which gives the device its receive queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables import receive_queue
from iodyno.hosts.tunables.tunable import Place, Scope, State, run, write

_NAME_BYTES = 15
"""Length of a thread's name in `/proc/PID/comm` on older kernels (TASK_COMM_LEN)."""

# Threads of devices with the same name in other namespaces look alike: only those are pinned that came by this.
_TURN_ON = """
threads() {{
  for comm in /proc/[0-9]*/comm; do
    read -r name 2>/dev/null < "$comm" || continue
    case "$name" in {thread}*) pid=${{comm#/proc/}}; echo "${{pid%/comm}}";; esac
  done
}}
before=" $(threads | tr '\\n' ' ')"
echo 1 > {file} || exit 1
for pid in $(threads); do
  case "$before" in *" $pid "*) ;; *) taskset -cp {cpus} "$pid" >/dev/null || exit 1;; esac
done
"""


@dataclass(frozen=True)
class Threaded:
    """`threaded` of the device."""

    name: str = "threaded"
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """The file, and whether there is a queue to be worked on."""
        return [{"file": f"{place.sysfs}/threaded"}, *receive_queue.looks(place)]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """0 or 1; 2 is threads that poll without end, which only netlink can set."""
        text = (seen[0].text or "").strip()
        if not text.isdecimal():
            return State(unsupported=seen[0].error or "the device has no receive queues")
        return State(level=text != "0", before=text, needs=receive_queue.absent(seen[1:]))

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """On: the new threads go to the host's CPUs, where these are known."""
        if level and state.needs:
            raise ValueError(state.needs)
        file = f"{place.sysfs}/threaded"
        if not level or not place.cpus:
            return [write(file, int(level))]
        thread = f"napi/{place.device}-"[:_NAME_BYTES]
        cpus = ",".join(map(str, place.cpus))
        return [run("sh", "-c", _TURN_ON.format(thread=thread, file=file, cpus=cpus))]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Return the step that writes what the file held. A device without a receive queue refuses even what it has."""
        file, before = f"{place.sysfs}/threaded", state.before
        return [run("sh", "-c", f'[ "$(cat {file})" = {before} ] || echo {before} > {file}')]
