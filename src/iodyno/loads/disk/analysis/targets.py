"""What was done to each target of a load that has several, as its agent counted it, and how busy the device under it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iodyno.analysis.histogram import merge
from iodyno.analysis.host_data import HostData
from iodyno.analysis.interval import estimate
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.trial import Trial
from iodyno.core.outcome import Estimate
from iodyno.loads.disk.analysis import devices
from iodyno.loads.disk.analysis.classes import LEAST_BEYOND

SENSOR = "targets"
_TIMES = "target.service_time_ns"
UNITS = {
    "operations_per_s": "1/s",
    "bytes_per_s": "B/s",
    "errors_per_s": "1/s",
    "service_time_mean_ns": "ns",
    "service_time_p50_ns": "ns",
    "service_time_p99_ns": "ns",
    "device_busy_ratio": "1",
}
"""Measures of each, and their units."""
_RATES = {
    "operations_per_s": "target.operations",
    "bytes_per_s": "target.bytes",
    "errors_per_s": "target.errors",
}

Key = tuple[str, str, str]
"""Client, path of the target, and what was done: `read`, `write`, ..."""


@dataclass(frozen=True)
class TargetResult:
    """One kind of operations on one target of a client at a point: an estimate of each of `UNITS`."""

    host: str
    target: str
    operation: str
    estimates: Mapping[str, Estimate]


def measured(trial: Trial) -> dict[Key, dict[str, Measured]]:
    """Return what a trial says of the targets of each of its clients; of none that has only one."""
    return {
        (client.name, path, operation): _of_operation(trial, client, number, operation)
        for client in trial.clients.values()
        for number, path in enumerate(_paths(client))
        for operation in _operations(client, number)
    }


def results(trials: Sequence[Mapping[Key, Mapping[str, Measured]]]) -> tuple[TargetResult, ...]:
    """The same over the trials of a point."""
    keys = dict.fromkeys(key for trial in trials for key in trial)
    found = []
    for key in keys:
        mine = [trial[key] for trial in trials if key in trial]
        if any(one["operations_per_s"].value or one["errors_per_s"].value for one in mine):
            estimates = {
                name: estimate([one[name] for one in mine], unit, possible=(0.0, None))
                for name, unit in UNITS.items()
            }
            found.append(TargetResult(*key, estimates))
    return tuple(found)


def _paths(client: HostData) -> list[str]:
    account = (client.manifest.get("result") or {}).get("disk") or {}
    return [str(target["path"]) for target in account.get("targets") or ()]


def _operations(client: HostData, number: int) -> list[str]:
    labels = client.labels(SENSOR, "target.operations")
    first = f"target={number},operation="
    return [label.removeprefix(first) for label in labels if label.startswith(first)]


def _of_operation(trial: Trial, client: HostData, number: int, operation: str) -> dict[str, Measured]:
    label = f"target={number},operation={operation}"
    readings = client.measured_readings(SENSOR)
    found = {}
    for name, metric in _RATES.items():
        parts = [
            (float(reading.values.get((metric, label)) or 0), float(reading.span_ns)) for reading in readings
        ]
        found[name] = total_ratio(parts, scale=1e9)
    by_index = client.sensed_times.get((_TIMES, label), {})
    batches = tuple(
        times for record in client.measured if (times := by_index.get(record.index)) and times.count
    )
    every = merge(batches)
    found["service_time_mean_ns"] = total_ratio(
        [(float(times.sum_ns), float(times.count)) for times in batches], nothing="none was completed"
    )
    for name, q in (("p50", 0.5), ("p99", 0.99)):
        value = every.quantile(q)
        enough = value is not None and (1 - q) * every.count >= LEAST_BEYOND
        found[f"service_time_{name}_ns"] = (
            Measured(value, batches=batches, quantile=q)
            if enough
            else missing(f"only {every.count} operations")
        )
    found["device_busy_ratio"] = _busy(trial, client, number)
    return found


def _busy(trial: Trial, client: HostData, number: int) -> Measured:
    places = ((trial.manifest.get("targets") or {}).get(client.name) or {}).get("each") or []
    device = places[number].get("device") if number < len(places) else None
    if not device:
        return missing("the device under the target is not known")
    return devices.busy_ratio(trial, client.name, f"dev={device}")
