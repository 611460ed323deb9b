"""Operations of file systems that are served over a network, and reads of ZFS by its cache, by what they do.

The kernel counts them for the whole machine, whoever made them; times are those of its clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iodyno.analysis.host_data import HostData
from iodyno.analysis.interval import estimate
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.core.outcome import Estimate
from iodyno.loads.disk.analysis.block_times import parts_of

_SYSTEMS: Mapping[str, tuple[str, Callable[[Mapping[str, str]], str]]] = {
    "nfs_operations": ("nfs", lambda label: f"NFS {label['mount']}"),
    "nfsd_operations": ("nfsd", lambda label: f"NFS server, version {label['version']}"),
    "ceph_requests": ("ceph", lambda label: f"Ceph {label['client']}"),
    "zfs_cache": ("zfs", lambda _: "ZFS"),
}
"""Sensor, family of its metrics, and what the file system is called by the labels."""
_UNITS = {"per_s": "1/s", "mean_ns": "ns", "server_mean_ns": "ns", "failed_per_s": "1/s"}
"""What is told of each operation: its rate, its mean time, how much of that was the server's and the way to it, failures."""
ROWS_MOST = 8
"""Operations of a file system that are told (chosen: those of a busy one; the others are handshakes)."""

Key = tuple[str, str]
"""A file system and an operation of it."""


@dataclass(frozen=True)
class FileOperations:
    """One operation of a file system on a host at a point: estimates of `_UNITS`, as far as the file system tells them."""

    host: str
    file_system: str
    operation: str
    estimates: Mapping[str, Estimate]


def measured(host: HostData) -> dict[Key, dict[str, Measured]]:
    """Return what a host says of its file systems in the measured window of a trial."""
    found: dict[Key, dict[str, Measured]] = {}
    for sensor, (family, name) in _SYSTEMS.items():
        for label in host.labels(sensor, f"{family}.operations"):
            parts = parts_of(label)
            found[name(parts), parts["operation"]] = _of_operation(host, sensor, family, label)
    return found


def _of_operation(host: HostData, sensor: str, family: str, label: str) -> dict[str, Measured]:
    readings = host.measured_readings(sensor)

    def counts(metric: str) -> list[float]:
        return [float(reading.values.get((f"{family}.{metric}", label)) or 0) for reading in readings]

    done, spans = counts("operations"), [float(reading.span_ns) for reading in readings]

    def per_s(each: Sequence[float]) -> Measured:
        return total_ratio(list(zip(each, spans, strict=True)), scale=1e9, at_once=1)

    def mean(each: Sequence[float]) -> Measured:
        if not any(each):
            return missing("the file system tells no times")
        return total_ratio(list(zip(each, done, strict=True)))

    return {
        "per_s": per_s(done),
        "mean_ns": mean(counts("operation_ns")),
        "server_mean_ns": mean(counts("server_ns")),
        "failed_per_s": per_s(counts("failed_operations")),
    }


def results(host: str, trials: Sequence[Mapping[Key, Mapping[str, Measured]]]) -> tuple[FileOperations, ...]:
    """The most frequent operations of each file system of a host over the trials of a point, those first."""
    found: dict[str, list[FileOperations]] = {}
    for system, operation in dict.fromkeys(key for trial in trials for key in trial):
        # What a trial did not do it did nought times.
        mine = [trial.get((system, operation)) or _NEVER for trial in trials]
        estimates = {
            name: estimate([one[name] for one in mine], unit, possible=(0.0, None))
            for name, unit in _UNITS.items()
        }
        found.setdefault(system, []).append(FileOperations(host, system, operation, estimates))
    return tuple(
        one
        for each in found.values()
        for one in sorted(each, key=lambda one: -(one.estimates["per_s"].estimate or 0.0))[:ROWS_MOST]
    )


_NEVER = {name: Measured(0.0) if name.endswith("per_s") else missing("none was done") for name in _UNITS}
