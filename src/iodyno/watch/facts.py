"""Facts of a record: amounts of a statistic, told apart by up to two dimensions.

A fact is (statistic, first dimension, second dimension, amount). Sums of amounts over any facts are amounts again, so that a
page can break a statistic down by any dimension, and by host and group, which a sample has for all its facts.
Amount x `scale` / length of the interval in ns is the rate in the statistic's unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from iodyno.analysis.histogram import BUCKETS, Histogram, bounds_of, merge
from iodyno.campaign.feed import shortened
from iodyno.core.outcome import split_beside

BANDS_PER_DECADE = 32
"""Latency bands a decade of nanoseconds (chosen: 7.5 % wide, less than a pixel of the heat map)."""
CLOCKS = ("response_time", "lateness", "waiting")
"""Histograms of an open loop besides service times."""

SENSED_TIMES = ("block.service_time_ns", "syscall.time_ns")
"""Times of operations at a block device, and of system calls, as sensors have them."""
_CALLS = " calls"
"""End of the name of times of system calls."""

MACHINE_WIDE = frozenset({"calls", "disk", "disk_operations", "disk_busy", "file_systems", "switches"})
"""Statistics that a host reads of its whole machine: where several hosts are on one, those of one of them count."""

Fact = tuple[str, str, str, int]


@dataclass(frozen=True)
class Statistic:
    """Something that is counted. `stacked`: its parts add up to something that means anything; `gauge`: a state, not
    a growth; `scale`: amount x scale / ns is in `unit`."""

    name: str
    title: str
    unit: str
    dimensions: tuple[str, ...] = ()
    scale: float = 1e9
    stacked: bool = True
    gauge: bool = False

    def as_json(self) -> dict[str, Any]:
        """For the page."""
        return {**vars(self), "dimensions": list(self.dimensions)}


STATISTICS = (
    Statistic("operations", "operations", "/s", ("type", "band")),
    Statistic("arrivals", "times of an open loop", "/s", ("clock", "band"), stacked=False),
    Statistic("calls", "system calls", "/s", ("type", "band")),
    Statistic("payload", "payload", "B/s", ("direction",), stacked=False),
    Statistic("errors", "operations that failed", "/s", ("type",)),
    Statistic("cpu", "CPU time", "CPUs", ("class", "cpu"), scale=1.0),
    Statistic("softirq", "soft interrupts", "CPUs", ("vector", "cpu"), scale=1.0),
    Statistic("network", "network", "B/s", ("device", "direction")),
    Statistic("packets", "packets", "/s", ("device", "direction")),
    Statistic("disk", "disk", "B/s", ("disk", "direction")),
    Statistic("disk_operations", "disk operations", "/s", ("disk", "direction")),
    Statistic("file_systems", "operations of file systems", "/s", ("operation", "place")),
    Statistic("disk_busy", "disk busy", "disks", ("disk",), scale=1.0),
    Statistic("retransmits", "TCP segments sent again", "/s"),
    Statistic("dropped", "packets dropped", "/s", ("place",)),
    Statistic("switches", "context switches", "/s"),
    Statistic("connections", "connections", "connections", stacked=True, gauge=True),
    Statistic("instrument", "sensors' own CPU time", "CPUs", ("sensor",), scale=1.0),
)
"""Every statistic, in the order in which they are offered."""

_OF_FILE_SYSTEMS = frozenset({"ceph.operations", "nfs.operations", "nfsd.operations", "zfs.operations"})
_PER_CPU = {
    "cpu.user_ns": "usr",
    "cpu.nice_ns": "usr",
    "cpu.system_ns": "sys",
    "cpu.irq_ns": "irq",
    "cpu.softirq_ns": "softirq",
}
_EXACT = {"exact.hardirq_ns": "irq", "exact.other_ns": "other"}
_OF_DEVICES: Mapping[str, tuple[str, str]] = {
    "net.rx_bytes": ("network", "in"),
    "net.tx_bytes": ("network", "out"),
    "net.rx_packets": ("packets", "in"),
    "net.tx_packets": ("packets", "out"),
    "disk.read_bytes": ("disk", "read"),
    "disk.write_bytes": ("disk", "write"),
    "disk.read_operations": ("disk_operations", "read"),
    "disk.write_operations": ("disk_operations", "write"),
    "disk.busy_ns": ("disk_busy", ""),
}
_DROPS = {
    "net.rx_drops": "device in",
    "net.tx_drops": "device out",
    "softnet.dropped": "backlog",
    "qdisc.drops": "queue discipline",
}


@dataclass(frozen=True)
class Sample:
    """Sample of one host in one interval of a trial. `begin_s` and `end_s` are seconds since the host's first record."""

    trial: str
    host: str
    index: int
    window: str
    begin_s: float
    end_s: float
    facts: tuple[Fact, ...]
    times: Mapping[str, Histogram] = field(default_factory=dict, repr=False)

    @property
    def group(self) -> str:
        """Whom the host works with: a bystander, the hosts that an experiment counts off from one name, or the workload."""
        beside, _ = split_beside(self.host)
        if beside:
            return beside
        name, dash, number = self.host.rpartition("-")
        return name if dash and number.isdecimal() else "workload"

    @property
    def length_ns(self) -> int:
        """Length of the interval."""
        return round((self.end_s - self.begin_s) * 1e9)

    @cached_property
    def decades(self) -> dict[int, int]:
        """Numbers of operations that took 1 ns and more, 10 ns and more, ... by the power of ten."""
        found: dict[int, int] = {}
        for statistic, _, band, count in self.facts:
            if statistic == "operations" and band:
                decade = int(band) // BANDS_PER_DECADE
                found[decade] = found.get(decade, 0) + count
        return found

    def amount(self, statistic: str, **only: str) -> int:
        """Sum of a statistic's amounts, of those with these dimensions: `first=` and `second=`."""
        first, second = only.get("first"), only.get("second")
        return sum(
            fact[3]
            for fact in self.facts
            if fact[0] == statistic and first in (None, fact[1]) and second in (None, fact[2])
        )

    def as_json(self) -> dict[str, Any]:
        """For the page and the stream."""
        return {
            "trial": self.trial,
            "host": self.host,
            "group": self.group,
            "index": self.index,
            "window": self.window,
            "begin_s": round(self.begin_s, 6),
            "end_s": round(self.end_s, 6),
            "facts": [list(fact) for fact in self.facts],
        }


class Cutter:
    """Cuts the records of trials into samples; it remembers where each host's time began.

    `seconds`: hosts that share their machine with one before them.
    """

    def __init__(self, seconds: frozenset[str] = frozenset()) -> None:
        self.seconds = seconds
        self._origins: dict[tuple[str, str], int] = {}

    def cut(self, trial: str, line: Mapping[str, Any]) -> Sample:
        """The sample of one line of a feed: `host`, `role`, `operation`, `cpus` and `record`. Raises KeyError for another."""
        record, host = shortened(line["record"]), line["host"]
        origin_ns = self._origins.setdefault((trial, host), record["begin_ns"])
        # Where no load is on, what the devices did is looked at, and the system calls.
        times = _times(line["operation"], record) or _sensed_times(line)
        line = {**line, "record": record}
        facts = _facts(line, times)
        if host in self.seconds:
            facts = (fact for fact in facts if fact[0] not in MACHINE_WIDE)
        return Sample(
            trial,
            host,
            record["index"],
            record["window"],
            (record["begin_ns"] - origin_ns) / 1e9,
            (record["end_ns"] - origin_ns) / 1e9,
            tuple(facts),
            times,
        )

    def forget(self, trial: str) -> None:
        """No more records of the trial will come."""
        self._origins = {key: at for key, at in self._origins.items() if key[0] != trial}


def _times(operation: str, record: Mapping[str, Any]) -> dict[str, Histogram]:
    """Service times by type of operation, where the load has several, and the other times of all."""
    load, classes = record["load"], record.get("classes")
    named = {each["name"]: each["service_time"] for each in classes or ()} or {
        operation: load.get("service_time")
    }
    named |= {name: load.get(name) for name in CLOCKS}
    return {
        name: Histogram(h["count"], h["sum_ns"], tuple(h["buckets"]), tuple(h["counts"]))
        for name, h in named.items()
        if h is not None and h["count"]
    }


def _sensed_times(line: Mapping[str, Any]) -> dict[str, Histogram]:
    """Times of reads, writes and the like at each block device, and of system calls, of a host that is only looked at."""
    found: dict[str, list[Histogram]] = {}
    for reading in line["record"]["sensors"] if line["role"] == "idle" else ():
        for each in reading.get("times") or ():
            if each["metric"] in SENSED_TIMES:
                where, h = _labels(each["label"]), each["times"]
                times = Histogram(h["count"], h["sum_ns"], tuple(h["buckets"]), tuple(h["counts"]))
                name = (
                    f"{where['dev']} {where['operation']}"
                    if "dev" in where
                    else f"{where['operation']}{_CALLS}"
                )
                found.setdefault(name, []).append(times)
    return {name: merge(each) for name, each in found.items()}


def _statistic(name: str, role: str) -> str:
    """Kind that times of that name count as."""
    if name in CLOCKS:
        return "arrivals"
    return "calls" if role == "idle" and name.endswith(_CALLS) else "operations"


def _facts(line: Mapping[str, Any], times: Mapping[str, Histogram]) -> Iterable[Fact]:
    role, operation, record = line["role"], line["operation"], line["record"]
    # Hosts on one machine see all its CPUs; those of the host alone count, or nothing would add up.
    cpus = frozenset(str(cpu) for cpu in line["cpus"])
    load = record["load"]
    for name, histogram in times.items():
        statistic = _statistic(name, role)
        for band, count in banded(histogram).items():
            yield statistic, name, str(band), count
    untimed = load["operations"] - sum(h.count for name, h in times.items() if name not in CLOCKS)
    if untimed > 0:
        yield "operations", operation, "", untimed
    classes = record.get("classes") or ()
    for each in classes:
        yield "payload", each["name"], "", each["bytes"]
        if each["errors"]:
            yield "errors", each["name"], "", each["errors"]
    if load["bytes"] and not classes:
        yield (
            "payload",
            {"send": "sent", "receive": "received", "alone": "moved"}.get(role, role),
            "",
            load["bytes"],
        )
    yield "connections", "", "", load["connections_active"] * (record["end_ns"] - record["begin_ns"])
    exact = any(r["sensor"] == "cpu_exact" and r["values"] for r in record["sensors"])
    for reading in record["sensors"]:
        if reading["cost_ns"]:
            yield "instrument", reading["sensor"], "", reading["cost_ns"]
        if reading["sensor"] == "cpu_exact":
            yield from _exact_cpu(reading["values"], cpus)
        elif reading["sensor"] == "cpu_times":
            if not exact:
                yield from _sampled_cpu(reading["values"], cpus)
        else:
            yield from _of_reading(reading["values"])


def _exact_cpu(values: Iterable[tuple[str, str, int]], cpus: frozenset[str]) -> Iterable[Fact]:
    app: dict[str, int] = {}
    user: dict[str, int] = {}
    soft: dict[str, int] = {}
    for metric, label, value in values:
        where = _labels(label)
        cpu = where.get("cpu", "")
        if cpus and cpu not in cpus:
            continue
        if metric == "exact.app_ns":
            app[cpu] = value
        elif metric == "exact.app_user_ns":
            user[cpu] = value
        elif metric == "exact.softirq_ns":
            soft[cpu] = soft.get(cpu, 0) + value
            if value:
                yield "softirq", where.get("vector", ""), cpu, value
        elif (name := _EXACT.get(metric)) and value:
            yield "cpu", name, cpu, value
    for cpu, whole in app.items():
        # Outside the measured window nothing tells user from system code of the load: all of it is then `app`.
        if cpu in user:
            yield "cpu", "usr", cpu, min(whole, user[cpu])
            yield "cpu", "sys", cpu, max(0, whole - user[cpu])
        elif whole:
            yield "cpu", "app", cpu, whole
    for cpu, value in soft.items():
        yield "cpu", "softirq", cpu, value


def _sampled_cpu(values: Iterable[tuple[str, str, int]], cpus: frozenset[str]) -> Iterable[Fact]:
    sums: dict[tuple[str, str], int] = {}
    for metric, label, value in values:
        if (name := _PER_CPU.get(metric)) is not None:
            cpu = _labels(label).get("cpu", "")
            if not cpus or cpu in cpus:
                sums[name, cpu] = sums.get((name, cpu), 0) + value
    for (name, cpu), value in sums.items():
        if value:
            yield "cpu", name, cpu, value


def _of_reading(values: Iterable[tuple[str, str, int]]) -> Iterable[Fact]:
    for metric, label, value in values:
        if not value:
            continue
        if metric in _OF_DEVICES:
            statistic, direction = _OF_DEVICES[metric]
            yield statistic, _labels(label).get("dev", ""), direction, value
        elif metric in _DROPS:
            yield "dropped", _DROPS[metric], "", value
        elif metric in _OF_FILE_SYSTEMS:
            where = _labels(label)
            yield "file_systems", where.pop("operation"), next(iter(where.values()), ""), value
        elif metric == "tcp.retransmitted_segments":
            yield "retransmits", "", "", value
        elif metric == "sched.context_switches":
            yield "switches", "", "", value


def _labels(label: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in label.split(",") if part)


def band_of(value_ns: float) -> int:
    """The latency band that a time falls into: floor(32 log10 ns), 0 for less than a nanosecond more than one."""
    return math.floor(BANDS_PER_DECADE * math.log10(value_ns)) if value_ns > 1 else 0


def band_edge_ns(band: int) -> float:
    """Lower edge of a band in ns."""
    return float(10 ** (band / BANDS_PER_DECADE))


def banded(histogram: Histogram) -> dict[int, int]:
    """Counts by latency band. A bucket, 0.8 % wide, counts in the band that its middle lies in."""
    table = _band_of_bucket()
    cells: dict[int, int] = {}
    for bucket, count in zip(histogram.buckets, histogram.counts, strict=True):
        band = table[bucket]
        cells[band] = cells.get(band, 0) + count
    return cells


@lru_cache(maxsize=1)
def _band_of_bucket() -> tuple[int, ...]:
    return tuple(band_of((low + high - 1) / 2) for low, high in map(bounds_of, range(BUCKETS)))
