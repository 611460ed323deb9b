"""M/G/inf: Poisson arrivals, a server for everyone; a delay. What is in flight is Poisson, whatever the law of service."""

from __future__ import annotations

import math

from iodyno.analysis.queueing.station import Method, StationResult, check_rate, check_service
from iodyno.analysis.queueing.times import Times

METHOD = Method(
    True, "Kleinrock 1975, 3.4; Poisson for any law of service (Takacs 1962), response for an exponential one"
)


def mminf(arrival_rate_per_s: float, service_time_s: float) -> StationResult:
    """The station M/M/inf: nobody waits, and what is in flight is Poisson with the mean rate x service time.

    Source: Kleinrock, Queueing Systems 1 (1975), 3.4. Raises ExperimentError for bad arguments.
    """
    check_service(service_time_s, "M/M/inf")
    check_rate(arrival_rate_per_s, "M/M/inf")
    in_system = arrival_rate_per_s * service_time_s

    def probability(customers: int) -> float:
        if in_system == 0:
            return 1.0 if customers == 0 else 0.0
        return math.exp(customers * math.log(in_system) - in_system - math.lgamma(customers + 1))

    return StationResult(
        model="M/M/inf",
        servers=None,
        service_time_s=service_time_s,
        arrival_rate_per_s=arrival_rate_per_s,
        throughput_per_s=arrival_rate_per_s,
        utilisation=None,
        response_time_s=service_time_s,
        waiting_time_s=0.0,
        queue_length=0.0,
        number_in_system=in_system,
        method=METHOD,
        waiting=Times(lambda _: 0.0, service_time_s),
        response=Times(lambda t: math.exp(-t / service_time_s), service_time_s),
        states=probability,
    )
