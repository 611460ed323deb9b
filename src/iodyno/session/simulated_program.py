"""The file program of a simulated agent: every flowop as often as its place in the program says, of known service times.

Operations are shared out by iterations and threads; data flowops move `io_bytes`, or 4 KiB where that varies. Reads take
the truth's `disk_read_ns`, all others its `disk_write_ns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from iodyno.session.simulated_disk import DiskTruth, SimulatedDisk, histogram

_READS = ("read", "readwholefile", "statfile", "listdir", "openfile")
_MOVES = ("read", "write", "appendfile", "appendfilerand", "readwholefile", "writewholefile", "aiowrite")
_RANDOM_BYTES = 4096


class SimulatedProgram(SimulatedDisk):
    """The file program of one job."""

    key = "files"

    def __init__(self, truth: DiskTruth, job: Mapping[str, Any], host: str) -> None:
        program = job["files"]
        self._flowops = list(_flowops(program))
        self._weights = [weight for *_, weight in self._flowops]
        total = sum(self._weights) or 1
        moved = sum(_bytes_of(flowop) * weight for _, _, flowop, weight in self._flowops) / total
        reads = sum(w for _, _, flowop, w in self._flowops if flowop["call"] in _READS) / total
        disk = {
            "block_bytes": max(1, round(moved)),
            "read_ratio_ppm": round(reads * 1e6),
            "workers": sum(
                p["instances"] * sum(t["instances"] for t in p["threads"]) for p in program["processes"]
            ),
            "queue_depth": 1,
            "cache": "leave",
        }
        super().__init__(truth, {**job, "disk": disk}, host)
        self._counts = [0] * len(self._flowops)
        self._elapsed_ns = sum(job["windows"][f"{name}_ns"] for name in ("warm_up", "measured", "drain"))
        self._program = program

    def classes(
        self, operations: int, times: Mapping[str, Any], bucket: Callable[[int], int]
    ) -> list[dict[str, Any]]:
        """The counts of an interval by flowop."""
        stretch = times["service_time"]["sum_ns"] / operations / self.service_ns if operations else 1.0
        found = []
        left, weight_left = operations, sum(self._weights)
        for number, (_, name, flowop, weight) in enumerate(self._flowops):
            count = round(left * weight / weight_left) if weight_left else 0
            left, weight_left = left - count, weight_left - weight
            self._counts[number] += count
            found.append(
                {
                    "name": name,
                    "bytes": count * _bytes_of(flowop),
                    "operations": count,
                    "errors": 0,
                    "service_time": histogram([(round(self._service_of(flowop) * stretch), count)], bucket),
                    "response_time": None,
                }
            )
        return found

    def account(self) -> dict[str, Any]:
        """The totals of the job."""
        flowops = [
            {
                "class": name,
                "process": path[0],
                "thread": path[1],
                "name": flowop["name"],
                "call": flowop["call"],
                "operations": count,
                "errors": 0,
                "bytes": count * _bytes_of(flowop),
                "least_ns": round(self._service_of(flowop)) if count else None,
                "greatest_ns": round(self._service_of(flowop)) if count else None,
                "total_ns": round(self._service_of(flowop) * count),
                "first_error": None,
            }
            for (path, name, flowop, _), count in zip(self._flowops, self._counts, strict=True)
        ]
        return {
            "end": "windows",
            "ended_by": None,
            "elapsed_ns": self._elapsed_ns,
            "processes": len(self._program["processes"]),
            "threads": self._in_flight,
            "threads_done": 0,
            "flowops": flowops,
            "first_error": None,
            "filesets": [],
            "notes": [],
        }

    def _service_of(self, flowop: Mapping[str, Any]) -> float:
        return self._truth.disk_read_ns if flowop["call"] in _READS else self._truth.disk_write_ns


def _bytes_of(flowop: Mapping[str, Any]) -> int:
    if flowop["call"] not in _MOVES:
        return 0
    io_bytes = flowop.get("io_bytes")
    return io_bytes if isinstance(io_bytes, int) else _RANDOM_BYTES


def _flowops(
    program: Mapping[str, Any],
) -> Iterator[tuple[tuple[str, str], str, Mapping[str, Any], int]]:
    """(process and thread, class, flowop, weight) of every flowop that is not composite."""
    names: dict[str, int] = {}

    def inner(path: tuple[str, str], flowops: list[Any], weight: int) -> Iterator[Any]:
        for flowop in flowops:
            times = flowop.get("iterations", 1)
            own = weight * (times if isinstance(times, int) else 1)
            if flowop["call"] == "composite":
                yield from inner(path, flowop["flowops"], own)
                continue
            name = flowop["name"]
            names[name] = names.get(name, 0) + 1
            yield path, name if names[name] == 1 else f"{name} {names[name]}", flowop, own

    for process in program["processes"]:
        for thread in process["threads"]:
            path = (process["name"], thread["name"])
            yield from inner(path, thread["flowops"], process["instances"] * thread["instances"])
