"""Storage load against fio: operations a CPU second, streams, the loop itself, and rates that are held."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.ratio import middle
from bench.storage_agent import Done, by_agent, by_fio
from iodyno.analysis.histogram import Histogram, merge

Rows = list[dict[str, object]]

_SECONDS = 1.0
"""chosen: of each side of a pair; short, so that a pair sees one and the same machine."""
_SIZE_BYTES = 256 << 20
_RING = {"syscalls": "io_uring", "queue_depth": 32}
_FIO_RING = {"ioengine": "io_uring", "iodepth": 32, "iodepth_batch": 16, "fixedbufs": 1, "registerfiles": 1}
_AIO = {"syscalls": "aio", "queue_depth": 32}
_FIO_AIO = {"ioengine": "libaio", "iodepth": 32, "iodepth_batch": 16}

CELLS: tuple[tuple[str, Mapping[str, Any], Mapping[str, object]], ...] = (
    ("4 KiB random, cached, pread", {"syscalls": "pread"}, {"ioengine": "psync"}),
    (
        "4 KiB random, cached, io_uring 1",
        _RING | {"queue_depth": 1},
        _FIO_RING | {"iodepth": 1, "iodepth_batch": 1},
    ),
    ("4 KiB random, cached, io_uring 32", _RING, _FIO_RING),
    ("4 KiB random, cached, aio 32", _AIO, _FIO_AIO),
    (
        "4 KiB random, direct, pread",
        {"syscalls": "pread", "direct": True},
        {"ioengine": "psync", "direct": 1},
    ),
    ("4 KiB random, direct, io_uring 32", _RING | {"direct": True, "batch": 8}, _FIO_RING | {"direct": 1}),
    (
        "1 MiB stream, cached, pread",
        {"syscalls": "pread", "pattern": "sequential", "block_bytes": 1 << 20},
        {"ioengine": "psync", "rw": "read", "bs": "1m"},
    ),
    (
        "1 MiB stream, direct, io_uring 4",
        _RING | {"queue_depth": 4, "pattern": "sequential", "block_bytes": 1 << 20, "direct": True},
        _FIO_RING | {"iodepth": 4, "iodepth_batch": 1, "rw": "read", "bs": "1m", "direct": 1},
    ),
)
"""What is read, by the agent and by fio in its fastest form: batches, registered buffers and files."""
RATES = (1_000, 4_000, 20_000)


async def run(pairs: int) -> Rows:
    """Rates and CPU time beside fio: operations (MB) a second, and per CPU second; 1.0 and more is as good or better."""
    if shutil.which("fio") is None:
        raise SystemExit("fio is not there: apt-get install fio")
    rows: Rows = []
    with on_a_disk() as path, _apart_from_interrupts():
        for name, ours, theirs in CELLS:
            rows.append(_cell(name, path, ours, theirs, pairs))
        rows.append(_null(pairs))
    return rows


async def rates(pairs: int) -> Rows:
    """Rates held with fio beside: achieved over asked, own CPU time of an operation and how it varies."""
    if shutil.which("fio") is None:
        raise SystemExit("fio is not there: apt-get install fio")
    rows: Rows = []
    with _apart_from_interrupts():
        for rate in RATES:
            for law in ("constant", "poisson"):
                rows.append(_held(rate, law, pairs))
    return rows


def _held(rate: int, law: str, pairs: int) -> dict[str, object]:
    ours: list[Done] = []
    theirs: list[Done] = []
    for _ in range(pairs):
        arrivals = {
            "law": {"law": law},
            "operations": rate,
            "period_ns": 10**9,
            "seed": len(ours) + 1,
        }
        ours.append(by_agent({"targets": [{"kind": "null"}], "block_bytes": 4096}, 2.0, arrivals))
        process = "linear" if law == "constant" else "poisson"
        null = {"ioengine": "null", "rw": "randread", "bs": "4k", "size": "1g"}
        theirs.append(by_fio({**null, "rate_iops": rate, "rate_process": process}, 2.0))
    late = merge(_histogram(done.lateness) for done in ours if done.lateness)
    return {
        "asked_per_s": rate,
        "arrivals": law,
        "begun_over_due": round(statistics.median(each.begun / max(1, each.due) for each in ours), 5),
        "per_s": round(statistics.median(each.per_s for each in ours), 1),
        "fio_per_s": round(statistics.median(each.per_s for each in theirs), 1),
        "cpu_us": _spread([each.cpu_us_per_operation for each in ours]),
        "fio_cpu_us": _spread([each.cpu_us_per_operation for each in theirs]),
        "late_p50_us": round((late.quantile(0.5) or 0.0) / 1e3, 1),
        "late_p99_us": round((late.quantile(0.99) or 0.0) / 1e3, 1),
    }


def _cell(
    name: str, path: Path, ours: Mapping[str, Any], theirs: Mapping[str, object], pairs: int
) -> dict[str, object]:
    disk = {
        "targets": [{"path": str(path), "kind": "file"}],
        "pattern": "random",
        "block_bytes": 4096,
        **ours,
    }
    options = {"filename": path, "rw": "randread", "bs": "4k", "size": _SIZE_BYTES, **theirs}
    if not ours.get("direct"):
        disk["cache"] = "warm"
    return _row(name, *_pairs(disk, options, pairs))


def _null(pairs: int) -> dict[str, object]:
    disk = {"targets": [{"kind": "null"}], "pattern": "random", "block_bytes": 4096}
    options = {"ioengine": "null", "rw": "randread", "bs": "4k", "size": "1g"}
    return _row("the loop alone (null)", *_pairs(disk, options, pairs))


def _pairs(
    disk: Mapping[str, Any], options: Mapping[str, object], pairs: int
) -> tuple[list[Done], list[Done]]:
    ours: list[Done] = []
    theirs: list[Done] = []
    for number in range(pairs):
        # In turn first, so that neither always finds the machine as the other left it.
        if number % 2:
            theirs.append(by_fio(options, _SECONDS))
            ours.append(by_agent(disk, _SECONDS))
        else:
            ours.append(by_agent(disk, _SECONDS))
            theirs.append(by_fio(options, _SECONDS))
    return ours, theirs


def _row(name: str, ours: list[Done], theirs: list[Done]) -> dict[str, object]:
    rate = middle([each.per_s for each in ours], [each.per_s for each in theirs])
    core = middle(
        [1 / each.cpu_us_per_operation for each in ours], [1 / each.cpu_us_per_operation for each in theirs]
    )
    return {
        "cell": name,
        "k_per_s": round(statistics.median(each.per_s for each in ours) / 1e3, 1),
        "fio_k_per_s": round(statistics.median(each.per_s for each in theirs) / 1e3, 1),
        "rate_ratio": f"{rate[0]:.2f} ({rate[1]:.2f} to {rate[2]:.2f})",
        "cpu_us": round(statistics.median(each.cpu_us_per_operation for each in ours), 3),
        "fio_cpu_us": round(statistics.median(each.cpu_us_per_operation for each in theirs), 3),
        "per_core_ratio": f"{core[0]:.2f} ({core[1]:.2f} to {core[2]:.2f})",
    }


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _histogram(stored: Mapping[str, Any]) -> Histogram:
    return Histogram(
        count=stored["count"],
        sum_ns=stored["sum_ns"],
        buckets=tuple(stored["buckets"]),
        counts=tuple(stored["counts"]),
    )


@contextmanager
def on_a_disk() -> Iterator[Path]:
    """A file of random bytes on a disk (tmpfs has nothing to read from)."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        path = Path(folder) / "target"
        with path.open("wb") as file:
            for _ in range(_SIZE_BYTES >> 20):
                file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
        yield path


@contextmanager
def _apart_from_interrupts() -> Iterator[None]:
    """Keeps both sides on the one CPU that devices interrupt least. What an interrupt takes is charged to whom it stops:
    the same stream takes twice the CPU time on the interrupted CPU, and each run would land anywhere.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed, key=_interrupts().__getitem__)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _interrupts() -> list[int]:
    """Interrupts of devices that each CPU has taken since the machine began, by its number."""
    head, *lines = Path("/proc/interrupts").read_text(encoding="ascii").splitlines()
    cpus = [int(word.removeprefix("CPU")) for word in head.split()]
    counts = [0] * (max(cpus) + 1)
    for name, *words in map(str.split, lines):
        if name.removesuffix(":").isdigit():
            for cpu, count in zip(cpus, words, strict=False):
                counts[cpu] += int(count)
    return counts
