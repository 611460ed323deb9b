"""Bounds on a network that need no solution: asymptotes and balanced jobs, and the population N* of their knee.

Lazowska, Zahorjan, Graham and Sevcik, Quantitative system performance, 1984, chapter 5; balanced jobs:
Zahorjan, Sevcik, Eager and Galler, CACM 25, 1982.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iodyno.core.network import Class, ClosedClass, Network, OpenClass, checked


@dataclass(frozen=True)
class Bounds:
    """Limits of one class. Upper ones leave it all that the other open classes do not take; lower ones count all jobs.

    None is no bound; of the balanced ones `missing` says why.
    """

    name: str
    bottleneck: str
    demand_s: float
    largest_demand_s: float
    throughput_most_per_s: float | None
    throughput_least_per_s: float
    response_least_s: float
    response_most_s: float | None
    saturation_population: float | None
    balanced_throughput_least_per_s: float | None = None
    balanced_throughput_most_per_s: float | None = None
    missing: str = ""


def bounds(network: Network) -> tuple[Bounds, ...]:
    """The bounds of every class, in order. Raises ExperimentError for a network that makes no sense."""
    checked(network)
    return tuple(
        _open(network, c) if isinstance(c, OpenClass) else _closed(network, c) for c in network.classes
    )


def _bottleneck(network: Network, entry: Class) -> tuple[str, float, float | None]:
    """The queue that saturates first as the class grows, its demand on one server, and the rate at which it does."""
    mine = entry.rate_per_s if isinstance(entry, OpenClass) else 0.0
    found = []
    for station in network.stations:
        demand = network.demand_s(entry.name, station.name)
        if station.kind == "queue" and demand > 0:
            left = station.servers - network.open_load(station) + mine * demand
            found.append((left / demand, station.name, demand / station.servers))
    if not found:
        return "", 0.0, None
    most, name, demand = min(found, key=lambda one: one[0])
    return name, demand, most


def _open(network: Network, entry: OpenClass) -> Bounds:
    """The rate at which a queue saturates; response is no less than the demand."""
    where, largest, most = _bottleneck(network, entry)
    whole = math.fsum(network.demand_s(entry.name, s.name) for s in network.stations)
    return Bounds(
        name=entry.name,
        bottleneck=where,
        demand_s=whole,
        largest_demand_s=largest,
        throughput_most_per_s=most,
        throughput_least_per_s=0.0,
        response_least_s=whole,
        response_most_s=None,
        saturation_population=None,
        missing="an open class has no population to balance",
    )


def _closed(network: Network, entry: ClosedClass) -> Bounds:
    """X <= min(N/(D+Z), 1/Dmax), N* = (D+Z)/Dmax, and X >= N/(Z + D J), as a job may wait for all J jobs at every queue.

    Balanced jobs (one closed class, queues of one server), with D and the mean over the K queues visited:
    N/(D+Z + (N-1) Dmax/(1 + Z/(N D))) <= X <= min(1/Dmax, N/(D+Z + (N-1) (D/K)/(1 + Z/D))); delays are in Z.
    """
    where, largest, saturated = _bottleneck(network, entry)
    whole = math.fsum(network.demand_s(entry.name, s.name) for s in network.stations)
    n, think = entry.population, entry.think_time_s
    jobs = sum(c.population for c in network.closed_classes)
    queues = [
        network.demand_s(entry.name, s.name)
        for s in network.stations
        if s.kind == "queue" and network.demand_s(entry.name, s.name) > 0
    ]
    delay = whole - math.fsum(queues)
    most = n / (whole + think) if saturated is None else min(n / (whole + think), saturated)
    has_open = any(network.open_load(s) > 0 for s in network.stations if s.kind == "queue")
    least = 0.0 if has_open else n / (think + delay + math.fsum(queues) * jobs)
    common = Bounds(
        name=entry.name,
        bottleneck=where,
        demand_s=whole,
        largest_demand_s=largest,
        throughput_most_per_s=most,
        throughput_least_per_s=least,
        response_least_s=whole if saturated is None else max(whole, n / saturated - think),
        response_most_s=None if has_open else delay + math.fsum(queues) * jobs,
        saturation_population=None if saturated is None else (whole + think) * saturated,
        missing=_no_balance(network, queues),
    )
    if common.missing:
        return common
    d, z = math.fsum(queues), think + delay
    lower = n / (d + z + (n - 1) * largest / (1 + z / (n * d)))
    upper = min(1 / largest, n / (d + z + (n - 1) * (d / len(queues)) / (1 + z / d)))
    return Bounds(
        **{
            **common.__dict__,
            "balanced_throughput_least_per_s": lower,
            "balanced_throughput_most_per_s": upper,
        }
    )


def _no_balance(network: Network, queues: list[float]) -> str:
    if len(network.classes) > 1:
        return "balanced jobs are of one class"
    if not queues:
        return "the class only meets delays"
    if any(s.servers > 1 for s in network.stations if s.kind == "queue"):
        return "balanced jobs need queues of one server"
    return ""
