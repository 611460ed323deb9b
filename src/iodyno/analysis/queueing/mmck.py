"""M/M/c/K: as M/M/c, but no more than K are in the system; who comes then is turned away and does not return."""

from __future__ import annotations

import math

from iodyno.analysis.queueing.birth_death import stationary, times_of_arrivals
from iodyno.analysis.queueing.station import (
    LEAST_BUSY,
    Method,
    StationResult,
    check_count,
    check_rate,
    check_service,
)
from iodyno.core.errors import ExperimentError

METHOD = Method(True, "birth-death chain, Gross and Harris 1998, 2.5; times by uniformisation")


def mmck(arrival_rate_per_s: float, service_time_s: float, servers: int, capacity: int) -> StationResult:
    """The station M/M/c/K, first come first served. `capacity` (K) counts all in the system, those in service too.

    Source: birth-death chain (Gross and Harris 1998, 2.5). Means and times are those of arrivals that are not turned away,
    which find n < K with probability p(n) / (1 - p(K)) (Poisson arrivals see time averages; Wolff, Operations Research 30:2,
    1982). Any load is stable. Raises ExperimentError for bad arguments, or a capacity below the number of servers.
    """
    model = f"M/M/{servers}/{capacity}"
    check_count(servers, "servers", model)
    check_count(capacity, "places", model)
    check_service(service_time_s, model)
    check_rate(arrival_rate_per_s, model)
    if capacity < servers:
        raise ExperimentError(
            f"invalid value: {capacity} places in the system for {servers} servers; expected as "
            "many as servers, or more",
            where=model,
            advice="places count those in service too; K = servers has no waiting room (Erlang B)",
        )
    offered = arrival_rate_per_s * service_time_s
    states = stationary([offered / min(n + 1, servers) for n in range(capacity)])
    busy = math.fsum(min(n, servers) * p for n, p in enumerate(states))
    waiting = math.fsum((n - servers) * p for n, p in enumerate(states) if n > servers)
    number = math.fsum(n * p for n, p in enumerate(states))
    rate = busy / service_time_s
    times = times_of_arrivals(states[:-1], servers, service_time_s)
    return StationResult(
        model=model,
        servers=servers,
        service_time_s=service_time_s,
        arrival_rate_per_s=arrival_rate_per_s,
        throughput_per_s=rate,
        utilisation=busy / servers,
        # Without load, or with none to speak of, nobody waits, and 0 / 0 is no time.
        response_time_s=service_time_s * number / busy if busy > LEAST_BUSY else service_time_s,
        waiting_time_s=service_time_s * waiting / busy if busy > LEAST_BUSY else 0.0,
        queue_length=waiting,
        number_in_system=number,
        method=METHOD,
        blocking_ratio=states[-1],
        waiting=times[0],
        response=times[1],
        states=lambda n: states[n] if n <= capacity else 0.0,
    )


def mm1k(arrival_rate_per_s: float, service_time_s: float, capacity: int) -> StationResult:
    """The station M/M/1/K: `mmck` with one server. `capacity` (K) counts the one in service too.

    Source: Kleinrock 1975, 3.6, p(K) = (1 - rho) rho^K / (1 - rho^(K + 1)). Raises ExperimentError for bad arguments.
    """
    return mmck(arrival_rate_per_s, service_time_s, 1, capacity)
