"""Campaign folders made from a known truth, written by the store's own writer.

What a trial reports is drawn here from plain formulas that share nothing with the analysis: a host's busy time is
its background plus cost x KiB, spread over its CPUs.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from made_classes import ExactTruth, exact_values

from iodyno.store.writer import TrialWriter, write_json_atomically

SECOND = 1_000_000_000
HELLO: dict[str, Any] = {
    "host": {
        "hostname": "made",
        "kernel": "6.1.0",
        "boot_id": "one",
        "cpu_model": "Made CPU",
        "cpus_online": [0, 1, 2, 3],
        "cpus_allowed": [0, 1, 2, 3],
        "memory_bytes": 8 << 30,
        "irq_time_accounting": True,
    },
    "clock": {
        "clocksource": "tsc",
        "operations_timed_with": "tsc",
        "tsc_hz": 2_000_000_000,
        "step_ns": 1.0,
        "read_cost_ns": 10.0,
    },
    "capabilities": [{"name": "cycles", "available": False, "reason": "no hardware counters here"}],
}


@dataclass(frozen=True)
class Call:
    """A call stack and how often it is seen, relative to the others; `frames` are `module:function`, outermost first."""

    frames: tuple[str, ...]
    weight: float
    owner: str = "app"
    mode: str = "kernel"


@dataclass(frozen=True)
class Truth:
    """Of one point. Noises are relative standard deviations; `drift` is the change of the rate over the window.

    `times_spread`: standard deviation of the logarithm of service times; 0: all are their mean. `interrupts`: by label
    (`cpu=0,irq=LOC`), of an interval. `counted`: by sensor, metric and label, the same.
    """

    bytes_per_s: float = 1e9
    cost_ns_per_kib: Mapping[str, float] = field(default_factory=lambda: {"client": 400.0, "server": 300.0})
    background: float = 0.05
    between: float = 0.02
    within: float = 0.01
    drift: float = 0.0
    retransmits: float = 0.0
    pmu_hz: float = 0.0
    split_sum: float = 1.0
    steal: float = 0.0
    sensor_cost_ns: int = 20_000
    little: float = 1.0
    receive_on_sender: bool = False
    goodput_lies: float = 1.0
    exact: ExactTruth | None = None
    calls: Mapping[str, tuple[Call, ...]] = field(default_factory=dict)
    samples: int = 4000
    calls_between: float = 0.0
    profile_missing: str | None = None
    times_spread: float = 0.0
    interrupts: Mapping[str, int] = field(default_factory=dict)
    counted: Mapping[str, Mapping[tuple[str, str], int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Layout:
    """Of the campaign."""

    cpus: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: {"client": (0, 1), "server": (2, 3)})
    intervals: int = 10
    interval_ns: int = SECOND
    replicates: int = 3
    idle: tuple[str, ...] = ("before", "after")
    hello: Mapping[str, Any] = field(default_factory=lambda: HELLO)
    outcomes: Sequence[str] = ("goodput_bits_per_s", "cycles_per_kib", "cpu_ns_per_kib")


def make_campaign(
    folder: Path,
    points: Sequence[tuple[Mapping[str, Any], Truth]],
    *,
    factors: Sequence[Mapping[str, Any]] = (),
    layout: Layout | None = None,
    seed: int = 1,
    question: str = "What does a KByte cost?",
    experiment_text: str = "name: made\n",
) -> Path:
    """Writes a campaign of `points` (levels and truth) into `folder` and returns it."""
    layout = layout or Layout()
    source = random.Random(seed)
    folder.mkdir(parents=True)
    (folder / "experiment.yaml").write_text(experiment_text)
    ids = [f"p{number:02d}" for number in range(1, len(points) + 1)]
    trials = [
        {"order": block * len(points) + number, "block": block, "replicate": block, "point": point}
        for block in range(layout.replicates)
        for number, point in enumerate(ids)
    ]
    for planned in trials:
        levels, truth = points[ids.index(planned["point"])]
        write_trial(folder / "trials", f"{planned['order']:05d}-1", planned, levels, truth, layout, source)
    for when in layout.idle:
        write_trial(folder / "background", when, None, {}, points[0][1], layout, source)
    header = {
        "schema_version": 2,
        "name": "made",
        "created": "2026-01-02T03:04:05+00:00",
        "tool_version": "0.1.0",
        "build_hash": "0123456789abcdef",
        "quick": False,
        "seed": seed,
        "experiment": {
            "name": "made",
            "question": question,
            "workload": {
                "kind": "stream",
                "sender": "client",
                "receiver": "server",
                "settings": {"engine": "threads"},
            },
            "factors": list(factors),
            "limits": {"background_ratio": 0.1},
            "windows": {},
            "outcomes": list(layout.outcomes),
        },
        "design": {
            "kind": "full_factorial",
            "points": [
                {"id": point, "levels": dict(levels)} for point, (levels, _) in zip(ids, points, strict=True)
            ],
            "trials": trials,
        },
        "hosts": {
            name: {"access": "local", "cpus": list(cpus), "address": None, "hello": layout.hello, "path": {}, "notes": []}
            for name, cpus in layout.cpus.items()
        },
        "calibration": {},
        "preflight": [{"check": "memory", "ok": True, "text": "enough"}],
        "warnings": [],
        "finished": True,
    }  # fmt: skip
    write_json_atomically(folder / "campaign.json", header)
    return folder


def write_trial(
    parent: Path,
    name: str,
    planned: Mapping[str, Any] | None,
    levels: Mapping[str, Any],
    truth: Truth,
    layout: Layout,
    source: random.Random,
    *,
    status: str = "finished",
) -> Path:
    """Writes one trial, or an idle measurement when nothing is `planned`."""
    writer = TrialWriter(parent, name)
    connections = int(levels.get("connections", 1))
    size = int(levels.get("size", 65536))
    rate = truth.bytes_per_s * max(0.05, source.gauss(1, truth.between)) if planned else 0.0
    sent = {"client": 0, "server": 0}
    hosts: dict[str, dict[str, Any]] = {}
    spread = {index: max(0.05, source.gauss(1, truth.within)) for index in range(layout.intervals + 1)}
    for host, role in (("client", "send"), ("server", "receive")):
        own = random.Random(source.random())
        cost = truth.cost_ns_per_kib[host] * max(0.05, own.gauss(1, truth.between))
        cpus = layout.cpus[host]
        for index in range(layout.intervals + 1 if planned else 1):
            share = (index - layout.intervals / 2) / layout.intervals
            moved = int(rate * spread[index] * (1 + truth.drift * share) * layout.interval_ns / SECOND)
            if host == "server":
                moved = int(moved * truth.goodput_lies)
            sent[host] += moved
            record = _record(host, index, moved, cost, connections, size, truth, layout, own)
            record["window"] = "warm_up" if planned and index == 0 else "measured"
            writer.add_record(host, "write" if role == "send" else "read", json.dumps(record).encode())
        hosts[host] = _host(role if planned else "idle", levels, cpus, sent[host], connections)
        if planned and host in truth.calls:
            hosts[host]["profile"] = _profile(writer, host, truth, layout, own)
    return writer.seal(
        {
            "trial": name,
            "order": planned["order"] if planned else 0,
            "attempt": 1,
            "block": planned["block"] if planned else 0,
            "replicate": planned["replicate"] if planned else 0,
            "point": planned["point"] if planned else "background",
            "levels": dict(levels),
            "settings": {"engine": "threads", "connections": connections, "size": size, **levels},
            "status": status,
            "reason": None
            if status == "finished"
            else {"code": "lost", "what": "the agent ended", "where": "host server", "advice": ""},
            "started_wall": "2026-01-02T03:04:05.000+00:00",
            "windows": {"warm_up_ns": 0, "measured_ns": 0, "drain_ns": 0, "interval_ns": layout.interval_ns},
            "start": {"skew_ns": 1000, "skew_error_ns": 500, "slack_ns": {}, "realtime": {}},
            "hosts": hosts,
            "warnings": [],
            "overhead_ns": 1_000_000,
        }
    )


def _record(
    host: str,
    index: int,
    moved: int,
    cost: float,
    connections: int,
    size: int,
    truth: Truth,
    layout: Layout,
    own: random.Random,
) -> dict[str, Any]:
    span = layout.interval_ns
    cpus = layout.cpus[host]
    work = cost * moved / 1024 * max(0.0, own.gauss(1, truth.within))
    busy = (work + truth.background * span * len(cpus)) / len(cpus)
    idle = span - busy
    states = {
        "user": 0.1 * busy * truth.split_sum,
        "nice": 0.0,
        "system": 0.6 * busy * truth.split_sum,
        "idle": idle,
        "iowait": 0.0,
        "irq": 0.0,
        "softirq": (0.3 - truth.steal) * busy * truth.split_sum,
        "steal": truth.steal * busy * truth.split_sum,
    }
    values = [[f"cpu.{state}_ns", f"cpu={cpu}", int(ns)] for cpu in cpus for state, ns in states.items()]
    sensors = [_reading("cpu_times", values, span, truth)]
    if truth.exact:
        values = exact_values(truth.exact, cpus, work, truth.background * span * len(cpus), span, own)
        sensors.append(_reading("cpu_exact", values, span, truth))
    if truth.pmu_hz:
        counts = [["cycles.count", f"cpu={cpu}", int(busy * truth.pmu_hz / 1e9)] for cpu in cpus]
        sensors.append(_reading("cycles", counts, span, truth))
    sensors.append(_reading("context_switches", [["sched.context_switches", "", 5000]], span, truth))
    if truth.interrupts:
        counts = [["interrupts.count", label, count] for label, count in truth.interrupts.items()]
        sensors.append(_reading("interrupts", counts, span, truth))
    for sensor, each in truth.counted.items():
        counts = [[metric, label, count] for (metric, label), count in each.items()]
        sensors.append(_reading(sensor, counts, span, truth))
    segments = moved // 16384
    lines = {"dev=lo": 0, "dev=eth0": moved + segments * 66}
    devices = [
        [f"net.{way}_{what}", device, value if what == "bytes" else segments]
        for device, value in lines.items()
        for way in ("tx", "rx")
        for what in ("bytes", "packets")
    ]
    sensors.append(_reading("net_devices", devices, span, truth))
    took = layout.cpus["client" if truth.receive_on_sender else "server"]
    packets = [["softnet.processed", f"cpu={cpu}", segments // len(took)] for cpu in took]
    packets += [["softnet.processed", f"cpu={cpu}", 10] for cpu in range(4) if cpu not in took]
    sensors.append(_reading("softnet", packets, span, truth))
    flows = {
        "data_segments_out": segments,
        "segments_in": segments // 4,
        "retransmitted_segments": int(segments * truth.retransmits),
        "busy_ns": span * connections,
        "rwnd_limited_ns": span * connections // 4,
        "sndbuf_limited_ns": 0,
    }
    sensors.append(
        _reading("tcp_info", [[f"tcp.{key}", "", value] for key, value in flows.items()], span, truth)
    )
    operations = moved // size
    mean = int(span * connections / operations * truth.little) if operations else 0
    return {
        "index": index,
        "window": "measured",
        "begin_ns": index * span,
        "end_ns": (index + 1) * span,
        "load": {
            "bytes": moved,
            "operations": operations,
            "service_time": _times(operations, mean, truth.times_spread, own),
            "connections_active": connections,
            "connections_lost": 0,
        },
        "sensors": sensors,
    }


def _profile(
    writer: TrialWriter, host: str, truth: Truth, layout: Layout, own: random.Random
) -> dict[str, Any]:
    """Samples of the host's call stacks, drawn at random by their weights, and what the manifest says of them."""
    calls = truth.calls[host]
    weights = [call.weight * max(0.0, own.gauss(1, truth.calls_between)) for call in calls]
    drawn = Counter(own.choices(range(len(calls)), weights, k=truth.samples))
    names = list(dict.fromkeys(frame for call in calls for frame in call.frames))
    functions = [dict(zip(("module", "name"), name.split(":"), strict=True)) for name in names]
    stacks = [
        {
            "owner": calls[place].owner,
            "mode": calls[place].mode,
            "frames": [names.index(frame) for frame in calls[place].frames],
            "count": count,
        }
        for place, count in drawn.items()
    ]
    writer.add_profile(host, {"functions": functions, "stacks": stacks})
    return {
        "hz": 997,
        "event": "cpu-clock",
        "begin_ns": layout.interval_ns,
        "end_ns": (layout.intervals + 1) * layout.interval_ns,
        "samples": truth.samples,
        "idle_samples": 100,
        "lost": 0,
        "cost_ns": 1_000_000,
        "symbolise_ns": 400_000_000,
        "missing": truth.profile_missing,
    }


def _reading(sensor: str, values: list[list[Any]], span: int, truth: Truth) -> dict[str, Any]:
    cost = truth.sensor_cost_ns
    return {
        "sensor": sensor,
        "read_ns": 0,
        "span_ns": span,
        "cost_ns": cost,
        "values": values,
        "missing": None,
    }


def _host(
    role: str, levels: Mapping[str, Any], cpus: Sequence[int], moved: int, connections: int
) -> dict[str, Any]:
    window = levels.get("window")
    return {
        "role": role,
        "job": {"socket": {"send_buffer_bytes": window, "receive_buffer_bytes": window, "nagle": None}},
        "ready": {
            "connections": connections,
            "socket": {
                "send_buffer_bytes": 2 * (window or 8192),
                "receive_buffer_bytes": 2 * (window or 65536),
                "nagle": True,
                "differing": 0,
            },
        },
        "result": {"bytes": moved},
        "clock": None,
        "cpus": list(cpus),
        "profile": None,
    }


def _times(operations: int, mean: int, spread: float, own: random.Random) -> dict[str, Any]:
    """A histogram of so many service times: 400 drawn ones, each standing for its share of the operations."""
    if not operations:
        return {"count": 0, "sum_ns": 0, "buckets": [], "counts": []}
    drawn = 400 if spread else 1
    cells: Counter[int] = Counter()
    sum_ns = 0
    for number in range(min(drawn, operations)):
        share = operations // drawn + (number < operations % drawn)
        value = max(1, int(mean * own.lognormvariate(0.0, spread))) if spread else mean
        cells[_bucket(value)] += share
        sum_ns += share * value
    ordered = sorted(cells.items())
    return {
        "count": operations,
        "sum_ns": sum_ns,
        "buckets": [bucket for bucket, _ in ordered],
        "counts": [count for _, count in ordered],
    }


def _bucket(value: int) -> int:
    shift = (value | 128).bit_length() - 8
    return (shift << 7) + (value >> shift)


def changed(truth: Truth, **fields: Any) -> Truth:
    """The truth with some of it changed."""
    return replace(truth, **fields)
