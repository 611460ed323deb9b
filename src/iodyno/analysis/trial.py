"""One execution of a point, as values: its hosts, and its ends as those see them who ask what passed between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from iodyno.analysis import alike
from iodyno.analysis.host_data import HostData
from iodyno.analysis.metrics import MetricData
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Part, Record, parts_together
from iodyno.core.limiter import Perturbation
from iodyno.core.warnings import Warning
from iodyno.core.workload import Level
from iodyno.loads.script.analysis.bytes import operations_of, with_what_was_taken

_ENDED_EARLY = 0.01
"""Share of its window that a load lacks that ended by itself (chosen: more than ends of windows are late by)."""


@dataclass
class Trial:
    """One execution of a point. `hosts` is empty when the trial failed or its files are damaged.

    `perturbation`: what a trial of a proof changed; None in a trial of the design. `bystanders`: the same trial as
    workloads beside had it, by name, with hosts that read no sensors. `clients`: the hosts of a load that
    needs no other end, all of them; of those on one machine only the first is in `hosts`, as it reads the machine for all.
    `members`: the hosts of ends of a load on connections that have several; of those on one machine `hosts` has one for all,
    `groups` says of which end each is. `metrics`: those that other programs hold, by name.
    """

    name: str
    order: int
    attempt: int
    block: int
    replicate: int
    point: str
    levels: Mapping[str, Level]
    settings: Mapping[str, Level]
    status: str
    reason: str | None
    started_wall: str
    manifest: Mapping[str, Any]
    warnings: tuple[Warning, ...] = ()
    hosts: dict[str, HostData] = field(default_factory=dict)
    perturbation: Perturbation | None = None
    bystanders: dict[str, Trial] = field(default_factory=dict)
    clients: dict[str, HostData] = field(default_factory=dict)
    members: dict[str, HostData] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    metrics: Mapping[str, MetricData] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """True where its numbers count."""
        return self.status == "finished"

    @property
    def direction(self) -> str:
        """Which way the payload of a stream goes, seen from the end that connects."""
        return str(self.settings.get("direction", "forward"))

    @property
    def kind(self) -> str:
        """Kind of the workload as the jobs have it; empty where there is none."""
        jobs = (host.job for host in self.hosts.values())
        return next((str(job["workload"]) for job in jobs if "workload" in job), "")

    @property
    def response_bytes(self) -> int:
        """Bytes of an answer; 0 where the load asks for none."""
        asks = (host.job for host in self.hosts.values() if host.exchanges)
        return max((int(job.get("response_bytes") or 0) for job in asks), default=0)

    @property
    def connections(self) -> int:
        """Connections of all senders."""
        jobs = (host.job for host in self.hosts.values() if host.role == "send")
        return sum(job.get("connections", 0) for job in jobs) or int(self.settings.get("connections", 1))

    def several(self, role: str) -> bool:
        """Tell whether several hosts with CPUs of their own have that role."""
        return sum(host.role == role for host in self.hosts.values()) > 1

    def beside_readings(self, end: HostData, spans_ns: Mapping[int, int]) -> dict[int, int]:
        """Nanoseconds that the work of each measured record of `end` stands for beside readings of a sensor, each of which is of
        `spans_ns`: the record's own length. Where the load ended by itself, before its windows did, the last reading came when
        it was over, and is of all of it, however short: there it is the length of the reading.
        """
        measured = {record.index: record.span_ns for record in end.measured}
        planned_ns = (self.manifest.get("windows") or {}).get("measured_ns", 0)
        if measured and sum(measured.values()) < (1 - _ENDED_EARLY) * planned_ns:
            last = max(measured)
            measured[last] = max(measured[last], spans_ns.get(last, 0))
        return measured

    def end(self, role: str) -> HostData | None:
        """The host at this end of the payload's way: the one that sends it (`send`), or gets it (`receive`).

        Where payload goes both ways, the end that listens stands for both: its records have what the two ends got. So it
        is with requests, where its records have the requests that came and the answers that came back, and with scripts. Of a
        load that needs no other end, all clients together are the end that sends, and none receives.
        """
        if self.clients:
            return clients_together(self.clients) if role == "send" else None
        if self.direction == "reverse":
            role = {"send": "receive", "receive": "send"}.get(role, role)
        ends = {name: self.with_what_came(name) for name, host in self.hosts.items() if host.role == role}
        found = clients_together(ends) if ends else None
        if found is None or role != "receive" or not (self.response_bytes or self.direction == "both"):
            return found
        asking = {name: host for name, host in self.hosts.items() if host.role == "send"}
        return self._both_ways(found, clients_together(asking)) if asking else None

    def end_alone(self, role: str) -> HostData | None:
        """The hosts with this role, with what they got themselves."""
        hosts = {name: host for name, host in self.hosts.items() if host.role == role}
        return clients_together(hosts) if hosts else None

    def share_of(self, host: HostData) -> HostData:
        """A host of an end that has several, with what passed between it and the other ends: of requests, the answers too."""
        host = self.with_what_came(host.name) if host.name in self.hosts else host
        answer = self.response_bytes
        if not answer:
            return host
        kept: HostData | None = host.derived.get(("share",))
        if kept is None:
            records = [replace(r, bytes=r.bytes + r.operations * answer, parts=()) for r in host.records]
            kept = host.derived["share",] = replace(host, records=records, derived={}, fetch=None, made_of=())
        return kept

    def with_what_came(self, name: str) -> HostData:
        """A host; of those that receive in a script with what it and the other end got of what passed between them."""
        host = self.hosts[name]
        if host.role != "receive" or not operations_of(host.manifest):
            return host
        asks = next((one for one in self.hosts.values() if one.role == "send"), None)
        if asks is None or not operations_of(asks.manifest):
            return host
        return with_what_was_taken(host, asks)

    def _both_ways(self, listens: HostData, asks: HostData) -> HostData:
        """The end that listens, with what both ends got. Made once, as what is worked out of its readings is kept with it."""
        kept: HostData | None = listens.derived.get(("both ways",))
        if kept is None:
            answer = self.response_bytes

            # An operation of the end that asks is a request whose whole answer came.
            def got(one: Record | Part) -> int:
                return one.operations * answer if answer else one.bytes

            others = {one.index: one for one in asks.records}
            records = [
                replace(record, bytes=record.bytes + got(other), parts=parts_together((record, other), got))
                for record in listens.records
                if (other := others.get(record.index))
            ]
            kept = listens.derived["both ways",] = replace(listens, records=records, derived={})
        return kept


def clients_together(clients: Mapping[str, HostData]) -> HostData:
    """All clients, or all receiving hosts of a script, as one host: what they did is added up interval by interval, and each
    interval is as long as that of the first of them. Of sensors it has what the load itself counts of its arrivals.
    """
    hosts = list(clients.values())
    first = hosts[0]
    if len(hosts) == 1:
        return first
    key = ("together", *clients)
    if key not in first.derived:
        first.derived[key] = _merged(hosts)
    found = first.derived[key]
    assert isinstance(found, HostData)
    return found


def _merged(hosts: Sequence[HostData]) -> HostData:
    first = hosts[0]
    name = ", ".join(host.name for host in hosts) if first.role == "receive" else "clients"
    found = HostData(name, first.role, first.cpus, first.manifest, machine=first.machine)
    alike.add_rows(found, hosts)
    arrivals: dict[int, Reading] = {}
    for host in hosts:
        for index, reading in host.readings.get("arrivals", {}).items():
            summed = arrivals.setdefault(index, Reading(reading.span_ns, 0, None))
            for key, value in reading.values.items():
                before = summed.values.get(key, 0)
                oldest = key[0] == "arrivals.oldest_wait_ns"
                summed.values[key] = max(before, value) if oldest else before + value
    if arrivals:
        found.readings["arrivals"] = arrivals
    return found
