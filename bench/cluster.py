"""What a second worker of Dask brings to heat maps of many traces, and the memory that a worker needs."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from bench.heatmap import LINES, write_trace
from bench.ratio import paired
from iodyno.cluster import Each, opened
from iodyno.session.locate import HEAT
from iodyno.session.reduce import reduce

TRACES = 50
WORKERS = (1, 2)
_LOOKS_EACH_S = 0.02


async def run(pairs: int, *, lines: int = LINES) -> list[dict[str, object]]:
    """Fifty traces of ten million lines: two workers in 1/1.7 of the time of one, each in 100 MB, its reducer included."""
    if find_spec("distributed") is None:
        print("  skipped: pip install 'iodyno[cluster]'", file=sys.stderr)
        return [{"workers": "none: Dask is not installed"}]
    return await asyncio.to_thread(_measure, pairs, lines)


def _measure(pairs: int, lines: int) -> list[dict[str, object]]:
    took: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    most = dict.fromkeys(WORKERS, 0)
    with tempfile.TemporaryDirectory(prefix="iodyno-bench-") as folder:
        traces = [Path(folder) / f"trace-{number}.txt" for number in range(TRACES)]
        # One file under many names: what differs in traces is none of the memory.
        write_trace(traces[0], lines)
        for trace in traces[1:]:
            trace.symlink_to(traces[0])
        for pair in range(pairs):
            for workers in WORKERS if pair % 2 else reversed(WORKERS):
                with opened(f"local:{workers}") as each, _watched(each) as resident:
                    began = time.monotonic()
                    reduce(list(traces), time_unit="us", value_unit="us", each=each)
                    took[workers].append(time.monotonic() - began)
                most[workers] = max(most[workers], *resident)
    return [
        {
            "work": f"heat map of {TRACES} traces of {lines:,} events",
            "workers": workers,
            "seconds": f"{statistics.median(took[workers]):.2f}",
            "million_events_per_s": f"{TRACES * lines / statistics.median(took[workers]) / 1e6:.1f}",
            "times_as_fast_as_one": "{:.2f} [{:.2f}, {:.2f}]".format(*paired(took[1], took[workers])),
            "most_resident_mb_a_worker": f"{most[workers] / 1e6:.1f}",
        }
        for workers in WORKERS
    ]


@contextmanager
def _watched(each: Each) -> Iterator[list[int]]:
    """Bytes that a worker and the reducers it started have resident, look by look, of the greatest of the workers."""
    client = each.args[0]  # type: ignore[attr-defined]
    processes = list(client.run(os.getpid).values())
    found, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(_LOOKS_EACH_S):
            found.append(max(sum(map(_resident, [pid, *_children(pid)])) for pid in processes))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def _children(process: int) -> list[int]:
    """Reducers that any thread of a process has started; before its exec, one is the same memory as the worker's."""
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = [child for task in tasks for child in (task / "children").read_text().split()]
        return [int(child) for child in children if Path(f"/proc/{child}/comm").read_text().strip() == HEAT]
    except OSError:
        return []


def _resident(process: int) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
