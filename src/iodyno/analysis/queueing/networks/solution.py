"""Results of a solved network: of every class, of every station, and how they were had."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iodyno.core.network import ClosedClass, Network


@dataclass(frozen=True)
class Method:
    """Method by which the numbers were had. `exact`: of a network with a product form, but for rounding."""

    name: str
    exact: bool
    source: str


@dataclass(frozen=True)
class StationShare:
    """One class at one station. Utilisation is None at a delay, which has no servers."""

    residence_time_s: float
    queue_length: float
    utilisation_ratio: float | None
    throughput_per_s: float


@dataclass(frozen=True)
class ClassResult:
    """A class in the steady state; `queue_length` of a share counts who is served too."""

    name: str
    throughput_per_s: float
    response_time_s: float
    number_in_system: float
    at: Mapping[str, StationShare]


@dataclass(frozen=True)
class StationResult:
    """A station with all its classes; utilisation is the busy share of one server, None at a delay."""

    name: str
    utilisation_ratio: float | None
    queue_length: float


@dataclass(frozen=True)
class Solution:
    """Results of every class and station, in the order of the network."""

    network: Network
    method: Method
    classes: tuple[ClassResult, ...]
    stations: tuple[StationResult, ...]
    notes: tuple[str, ...] = ()

    def of(self, name: str) -> ClassResult:
        """The class of that name. Raises KeyError."""
        return next(c for c in self.classes if c.name == name)

    def station(self, name: str) -> StationResult:
        """The station of that name. Raises KeyError."""
        return next(s for s in self.stations if s.name == name)


def composed(
    network: Network,
    method: Method,
    throughput_per_s: Mapping[str, float],
    residence_time_s: Mapping[str, Sequence[float]],
    notes: Sequence[str] = (),
) -> Solution:
    """The solution of throughputs and residence times (in the order of the stations), by class.

    The rest follows from Little's law (Q = X R) and the utilisation law (U = X D / m).
    """
    classes = []
    for entry in network.classes:
        x, residence = throughput_per_s[entry.name], residence_time_s[entry.name]
        shares = {}
        for station, r in zip(network.stations, residence, strict=True):
            demand = network.demands.get(entry.name, {}).get(station.name)
            if demand is None:
                continue
            busy = None if station.kind == "delay" else x * demand.demand_s / station.servers
            shares[station.name] = StationShare(r, x * r, busy, x * demand.visits)
        response = math.fsum(residence)
        classes.append(ClassResult(entry.name, x, response, x * response, shares))
    stations = []
    for station in network.stations:
        shares_here = [c.at[station.name] for c in classes if station.name in c.at]
        busy = (
            None
            if station.kind == "delay"
            else math.fsum(share.utilisation_ratio or 0 for share in shares_here)
        )
        stations.append(StationResult(station.name, busy, math.fsum(s.queue_length for s in shares_here)))
    return Solution(network, method, tuple(classes), tuple(stations), (*notes, *_assumptions(network)))


def _assumptions(network: Network) -> list[str]:
    """List the assumptions of a product form that this network does not meet (Baskett et al., J. ACM 1975)."""
    found = []
    for station in network.stations:
        if station.kind == "delay" or station.discipline == "ps":
            continue
        if station.discipline == "lcfs-pr" and station.servers == 1:
            continue
        times = {
            d.service_time_s
            for c in network.classes
            if (d := network.demands.get(c.name, {}).get(station.name)) is not None and d.demand_s > 0
        }
        if len(times) > 1 and max(times) - min(times) > 1e-12 * max(times):
            found.append(
                f"{station.name}: classes with unequal service times have no product form under"
                f" {station.discipline}{' with several servers' if station.discipline != 'fcfs' else ''}; "
                "it was solved as ps (processor sharing)"
            )
    return found


def think_time_s(network: Network, name: str) -> float:
    """The think time of a class; 0 for an open one."""
    entry = next(c for c in network.classes if c.name == name)
    return entry.think_time_s if isinstance(entry, ClosedClass) else 0.0
