"""An oracle that shares no code with the solvers: every state of a small network, weighed by its product form.

Weights are those of Baskett, Chandy, Muntz and Palacios (1975). Closed networks are summed in exact rational
arithmetic; where open classes are mixed in, their infinite sums are cut where nothing is left of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from iodyno.core.network import ClosedClass, Network, OpenClass, Station

THINKING = -1
"""The place of those who think, beside the stations 0, 1, ..."""


@dataclass
class Truth:
    """Throughput of every class, and number of every class at every station."""

    throughput: dict[str, float]
    length: dict[tuple[str, str], float]


def truth(network: Network) -> Truth:
    """All of it by enumeration. Demands must be written with few digits, so that fractions stay short."""
    exact = not network.open_classes
    one = Fraction(1) if exact else 1.0
    closed = network.closed_classes
    demand = {
        (c.name, s.name): Fraction(str(network.demand_s(c.name, s.name))) * one
        for c in network.classes
        for s in network.stations
    }
    think = {c.name: Fraction(str(c.think_time_s)) * one for c in closed}
    total = one * 0
    length = {(c.name, s.name): one * 0 for c in network.classes for s in network.stations}
    done = {c.name: one * 0 for c in closed}
    for state in _states(network):
        weight = one
        inner: dict[str, object] = {}
        for at, station in enumerate(network.stations):
            here = {c.name: state[c.name][at] for c in closed}
            factor, open_jobs = _factor(network, station, here, demand, one)
            weight *= factor
            inner[station.name] = open_jobs
            if not weight:
                break
        if not weight:
            continue
        for c in closed:
            thinking = state[c.name][THINKING]
            if thinking and not think[c.name]:
                weight = 0 * one
                break
            weight *= think[c.name] ** thinking / math.factorial(thinking)
        if not weight:
            continue
        total += weight
        for c in closed:
            for at, station in enumerate(network.stations):
                length[c.name, station.name] += weight * state[c.name][at]
        for o in network.open_classes:
            for station in network.stations:
                length[o.name, station.name] += weight * inner[station.name][o.name]  # type: ignore[index]
        for c in closed:
            done[c.name] += weight * _rate(network, c.name, state, demand, think)
    return Truth(
        {c.name: float(done[c.name] / total) for c in closed}
        | {o.name: o.rate_per_s for o in network.open_classes},
        {key: float(value / total) for key, value in length.items()},
    )


def _rate(network, name, state, demand, think):  # type: ignore[no-untyped-def]
    """Completions per second of a class, seen at its think time, or at a delay, or at a station (shared equally)."""
    if think[name]:
        return state[name][THINKING] / think[name]
    for at, station in enumerate(network.stations):
        if demand[name, station.name] and (
            station.kind == "delay" or not any(demand[o.name, station.name] for o in network.open_classes)
        ):
            mine = state[name][at]
            if station.kind == "delay":
                return mine / demand[name, station.name]
            whole = sum(state[c.name][at] for c in network.closed_classes)
            busy = min(whole, station.servers)
            return mine * busy / (demand[name, station.name] * whole) if whole else 0 * mine
    raise AssertionError("the oracle needs a think time, or a station that no open class visits")


def _states(network: Network) -> Iterator[dict[str, tuple[int, ...]]]:
    """Every way of placing the jobs; the last place is thinking."""
    places = len(network.stations) + 1
    each = [list(_placed(c.population, places)) for c in network.closed_classes]
    for chosen in itertools.product(*each):
        yield {c.name: placed for c, placed in zip(network.closed_classes, chosen, strict=True)}


def _placed(jobs: int, places: int) -> Iterator[tuple[int, ...]]:
    if places == 1:
        yield (jobs,)
        return
    for here in range(jobs + 1):
        for rest in _placed(jobs - here, places - 1):
            yield (here, *rest)


def _factor(network, station: Station, here, demand, one):  # type: ignore[no-untyped-def]
    """The weight of a station with these closed jobs, and the mean number of each open class beside them."""
    weight = one
    jobs = sum(here.values())
    for name, n in here.items():
        weight *= demand[name, station.name] ** n / Fraction(math.factorial(n)) if n else one
    opened = {o.name: o.rate_per_s * float(demand[o.name, station.name]) for o in network.open_classes}
    load = sum(opened.values())
    if station.kind == "delay":
        return weight, opened
    if not load:
        return weight * Fraction(math.factorial(jobs)) / _capacity(jobs, station.servers), dict.fromkeys(
            opened, 0.0
        )
    # Sum over l open jobs: (jobs + l)! / beta(jobs + l) * load^l / l!, term by term from the one before.
    term = float(Fraction(math.factorial(jobs)) / _capacity(jobs, station.servers))
    terms = [term]
    while term > 1e-19 * terms[0] or len(terms) < 60:
        at = len(terms)
        term *= load / at * (jobs + at) / min(jobs + at, station.servers)
        terms.append(term)
    whole = math.fsum(terms)
    mean = math.fsum(at * t for at, t in enumerate(terms)) / whole
    return float(weight) * whole, {name: mean * a / load for name, a in opened.items()}


def _capacity(jobs: int, servers: int) -> Fraction:
    return Fraction(math.prod(min(i, servers) for i in range(1, jobs + 1)))


__all__ = ["ClosedClass", "OpenClass", "Truth", "truth"]
