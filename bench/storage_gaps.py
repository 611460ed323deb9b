"""Times between operations at a rate that is held, as the kernel saw them: an account beside the agent's own."""

from __future__ import annotations

import math
import re
import statistics
import subprocess
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from bench.storage import on_a_disk
from bench.storage_agent import Done, by_agent, by_fio
from bench.tracer import bpftrace
from iodyno.session.locate import program_path

Rows = list[dict[str, object]]

RATES = (1_000, 4_000)
_SECONDS = 4.0
_LONGEST_S = 8.0
"""Of the trace: the load, its begin and its end."""
_DEPTH = 32
"""Room for arrivals that come while others are in flight (chosen: so many as good as never are): a thread that waits for each
operation begins none sooner than the last one has ended, so that its gaps are not those that were asked for.
"""


_READS = "tracepoint:syscalls:sys_enter_pread64 /args->count == 4096/ { @began[pid, nsecs] = 1; }"
_READ = re.compile(r"@began\[(\d+), (\d+)\]")


async def run(pairs: int) -> Rows:
    """Gaps between reads at an asked rate, beside fio's: coefficient of variation (Poisson: 1), and how far their
    distribution is from the asked one (Kolmogorov and Smirnov). From the page cache, where a read takes 2 us, by bpftrace
    at the system call; from the disk, by `trace block`.
    """
    rows: Rows = []
    with on_a_disk() as path:
        for place, begins in (("page cache", _calls), ("disk", _requests)):
            for rate in RATES:
                for law in ("constant", "poisson"):
                    for who in ("agent", "fio"):
                        gaps = [_gaps(begins(path, rate, law, who, number)) for number in range(pairs)]
                        rows += [{"from": place, **_row(each, rate, law, who)} for each in gaps]
    return rows


def _row(gaps_us: list[float], rate: int, law: str, who: str) -> dict[str, object]:
    mean = statistics.fmean(gaps_us)
    return {
        "asked_per_s": rate,
        "arrivals": law,
        "by": who,
        "gaps": len(gaps_us),
        "per_s": round(1e6 / mean, 1),
        "gap_cv": round(statistics.pstdev(gaps_us) / mean, 3),
        "ks_distance": round(_distance(gaps_us, rate), 4) if law == "poisson" else "",
        "ks_5_percent": round(1.358 / math.sqrt(len(gaps_us)), 4) if law == "poisson" else "",
        # One thread begins nothing while a call of it is in flight: of the gaps that were asked for, this share is shorter
        # than any that came, and the distance is no less.
        "shortest_us": round(min(gaps_us), 1),
        "ks_of_the_shortest": round(1 - math.exp(-min(gaps_us) * rate / 1e6), 4) if law == "poisson" else "",
    }


def _gaps(begins_us: list[float]) -> list[float]:
    """Times between operations. What begins and ends the load is no part of the rate."""
    first, last = min(begins_us), max(begins_us)
    return [
        after - before for before, after in pairwise(sorted(begins_us)) if first + 5e5 <= before <= last - 2e5
    ]


def _calls(path: Path, rate: int, law: str, who: str, number: int) -> list[float]:
    """When reads from the page cache were called for, in microseconds."""
    with bpftrace(_READS) as said:
        done = _load(
            path, rate, law, who, number, {"syscalls": "pread"}, {"ioengine": "psync", "invalidate": 0}
        )
    found = [match for line in said if (match := _READ.match(line))]
    return _enough([int(match[2]) / 1e3 for match in found if int(match[1]) == done.pid], rate)


def _requests(path: Path, rate: int, law: str, who: str, number: int) -> list[float]:
    """When the block layer was asked for direct reads, in microseconds."""
    tracer = subprocess.Popen(
        [str(program_path()), "trace-block", "--seconds", str(_LONGEST_S)],
        # An agent ends when its input does.
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        time.sleep(0.5)
        ours = {"syscalls": "io_uring", "queue_depth": _DEPTH, "direct": True}
        theirs = {"ioengine": "io_uring", "iodepth": _DEPTH, "direct": 1}
        done = _load(path, rate, law, who, number, ours, theirs)
        text = tracer.stdout.read() if tracer.stdout else ""
    finally:
        tracer.kill()
        tracer.wait()
    return _enough(_begins(text, done.pid), rate)


def _load(
    path: Path,
    rate: int,
    law: str,
    who: str,
    number: int,
    ours: Mapping[str, object],
    theirs: Mapping[str, object],
) -> Done:
    if who == "agent":
        disk = {"targets": [{"path": str(path), "kind": "file"}], "pattern": "random", "block_bytes": 4096}
        arrivals = {"law": {"law": law}, "operations": rate, "period_ns": 10**9, "seed": number + 1}
        return by_agent({**disk, **ours}, _SECONDS, arrivals)
    process = "linear" if law == "constant" else "poisson"
    held = {"rate_iops": rate, "rate_process": process, "randseed": number + 1}
    return by_fio({"filename": path, "rw": "randread", "bs": "4k", **theirs, **held}, _SECONDS)


def _enough(begins_us: list[float], rate: int) -> list[float]:
    """Raises RuntimeError where hardly anything was traced."""
    if len(begins_us) < rate:
        raise RuntimeError(f"{len(begins_us)} operations were traced; run it as root, on a disk")
    return begins_us


def _begins(text: str, pid: int) -> list[float]:
    """When the operations of a process were queued, in microseconds."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    head = [name.partition("(")[0] for name in lines[0]]
    began, owner = head.index("STIME"), head.index("PID")
    return [float(line[began]) for line in lines[1:] if len(line) > owner and line[owner] == str(pid)]


def _distance(gaps_us: list[float], rate: int) -> float:
    """The greatest distance between the gaps' distribution and the exponential one of the asked rate."""
    greatest, count = 0.0, len(gaps_us)
    for number, gap in enumerate(sorted(gaps_us)):
        asked = 1 - math.exp(-gap * rate / 1e6)
        greatest = max(greatest, asked - number / count, (number + 1) / count - asked)
    return greatest
