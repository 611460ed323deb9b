"""Network of queues: stations, classes of work, and how much each class demands of each station.

Times are in seconds, rates in 1/s. A demand is the service time that one job needs at a station over all its
visits: D = V s (Denning and Buzen, The operational analysis of queueing network models, 1978).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.core.quantity import counted

Kind = Literal["queue", "delay"]
Discipline = Literal["fcfs", "ps", "lcfs-pr"]
KINDS: tuple[Kind, ...] = ("queue", "delay")
DISCIPLINES: tuple[Discipline, ...] = ("fcfs", "ps", "lcfs-pr")

MAX_STATIONS = 10_000
MAX_CHANGES = 1_000_000
"""Classes times classes times stations, as what each class does to each other one is worked out (chosen: some seconds)."""
MAX_SERVERS = 100_000
MAX_POPULATION = 1_000_000
MAX_RATE_PER_S = 1e15
MIN_TIME_S, MAX_TIME_S = 1e-18, 1e12
"""Chosen: beyond every machine that a person models by hand, low enough that a typing error is found, and with room to
multiply before a double overflows."""


@dataclass(frozen=True)
class Station:
    """Station that does work: one queue before `servers` equal servers, or a delay in which nobody waits."""

    name: str
    kind: Kind = "queue"
    servers: int = 1
    discipline: Discipline = "fcfs"


@dataclass(frozen=True)
class OpenClass:
    """Jobs that come at `rate_per_s`, whatever the network does, and leave."""

    name: str
    rate_per_s: float


@dataclass(frozen=True)
class ClosedClass:
    """`population` jobs that go round; each thinks for `think_time_s` between two rounds (0: batch work)."""

    name: str
    population: int
    think_time_s: float = 0.0


Class = OpenClass | ClosedClass


@dataclass(frozen=True)
class Demand:
    """Demand of one job at a station: `visits` of `service_time_s` each."""

    service_time_s: float
    visits: float = 1.0

    @property
    def demand_s(self) -> float:
        """Service time over all visits."""
        return self.visits * self.service_time_s


@dataclass(frozen=True)
class Network:
    """Stations and classes, with `demands[class][station]`; what is not in it is not visited."""

    stations: tuple[Station, ...]
    classes: tuple[Class, ...]
    demands: Mapping[str, Mapping[str, Demand]] = field(default_factory=dict)
    name: str = "network"

    def demand_s(self, of_class: str, station: str) -> float:
        """The demand in seconds; 0 where the class does not come."""
        found = self.demands.get(of_class, {}).get(station)
        return 0.0 if found is None else found.demand_s

    @property
    def open_classes(self) -> tuple[OpenClass, ...]:
        """The open classes, in their order."""
        return tuple(c for c in self.classes if isinstance(c, OpenClass))

    @property
    def closed_classes(self) -> tuple[ClosedClass, ...]:
        """The closed classes, in their order."""
        return tuple(c for c in self.classes if isinstance(c, ClosedClass))

    def open_load(self, station: Station) -> float:
        """Return the load that the open classes offer to a station: its mean number of busy servers (utilisation law)."""
        return math.fsum(c.rate_per_s * self.demand_s(c.name, station.name) for c in self.open_classes)


def checked(network: Network) -> Network:
    """The network itself, when it makes sense. Raises ExperimentError for the first thing that does not."""
    stations = _unique([s.name for s in network.stations], "station")
    classes = _unique([c.name for c in network.classes], "class")
    if len(stations) > MAX_STATIONS:
        raise ExperimentError(
            f"invalid value: {len(stations)} stations; expected up to {MAX_STATIONS}", where="stations"
        )
    if (most := math.isqrt(MAX_CHANGES // max(1, len(stations)))) < len(classes):
        raise ExperimentError(
            f"invalid value: {len(classes)} classes at {counted(len(stations), 'station')}; "
            f"expected up to {most} of so many",
            where="classes",
            advice="join classes whose demands are alike",
        )
    if not stations:
        raise ExperimentError("missing station: expected one or more", where="stations")
    if not classes:
        raise ExperimentError("missing class: expected one or more", where="classes")
    for station in network.stations:
        _check_station(station)
    for entry in network.classes:
        _check_class(entry)
    for of_class, by_station in network.demands.items():
        if of_class not in classes:
            raise ExperimentError(
                f"unknown class {of_class!r}: expected {', '.join(classes)}", where="demands"
            )
        for station_name, demand in by_station.items():
            where = f"demands.{of_class}.{station_name}"
            if station_name not in stations:
                raise ExperimentError(
                    f"unknown station {station_name!r}: expected {', '.join(stations)}", where=where
                )
            _check_number(demand.service_time_s, f"{where}.service", "a service time of 0 s or more")
            _check_number(demand.visits, f"{where}.visits", "0 visits or more")
            if demand.demand_s != 0 and not MIN_TIME_S <= demand.demand_s <= MAX_TIME_S:
                raise ExperimentError(
                    f"invalid value: {demand.demand_s:g} s; expected 0 s, or {MIN_TIME_S:g} s to {MAX_TIME_S:g} s",
                    where=where,
                )
    for entry in network.classes:
        if not any(network.demand_s(entry.name, station) > 0 for station in stations):
            raise ExperimentError(
                f"the class {entry.name!r} demands nothing of any station",
                where=f"demands.{entry.name}",
                advice="give it a service time above 0 at one station at least",
            )
    for station in network.stations:
        _check_stable(network, station)
    return network


def _check_station(station: Station) -> None:
    where = f"stations.{station.name}"
    if station.kind not in KINDS:
        raise ExperimentError(invalid(station.kind, ", ".join(KINDS)), where=f"{where}.kind")
    if station.discipline not in DISCIPLINES:
        raise ExperimentError(
            invalid(station.discipline, ", ".join(DISCIPLINES)), where=f"{where}.discipline"
        )
    if isinstance(station.servers, bool) or not isinstance(station.servers, int) or station.servers < 1:
        raise ExperimentError(invalid(station.servers, "1 server or more"), where=f"{where}.servers")
    if station.servers > MAX_SERVERS:
        raise ExperimentError(
            f"invalid value: {station.servers} servers; expected up to {MAX_SERVERS}",
            where=f"{where}.servers",
        )


def _check_class(entry: Class) -> None:
    where = f"classes.{entry.name}"
    if isinstance(entry, OpenClass):
        _check_number(
            entry.rate_per_s,
            f"{where}.rate",
            f"a rate of 0/s or more, up to {MAX_RATE_PER_S:g}/s",
            MAX_RATE_PER_S,
        )
        return
    if isinstance(entry.population, bool) or not isinstance(entry.population, int) or entry.population < 1:
        raise ExperimentError(
            invalid(entry.population, "a whole number of 1 job or more"),
            where=f"{where}.population",
            advice="leave the class out when it has no jobs",
        )
    if entry.population > MAX_POPULATION:
        raise ExperimentError(
            invalid(entry.population, f"up to {MAX_POPULATION} jobs"), where=f"{where}.population"
        )
    allowed = f"a think time of 0 s or more, up to {MAX_TIME_S:g} s"
    _check_number(entry.think_time_s, f"{where}.think", allowed, MAX_TIME_S)


def _check_number(value: float, where: str, allowed: str, most: float = math.inf) -> None:
    if not (math.isfinite(value) and 0 <= value <= most):
        raise ExperimentError(invalid(value, allowed), where=where)


def _check_stable(network: Network, station: Station) -> None:
    """Open work must leave a part of every station free (rho < 1), or its queue grows for ever."""
    if station.kind == "delay":
        return
    load = network.open_load(station)
    if load < station.servers:
        return
    whole = sum(c.rate_per_s for c in network.open_classes)
    servers = "1 server" if station.servers == 1 else f"{station.servers} servers"
    raise ExperimentError(
        f"unstable: open work of {load:g} busy servers is offered to {servers} "
        f"(utilisation {load / station.servers:.4g}), and the queue grows for ever",
        where=f"stations.{station.name}",
        advice=f"all rates together below {whole * station.servers / load:.6g}/s, or `servers: {math.floor(load) + 1}`",
    )


def _unique(names: list[str], what: str) -> dict[str, None]:
    found: dict[str, None] = {}
    for name in names:
        if name in found:
            raise ExperimentError(f"duplicate {what} {name!r}", where=what)
        found[name] = None
    return found
