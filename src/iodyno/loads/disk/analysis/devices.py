"""Counts by the block layer of the device under the target, on a client or on the host that serves.

The device is the target itself, or the one that its file lies on, as the lab found it (`targets` of the manifest); where targets
lie on several, the one that was busy longest, which the others wait for.
Where it is not known, on another machine or behind a file system without a device, it is the one that moved most.
"""

from __future__ import annotations

from collections.abc import Sequence

from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing, share, total_ratio
from iodyno.analysis.trial import Trial
from iodyno.loads.disk.core.parameters import NULL_TARGET

SENSOR = "disks"
IN_FLIGHT = ("disk.read_ns", "disk.write_ns")
"""Time of all reads and writes. Not `disk.in_flight_ns`, which has a flush twice: as the write that the request which asks for it
is counted as (blk_account_io_done of the kernel's block/blk-mq.c), and as what the device carries out
(blk_account_io_flush of block/blk-flush.c; both are in field 11 of Documentation/admin-guide/iostats.rst)."""
_TICK_NS = 11e6
"""Error that its clock may give busy time: a tick of at most 10 ms (CONFIG_HZ from 100 on), and the file's whole millisecond."""

_FEW = 0.1
"""Operations in flight on average, so few that the time of two at once is a twentieth of all at most (chosen)."""


def device_of(trial: Trial, host: HostData) -> str | None:
    """The label of the device, such as `dev=sda`; None: no device moved anything, or the load uses none."""
    if _uses_none(trial):
        return None
    target = (trial.manifest.get("targets") or {}).get(host.name) or {}
    several = dict.fromkeys(f"dev={one['device']}" for one in target.get("each") or () if one.get("device"))
    if several:
        return max(several, key=lambda label: host.growth(SENSOR, "disk.busy_ns", label) or 0)
    if target.get("device"):
        return f"dev={target['device']}"
    if target.get("in_memory"):
        return None
    moved = {
        label: (host.growth(SENSOR, "disk.read_bytes", label) or 0)
        + (host.growth(SENSOR, "disk.write_bytes", label) or 0)
        for label in host.labels(SENSOR, "disk.read_bytes")
    }
    busiest = max(moved, key=lambda label: moved[label], default=None)
    return busiest if busiest is not None and moved[busiest] else None


def _uses_none(trial: Trial) -> bool:
    return trial.settings.get("target") == NULL_TARGET


def per_second(trial: Trial, name: str, metric: str) -> Measured:
    """Return the bytes that the device moved per second: `disk.read_bytes`, `disk.write_bytes`."""
    return _of_device(trial, name, (metric,), 1e9)


def busy_ratio(trial: Trial, name: str, device: str | None = None) -> Measured:
    """Share of the time with an operation in flight: utilisation, which of a device with many queues is no limit. `device`: its
    label, where it is not the one under the (first) target.

    Operations that are over within a tick of the kernel's clock may count for nothing there (`update_io_ticks` of
    block/blk-core.c). Where few are in flight they hardly overlap: then it is the time of all of them.
    """
    found = _of_device(trial, name, ("disk.busy_ns",), 1.0, device)
    times = _of_device(trial, name, IN_FLIGHT, 1.0, device)
    if times.value is not None and (found.value or 0.0) < times.value < _FEW:
        found = times
    host = trial.hosts.get(name)
    span_ns = sum(reading.span_ns for reading in host.measured_readings(SENSOR)) if host else 0
    return share(found, _TICK_NS / span_ns) if span_ns else found


def depth(trial: Trial, name: str) -> Measured:
    """Reads and writes in flight on average, a flush as one write: the time of all of them over the time (Little's law)."""
    return _of_device(trial, name, IN_FLIGHT, 1.0)


def operations_per_s(trial: Trial, name: str) -> Measured:
    """Reads and writes per second that the device completed, after merging."""
    host = trial.hosts.get(name)
    label = None if host is None else device_of(trial, host)
    if host is None or label is None:
        return _of_device(trial, name, ("disk.read_operations",), 1e9)
    keys = [(metric, label) for metric in ("disk.read_operations", "disk.write_operations")]
    parts = [
        (sum(reading.values[key] for key in keys), reading.span_ns)
        for reading in host.measured_readings(SENSOR)
        if all(key in reading.values for key in keys)
    ]
    return total_ratio(
        parts, scale=1e9, note=f"device {label.removeprefix('dev=')}", nothing=host.why_missing(SENSOR)
    )


def merged_ratio(trial: Trial, name: str) -> Measured:
    """Of the reads and writes that came to the device's queue, the share that became part of one that waited there."""
    host = trial.hosts.get(name)
    label = None if host is None else device_of(trial, host)
    if host is None or label is None:
        return _of_device(trial, name, ("disk.reads_merged",), 1.0)
    parts = []
    for reading in host.measured_readings(SENSOR):
        merged, done = (
            [reading.values.get((metric, label)) for metric in metrics]
            for metrics in (
                ("disk.reads_merged", "disk.writes_merged"),
                ("disk.read_operations", "disk.write_operations"),
            )
        )
        if None not in (*merged, *done):
            joined = float(sum(value or 0 for value in merged))
            parts.append((joined, joined + sum(value or 0 for value in done)))
    return total_ratio(parts, note=f"device {label.removeprefix('dev=')}", nothing=host.why_missing(SENSOR))


def _of_device(
    trial: Trial, name: str, metrics: Sequence[str], scale: float, device: str | None = None
) -> Measured:
    """`scale` times the growth of the metrics together over the time, of the device under the target of a host or of another."""
    host = trial.hosts.get(name)
    if host is None:
        return missing("another host on the same machine reads its devices")
    label = device or device_of(trial, host)
    if label is None and _uses_none(trial):
        return missing("the target null uses no device")
    if label is None:
        known = host.readings.get(SENSOR)
        return missing("no block device moved anything" if known else host.why_missing(SENSOR))
    parts = [
        (float(sum(reading.values[metric, label] for metric in metrics)), float(reading.span_ns))
        for reading in host.measured_readings(SENSOR)
        if all((metric, label) in reading.values for metric in metrics)
    ]
    return total_ratio(
        parts, scale=scale, note=f"device {label.removeprefix('dev=')}", nothing=host.why_missing(SENSOR)
    )
