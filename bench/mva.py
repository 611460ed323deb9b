"""How long networks of queues take to solve, beside the same recursion written down naively with numpy."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bench.ratio import paired
from iodyno.analysis.queueing.networks.convolution import solve_convolution
from iodyno.analysis.queueing.networks.mva import mva, mva_classes
from iodyno.core.network import ClosedClass, Demand, Network, Station

JOBS, STATIONS = 10_000, 10
CLASS_JOBS = 300


async def run(pairs: int) -> list[dict[str, object]]:
    """CPU time of exact solutions, and its ratio to naive numpy; 10 000 jobs <= 20 ms, 300 x 300 <= 250 ms."""
    draw = random.Random(1)
    demands = [draw.uniform(0.001, 0.01) for _ in range(STATIONS)]
    two = np.array([[draw.uniform(0.001, 0.01) for _ in range(STATIONS)] for _ in range(2)])
    think = [1.0, 2.0]
    servers = Network(
        (Station("cpu", servers=512), Station("disk")),
        (ClosedClass("work", JOBS, 1.0),),
        {"work": {"cpu": Demand(0.1), "disk": Demand(1e-4)}},
    )
    return [
        _row("one class, 10 000 jobs, 10 stations", 20, pairs,
             lambda: mva(demands, JOBS, 1.0)[JOBS].throughput_per_s,
             lambda: _naive(np.array(demands), JOBS, 1.0)),
        _row("two classes, 300 x 300 jobs, 10 stations", 250, max(1, pairs // 2),
             lambda: float(mva_classes(two, [CLASS_JOBS, CLASS_JOBS], think)[0][0]),
             lambda: _naive_classes(two, CLASS_JOBS, think)),
        _row("512 servers and a disk, 10 000 jobs", None, max(1, pairs // 2),
             lambda: solve_convolution(servers).classes[0].throughput_per_s, None),
    ]  # fmt: skip


def _row(
    case: str,
    allowed_ms: int | None,
    pairs: int,
    ours: Callable[[], float],
    naive: Callable[[], float] | None,
) -> dict[str, object]:
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(pairs):
        took, answer = _timed(ours)
        mine.append(took)
        if naive is not None:
            took, other = _timed(naive)
            theirs.append(took)
            assert abs(answer / other - 1) < 1e-9, "both must say the same"
    median, low, high = paired(mine, theirs) if theirs else (None, None, None)
    return {
        "case": case,
        "median_ms": round(1e3 * statistics.median(mine), 1),
        "allowed_ms": allowed_ms if allowed_ms is not None else "",
        "naive_ms": round(1e3 * statistics.median(theirs), 1) if theirs else "",
        "ratio": f"{median:.3f} [{low:.3f}, {high:.3f}]" if median is not None else "",
    }


def _timed(call: Callable[[], float]) -> tuple[float, float]:
    """CPU time of this process, which a busy machine disturbs less than the clock; and the answer."""
    began = time.process_time()
    answer = call()
    return time.process_time() - began, answer


def _naive(demands: NDArray[np.float64], jobs: int, think_s: float) -> float:
    queue = np.zeros(len(demands))
    x = 0.0
    for n in range(1, jobs + 1):
        residence = demands * (1 + queue)
        x = n / (think_s + residence.sum())
        queue = x * residence
    return float(x)


def _naive_classes(demands: NDArray[np.float64], jobs: int, think_s: list[float]) -> float:
    """Population by population, stations at once."""
    queue = np.zeros((jobs + 1, jobs + 1, demands.shape[1]))
    x = [0.0, 0.0]
    for a in range(jobs + 1):
        for b in range(jobs + 1):
            for c, (n, before) in enumerate(((a, queue[a - 1, b]), (b, queue[a, b - 1]))):
                if n == 0:
                    x[c] = 0.0
                    continue
                residence = demands[c] * (1 + before)
                x[c] = n / (think_s[c] + residence.sum())
                queue[a, b] += x[c] * residence
    return float(x[0])
