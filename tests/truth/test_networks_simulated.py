"""Solved networks inside the intervals of simulated ones: Ciw, which knows no product form (seeded, short)."""

from __future__ import annotations

import math
import statistics

import ciw
import pytest

from iodyno.analysis.queueing.networks.solve import solve
from iodyno.core.network import Class, ClosedClass, Demand, Network, OpenClass, Station

BATCHES = 20
T_999 = 3.883
"""Student's t for 99.9 %, 19 degrees of freedom: the seeds are fixed, so this is no chance but a wide check."""


def simulated(network: Network, until: float, seed: int) -> list[tuple[str, str, list[float]]]:
    """Class, station and the mean times there of 20 batches, after a fifth for warm-up. The first node is thinking."""
    ciw.seed(seed)
    names = [c.name for c in network.classes]
    servers = [math.inf, *(math.inf if s.kind == "delay" else s.servers for s in network.stations)]
    nodes = len(servers)
    arrivals: dict[str, list[object]] = {}
    services: dict[str, list[object]] = {}
    routing: dict[str, list[list[float]]] = {}
    for c in network.classes:
        path = [k + 1 for k, s in enumerate(network.stations) if network.demand_s(c.name, s.name) > 0]
        matrix = [[0.0] * nodes for _ in range(nodes)]
        for here, there in zip([0, *path], path, strict=False):
            matrix[here][there] = 1.0
        arrivals[c.name] = [None] * nodes
        if isinstance(c, OpenClass):
            arrivals[c.name][path[0]] = ciw.dists.Exponential(c.rate_per_s)
            think = 1.0
        else:
            matrix[path[-1]][0] = 1.0
            arrivals[c.name][0] = ciw.dists.Sequential([1e-9] * c.population + [math.inf])
            think = c.think_time_s
        routing[c.name] = matrix
        services[c.name] = [
            ciw.dists.Exponential(1 / think),
            *(ciw.dists.Exponential(1 / (network.demand_s(c.name, s.name) or 1.0)) for s in network.stations),
        ]
    made = ciw.create_network(
        arrival_distributions=arrivals,
        service_distributions=services,
        number_of_servers=servers,
        routing={name: ciw.routing.TransitionMatrix(transition_matrix=routing[name]) for name in names},
    )
    run = ciw.Simulation(made)
    run.simulate_until_max_time(until)
    begin = until / 5
    length = (until - begin) / BATCHES
    times: dict[tuple[str, str], list[list[float]]] = {}
    for record in run.get_all_records():
        if record.node == 1 or record.exit_date < begin:
            continue
        batch = min(int((record.exit_date - begin) / length), BATCHES - 1)
        key = (record.customer_class, network.stations[record.node - 1 - 1].name)
        times.setdefault(key, [[] for _ in range(BATCHES)])[batch].append(
            record.exit_date - record.arrival_date
        )
    return [
        (name, station, [statistics.fmean(batch) for batch in batches])
        for (name, station), batches in times.items()
    ]


STATIONS = (Station("cpu", servers=3), Station("disk"), Station("wan", "delay"))
SAME = {"cpu": Demand(0.5), "disk": Demand(0.2), "wan": Demand(1.0)}


# Ciw copies an iterator of itertools, of which Python complains from 3.12 on.
@pytest.mark.filterwarnings("ignore:Pickle, copy, and deepcopy support:DeprecationWarning")
@pytest.mark.parametrize(
    ("classes", "until"),
    [
        ((OpenClass("a", 1.5), OpenClass("b", 1.8)), 2500.0),
        ((ClosedClass("a", 9, 0.7),), 2500.0),
        ((ClosedClass("a", 6, 1.5), OpenClass("b", 1.2)), 2500.0),
    ],
    ids=["open", "closed", "mixed"],
)
def test_residence_times_lie_inside_the_intervals_of_a_simulation(
    classes: tuple[Class, ...], until: float
) -> None:
    network = Network(STATIONS, classes, {c.name: SAME for c in classes})
    solution = solve(network, "exact")
    found = simulated(network, until, 20_261_121)
    assert len(found) == len(classes) * len(STATIONS)
    for name, station, means in found:
        half = T_999 * statistics.stdev(means) / math.sqrt(BATCHES)
        right = solution.of(name).at[station].residence_time_s
        assert abs(statistics.fmean(means) - right) <= half, (name, station)
        # The check must be able to fail: the interval is narrower than a quarter of the value.
        assert half < 0.25 * right
