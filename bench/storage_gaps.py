"""Times between operations at a rate that is held, as the kernel's block layer saw them: an account beside the agent's own."""

from __future__ import annotations

import math
import statistics
import subprocess
import time
from itertools import pairwise
from pathlib import Path

from bench.storage import on_a_disk
from bench.storage_agent import by_agent, by_fio
from iodyno.session.locate import program_path

Rows = list[dict[str, object]]

RATES = (1_000, 4_000)
_SECONDS = 4.0
_LONGEST_S = 8.0
"""Of the trace: the load, its begin and its end."""
_DEPTH = 32
"""Room for arrivals that come while others are under way (chosen: so many as good as never are): a thread that waits for each
operation begins none sooner than the last one has ended, so that its gaps are not those that were asked for.
"""


async def run(pairs: int) -> Rows:
    """Gaps between direct reads at an asked rate, by `trace block`: coefficient of variation (Poisson: 1), and how far
    their distribution is from the asked one (Kolmogorov and Smirnov), beside fio's.
    """
    rows: Rows = []
    with on_a_disk() as path:
        for rate in RATES:
            for law in ("constant", "poisson"):
                for who in ("agent", "fio"):
                    rows += [_row(path, rate, law, who, number) for number in range(pairs)]
    return rows


def _row(path: Path, rate: int, law: str, who: str, number: int) -> dict[str, object]:
    gaps_us = _gaps(path, rate, law, who, number)
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
    }


def _gaps(path: Path, rate: int, law: str, who: str, number: int) -> list[float]:
    """Microseconds between the begins of the load's operations. Raises RuntimeError where nothing was traced."""
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
        if who == "agent":
            disk = {
                "targets": [{"path": str(path), "kind": "file"}],
                "pattern": "random",
                "block_bytes": 4096,
                "interface": "io_uring",
                "depth": _DEPTH,
            }
            arrivals = {"law": {"law": law}, "operations": rate, "period_ns": 10**9, "seed": number + 1}
            done = by_agent({**disk, "direct": True}, _SECONDS, arrivals)
        else:
            process = "linear" if law == "constant" else "poisson"
            options = {
                "filename": path,
                "ioengine": "io_uring",
                "iodepth": _DEPTH,
                "rw": "randread",
                "bs": "4k",
                "direct": 1,
            }
            done = by_fio(
                {**options, "rate_iops": rate, "rate_process": process, "randseed": number + 1}, _SECONDS
            )
        text = tracer.stdout.read() if tracer.stdout else ""
    finally:
        tracer.kill()
        tracer.wait()
    begins = sorted(_begins(text, done.pid))
    if len(begins) < rate:
        raise RuntimeError(f"{len(begins)} operations were traced; run it as root, on a disk")
    # What begins and ends is no part of the rate.
    middle = [begin for begin in begins if begins[0] + 5e5 <= begin <= begins[-1] - 2e5]
    return [after - before for before, after in pairwise(middle)]


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
