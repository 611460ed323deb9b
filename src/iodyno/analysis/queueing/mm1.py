"""M/M/1: Poisson arrivals, exponential service, one server, an infinite queue."""

from __future__ import annotations

import math

from iodyno.analysis.queueing.station import Method, StationResult, check_open
from iodyno.analysis.queueing.times import Times

METHOD = Method(True, "Kleinrock, Queueing Systems 1, 1975, 3.2; response is exponential, FCFS")


def mm1(arrival_rate_per_s: float, service_time_s: float) -> StationResult:
    """The station M/M/1, first come first served.

    Source: Kleinrock, Queueing Systems 1 (1975), 3.2: with rho the utilisation, R = s / (1 - rho), p(n) = (1 - rho) rho^n,
    P(response > t) = exp(-t / R), P(waiting > t) = rho exp(-t / R). Raises ExperimentError for bad arguments or rho >= 1.
    """
    busy = check_open(arrival_rate_per_s, service_time_s, 1, "M/M/1")
    free = 1 - busy
    response_s = service_time_s / free
    return StationResult(
        model="M/M/1",
        servers=1,
        service_time_s=service_time_s,
        arrival_rate_per_s=arrival_rate_per_s,
        throughput_per_s=arrival_rate_per_s,
        utilisation=busy,
        response_time_s=response_s,
        waiting_time_s=busy * response_s,
        queue_length=busy * busy / free,
        number_in_system=busy / free,
        method=METHOD,
        waiting=Times(lambda t: busy * math.exp(-t / response_s), response_s),
        response=Times(lambda t: math.exp(-t / response_s), response_s),
        states=lambda n: free * busy**n,
    )
