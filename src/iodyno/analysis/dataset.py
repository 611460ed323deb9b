"""A stored campaign as values: the only file of the analysis that touches the store.

Times are nanoseconds on the monotonic axis of the host they come from; axes of two hosts are never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iodyno.analysis.histogram import Histogram
from iodyno.core.limiter import Perturbation
from iodyno.core.warnings import Doubt, WarningCode
from iodyno.core.workload import Level
from iodyno.store.reader import Campaign, StoredTrial, read_campaign

MEASURED = "measured"

# What the analysis uses of the series: a long campaign has many more rows than these.
_METRICS = (
    *("cpu.%", "cycles.%", "tcp.%", "net.%", "sched.%", "softnet.processed", "process.%", "interrupts.count"),
    *("exact.%", "napi.%", "lock.%", "syscalls.%", "cgroup.%", "pressure.%", "qdisc.%"),
)
_MORE = "metric = 'thread.busiest_run_ns' OR (metric = 'softirqs.count' AND label LIKE '%NET_RX')"
# Times of each worker are of use only in all, and there may be thousands of workers.
_FOLDED = ("thread.run_ns", "thread.wait_ns")
_ALL_WORKERS = "worker=all"


@dataclass(frozen=True)
class Record:
    """One interval of one host: what the load did."""

    index: int
    window: str
    begin_ns: int
    end_ns: int
    bytes: int
    operations: int
    connections_active: int
    connections_lost: int

    @property
    def span_ns(self) -> int:
        """Length of the interval."""
        return self.end_ns - self.begin_ns


@dataclass
class Reading:
    """What one sensor said at the end of an interval: growth of counters over `span_ns`, states of gauges."""

    span_ns: int
    cost_ns: int
    missing: str | None
    values: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass
class HostData:
    """What one host of a trial reported. `readings`: by sensor, then by index of the record.

    `derived` keeps what many outcomes are made from, so that it is worked out once.
    """

    name: str
    role: str
    cpus: tuple[int, ...]
    manifest: Mapping[str, Any]
    records: list[Record] = field(default_factory=list)
    histograms: dict[int, Histogram] = field(default_factory=dict)
    readings: dict[str, dict[int, Reading]] = field(default_factory=dict)
    derived: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def measured(self) -> list[Record]:
        """The records of the measured window."""
        return [record for record in self.records if record.window == MEASURED]

    @property
    def measured_ns(self) -> int:
        """Length of the measured window on this host's own clock."""
        return sum(record.span_ns for record in self.measured)

    @property
    def measured_bytes(self) -> int:
        """Payload bytes of the measured window."""
        return sum(record.bytes for record in self.measured)

    def measured_readings(self, sensor: str) -> list[Reading]:
        """The readings of a sensor at the ends of the measured records, where there are any."""
        found = self.readings.get(sensor, {})
        return [found[record.index] for record in self.measured if record.index in found]

    def growth(self, sensor: str, metric: str, label: str = "") -> int | None:
        """Growth of a counter over the measured window; None when no reading has it."""
        values = [r.values.get((metric, label)) for r in self.measured_readings(sensor)]
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    def labels(self, sensor: str, metric: str) -> list[str]:
        """Every label that the metric had in the measured window, sorted."""
        readings = self.measured_readings(sensor)
        return sorted({label for r in readings for name, label in r.values if name == metric})

    def why_missing(self, sensor: str) -> str:
        """Why a sensor has nothing to say, as it said itself."""
        said = {r.missing for r in self.readings.get(sensor, {}).values() if r.missing}
        return "; ".join(sorted(said)) or f"sensor {sensor} was not read on {self.name}"


@dataclass
class Trial:
    """One execution of a point. `hosts` is empty when the trial failed or its files are damaged.

    `perturbation`: what a trial of a proof changed; None in a trial of the design.
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
    doubts: tuple[Doubt, ...] = ()
    hosts: dict[str, HostData] = field(default_factory=dict)
    perturbation: Perturbation | None = None

    @property
    def finished(self) -> bool:
        """Whether its numbers count."""
        return self.status == "finished"

    def end(self, role: str) -> HostData | None:
        """The host that has this role, `send` or `receive`."""
        return next((host for host in self.hosts.values() if host.role == role), None)


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
    doubts: tuple[Doubt, ...] = ()
    proofs: list[Trial] = field(default_factory=list)
    stored: Campaign | None = field(default=None, repr=False)

    @property
    def experiment(self) -> Mapping[str, Any]:
        """The experiment as the campaign recorded it."""
        found = self.header.get("experiment", {})
        return found if isinstance(found, Mapping) else {}

    @property
    def hosts(self) -> Mapping[str, Mapping[str, Any]]:
        """What is known of each host."""
        found = self.header.get("hosts", {})
        return found if isinstance(found, Mapping) else {}

    @property
    def calibration(self) -> Mapping[str, Mapping[str, Any]]:
        """What the instrument found of itself on each host."""
        found = self.header.get("calibration", {})
        return found if isinstance(found, Mapping) else {}


def open_campaign(folder: Path | str) -> Campaign:
    """The campaign in `folder` as it is stored. Raises StoreError when it is none."""
    return read_campaign(folder)


def read_dataset(folder: Path | str) -> Dataset:
    """Reads the campaign in `folder`. Raises StoreError when it is none."""
    campaign = read_campaign(folder)
    trials = [_trial(stored, campaign.header) for stored in campaign.trials]
    background = {name: _trial(stored, campaign.header) for name, stored in campaign.background.items()}
    with campaign.connect() as connection:
        for prefix, into in (("", trials), ("background_", background.values())):
            _fill(connection, prefix, {trial.name: trial for trial in into if trial.finished})
    trials.sort(key=lambda trial: (trial.order, trial.attempt))
    return Dataset(
        folder=campaign.folder,
        header=campaign.header,
        experiment_text=campaign.experiment_text,
        trials=[trial for trial in trials if trial.perturbation is None],
        background=background,
        doubts=_doubts(campaign.header.get("doubts", ())),
        proofs=[trial for trial in trials if trial.perturbation is not None],
        stored=campaign,
    )


def _trial(stored: StoredTrial, header: Mapping[str, Any]) -> Trial:
    manifest = stored.manifest
    reason = manifest.get("reason")
    status, said = manifest.get("status", "failed"), None
    if isinstance(reason, Mapping):
        said = " ".join(filter(None, (str(reason.get("what", "")), _bracketed(reason.get("where")))))
    if stored.invalid is not None:
        status, said = "damaged", str(stored.invalid).splitlines()[0]
    order, _, attempt = stored.name.partition("-")
    return Trial(
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
        doubts=_doubts(manifest.get("doubts", ()), stored.name),
        hosts={
            name: HostData(name, host["role"], _cpus(name, host, header), host)
            for name, host in (manifest.get("hosts") or {}).items()
        }
        if stored.counts
        else {},
        perturbation=_perturbation(manifest.get("perturbation")),
    )


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


def _doubts(stored: Iterable[Mapping[str, str]], where: str = "") -> tuple[Doubt, ...]:
    known = {code.value: code for code in WarningCode}
    return tuple(
        Doubt(known[d["code"]], d["text"], ", ".join(filter(None, (where, d.get("where")))))
        for d in stored
        if d.get("code") in known
    )


def _fill(connection: Any, prefix: str, trials: Mapping[str, Trial]) -> None:
    """Puts the rows of all finished trials where they belong."""

    def rows(view: str, columns: str, condition: str = "true") -> Sequence[tuple[Any, ...]]:
        found: Sequence[tuple[Any, ...]] = connection.execute(
            f'SELECT trial, host, "index", {columns} FROM {prefix}{view} WHERE {condition} '
            f'ORDER BY trial, host, "index"'
        ).fetchall()
        return found

    load = '"window", begin_ns, end_ns, bytes, operations, connections_active, connections_lost'
    for trial, host, index, window, *counts in rows("records", load):
        trials[trial].hosts[host].records.append(Record(index, window, *counts))
    for trial, host, index, total, sum_ns, buckets, counts in rows(
        "histograms", "count, sum_ns, buckets, counts"
    ):
        histogram = Histogram(total, sum_ns, tuple(buckets), tuple(counts))
        trials[trial].hosts[host].histograms[index] = histogram
    for trial, host, index, sensor, span_ns, cost_ns, missing in rows(
        "sensors", "sensor, span_ns, cost_ns, missing"
    ):
        readings = trials[trial].hosts[host].readings.setdefault(sensor, {})
        readings[index] = Reading(span_ns, cost_ns, missing)
    wanted = " OR ".join([*(f"metric LIKE '{metric}'" for metric in _METRICS), _MORE])
    for trial, host, index, sensor, metric, label, value in rows(
        "series", "sensor, metric, label, value", wanted
    ):
        trials[trial].hosts[host].readings[sensor][index].values[metric, label] = value
    folded = connection.execute(
        f'SELECT trial, host, "index", sensor, metric, sum(value)::BIGINT FROM {prefix}series '
        f"WHERE metric IN {_FOLDED} GROUP BY ALL"
    )
    for trial, host, index, sensor, metric, value in folded.fetchall():
        trials[trial].hosts[host].readings[sensor][index].values[metric, _ALL_WORKERS] = value
