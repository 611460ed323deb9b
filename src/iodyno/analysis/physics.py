"""Laws that every trial is held against. A broken law is shown beside the numbers; it never changes or removes one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import fmean
from typing import Any

from iodyno.analysis import arrivals, blocks, calls, cpu_classes, datagrams, observer, stalls
from iodyno.analysis.cost import CostBasis
from iodyno.analysis.cpu_classes import (
    CPU_EXACT,
    CPU_TIMES,
    EXACT_SPLIT,
    SPLIT_POINTS,
    STATES,
    TICK_NS,
    Accounting,
)
from iodyno.analysis.flows import DEVICES, NO_DEVICE, data_devices, named
from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured
from iodyno.analysis.trial import Trial
from iodyno.core.outcome import OUTCOMES, Estimate
from iodyno.core.path import OWN_KERNEL
from iodyno.core.warnings import Warning, WarningCode
from iodyno.loads.script.analysis import results as script
from iodyno.loads.script.analysis.bytes import SENDS, TAKES
from iodyno.loads.script.analysis.time import worked

IDLE_POINTS = 0.05
"""Idle time by the kernel's switches and by /proc/stat agree within this (chosen: they differed by 1.3 points with a
standard deviation of 3.9 under a load in step with the tick, and by less under all others)."""
IDLE_CHANGE_NS = 2_000
"""Longest time that the idle task itself takes for each switch to or from it: going to sleep, waking up. It is idle time by the
kernel's switches, and system time for /proc/stat (measured in a guest: 4 us for each time that a CPU sleeps)."""
STEAL_VOID = 0.01
"""From here on the cost is not the host's own (chosen: as much as two careful trials of one point differ)."""
READING_LEAST = 0.005
"""Share of the time for which loads may wait for sensors before it is said (chosen: half of what is beyond a 99th percentile)."""
OBSERVER_LEAST = 0.05
"""Share of a host's busy time that the instrument may take before it is said (chosen: costs are too high by no more)."""
_COSTS = ("cpu_ns_per_kib", "cpu_ns_per_operation", "cpu_us_per_io")
SPLIT_ERROR_POINTS = 0.02
"""Standard error of a sampled line between user and system that is said (chosen: `SPLIT_POINTS`, in which ways to tell them
apart differ anyway)."""
MANY_THREADS = 16
"""From so many threads a CPU on they wait for it between two writes, too."""
LITTLE_TOLERANCE = 0.10
"""Chosen: time between writes that is not in the loop's calibrated cost, such as preemption in user code."""
LITTLE_EDGE = 0.02
"""Chosen: a fifth of the tolerance, so that what straddles both ends cannot use it up."""
IDENTITY_TOLERANCE = 0.02
"""Chosen: rounding of what is reported."""
GENERATOR_USER_LEAST = 0.30
GENERATOR_BUSY_LEAST = 0.95
RECEIVER_LEAST = 0.25
_ROUNDING = 1e-9
_BUFFER_MAX = 32 << 20
"""Bytes that a socket may hold where the kernel sizes it by itself: the most that any kernel has as third number of tcp_rmem by
default (ip-sysctl.rst: 6 MiB; 32 MiB since Linux 6.16)."""


def check_trial(
    trial: Trial, hello: Mapping[str, Mapping[str, Any]], accounting: Accounting
) -> list[Warning]:
    """Every warning that the trial's own numbers raise. `hello`: what each agent said of its host."""
    found = [*_bytes(trial), *_little(trial, hello), *_receive_side(trial, hello)]
    found += [
        *arrivals.check(trial),
        *script.check(trial),
        *blocks.check(trial),
        *calls.check(trial),
        *datagrams.check(trial),
        *stalls.check(trial),
    ]
    for host in trial.hosts.values():
        found += [
            *(_exact_split if accounting.tier == "bpf" else _split)(host, trial),
            *_sampled_split(host, trial, accounting),
            *_steal(host, trial),
            *_readings(host, trial),
            *_generator(host, trial),
        ]
    return found


def check_shares(trial: Trial, measured: Mapping[str, Measured]) -> list[Warning]:
    """Shares that were measured as less than nothing or more than the whole, by more than their clocks explain."""
    found = []
    for name, share in measured.items():
        if name in trial.metrics:
            continue
        kind = OUTCOMES[name.rpartition(".")[2]]
        least, most = kind.possible
        if share.value is None or kind.unit != "1" or most is None:
            continue
        if share.value > most + _ROUNDING or (least is not None and share.value < least - _ROUNDING):
            text = (
                f"{name} was measured as {share.value:.1%}, which no share can be: a count behind it is wrong"
            )
            found.append(Warning(WarningCode.PHYSICS, text, trial.name))
    return found


def check_cost(trial: Trial, measured: Mapping[str, Measured], basis: CostBasis) -> list[Warning]:
    """Cycles per KiB x KiB per second = busy cores x Hz, on the numbers of the trial as they are reported.

    CPU time is over the whole measured window, so the rate is taken over all of it too: that of a script is over the time in
    which it worked.
    """
    found: list[Warning] = []
    rate, receiver = measured.get("goodput_bits_per_s"), trial.end("receive")
    if rate is None or not rate.value or receiver is None or not receiver.measured_ns:
        return found
    worked_ns = sum(span_ns for _, span_ns in worked(trial, receiver, transfers=True))
    kib_per_s = rate.value / 8192 * worked_ns / receiver.measured_ns
    for name, host in trial.hosts.items() if basis.tier == "tsc" else ():
        # Of several that do the same, each may have the cost of its own bytes.
        if trial.several(host.role):
            continue
        hz, known = basis.tsc_hz.get(name), ("cycles_per_kib", "cpu_busy_ratio", "cpu_other_ratio")
        cycles, busy, other = (getattr(measured.get(f"{name}.{key}"), "value", None) for key in known)
        if not hz or not cycles or busy is None:
            continue
        other = other if basis.without_others else None
        left = cycles * kib_per_s
        right = (busy - (other or 0.0) - basis.background_of(name).value) * len(host.cpus) * hz
        if right > 0 and abs(left / right - 1) > IDENTITY_TOLERANCE:
            text = (
                f"{name}: cycles/KiB x KiB/s is {left / 1e9:.2f} G cycles/s, but busy CPUs x clock is "
                f"{right / 1e9:.2f}"
            )
            found.append(Warning(WarningCode.PHYSICS, text, trial.name))
    return found


def tick_accounting(host: str, accounting: Accounting, cpus: int, measured_ns: int) -> Warning | None:
    """A warning about the split of CPU time where the kernel samples it at the timer tick.

    Standard error of a share p sampled HZ times a second for T seconds: sqrt(p (1 - p) / (HZ T)).
    """
    if accounting.tier != "tick" or not measured_ns:
        return None
    hz = accounting.hz(host)
    error = math.sqrt(0.25 / (hz * measured_ns / 1e9 * max(1, cpus)))
    text = (
        f"usr, sys and intr of {host} are sampled at the timer tick, and time in interrupt handlers is "
        f"booked elsewhere: standard error up to {100 * error:.1f} points a trial (at {hz:g} ticks/s); "
        f"idle and cost do not suffer from it"
    )
    return Warning(WarningCode.TICK_ACCOUNTING, text, host)


def partly_exact(accounting: Accounting) -> Warning | None:
    """A warning when exact classes were there but not everywhere: some trials are left out, or all use a lower tier."""
    if not accounting.partly:
        return None
    then = (
        "those trials have no CPU numbers, and if it was their load that kept the classes away, the others are not like them"
        if accounting.tier == "bpf"
        else f"tier {accounting.tier} is used for all"
    )
    text = f"exact CPU classes are missing in part: {then}; {accounting.why}"
    return Warning(WarningCode.SENSOR_MISSING, text)


def _bytes(trial: Trial) -> Iterator[Warning]:
    sender, receiver = trial.end("send"), trial.end("receive")
    # Both ways, an end's account has what it got, and what it sent is a reading: that is compared in `calls`.
    if sender is None or receiver is None or trial.direction == "both":
        return
    for sent, received in _sent_and_received(trial, sender, receiver):
        if received > sent:
            text = f"received {received} bytes, more than the {sent} that were sent"
            yield Warning(WarningCode.PHYSICS, text, trial.name)
    devices = data_devices(trial, receiver, "net.rx_bytes")
    if not devices or _speaks(receiver, *NO_DEVICE):
        return
    # From the start of the load: what lay in receive buffers when the measured window began came in before it.
    load = [record for record in receiver.records if record.index <= receiver.measured[-1].index]
    delivered = sum(record.bytes for record in load)
    both_ways = bool(_script(receiver) or trial.response_bytes)
    # What both ends got.
    metrics = ("net.rx_bytes", "net.tx_bytes") if both_ways else ("net.rx_bytes",)
    readings = receiver.readings.get(DEVICES, {})
    found = [readings[record.index].values for record in load if record.index in readings]
    wire = sum(
        values.get((metric, device), 0) for values in found for metric in metrics for device in devices
    )
    ready = receiver.manifest.get("ready") or {}
    buffer = (ready.get("socket") or {}).get("receive_buffer_bytes") or _BUFFER_MAX
    # The device and the load are read one after the other: what one buffer holds may come between the two.
    held = buffer * int(ready.get("connections") or 0) + 0.01 * delivered
    if wire + held < delivered:
        name = named(devices)
        way = "carried" if both_ways else "received"
        text = f"{name} {way} {wire} bytes, fewer than the {delivered} delivered"
        yield Warning(WarningCode.PHYSICS, text, trial.name)


def _sent_and_received(trial: Trial, sender: HostData, receiver: HostData) -> Iterator[tuple[int, int]]:
    """Bytes that one end sent, and the other got of them, for each way that is known."""
    if _script(receiver):
        # A path may carry a datagram twice, and whoever reads cannot tell.
        if _speaks(receiver, "udp"):
            return
        # The account of an end is of both ways: what its calls sent and took is told by them.
        roles = ("send", "receive")
        for one, other in (roles, roles[::-1]):
            yield script.moved(trial, one, SENDS), script.moved(trial, other, TAKES)
        return
    if sender.job.get("transport") == "udp" and not sender.one_way:
        # The end that asks counts the requests that were answered; those whose answer was lost came all the same.
        return
    sent, received = ((end.manifest.get("result") or {}).get("bytes") for end in (sender, receiver))
    if sent is not None and received is not None:
        yield sent, received


def _script(host: HostData) -> Mapping[str, Any]:
    """The script that the host followed, in which either end may write; empty: it followed none."""
    return host.job.get("script") or {}


def _speaks(host: HostData, *protocols: str) -> bool:
    """Tell whether a script has connections of these protocols."""
    return any(
        operation.get("protocol") in protocols
        for group in _script(host).get("groups", ())
        for transaction in group["transactions"]
        for operation in transaction["operations"]
    )


def _little(trial: Trial, hello: Mapping[str, Mapping[str, Any]]) -> Iterator[Warning]:
    """N = X (R + Z): with blocking threads every connection always is in a write, or between two of them."""
    sender = trial.end("send")
    lost = sender and any(record.connections_lost for record in sender.measured)
    if (
        sender is None
        or lost
        or trial.settings.get("engine") != "threads"
        # What another way to make the calls hands over together has the time of all.
        or trial.settings.get("client_engine", "threads") != "threads"
        or not isinstance(trial.settings.get("connections"), int)
        # Messages of one call have its time each, and requests that were lost have none.
        or trial.settings.get("syscalls") in ("batch", "segments")
        or sender.batches
        or sender.growth("datagram", "datagram.lost")
    ):
        return
    connections = trial.connections * int(trial.settings.get("queue_depth", 1))
    times = sender.all_times()
    if not times.count or not sender.measured_ns:
        return
    # A write that straddles an end of the window counts whole or not at all, and one that lasts longer is not
    # seen. Where the time is spent in writes that are not short against the window, the law cannot be tested.
    if times.time_biased_mean > LITTLE_EDGE * sender.measured_ns:
        return
    clock = (hello.get(sender.name) or {}).get("clock") or {}
    job = sender.job
    application_ns = int(job.get("compute_ns") or 0) + int(job.get("think_ns") or 0)
    between_ns = 2 * float(clock.get("read_cost_ns") or 0.0) + application_ns
    in_system = (times.sum_ns + between_ns * times.count) / sender.measured_ns
    ratio = in_system / connections
    # In an open loop connections wait for arrivals, many threads for a CPU between two writes, and those of an
    # application that computes, pauses or locks for more than it was told: then the law holds only as a
    # bound, N >= X R.
    wait = (
        connections > MANY_THREADS * len(sender.cpus)
        or application_ns > 0
        or bool(job.get("serialised"))
        or bool(job.get("arrivals"))
    )
    if ratio > 1 + LITTLE_TOLERANCE or (ratio < 1 - LITTLE_TOLERANCE and not wait):
        text = (
            f"Little's law: {in_system:.1f} writes in progress on average, {connections} connections "
            f"({ratio:.0%}); time between writes is not service time"
        )
        yield Warning(WarningCode.PHYSICS, text, trial.name)


def _split(host: HostData, trial: Trial) -> Iterator[Warning]:
    readings = host.measured_readings(CPU_TIMES)
    worst, cpu_of_worst = 0.0, None
    for cpu in host.cpus:
        keys = [(f"cpu.{state}_ns", f"cpu={cpu}") for state in STATES]
        whole = sum(r.span_ns for r in readings if all(key in r.values for key in keys))
        spent = sum(
            sum(r.values[key] for key in keys) for r in readings if all(key in r.values for key in keys)
        )
        off = spent / whole - 1 if whole else 0.0
        # A short window is off by a tick at each end at least.
        if abs(off) > max(SPLIT_POINTS, 2 * TICK_NS / whole if whole else 0.0) and abs(off) > abs(worst):
            worst, cpu_of_worst = off, cpu
    if cpu_of_worst is not None:
        text = f"{host.name}: states of CPU {cpu_of_worst} sum to {1 + worst:.1%}: the split is unreliable"
        yield Warning(WarningCode.SPLIT_UNRELIABLE, text, trial.name)


def _exact_split(host: HostData, trial: Trial) -> Iterator[Warning]:
    """Classes that were timed at every switch sum to wall time, and have as much idle time as /proc/stat."""
    timed = tuple(cpu_classes.EXACT.values())
    found = [
        (reading.span_ns, cpu_classes.by_cpu(reading, (*timed, "exact.softirq_ns"), *timed))
        for reading in host.measured_readings(CPU_EXACT)
        if reading.span_ns > 0
    ]
    for cpu in host.cpus:
        whole = sum(span for span, by_cpu in found if cpu in by_cpu)
        if not whole:
            continue
        off = sum(by_cpu.get(cpu, 0) for _, by_cpu in found) / whole - 1
        if abs(off) > EXACT_SPLIT:
            text = f"{host.name}: exact classes of CPU {cpu} sum to {1 + off:.2%}: the split is unreliable"
            yield Warning(WarningCode.SPLIT_UNRELIABLE, text, trial.name)
    exact = cpu_classes.spent(host, "bpf")
    ticks = {one.index: one for one in cpu_classes.spent(host, "tick")}
    both = [(one, ticks[one.index]) for one in exact if one.index in ticks]
    wall = sum(one.whole_ns for one, _ in both)
    if not wall:
        return
    idle = sum(one.classes["idle"] for one, _ in both) / wall
    said = sum(other.classes["idle"] for _, other in both) / wall
    switches = _switches(host)
    if switches is None:
        return
    allowed = IDLE_POINTS + (2e7 * len(host.cpus) + IDLE_CHANGE_NS * switches) / wall
    if abs(idle - said) > allowed:
        text = (
            f"{host.name}: the CPUs were idle for {idle:.1%} of the time by the kernel's switches, and for "
            f"{said:.1%} by /proc/stat"
        )
        yield Warning(WarningCode.PHYSICS, text, trial.name)


def _switches(host: HostData) -> float | None:
    """Context switches in the measured window; with few sensors two for each wake-up of its CPUs; None: not known."""
    counted = host.growth("context_switches", "sched.context_switches")
    if counted is not None:
        return counted
    labels = [f"cpu={cpu}" for cpu in host.cpus]
    readings = host.measured_readings(CPU_EXACT)
    woken = [r.span_ns / 1e9 * (r.values.total("sched.wakeups_per_s", labels) or 0) for r in readings]
    return 2 * sum(woken) if any(woken) else None


def _sampled_split(host: HostData, trial: Trial, accounting: Accounting) -> Iterator[Warning]:
    """The line between user and system of the load rests on samples that are too few."""
    if accounting.tier != "bpf":
        return
    user = cpu_classes.ratio(trial, host.name, accounting, "usr")
    if user.sampling_error > SPLIT_ERROR_POINTS:
        text = (
            f"{host.name}: usr and sys of the load are told apart by few samples: standard error "
            f"{100 * user.sampling_error:.1f} points of its CPUs; their sum is exact"
        )
        yield Warning(WarningCode.SPLIT_SAMPLED, text, trial.name)


def _steal(host: HostData, trial: Trial) -> Iterator[Warning]:
    ratio = cpu_classes.steal_ratio(trial, host.name).value
    if ratio is not None and ratio > STEAL_VOID:
        text = f"{host.name}: steal time is {ratio:.1%} of its CPUs: its cost is unreliable"
        yield Warning(WarningCode.COST_VOID, text, trial.name)


def generator_warnings(trial: Trial) -> list[Warning]:
    """Why the rate of a trial may be that of the load generator."""
    return [warning for host in trial.hosts.values() for warning in _generator(host, trial)]


def observer_cost(
    name: str,
    where: str,
    taken: Sequence[Mapping[str, float]],
    busy_cpus: Sequence[float],
    outcomes: Mapping[str, Estimate],
) -> Iterator[Warning]:
    """Warn where the instrument's own time changes the cost of a host at a point by more than its interval: where little else was
    done. `taken`: what its parts took, of a CPU, and `busy_cpus`: the CPUs that were busy, of each trial.
    """
    parts = {part: fmean(each.get(part, 0.0) for each in taken) for part in dict.fromkeys(chain(*taken))}
    busy = fmean(busy_cpus) if busy_cpus else 0.0
    share = sum(parts.values()) / busy if busy else 0.0
    costs = [outcomes[key] for each in _COSTS if (key := f"{name}.{each}") in outcomes]
    halves = [
        (one.high - one.low) / 2 / one.estimate
        for one in costs
        if one.estimate and one.low is not None and one.high is not None
    ]
    if share > max(OBSERVER_LEAST, min(halves, default=0.0)):
        listed = ", ".join(f"{part} {100 * ratio:.2g} %" for part, ratio in parts.items())
        text = f"{name}: {min(share, 1):.0%} of its cost is the instrument's own (of one CPU: {listed})"
        yield Warning(WarningCode.OBSERVER_COST, text, where)


def _readings(host: HostData, trial: Trial) -> Iterator[Warning]:
    """Operations wait while the sensors are read: what lies beyond a high percentile may be those that did.

    Not of the writes of a closed stream: they mostly wait for room in buffers.
    """
    share = observer.waiting_ratio(host)
    asked = "response_size" in trial.settings or host.role == "alone" or arrivals.is_open(trial)
    if asked and share > READING_LEAST:
        # Of a trial that lasts less than a reading, there is more waiting than trial.
        affected = f"percentiles beyond p{100 * (1 - share):.3g}" if share < 1 else "all percentiles"
        text = (
            f"{host.name}: sensors were read for {min(share, 1):.1%} of the time while no CPU was free, and operations waited"
            f" for that: {affected} are of the instrument, too; try longer intervals, or fewer sensors"
        )
        yield Warning(WarningCode.READINGS_IN_TIMES, text, trial.name)


def _generator(host: HostData, trial: Trial) -> Iterator[Warning]:
    """The generator is the limit when its busiest worker has no time left and spends it in its own code."""
    # Of an open loop it is known how late it was; it looks at the clock where there is nothing to do.
    if host.role != "send" or not host.measured_ns or arrivals.is_open(trial):
        return
    busiest = host.growth("threads", "thread.busiest_run_ns", "worker=busiest") or 0
    user = host.growth("process", "process.user_ns")
    all_of_it = host.growth("process", "process.cpu_ns")
    if user is None or not all_of_it:
        return
    busy, own = busiest / host.measured_ns, user / all_of_it
    if busy > GENERATOR_BUSY_LEAST and own > GENERATOR_USER_LEAST:
        text = (
            f"{host.name}: the busiest worker ran {busy:.0%} of the time, and the generator's own code took "
            f"{own:.0%} of its CPU: the rate may be the generator's"
        )
        yield Warning(WarningCode.GENERATOR_LIMITED, text, trial.name)


def receive_shares(trial: Trial) -> dict[int, float]:
    """Return the share of each CPU in the packets that the receiver's machine took from its devices. Empty: not known."""
    receiver = trial.end("receive")
    if receiver is None:
        return {}
    for sensor, metric in (("softnet", "softnet.processed"), ("softirqs", "softirqs.count")):
        counts = {
            int(label.removeprefix("cpu=").partition(",")[0]): receiver.growth(sensor, metric, label) or 0
            for label in receiver.labels(sensor, metric)
        }
        total = sum(counts.values())
        if total:
            return {cpu: count / total for cpu, count in sorted(counts.items())}
    return {}


def _receive_side(trial: Trial, hello: Mapping[str, Mapping[str, Any]]) -> Iterator[Warning]:
    """Two hosts on one machine with CPUs of their own: receiving must run on the receiver's.

    Packets are told by CPU and not by direction, so it is said of streams one way only: where answers come back, the
    sender takes packets of its own.
    """
    sender, receiver = trial.end("send"), trial.end("receive")
    if sender is None or not sender.one_way or sender.job.get("direction", "forward") != "forward":
        return
    if receiver is None or set(sender.cpus) & set(receiver.cpus):
        return
    # Other transports have no packets.
    if (
        sender.job.get("transport", "tcp") not in ("tcp", "tls", "udp")
        or trial.settings.get("path") in OWN_KERNEL
    ):
        return
    boots = [((hello.get(end.name) or {}).get("host") or {}).get("boot_id") for end in (sender, receiver)]
    shares = receive_shares(trial)
    if boots[0] is None or boots[0] != boots[1] or not shares:
        return
    here = sum(shares.get(cpu, 0.0) for cpu in receiver.cpus)
    there = sum(shares.get(cpu, 0.0) for cpu in sender.cpus)
    if here + there and here / (here + there) < RECEIVER_LEAST:
        text = (
            f"CPUs of {receiver.name} took only {here / (here + there):.0%} of the received packets: "
            f"{sender.name} is charged with receive processing"
        )
        yield Warning(WarningCode.RECEIVE_ON_SENDER, text, trial.name)
