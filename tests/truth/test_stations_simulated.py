"""Stations against Ciw, a simulator of others: means within its own interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import ciw
import pytest

from iodyno.analysis.queueing.md1 import md1k
from iodyno.analysis.queueing.mmc import mmc
from iodyno.analysis.queueing.mmck import mmck
from iodyno.analysis.queueing.station import StationResult

RUNS, LONG, WARM_UP = 10, 1500.0, 150.0
HALF = 3.69
"""Quantile of Student's t with 9 degrees of freedom that leaves 0.5 % outside: three cases by two numbers, fixed seeds."""


def simulated(
    load: float, service: ciw.dists.Distribution, servers: int, room: float, seed: int
) -> tuple[list[float], list[float]]:
    """Mean waiting time of those served, and the share that was turned away, of each run."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(load)],
        service_distributions=[service],
        number_of_servers=[servers],
        queue_capacities=[room],
    )
    waits, lost = [], []
    for run in range(RUNS):
        ciw.seed(seed + run)
        simulation = ciw.Simulation(network)
        simulation.simulate_until_max_time(LONG)
        records = [r for r in simulation.get_all_records() if r.arrival_date > WARM_UP]
        served = [r.waiting_time for r in records if r.record_type == "service"]
        turned = sum(r.record_type == "rejection" for r in records)
        waits.append(fmean(served))
        lost.append(turned / (turned + len(served)))
    return waits, lost


def inside(runs: Sequence[float], value: float) -> bool:
    """The value lies in the interval of the mean over runs."""
    return abs(fmean(runs) - value) <= HALF * stdev(runs) / math.sqrt(len(runs))


@pytest.mark.parametrize(
    ("found", "service", "room"),
    [
        (mmc(3.0, 1.0, 4), ciw.dists.Exponential(1.0), math.inf),
        (mmck(4.4, 1.0, 4, 8), ciw.dists.Exponential(1.0), 4),
        (md1k(0.95, 1.0, 5), ciw.dists.Deterministic(1.0), 4),
    ],
    ids=["M/M/4", "M/M/4/8", "M/D/1/5"],
)
def test_means_lie_in_the_interval_of_a_simulation(
    found: StationResult, service: ciw.dists.Distribution, room: float
) -> None:
    assert found.servers is not None
    waits, lost = simulated(found.arrival_rate_per_s, service, found.servers, room, seed=100)
    assert inside(waits, found.waiting_time_s)
    if found.blocking_ratio is not None:
        assert inside(lost, found.blocking_ratio)
