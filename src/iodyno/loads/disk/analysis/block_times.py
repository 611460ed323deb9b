"""Times of operations at the block device under the target, as the kernel counted them (sensor `block_times`).

The time in the queue is from when a request was made to when it was handed to the device; the service time of a device is
from there to its completion. Buckets are those of the kernel's programs, 3.1 % wide: a quantile is off by 1.6 % at most.
Sums, and so means, are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iodyno.analysis.histogram import Histogram, merge
from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.trial import Trial
from iodyno.core.warnings import Warning, WarningCode
from iodyno.loads.disk.analysis import devices

SENSOR = "block_times"
SUB_BITS = 5
"""Logarithm of the buckets an octave of the kernel's programs; a bucket is told by its middle."""
SERVICE, QUEUE = "block.service_time_ns", "block.queue_time_ns"
_ANOTHER = "another host on the same machine reads its devices"
_LEAST_BEYOND = 10
"""Values beyond a quantile, or it is just the largest one seen (chosen, as for the load's own operations)."""
_DATA = ("read", "write")
_ASSUMED = ("times are in buckets of 3.1 %",)


@dataclass(frozen=True)
class SlowOperation:
    """One operation that took longer than the sensor's bound. `ended_ns` is on the host's own axis; times are in ns."""

    device: str
    operation: str
    sector: int
    size_bytes: int
    queue_ns: int
    total_ns: int
    ended_ns: int
    index: int


def times_of(
    trial: Trial, host: HostData, metric: str = SERVICE, operations: tuple[str, ...] = _DATA
) -> dict[int, Histogram]:
    """Times of the device under the target by index of the record, all sizes together. Empty: not known."""
    device = devices.device_of(trial, host)
    by_index: dict[int, list[Histogram]] = {}
    for (name, label), found in host.sensed_times.items():
        parts = parts_of(label)
        if name != metric or f"dev={parts.get('dev')}" != device or parts.get("operation") not in operations:
            continue
        for index, histogram in found.items():
            by_index.setdefault(index, []).append(histogram)
    return {index: merge(each) for index, each in sorted(by_index.items())}


def mean(trial: Trial, name: str, metric: str = SERVICE, operations: tuple[str, ...] = _DATA) -> Measured:
    """Mean time in ns; exact."""
    host = trial.hosts.get(name)
    if host is None:
        return missing(_ANOTHER)
    found = _measured(trial, host, metric, operations)
    parts = [(float(h.sum_ns), float(h.count)) for h in found]
    return total_ratio(parts, note=_note(trial, host), nothing=_why(trial, host))


def quantile(
    trial: Trial, name: str, metric: str = SERVICE, operations: tuple[str, ...] = _DATA, *, q: float
) -> Measured:
    """The q-quantile of the time in ns."""
    host = trial.hosts.get(name)
    if host is None:
        return missing(_ANOTHER)
    batches = tuple(h for h in _measured(trial, host, metric, operations) if h.count)
    merged = host.together(batches)
    value = merged.quantile(q)
    if value is None:
        return missing(_why(trial, host))
    if (1 - q) * merged.count < _LEAST_BEYOND:
        return missing(f"only {merged.count} operations: too few for the {100 * q:g} % quantile")
    return Measured(value, batches=batches, quantile=q, note=_note(trial, host), assumptions=_ASSUMED)


def per_second(trial: Trial, name: str, metric: str) -> Measured:
    """Growth per second of a counter of the device: `block.operations`, `block.errors`, `block.slow_operations`."""
    host = trial.hosts.get(name)
    if host is None:
        return missing(_ANOTHER)
    device = devices.device_of(trial, host)
    parts = []
    for reading in host.measured_readings(SENSOR):
        of_device = [
            value
            for label, value in reading.values.of(metric).items()
            if f"dev={parts_of(label).get('dev')}" == device
        ]
        # A reading without the device is one in which it did nothing; one without any value failed.
        if reading.values and device is not None:
            parts.append((float(sum(of_device)), float(reading.span_ns)))
    return total_ratio(parts, scale=1e9, note=_note(trial, host), nothing=_why(trial, host))


def slow_operations(trial: Trial, host: HostData) -> list[SlowOperation]:
    """The slowest operations of the measured window, in the order in which they ended; a bounded number an interval."""
    found = []
    for record in host.measured:
        reading = host.readings.get(SENSOR, {}).get(record.index)
        for label, value in (reading.values.of("block.slowest_ns") if reading else {}).items():
            parts = parts_of(label)
            found.append(
                SlowOperation(
                    device=parts["dev"],
                    operation=parts["operation"],
                    sector=int(parts["sector"]),
                    size_bytes=int(parts["bytes"]),
                    queue_ns=int(parts["queue_ns"]),
                    total_ns=value,
                    ended_ns=int(parts["ended_ns"]),
                    index=record.index,
                )
            )
    return sorted(found, key=lambda one: one.ended_ns)


def lost(trial: Trial) -> Iterator[Warning]:
    """A warning where operations ended in the measured window that the histograms do not have."""
    for host in trial.hosts.values():
        count = host.growth(SENSOR, "block.left_out")
        if count:
            labels = host.labels(SENSOR, "block.operations")
            known = sum(host.growth(SENSOR, "block.operations", label) or 0 for label in labels)
            why = "the kernel did not show their begin or end, or more were in flight than there was room for"
            share = f"{count} of {count + known} operations of block devices ({100 * count / (count + known):.2g} %)"
            text = f"{share} {'is' if count == 1 else 'are'} not in the times: {why}"
            yield Warning(WarningCode.BLOCK_TIMES_LOST, text, f"{trial.name}, host {host.name}")


def parts_of(label: str) -> Mapping[str, str]:
    """The parts of a label.

    >>> parts_of("dev=sda,operation=read")
    {'dev': 'sda', 'operation': 'read'}
    """
    return dict(part.split("=", 1) for part in label.split(",") if "=" in part)


def _measured(trial: Trial, host: HostData, metric: str, operations: tuple[str, ...]) -> list[Histogram]:
    by_index = times_of(trial, host, metric, operations)
    return [by_index[record.index] for record in host.measured if record.index in by_index]


def _note(trial: Trial, host: HostData) -> str:
    device = devices.device_of(trial, host)
    return "" if device is None else f"device {device.removeprefix('dev=')}"


def _why(trial: Trial, host: HostData) -> str:
    if SENSOR not in host.readings or (host.readings[SENSOR] and not host.measured_readings(SENSOR)):
        return host.why_missing(SENSOR)
    said = {r.missing for r in host.measured_readings(SENSOR) if not r.values and r.missing}
    if said:
        return "; ".join(sorted(said))
    device = devices.device_of(trial, host)
    if device is None:
        return "no block device moved anything"
    name = device.removeprefix("dev=")
    return f"nothing of that kind ended at {name} (devices without requests of their own, such as mapped ones, have none)"
