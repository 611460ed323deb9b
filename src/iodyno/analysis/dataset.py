"""A stored campaign as values: the only file of the analysis that touches the store.

Times are nanoseconds on the monotonic axis of the host they come from; axes of two hosts are never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iodyno.analysis import alike, arrivals
from iodyno.analysis.host_data import ClassCounts as ClassCounts
from iodyno.analysis.host_data import HostData as HostData
from iodyno.analysis.host_data import Reading as Reading
from iodyno.analysis.records import Part, Record, parts_together
from iodyno.core.asked import asked
from iodyno.core.limiter import Perturbation
from iodyno.core.outcome import bystanders_of
from iodyno.core.warnings import Warning, WarningCode
from iodyno.core.workload import EXCHANGES, Level
from iodyno.loads.disk.analysis import cache
from iodyno.loads.script.analysis.bytes import operations_of, with_what_was_taken
from iodyno.store.reader import Campaign, StoredTrial, read_campaign

_ENDED_EARLY = 0.01
"""Share of its window that a load lacks that ended by itself (chosen: more than ends of windows are late by)."""


if TYPE_CHECKING:
    from iodyno.analysis.held_rows import HeldRows


@dataclass
class Trial:
    """One execution of a point. `hosts` is empty when the trial failed or its files are damaged.

    `perturbation`: what a trial of a proof changed; None in a trial of the design. `bystanders`: the same trial as
    workloads beside had it, by name, with hosts that read no sensors. `clients`: the hosts of a load that
    needs no other end, all of them; of those on one machine only the first is in `hosts`, as it reads the machine for all.
    `members`: the hosts of ends of a load on connections that have several; of those on one machine `hosts` has one for all,
    `groups` says of which end each is.
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
        jobs = (host.manifest.get("job") or {} for host in self.hosts.values())
        return next((str(job["workload"]) for job in jobs if "workload" in job), "")

    @property
    def response_bytes(self) -> int:
        """Bytes of an answer; 0 where the load asks for none."""
        jobs = (host.manifest.get("job") or {} for host in self.hosts.values())
        asks = next((job for job in jobs if job.get("workload") in EXCHANGES), None)
        return int(asks.get("response_bytes", 0)) if asks else 0

    @property
    def connections(self) -> int:
        """Connections of all senders."""
        jobs = (host.manifest.get("job") or {} for host in self.hosts.values() if host.role == "send")
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
        asks = next((one for one in self.hosts.values() if one.role == "send"), None)
        if (
            host.role != "receive"
            or asks is None
            or not operations_of(host.manifest)
            or not operations_of(asks.manifest)
        ):
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


@dataclass
class Dataset:
    """A campaign: its header (`campaign.json`), its trials in order, and its idle measurements by name.

    `proofs` are the trials that test a limiter; they are no trials of the design and enter no estimate of a point.
    `stored` is the campaign as it lies on the disk, for what is read only when it is asked for: call stacks.
    """

    folder: Path
    header: Mapping[str, Any]
    experiment_text: str
    trials: list[Trial]
    background: dict[str, Trial]
    warnings: tuple[Warning, ...] = ()
    proofs: list[Trial] = field(default_factory=list)
    stored: Campaign | None = field(default=None, repr=False)
    held: HeldRows | None = field(default=None, repr=False)

    def of_sensors(self, *sensors: str, times: bool = True) -> AbstractContextManager[None]:
        """Meanwhile, rows of a large campaign that come when they are asked for are of no other sensors, and `times` or not."""
        return self.held.of(sensors, times=times) if self.held else nullcontext()

    def without_times(self) -> AbstractContextManager[None]:
        """Meanwhile, rows that come then are of all sensors, without histograms."""
        return self.held.of(None, times=False) if self.held else nullcontext()

    def in_turn(self, trials: Iterable[Trial]) -> Iterable[Trial]:
        """Trials of it, to go through one by one and only once."""
        return self.held.in_turn(trials) if self.held else trials

    @property
    def experiment(self) -> Mapping[str, Any]:
        """The experiment as the campaign recorded it."""
        found = self.header.get("experiment", {})
        return found if isinstance(found, Mapping) else {}

    @property
    def hosts(self) -> Mapping[str, Mapping[str, Any]]:
        """Facts known of each host; of several that are one in the trials, those of the first."""
        found, one_of = _known_hosts(self.header), self.one_of
        known: dict[str, Mapping[str, Any]] = {}
        for host, facts in found.items():
            known.setdefault(one_of.get(host, host), facts)
        return known

    @property
    def one_of(self) -> Mapping[str, str]:
        """The name that hosts have together which are one in the trials."""
        return {host: name for name, hosts in _machines_of(self.header).items() for host in hosts}

    @property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """The hosts of the ends that have several, by the name of the end."""
        return alike.groups_of(self.experiment.get("workload") or {})

    @property
    def calibration(self) -> Mapping[str, Mapping[str, Any]]:
        """Findings of the instrument about itself on each host."""
        found = self.header.get("calibration", {})
        return found if isinstance(found, Mapping) else {}


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
    for host in hosts:
        for index, reading in host.readings.get("arrivals", {}).items():
            kept = found.readings.setdefault("arrivals", {})
            summed = kept.setdefault(index, Reading(reading.span_ns, 0, None))
            for key, value in reading.values.items():
                before = summed.values.get(key, 0)
                oldest = key[0] == "arrivals.oldest_wait_ns"
                summed.values[key] = max(before, value) if oldest else before + value
    return found


def open_campaign(folder: Path | str) -> Campaign:
    """The campaign in `folder` as it is stored. Raises StoreError when it is none."""
    return read_campaign(folder)


def read_dataset(folder: Path | str) -> Dataset:
    """Reads the campaign in `folder`. Raises StoreError when it is none."""
    campaign = read_campaign(folder)
    trials = [_trial(stored, campaign.header) for stored in campaign.trials]
    background = {name: _trial(stored, campaign.header) for name, stored in campaign.background.items()}
    # Imported here: it fills what is made here.
    from iodyno.analysis.held_rows import HeldRows, fill

    held = HeldRows(campaign, trials)
    held.read()
    idle = [stored for stored in campaign.background.values() if stored.counts]
    with campaign.reading(idle) as connection:
        fill(connection, campaign.sources(idle), background.values(), idle=True)
    # Of a load on storage, what is void is told by many sensors.
    with held.of((arrivals.SENSOR,)) if not any(t.clients for t in trials) else nullcontext():
        trials = cache.voided(arrivals.voided(trials))
    trials.sort(key=lambda trial: (trial.order, trial.attempt))
    return Dataset(
        folder=campaign.folder,
        header=campaign.header,
        experiment_text=campaign.experiment_text,
        trials=[trial for trial in trials if trial.perturbation is None],
        background=background,
        warnings=_warnings(campaign.header.get("warnings", ())),
        proofs=[trial for trial in trials if trial.perturbation is not None],
        stored=campaign,
        held=held,
    )


def _known_hosts(header: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    found = header.get("hosts", {})
    return found if isinstance(found, Mapping) else {}


def _groups_of(header: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return alike.groups_of((header.get("experiment") or {}).get("workload") or {})


def _machines_of(header: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The hosts that are one in the trials, by the name that they have together."""
    if not (groups := _groups_of(header)):
        return {}
    known = _known_hosts(header)
    return alike.on_one_machine(groups, {n: _machine(n, _cpus(n, {}, header), header) for n in known})


def _trial(stored: StoredTrial, header: Mapping[str, Any]) -> Trial:
    manifest = stored.manifest
    reason = manifest.get("reason")
    status, said = manifest.get("status", "failed"), None
    if isinstance(reason, Mapping):
        said = " ".join(filter(None, (str(reason.get("what", "")), _bracketed(reason.get("where")))))
    if stored.invalid is not None:
        status, said = "damaged", str(stored.invalid).splitlines()[0]
    order, _, attempt = stored.name.partition("-")
    found = Trial(
        name=stored.name,
        order=manifest.get("order", int(order) if order.isdigit() else -1),
        attempt=manifest.get("attempt", int(attempt) if attempt.isdigit() else 1),
        block=manifest.get("block", 0),
        replicate=manifest.get("replicate", 0),
        point=manifest.get("point", ""),
        levels=manifest.get("levels", {}),
        settings=manifest.get("settings", {}),
        status=status,
        reason=said,
        started_wall=manifest.get("started_wall", ""),
        manifest=manifest,
        warnings=_warnings(manifest.get("warnings", ()), stored.name),
        hosts=_hosts(manifest, header) if stored.counts else {},
        perturbation=_perturbation(manifest.get("perturbation")),
    )
    found.clients = {name: host for name, host in found.hosts.items() if host.role == "alone"}
    machines = [host.machine for host in found.clients.values()]
    followers = [
        name
        for place, (name, host) in enumerate(found.clients.items())
        if machines.index(host.machine) != place
    ]
    found.hosts = {name: host for name, host in found.hosts.items() if name not in followers}
    found.groups = _groups_of(header)
    found.members = {
        name: found.hosts[name] for group in found.groups.values() for name in group if name in found.hosts
    }
    for together, among in _machines_of(header).items() if found.hosts else ():
        one = alike.as_one(together, [found.hosts[name] for name in among])
        # In the place of the first of them.
        found.hosts = {
            one.name if name == among[0] else name: one if name == among[0] else host
            for name, host in found.hosts.items()
            if name == among[0] or name not in among
        }
    if stored.counts:
        found.bystanders = {
            name: replace(
                found,
                manifest=each,
                settings=each["settings"],
                hosts=_hosts(each, header),
                warnings=(),
                members={},
                groups={},
            )
            for name, each in bystanders_of(manifest).items()
        }
    return found


def _hosts(manifest: Mapping[str, Any], header: Mapping[str, Any]) -> dict[str, HostData]:
    return {
        name: HostData(
            name,
            host["role"],
            cpus := _cpus(name, host, header),
            {**host, "job": asked(host.get("job"))},
            machine=_machine(name, cpus, header),
            lacking=_lacking(name, header),
        )
        for name, host in (manifest.get("hosts") or {}).items()
    }


def _lacking(name: str, header: Mapping[str, Any]) -> dict[str, str]:
    """Sensors that the agent could not open, with the reason that it gave."""
    hello = header.get("hosts", {}).get(name, {}).get("hello") or {}
    return {
        capability["name"].removeprefix("sensor."): capability.get("reason") or "no reason known"
        for capability in hello.get("capabilities") or ()
        if capability["name"].startswith("sensor.") and not capability["available"]
    }


def _machine(name: str, cpus: tuple[int, ...], header: Mapping[str, Any]) -> str:
    """As a testbed tells them apart: by the boot of the kernel, and the CPUs on it."""
    facts = ((header.get("hosts", {}).get(name, {}).get("hello") or {}).get("host")) or {}
    return f"{facts.get('boot_id') or name}/{','.join(map(str, cpus))}"


def _perturbation(stored: Mapping[str, Any] | None) -> Perturbation | None:
    """As the manifest has it; fields of a later version are passed over."""
    if not stored:
        return None
    known = {key: stored[key] for key in Perturbation.__dataclass_fields__ if key in stored}
    return Perturbation(**known)


def _cpus(name: str, host: Mapping[str, Any], header: Mapping[str, Any]) -> tuple[int, ...]:
    """CPUs that the cost of a host is counted on: those of the trial, of the campaign, or all that it may
    use.
    """
    known = header.get("hosts", {}).get(name, {})
    facts = (known.get("hello") or {}).get("host") or {}
    for cpus in (host.get("cpus"), known.get("cpus"), facts.get("cpus_allowed"), facts.get("cpus_online")):
        if cpus:
            return tuple(cpus)
    return ()


def _bracketed(where: object) -> str:
    return f"({where})" if where else ""


def _warnings(stored: Iterable[Mapping[str, str]], where: str = "") -> tuple[Warning, ...]:
    known = {code.value: code for code in WarningCode}
    return tuple(
        Warning(known[d["code"]], d["text"], ", ".join(filter(None, (where, d.get("where")))))
        for d in stored
        if d.get("code") in known
    )
