"""Exact mean value analysis of closed classes, where every queue has one server.

Reiser and Lavenberg, Mean-value analysis of closed multichain queuing networks, J. ACM 27, 1980. Open classes
beside them take their share of each server (Lazowska et al., Quantitative system performance, 1984, 7.4).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import mul
from typing import TYPE_CHECKING

from iodyno.analysis.queueing.networks.solution import Method, Solution, composed
from iodyno.core.errors import ExperimentError
from iodyno.core.network import Network, checked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

METHOD = Method("exact MVA", True, "Reiser and Lavenberg 1980")
MIXED = Method(
    "exact MVA of the closed classes, open classes mixed in",
    True,
    "Reiser and Lavenberg 1980; Lazowska et al. 1984, 7.4",
)
MAX_VISITS = 10_000_000
"""Jobs times stations, with `VISITS_BESIDE` for each job, of one class (chosen: a few seconds)."""
VISITS_BESIDE = 8
MAX_CELLS = 20_000_000
"""Populations times stations that are kept (chosen: 160 MB, and some seconds)."""


@dataclass(frozen=True)
class Means:
    """A closed network at one population: jobs per second, and seconds and jobs at each station."""

    throughput_per_s: float
    residence_time_s: tuple[float, ...]
    queue_length: tuple[float, ...]


def mva(
    demands_s: Sequence[float],
    population: int,
    think_time_s: float = 0.0,
    wanted: Collection[int] = (),
) -> dict[int, Means]:
    """Means of one closed class over queues of one server with these demands, for the `wanted` populations.

    Default: `population` alone. One pass over 1..population, R_k(n) = D_k (1 + Q_k(n-1)), X = n / (Z + sum R);
    every step is a sum of positive numbers. Plain lists: numpy is slower at ten stations.
    """
    keep = set(wanted) or {population}
    found: dict[int, Means] = {}
    found_by = [1.0] * len(demands_s)  # 1 + queue length: what an arriving job makes of the queue
    for n in range(1, population + 1):
        residence = list(map(mul, demands_s, found_by))
        x = n / (think_time_s + sum(residence))
        found_by = [1.0 + x * r for r in residence]
        if n in keep:
            found[n] = Means(x, tuple(residence), tuple(x * r for r in residence))
    return found


def mva_classes(
    demands_s: NDArray[np.float64], populations: Sequence[int], think_times_s: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Throughputs (class) and residence times (class x station) of several closed classes at `populations`.

    `demands_s` is class x station. All populations with the same total are solved at once: they need only
    those with one job less. Raises ExperimentError where there are more than `MAX_CELLS` numbers to keep.
    """
    import numpy as np

    classes, stations = demands_s.shape
    sizes = [n + 1 for n in populations]
    cells = int(np.prod(sizes, dtype=object)) * stations
    if cells > MAX_CELLS:
        raise ExperimentError(
            f"exact multi-class MVA needs {cells} numbers; expected {MAX_CELLS} at most",
            where="--method",
            advice="--method approximate, or smaller populations",
        )
    strides = [int(np.prod(sizes[c + 1 :], dtype=np.int64)) for c in range(classes)]
    jobs = np.indices(sizes).reshape(classes, -1)
    totals = jobs.sum(axis=0)
    order = np.argsort(totals, kind="stable")
    starts = np.searchsorted(totals[order], np.arange(1, totals[-1] + 2))
    think = np.asarray(think_times_s, dtype=np.float64)
    found_by = np.ones((len(totals), stations))
    throughput = np.zeros(classes)
    residence = np.zeros((classes, stations))
    for begin, end in pairwise(starts):
        here = order[begin:end]
        queue = np.zeros((len(here), stations))
        for c in range(classes):
            n = jobs[c, here]
            # Where a class has no job, any neighbour does: its throughput is 0.
            before = np.where(n > 0, here - strides[c], here)
            r = found_by[before] * demands_s[c]
            x = n / (think[c] + r.sum(axis=1))
            queue += r * x[:, None]
            if end == len(order):
                throughput[c], residence[c] = x[-1], r[-1]
        found_by[here] += queue
    return throughput, residence


def solve_mva(network: Network) -> Solution:
    """Solves a network that has closed classes and no multi-server station. Raises ExperimentError for others."""
    checked(network)
    closed = network.closed_classes
    _suitable(network)
    if len(network.classes) == 1:
        return solve_one_class(network, [closed[0].population])[0]
    import numpy as np

    free = [1.0 if s.kind == "delay" else 1.0 - network.open_load(s) for s in network.stations]
    queued = [k for k, s in enumerate(network.stations) if s.kind == "queue"]
    demands = [
        [network.demand_s(c.name, s.name) / f for s, f in zip(network.stations, free, strict=True)]
        for c in closed
    ]
    delays = [
        sum(d for d, s in zip(row, network.stations, strict=True) if s.kind == "delay") for row in demands
    ]
    think = [c.think_time_s + d for c, d in zip(closed, delays, strict=True)]
    throughput: dict[str, float] = {}
    residence: dict[str, list[float]] = {c.name: list(row) for c, row in zip(closed, demands, strict=True)}
    array = np.array([[row[k] for k in queued] for row in demands], dtype=np.float64)
    xs, rs = mva_classes(array, [c.population for c in closed], think)
    lengths = [0.0] * len(network.stations)
    for c, x, rs_here in zip(closed, xs, rs, strict=True):
        throughput[c.name] = float(x)
        for k, r in zip(queued, rs_here, strict=True):
            residence[c.name][k] = float(r)
            lengths[k] += float(x * r)
    for o in network.open_classes:
        throughput[o.name] = o.rate_per_s
        residence[o.name] = [
            network.demand_s(o.name, s.name) * (1.0 + lengths[k]) / free[k]
            for k, s in enumerate(network.stations)
        ]
    return composed(network, MIXED if network.open_classes else METHOD, throughput, residence)


def affordable_mva(network: Network, population: int) -> bool:
    """Tell whether one class is solved in seconds."""
    return population * (len(network.stations) + VISITS_BESIDE) <= MAX_VISITS


def solve_one_class(network: Network, populations: Sequence[int]) -> list[Solution]:
    """A network of one closed class at several populations, from one pass. Raises ExperimentError for others."""
    checked(network)
    _suitable(network)
    entry = network.closed_classes[0]
    if len(network.classes) > 1:
        raise ExperimentError("one pass takes one closed class", where="classes")
    if not affordable_mva(network, max(populations)):
        most = MAX_VISITS // (len(network.stations) + VISITS_BESIDE)
        raise ExperimentError(
            f"exact MVA of {max(populations)} jobs at {len(network.stations)} stations takes "
            f"minutes; expected {most} jobs at most",
            where="--method",
            advice="--method approximate, or a smaller population",
        )
    demands = [network.demand_s(entry.name, s.name) for s in network.stations]
    queued = [k for k, s in enumerate(network.stations) if s.kind == "queue"]
    delay = math.fsum(d for d, s in zip(demands, network.stations, strict=True) if s.kind == "delay")
    means = mva([demands[k] for k in queued], max(populations), entry.think_time_s + delay, populations)
    found = []
    for n in populations:
        row = list(demands)
        for k, r in zip(queued, means[n].residence_time_s, strict=True):
            row[k] = r
        at = replace(network, classes=(replace(entry, population=n),))
        found.append(composed(at, METHOD, {entry.name: means[n].throughput_per_s}, {entry.name: row}))
    return found


def _suitable(network: Network) -> None:
    if not network.closed_classes or any(s.servers > 1 and s.kind == "queue" for s in network.stations):
        raise ExperimentError(
            "exact MVA takes closed classes and stations of one server",
            where="--method",
            advice="solve by convolution, which --method exact does by itself",
        )
