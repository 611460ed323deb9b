"""The mechanisms behind a cost: how often the path does its fixed work for the bytes it carries.

The source explains its costliest case by three of them: small segments to the device, more work for the device, and
more acknowledgements. Each is a ratio of two counts over the measured window, with an interval over trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from iodyno.analysis import flows
from iodyno.analysis.compare import leaves_out_one, ratio_estimate
from iodyno.analysis.host_data import HostData
from iodyno.analysis.interval import estimate
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial
from iodyno.core.outcome import Estimate

EXACT = "cpu_exact"
_ON_SLICES = "the load worked in the slice in which it is counted as in the rest of the warm-up beside it"
MIB = 2**20
SLICE_ENDS_NS = 150_000_000
"""Latest end of the slices, counted from the begin of the warm-up (`agent/sense/src/exact/own_cost.rs`)."""

WARM_UP = "warm_up"
_CALL_BY_CALL = ("threads", "epoll", "round_robin")
_ONE_A_CALL = ("read_write", "message", "zero_copy")
"""Engines and syscalls of a stream of which each operation is one call that moved bytes, or several."""

Measure = Callable[[Trial, str], Measured]


@dataclass(frozen=True)
class MechanismKind:
    """One mechanism. `role`: the host that it is counted on, `send` or `receive`; both without one. `least`: what it cannot be
    below in a trial, from another count."""

    name: str
    title: str
    unit: str
    help: str
    measure: Measure
    role: str = ""
    least: Callable[[Trial, str], float] = lambda _trial, _host: 0.0


@dataclass(frozen=True)
class Mechanism:
    """A mechanism on a host at one point."""

    kind: MechanismKind
    host: str
    value: Estimate


@dataclass(frozen=True)
class MechanismChange:
    """A mechanism from the first point to the second; `ratio` is second over first."""

    kind: MechanismKind
    host: str
    first: Estimate
    second: Estimate
    ratio: Estimate

    @property
    def changes(self) -> bool:
        """True where the interval of its ratio leaves out 1."""
        return leaves_out_one(self.ratio)


def mechanisms(
    trials: Sequence[Trial],
    hosts: Iterable[str],
    in_turn: Callable[[Sequence[Trial]], Iterable[Trial]] = iter,
) -> list[Mechanism]:
    """Every mechanism on every host that it belongs to, over the trials of a point. `in_turn`: that of their dataset."""
    roles = {host: {trial.hosts[host].role for trial in trials if host in trial.hosts} for host in hosts}
    asked = [(k, host) for k in MECHANISMS for host in roles if not k.role or k.role in roles[host]]
    # Trial by trial, as the rows of a large campaign are in memory a few trials at a time.
    seen = [
        [
            (kind.measure(trial, host), kind.least(trial, host)) if host in trial.hosts else None
            for kind, host in asked
        ]
        for trial in in_turn(trials)
    ]
    found = []
    for (kind, host), *each in zip(asked, *seen, strict=True):
        mine = [one for one in each if one is not None]
        possible = (min((least for _, least in mine), default=0.0), None)
        found.append(Mechanism(kind, host, estimate([one for one, _ in mine], kind.unit, possible=possible)))
    return found


def mechanism_changes(first: Sequence[Mechanism], second: Sequence[Mechanism]) -> list[MechanismChange]:
    """Each mechanism that both points have, with its ratio."""
    others = {(each.kind.name, each.host): each for each in second}
    return [
        MechanismChange(one.kind, one.host, one.value, other.value, ratio_estimate(one.value, other.value))
        for one in first
        if (other := others.get((one.kind.name, one.host)))
    ]


def _of_flows(measure: Callable[[Trial], Measured], trial: Trial, _host: str) -> Measured:
    return measure(trial)


def _bytes_per_call(trial: Trial, name: str) -> Measured:
    """Payload bytes over calls that moved any: how large the copies are."""
    host = trial.hosts[name]
    parts = [(float(record.bytes), float(record.operations)) for record in host.measured]
    return total_ratio(parts, nothing=f"{name} counted no call")


def _who_got_it(trial: Trial) -> HostData | None:
    """Whose records have the payload that was moved: the receiver, or all clients of a load on disks."""
    return trial.end("send" if trial.clients else "receive")


def _per_mib(
    sensor: str, metric: str, trial: Trial, name: str, *, labels: str = "", of_cpus: bool = True
) -> Measured:
    """Growth of a counter, over the trial's CPUs of the host, per MiB delivered to the receiver."""
    host, receiver = trial.hosts[name], _who_got_it(trial)
    if receiver is None or not receiver.measured_bytes:
        return missing("no payload was moved in the measured window")
    wanted = [label for label in host.labels(sensor, metric) if _fits(label, host, labels, of_cpus)]
    if not wanted:
        return missing(_why(host, sensor, metric))
    parts = [
        (sum(reading.values.get((metric, label), 0) for label in wanted) / reading.span_ns, rate)
        for reading, rate in _beside(host, sensor, receiver)
    ]
    return total_ratio(parts, nothing=f"{name} has no reading of {metric} in the measured window")


def _beside(host: HostData, sensor: str, receiver: HostData) -> list[tuple[Reading, float]]:
    """Readings of a sensor with what was delivered meanwhile, in MiB/ns: by the receiver's records of the same numbers."""
    delivered = {record.index: record for record in receiver.measured}
    found = []
    for reading, covered in host.covered(sensor):
        records = [delivered[record.index] for record in covered if record.index in delivered]
        span_ns = sum(record.span_ns for record in records)
        if reading.span_ns > 0 and span_ns > 0:
            found.append((reading, sum(record.bytes for record in records) / MIB / span_ns))
    return found


def _softirq_runs(trial: Trial, name: str) -> Measured:
    """Counted by the exact meter where it runs, which also sees those of a kernel thread; else by /proc/softirqs."""
    exact = _per_mib(EXACT, "exact.softirq_count", trial, name, labels="vector=NET_RX")
    if exact.value is not None:
        return exact
    return _per_mib("softirqs", "softirqs.count", trial, name, labels="vector=NET_RX")


def _own_switches(trial: Trial, name: str) -> Measured:
    """Of the agent's threads, by their own will and not."""
    host, receiver = trial.hosts[name], _who_got_it(trial)
    metrics = ("process.voluntary_switches", "process.involuntary_switches")
    grown = [host.growth("process", metric) for metric in metrics]
    if receiver is None or not receiver.measured_bytes:
        return missing("no payload was moved in the measured window")
    if any(value is None for value in grown):
        return missing(_why(host, "process", metrics[0]))
    parts = [
        (sum(reading.values.get((metric, ""), 0) for metric in metrics) / reading.span_ns, rate)
        for reading, rate in _beside(host, "process", receiver)
    ]
    return total_ratio(parts)


def _packets_per_poll(trial: Trial, name: str) -> Measured:
    return _of_polls(trial, name, "napi.packets")


def _full_polls(trial: Trial, name: str) -> Measured:
    return _of_polls(trial, name, "napi.full_polls")


def _of_polls(trial: Trial, name: str, metric: str) -> Measured:
    """Per poll of a device: over the measured window, or over the slice where they are counted there only."""
    found = _sum_ratio(trial, name, metric, "napi.polls")
    if found.value is not None:
        return found
    host = trial.hosts[name]
    above, below = (_slice_rate(host, f"{each}_per_s") for each in (metric, "napi.polls"))
    if not below or above is None:
        return found
    return Measured(above / below, (above / below,), assumptions=(_ON_SLICES,))


def _slice_rate(host: HostData, metric: str) -> float | None:
    """Growth per second over the trial's CPUs, of a counter that is counted on a slice of the warm-up; None: not so."""
    wanted = [(metric, f"cpu={cpu}") for cpu in host.cpus]
    for reading in host.measured_readings(EXACT):
        if rates := [reading.values[key] for key in wanted if key in reading.values]:
            return float(sum(rates))
    return None


def _beside_slice(host: HostData) -> list[Record]:
    """The records of the warm-up that hold the slices: a load that begins, or that waits for a CPU, does less in them than
    in the measured window, so that what was counted in a slice is set against what was done then."""
    warm_up = [record for record in host.records if record.window == WARM_UP]
    return [record for record in warm_up if record.begin_ns < warm_up[0].begin_ns + SLICE_ENDS_NS]


def _exact_per_mib(metric: str, trial: Trial, name: str) -> Measured:
    """As `_per_mib`; on the slice of the warm-up, where the counter is counted there only."""
    found = _per_mib(EXACT, metric, trial, name)
    rate = _slice_rate(trial.hosts[name], f"{metric}_per_s")
    receiver = _who_got_it(trial)
    if found.value is not None or rate is None or receiver is None or not receiver.measured_bytes:
        return found
    beside = _beside_slice(receiver)
    delivered = sum(record.bytes for record in beside)
    if not delivered:
        return missing(f"{metric} was counted in the warm-up only, in which nothing was delivered")
    mib_per_s = delivered / MIB / sum(record.span_ns for record in beside) * 1e9
    return Measured(rate / mib_per_s, (rate / mib_per_s,), assumptions=(_ON_SLICES,))


def _sum_ratio(trial: Trial, name: str, above: str, below: str) -> Measured:
    host = trial.hosts[name]
    readings = host.measured_readings(EXACT)
    parts = [(_over_cpus(r, host, above), _over_cpus(r, host, below)) for r in readings]
    if not any(polls for _, polls in parts):
        return missing(_why(host, EXACT, below))
    return total_ratio(parts)


def _system_calls(trial: Trial, name: str) -> Measured:
    """Calls for each operation of the load itself where calls are counted, times its operations per MiB in the measured window.

    They are counted on one slice of a trial, so that only trials tell how far that varies. Where the slice has less than
    the calls that the load knows of itself, it is wrong by as much at least.
    """
    host = trial.hosts[name]
    key = ("syscalls.rate_per_s", "")
    rate = next((r.values[key] for r in host.measured_readings(EXACT) if key in r.values), None)
    if rate is None:
        return missing(_why(host, EXACT, key[0]))
    own = _own_operations_per_mib(trial, name)
    if own is None:
        return missing("no payload was moved in the measured window")
    beside = _beside_slice(host)
    operations = sum(record.operations for record in beside)
    if not operations:
        return missing(f"what {name} did while its system calls were counted is not known")
    found = rate * sum(record.span_ns for record in beside) / 1e9 / operations * own
    least = _own_calls_per_mib(trial, name)
    return Measured(max(found, least), assumptions=(_ON_SLICES,), shared_error=max(0.0, least - found))


def _own_operations_per_mib(trial: Trial, name: str) -> float | None:
    """Operations that the load of a host counted in the measured window, per MiB delivered."""
    host, receiver = trial.hosts[name], _who_got_it(trial)
    if receiver is None or not receiver.measured_bytes or not host.measured_ns:
        return None
    operations = sum(record.operations for record in host.measured)
    return operations / host.measured_ns * receiver.measured_ns / (receiver.measured_bytes / MIB)


def _own_calls_per_mib(trial: Trial, name: str) -> float:
    """The same where each takes a call of its own at least, so that there were no fewer calls; else 0."""
    host = trial.hosts[name]
    by_call = host.job.get("engine") in _CALL_BY_CALL and host.job.get("syscalls") in _ONE_A_CALL
    alone = host.one_way and by_call
    return (_own_operations_per_mib(trial, name) or 0.0) if alone else 0.0


def _lock_wait(trial: Trial, name: str) -> Measured:
    return _scaled(_exact_per_mib("lock.contended_ns", trial, name), 1 / 1024)


def _scaled(found: Measured, factor: float) -> Measured:
    if found.value is None:
        return found
    scaled = tuple(value * factor for value in found.intervals)
    return Measured(found.value * factor, scaled, note=found.note, assumptions=found.assumptions)


def _over_cpus(reading: Reading, host: HostData, metric: str) -> float:
    return float(sum(reading.values.get((metric, f"cpu={cpu}"), 0) for cpu in host.cpus))


def _fits(label: str, host: HostData, wanted: str, of_cpus: bool) -> bool:
    parts: Mapping[str, str] = dict(part.split("=", 1) for part in label.split(",") if "=" in part)
    if of_cpus and "cpu" in parts and parts["cpu"] not in {str(cpu) for cpu in host.cpus}:
        return False
    key, _, value = wanted.partition("=")
    return not wanted or parts.get(key) == value


def _why(host: HostData, sensor: str, metric: str) -> str:
    """Why a metric is not there: what its sensor says is missing, or that it was not read, or did not say."""
    if not host.readings.get(sensor):
        return host.why_missing(sensor)
    return (
        "; ".join(host.said_missing(sensor)) or f"{metric} was not seen on {host.name} in the measured window"
    )


MECHANISMS = (
    MechanismKind(
        "device_segment_bytes",
        "bytes per segment to the device",
        "B",
        "How well segmentation offload works: more bytes, fewer walks down the stack.",
        partial(_of_flows, flows.device_segment_bytes),
        "send",
    ),
    MechanismKind(
        "segments_per_ack",
        "segments per acknowledgement",
        "1",
        "Data segments sent for each acknowledgement; of loads that get no payload back.",
        partial(_of_flows, flows.segments_per_ack),
        "send",
    ),
    MechanismKind(
        "bytes_per_write",
        "bytes per write",
        "B",
        "The size of a copy into the kernel: payload over calls that moved any.",
        _bytes_per_call,
        "send",
    ),
    MechanismKind(
        "bytes_per_read",
        "bytes per read",
        "B",
        "The size of a copy out of the kernel: payload over calls that moved any.",
        _bytes_per_call,
        "receive",
    ),
    MechanismKind(
        "system_calls_per_mib",
        "system calls per MiB",
        "1/MiB",
        "All system calls of the agent: those for each of its operations, counted on a short slice of each warm-up.",
        _system_calls,
        least=_own_calls_per_mib,
    ),
    MechanismKind(
        "packets_per_poll",
        "packets per poll",
        "1",
        "Packets that a poll of a network device takes: more, fewer rounds.",
        _packets_per_poll,
    ),
    MechanismKind(
        "full_polls_ratio",
        "polls that use their budget",
        "1",
        "Share of polls that took as many packets as they may.",
        _full_polls,
    ),
    MechanismKind(
        "net_rx_runs_per_mib",
        "NET_RX runs per MiB",
        "1/MiB",
        "Runs of the soft interrupt that receives packets.",
        _softirq_runs,
    ),
    MechanismKind(
        "interrupts_per_mib",
        "interrupts per MiB",
        "1/MiB",
        "All interrupts on the host's CPUs, timer and inter-processor ones included.",
        partial(_per_mib, "interrupts", "interrupts.count"),
    ),
    MechanismKind(
        "context_switches_per_mib",
        "context switches of the machine per MiB",
        "1/MiB",
        "Of all CPUs of the machine, other hosts on it included.",
        partial(_per_mib, "context_switches", "sched.context_switches"),
    ),
    MechanismKind(
        "agent_switches_per_mib",
        "context switches of the load per MiB",
        "1/MiB",
        "Of the agent's threads, by their own will and not.",
        _own_switches,
    ),
    MechanismKind(
        "wakeups_per_mib",
        "wake-ups per MiB",
        "1/MiB",
        "Tasks woken on the host's CPUs.",
        partial(_exact_per_mib, "sched.wakeups"),
    ),
    MechanismKind(
        "lock_wait_ns_per_kib",
        "waiting for kernel locks",
        "ns/KiB",
        "Time that the load's threads waited for locks of the kernel; zero is not stored by the sensor.",
        _lock_wait,
    ),
)
"""Every mechanism, in the order of the path."""
