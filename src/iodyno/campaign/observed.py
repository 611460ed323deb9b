"""Hosts that cannot see their own CPUs: a sandbox or a guest, looked at from outside by a second agent.

Inside, the load is counted, and what only its own kernel knows. Outside, on the CPUs that carry it, an idle agent reads
the sensors of the machine: what the host costs is what the machine spends on it, its kernel in user space included.
The records of the two are made one, interval by interval.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from iodyno.campaign.job import job_of
from iodyno.campaign.testbed import Testbed, together
from iodyno.core.experiment import Windows
from iodyno.session.clock import ClockFit
from iodyno.session.sent import SentRecord
from iodyno.session.session import Message, Session

OUTSIDE = frozenset(
    {
        *("cpu_exact", "cpu_times", "cycles", "context_switches", "interrupts", "softirqs", "softnet"),
        *(
            "memory",
            "numa",
            "pressure",
            "reclaim",
            "disks",
            "block_times",
            "syscall_times",
            "writeback",
            "qdisc",
        ),
    }
)
"""Sensors that are read outside: they look at the machine. The others look at the load, its kernel and its devices."""

_READY_TIMEOUT_S = 20.0


@dataclass
class Pairing:
    """Records of a host from inside and from outside, until both of an interval have come."""

    hand_on: Callable[[SentRecord], None]
    _inside: dict[int, SentRecord] = field(default_factory=dict)
    _outside: dict[int, SentRecord] = field(default_factory=dict)

    def inside(self, record: SentRecord) -> None:
        """Takes what the load did."""
        self._inside[record.progress["index"]] = record
        self._match(record.progress["index"])

    def outside(self, record: SentRecord) -> None:
        """Takes what the machine did meanwhile."""
        self._outside[record.progress["index"]] = record
        self._match(record.progress["index"])

    def rest(self) -> None:
        """Hands on what has no counterpart, as it is."""
        for record in self._inside.values():
            self.hand_on(record)
        self._inside.clear()

    def _match(self, index: int) -> None:
        if index in self._inside and index in self._outside:
            inside, outside = self._inside.pop(index), self._outside.pop(index)
            # Taken apart beside the load: such a host is one that others disturb in any case, and who watches sees it whole.
            both = joined(inside.taken_apart(), outside.taken_apart())
            self.hand_on(SentRecord(inside.progress, json.dumps(both, separators=(",", ":")).encode()))


def joined(inside: Mapping[str, Any], outside: Mapping[str, Any]) -> Message:
    """The record of an interval: load and own kernel from inside, machine from outside."""
    own = [reading for reading in inside["sensors"] if reading["sensor"] not in OUTSIDE]
    machine = [reading for reading in outside["sensors"] if reading["sensor"] in OUTSIDE]
    return {**inside, "sensors": [*machine, *own]}


async def prepare(testbed: Testbed, trial: str, windows: Windows) -> dict[str, ClockFit]:
    """Gets every observer of the testbed ready to read the sensors in these windows; gives their clocks."""
    clocks = {}
    for host, session in testbed.observers.items():
        clocks[host] = await session.probe_clock()
        job = job_of(testbed, trial, secrets.token_hex(16), host, "idle", {}, windows)
        await session.prepare(job | {"cpus": list(testbed.cpus[host])})
        await session.ready(_READY_TIMEOUT_S)
    return clocks


async def arm(testbed: Testbed, clocks: Mapping[str, ClockFit], start_ns: int) -> None:
    """Schedules the same start for the observers, given on the lab's clock."""
    for host, session in testbed.observers.items():
        await session.arm(clocks[host].to_host(start_ns))


async def result(
    session: Session,
    observer: Session | None,
    load_ns: int,
    on_record: Callable[[SentRecord], None],
    on_profile: Any,
    *,
    stalls: bool = True,
    silence_s: float = 0.0,
) -> Message:
    """The result of a host's load, whose records are joined with those of its observer, if it has one."""
    if observer is None:
        return await session.result(load_ns, on_record, on_profile, stalls=stalls, silence_s=silence_s)
    pairing = Pairing(on_record)
    # When one fails the other one is not left waiting: it would take the answer to the abort that follows.
    found, _ = await together(
        (
            session.result(load_ns, pairing.inside, on_profile, stalls=stalls, silence_s=silence_s),
            observer.result(load_ns, pairing.outside, stalls=False),
        )
    )
    pairing.rest()
    return found
