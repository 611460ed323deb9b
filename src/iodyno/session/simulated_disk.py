"""The disk of a simulated agent: reads and writes of known service times, at most so many a second.

A closed loop of N operations in flight has X = min(disk_iops, N / S), by Little's law; the mean service time is then
N / X. Nothing here knows how the analysis counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

DEVICE = "dev=sim0"


class DiskTruth(Protocol):
    """Truth of a simulated host, as it is asked for."""

    @property
    def disk_read_ns(self) -> float:
        """Service time of a read."""

    @property
    def disk_write_ns(self) -> float:
        """Service time of a write."""

    @property
    def disk_iops(self) -> float:
        """Operations a second at most."""

    @property
    def disk_cpu_ns(self) -> float:
        """CPU time of an operation."""

    @property
    def disk_cached_ratio(self) -> float:
        """Share of the bytes read that come from the page cache."""


class SimulatedDisk:
    """The disk of one job. `key`: under which its account is in the result."""

    key = "disk"

    def __init__(self, truth: DiskTruth, job: Mapping[str, Any], host: str) -> None:
        disk = job["disk"]
        self._truth, self._job, self._disk, self._host = truth, job, disk, host
        self._block: int = disk["block_bytes"]
        self._reads: float = disk["read_ratio_ppm"] / 1e6
        self.service_ns = self._reads * truth.disk_read_ns + (1 - self._reads) * truth.disk_write_ns
        self._in_flight: int = disk["workers"] * disk["queue_depth"]
        self._iops = min(truth.disk_iops, self._in_flight / self.service_ns * 1e9)
        self._done = {"read": 0, "write": 0}

    @property
    def bytes_per_s(self) -> float:
        """Rate in a closed loop, without noise."""
        return float(self._iops * self._block)

    @property
    def cpu_ns_per_kib(self) -> float:
        """CPU of the host."""
        return self._truth.disk_cpu_ns * 1024 / self._block

    def closed(self, moved: int, bucket: Callable[[int], int]) -> tuple[int, dict[str, Any]]:
        """Operations of an interval in which that many bytes could be moved, and the times of all of them."""
        operations = moved // self._block
        stretch = self._in_flight / self._iops * 1e9 / self.service_ns
        parts = [
            (round(each * stretch), count)
            for each, count in zip(
                (self._truth.disk_read_ns, self._truth.disk_write_ns), self._split(operations), strict=True
            )
        ]
        return operations, {"service_time": histogram(parts, bucket)}

    def moved(self, operations: int) -> int:
        """Bytes of that many operations."""
        return operations * self._block

    def classes(
        self, operations: int, times: Mapping[str, Any], bucket: Callable[[int], int]
    ) -> list[dict[str, Any]]:
        """The counts of an interval by class."""
        stretch = times["service_time"]["sum_ns"] / operations / self.service_ns if operations else 1.0
        services = (self._truth.disk_read_ns * stretch, self._truth.disk_write_ns * stretch)
        found = []
        for name, service_ns, count in zip(("read", "write"), services, self._split(operations), strict=True):
            self._done[name] += count
            if count:
                found.append(
                    {
                        "name": name,
                        "bytes": count * self._block,
                        "operations": count,
                        "errors": 0,
                        "service_time": histogram([(round(service_ns), count)], bucket),
                        "response_time": times.get("response_time") if self._reads in (0, 1) else None,
                    }
                )
        return found

    def device(self, operations: int, span_ns: int) -> list[list[Any]]:
        """The reading `disks` of an interval."""
        reads, writes = self._split(operations)
        reads = round(reads * (1 - self._cached))
        busy_ns = min(
            span_ns, round(span_ns * (reads + writes) / max(1.0, self._truth.disk_iops * span_ns / 1e9))
        )
        in_flight_ns = span_ns * min(self._in_flight, reads + writes)
        of_reads_ns = round(in_flight_ns * reads / max(1, reads + writes))
        return [
            ["disk.read_operations", DEVICE, reads],
            ["disk.read_bytes", DEVICE, reads * self._block],
            ["disk.write_operations", DEVICE, writes],
            ["disk.write_bytes", DEVICE, writes * self._block],
            ["disk.busy_ns", DEVICE, busy_ns],
            ["disk.read_ns", DEVICE, of_reads_ns],
            ["disk.write_ns", DEVICE, in_flight_ns - of_reads_ns],
            ["disk.in_flight_ns", DEVICE, in_flight_ns],
        ]

    def account(self) -> dict[str, Any]:
        """The totals of the job."""
        target = self._disk["targets"][0]
        size = target["size_bytes"] or 1 << 30
        return {
            "syscalls": self._disk["syscalls"],
            "degraded": [],
            "targets": [
                {
                    "path": target["path"],
                    "kind": target["kind"],
                    "size_bytes": size,
                    "flags": ["direct"] if self._disk["direct"] else [],
                    "offset_align_bytes": 512,
                    "memory_align_bytes": 512,
                    "resident_before_bytes": round(size * self._cached),
                    "resident_after_bytes": round(size * self._cached),
                    "resident_missing": None,
                    "read_bytes": self._done["read"] * self._block,
                    "written_bytes": self._done["write"] * self._block,
                }
            ],
            **dict.fromkeys(("short_operations", "would_block", "errors", "verified_units"), 0),
            **dict.fromkeys(("verify_skipped_units", "verify_failures", "unfinished_operations"), 0),
            **dict.fromkeys(("first_error", "first_verify_failure")),
            "complete": False,
        }

    @property
    def _cached(self) -> float:
        return 1.0 if self._disk["cache"] == "warm" else self._truth.disk_cached_ratio

    def _split(self, operations: int) -> tuple[int, int]:
        reads = round(operations * self._reads)
        return reads, operations - reads


def histogram(parts: list[tuple[int, int]], bucket: Callable[[int], int]) -> dict[str, Any]:
    """(value in ns, count) as a histogram of the wire."""
    cells: dict[int, int] = {}
    for value, count in parts:
        if count:
            cells[bucket(value)] = cells.get(bucket(value), 0) + count
    ordered = sorted(cells.items())
    return {
        "count": sum(count for _, count in parts),
        "sum_ns": sum(value * count for value, count in parts),
        "buckets": [index for index, _ in ordered],
        "counts": [count for _, count in ordered],
    }
