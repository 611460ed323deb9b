"""M/M/c//N: a finite population that thinks and then asks; machine repair, a closed loop of clients. Engset's losses."""

from __future__ import annotations

import math

from iodyno.analysis.queueing.birth_death import stationary, times_of_arrivals
from iodyno.analysis.queueing.station import Method, StationResult, check_count, check_service
from iodyno.core.errors import ExperimentError

METHOD = Method(
    True,
    "birth-death chain (Palm 1947, machine repair); arrivals see a population of one less (Sevcik and Mitrani 1981)",
)
LOSSES = Method(True, "Engset 1918, birth-death chain; arrivals see a population of one less")


def mmcn(population: int, think_time_s: float, service_time_s: float, servers: int) -> StationResult:
    """The station M/M/c//N: `population` clients think for an exponential time, then wait for one of `servers`.

    The offered rate is the throughput: a closed loop asks no faster than it is answered. Without thinking all N are
    always there. Source: birth-death chain with birth rates (N - n) / Z (Gross and Harris 1998, 2.7); R = L / X, and never
    N / X - Z, which subtracts. Raises ExperimentError for a population below 1, or another bad argument.
    """
    return _of(
        population, think_time_s, service_time_s, servers, population, f"M/M/{servers}//{population}", METHOD
    )


def engset(
    population: int, think_time_s: float, service_time_s: float, servers: int, capacity: int | None = None
) -> StationResult:
    """The station M/M/c/K//N: who finds K in the system is turned away and thinks again; without `capacity`, K = c.

    `blocking_ratio` is the share of attempts that are turned away (call congestion), which a population of one less sees
    in time. Source: Engset, Elektrotechnische Zeitschrift 39 (1918). Raises ExperimentError for bad arguments, a capacity
    below the number of servers, or no think time: attempts would follow each other without end.
    """
    places = servers if capacity is None else capacity
    model = f"M/M/{servers}/{places}//{population}"
    check_count(places, "places", model)
    if places < servers:
        raise ExperimentError(
            f"invalid value: {places} places in the system for {servers} servers; expected as "
            "many as servers, or more",
            where=model,
        )
    # So short a time that attempts per second are beyond all doubles is none either.
    if places < population and not think_time_s > population * 1e-300:
        raise ExperimentError(
            f"invalid value: a think time of {think_time_s:g} s with fewer places than clients; expected above 0",
            where=model,
            advice="a think time, or M/M/c//N, where clients wait",
        )
    return _of(population, think_time_s, service_time_s, servers, min(places, population), model, LOSSES)


def _of(
    population: int,
    think_time_s: float,
    service_time_s: float,
    servers: int,
    places: int,
    model: str,
    method: Method,
) -> StationResult:
    check_count(population, "clients", model)
    check_count(servers, "servers", model)
    check_service(service_time_s, model)
    if not (math.isfinite(think_time_s) and think_time_s >= 0):
        raise ExperimentError(
            f"invalid value: a think time of {think_time_s:g} s; expected 0 or more", where=model
        )
    states = _states(population, think_time_s, service_time_s, servers, places)
    found = _states(population - 1, think_time_s, service_time_s, servers, min(places, population - 1))
    busy = math.fsum(min(n, servers) * p for n, p in enumerate(states))
    waiting = math.fsum((n - servers) * p for n, p in enumerate(states) if n > servers)
    number = math.fsum(n * p for n, p in enumerate(states))
    rate = busy / service_time_s
    lost = places < population
    blocked = found[places] if lost else None
    attempts = math.fsum((population - n) * p for n, p in enumerate(states)) / think_time_s if lost else rate
    times = times_of_arrivals(found[:places], servers, service_time_s)
    return StationResult(
        model=model,
        servers=servers,
        service_time_s=service_time_s,
        arrival_rate_per_s=attempts,
        throughput_per_s=rate,
        utilisation=busy / servers,
        response_time_s=number / rate,
        waiting_time_s=waiting / rate,
        queue_length=waiting,
        number_in_system=number,
        method=method,
        blocking_ratio=blocked,
        waiting=times[0],
        response=times[1],
        states=lambda n: states[n] if n <= places else 0.0,
    )


def _states(population: int, think_s: float, service_s: float, servers: int, places: int) -> list[float]:
    if think_s == 0:
        return [0.0] * population + [1.0]
    return stationary([(population - n) * service_s / (think_s * min(n + 1, servers)) for n in range(places)])
