"""CPU time that the instrument itself takes on a host while it measures.

Three parts, all of which lie in the cost that is measured: the programs in the kernel (events x their measured time
each) with the timer's interrupts for samples, as the sensors `cpu_exact` and `block_times` say; the readings of the
sensors; and the reader of the call stacks. Where call stacks are taken without `cpu_exact`, what the kernel takes for
a sample is not known and left out. Symbols are looked up after the measured window and are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from iodyno.analysis.cpu_classes import CPU_EXACT
from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.readings import looks
from iodyno.analysis.trial import Trial

_PROGRAMS = (
    ("exact accounting", CPU_EXACT, "exact.observer_ns"),
    ("times of the block layer", "block_times", "block.observer_ns"),
)
"""Programs in the kernel, their sensors, and what they took."""


def cost_ratio(trial: Trial, name: str) -> Measured:
    """CPU time that the instrument took on a host, as a share of one CPU. Worked out once."""
    host = trial.hosts[name]
    kept: Measured | None = host.derived.get(("observer",))
    if kept is None:
        kept = host.derived["observer",] = _cost_ratio(host)
    return kept


def reading_ratio(host: HostData) -> float:
    """Share of the measured time in which the sensors of a host were being read."""
    found = looked(host)
    taken = sum(found[record.index][0] for record in host.measured if record.index in found)
    return taken / host.measured_ns if host.measured_ns else 0.0


def waiting_ratio(host: HostData) -> float:
    """Share of the measured time in which sensors were read while no CPU was free: a load has to wait only then.

    The kernel wakes the reader where there is nothing to do, if such a CPU is there: of the readings those count that fall
    into the busy time of the idlest CPU. Where no sensor says how idle CPUs were, all of them.
    """
    return reading_ratio(host) * (1 - max(_idle_ratios(host), default=0.0))


def _idle_ratios(host: HostData) -> list[float]:
    """Idle share of each CPU, by the exact classes if they are there."""
    for sensor, metrics in ((CPU_EXACT, ("exact.idle_ns",)), ("cpu_times", ("cpu.idle_ns", "cpu.iowait_ns"))):
        span_ns = sum(reading.span_ns for reading in host.measured_readings(sensor))
        labels = [label for label in host.labels(sensor, metrics[0]) if label.startswith("cpu=")]
        if span_ns and labels:
            each = (sum(host.growth(sensor, metric, label) or 0 for metric in metrics) for label in labels)
            return [min(idle_ns / span_ns, 1.0) for idle_ns in each]
    return []


def looked(host: HostData) -> Mapping[int, tuple[int, int]]:
    """Cost of the readings at the end of each record, and the least time that they are of, in nanoseconds; worked out once. It is
    the record's own time, but where the load ended by itself and was looked at later. What the load counted itself costs nothing,
    and is of the record's time.
    """
    found: dict[int, tuple[int, int]] | None = host.derived.get(("looked",))
    if found is None:
        found = host.derived["looked",] = {}
        for index, span_ns, cost_ns in chain.from_iterable(map(looks, host.readings.values())):
            cost, least = found.get(index, (0, 0))
            if cost_ns > 0 and span_ns > 0:
                least = min(least, span_ns) if least else span_ns
            found[index] = cost + cost_ns, least
    return found


def costliest_cost_ratio(trial: Trial) -> Measured:
    """The same of the host where it is largest."""
    each = [cost_ratio(trial, name) for name in trial.hosts]
    known = [(one.value, one) for one in each if one.value is not None]
    if not known:
        return missing("the trial has no records")
    return max(known, key=lambda pair: pair[0])[1]


def parts(host: HostData) -> Mapping[str, float]:
    """Share of one CPU that each part of the instrument took on a host in the measured window, without those that took nothing.
    Their sum is the value of `cost_ratio`.
    """
    each = [(taken, span_ns) for taken, span_ns in _taken(host) if span_ns]
    whole_ns = sum(span_ns for _, span_ns in each)
    names = dict.fromkeys(name for taken, _ in each for name in taken)
    found = {name: sum(taken.get(name, 0.0) for taken, _ in each) / whole_ns for name in names}
    return {name: ratio for name, ratio in found.items() if ratio}


def _taken(host: HostData) -> Iterator[tuple[dict[str, float], float]]:
    """CPU time of each part in each interval, and the time that the readings are of."""
    sampler = _profile_ratio(host)
    found = looked(host)
    for record in host.measured:
        taken = {}
        for name, sensor, metric in _PROGRAMS:
            if (reading := host.readings.get(sensor, {}).get(record.index)) is not None:
                taken[name] = float(reading.values.total(metric) or 0)
        cost_ns, least_ns = found.get(record.index, (0, 0))
        span_ns = max(record.span_ns, least_ns)
        yield {**taken, "sensors": float(cost_ns), "call stacks": sampler * span_ns}, float(span_ns)


def _cost_ratio(host: HostData) -> Measured:
    each = [(sum(taken.values()), span_ns) for taken, span_ns in _taken(host)]
    counted = ["readings of the sensors"]
    counted += ["programs in the kernel"] if any(host.labels(*one) for _, *one in _PROGRAMS) else []
    counted += ["call stacks"] if _profile_ratio(host) else []
    return total_ratio(each, note=f"of one CPU: {', '.join(counted)}")


def _profile_ratio(host: HostData) -> float:
    """CPU time of the reader of call stacks over the time that it ran."""
    profile = host.manifest.get("profile") or {}
    span = (profile.get("end_ns") or 0) - (profile.get("begin_ns") or 0)
    return float(profile.get("cost_ns") or 0) / span if span > 0 else 0.0
