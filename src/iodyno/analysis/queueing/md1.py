"""M/D/1 and M/D/1/K: Poisson arrivals, constant service, one server; an infinite queue, or K places in the system."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from iodyno.analysis.queueing.embedded_chain import finite, infinite, poisson_over
from iodyno.analysis.queueing.station import (
    LEAST_BUSY,
    Method,
    StationResult,
    check_count,
    check_open,
    check_rate,
    check_service,
)
from iodyno.analysis.queueing.times import Times
from iodyno.core.errors import ExperimentError

METHOD = Method(True, "Pollaczek-Khinchine; states and waits by level crossing (Tijms 2003, 9.2)")
FINITE = Method(
    True, "embedded chain by level crossing (Tijms 2003, 9.2 and 9.8); waits by age of the service"
)

MOST_OFFERED = 300
"""States rise by up to e^300 = 1e130 from one to the next there, which doubles still hold with what they are scaled to."""


def md1(arrival_rate_per_s: float, service_time_s: float) -> StationResult:
    """The station M/D/1, first come first served.

    Source: mean by Pollaczek-Khinchine, W = rho s / (2 (1 - rho)). Distribution: as `_waits`, which is what Crommelin's
    series (Post Office Electrical Engineers' Journal 25, 1932) sums up to, without its alternating signs.
    Raises ExperimentError for bad arguments or a utilisation of 1 or more.
    """
    busy = check_open(arrival_rate_per_s, service_time_s, 1, "M/D/1")
    free = 1 - busy
    waiting_s = busy * service_time_s / (2 * free)
    states = infinite(poisson_over(busy), busy)
    waits = _waits(states.at, states.above, arrival_rate_per_s, service_time_s)
    waiting = Times(waits, waiting_s)
    return StationResult(
        model="M/D/1",
        servers=1,
        service_time_s=service_time_s,
        arrival_rate_per_s=arrival_rate_per_s,
        throughput_per_s=arrival_rate_per_s,
        utilisation=busy,
        response_time_s=waiting_s + service_time_s,
        waiting_time_s=waiting_s,
        queue_length=arrival_rate_per_s * waiting_s,
        number_in_system=busy + arrival_rate_per_s * waiting_s,
        method=METHOD,
        waiting=waiting,
        response=waiting.later_by(service_time_s),
        states=states.at,
    )


def md1k(arrival_rate_per_s: float, service_time_s: float, capacity: int) -> StationResult:
    """The station M/D/1/K, first come first served. `capacity` (K) counts the one in service too.

    A token bucket of one frame with a limit of q frames is one with K = q + 1; what is measured behind it as delay is the
    waiting time. Source: embedded chain (Tijms 2003, 9.8); arrivals that are not lost find n < K with p(n) / (1 - p(K)).
    Any load is stable. Raises ExperimentError for bad arguments.
    """
    model = f"M/D/1/{capacity}"
    check_count(capacity, "places", model)
    check_service(service_time_s, model)
    check_rate(arrival_rate_per_s, model)
    offered = arrival_rate_per_s * service_time_s
    if offered > MOST_OFFERED:
        raise ExperimentError(
            f"invalid value: an offered load of {offered:.6g}; expected {MOST_OFFERED} times what "
            "the server can do, at most",
            where=model,
            advice="beyond it all but 1 / load is lost",
        )
    states = finite(poisson_over(offered), capacity)
    busy, accepted = math.fsum(states[1:]), math.fsum(states[:-1])
    waiting = math.fsum((n - 1) * p for n, p in enumerate(states) if n > 1)
    number = math.fsum(n * p for n, p in enumerate(states))
    rate = busy / service_time_s
    found = [p / accepted for p in states[:-1]]
    above = [math.fsum(found[n + 1 :]) for n in range(capacity)] if capacity <= 64 else _sums_above(found)
    waits = _waits(
        lambda n: found[n] if n < capacity else 0.0,
        lambda n: above[n] if n < capacity else 0.0,
        arrival_rate_per_s,
        service_time_s,
    )
    waiting_times = Times(lambda t: waits(t) if t < (capacity - 1) * service_time_s else 0.0, service_time_s)
    return StationResult(
        model=model,
        servers=1,
        service_time_s=service_time_s,
        arrival_rate_per_s=arrival_rate_per_s,
        throughput_per_s=rate,
        utilisation=busy,
        response_time_s=service_time_s * number / busy if busy > LEAST_BUSY else service_time_s,
        waiting_time_s=service_time_s * waiting / busy if busy > LEAST_BUSY else 0.0,
        queue_length=waiting,
        number_in_system=number,
        method=FINITE,
        blocking_ratio=states[-1],
        waiting=waiting_times,
        response=waiting_times.later_by(service_time_s),
        states=lambda n: states[n] if n <= capacity else 0.0,
    )


def _sums_above(found: list[float]) -> list[float]:
    above = [0.0]
    for part in reversed(found[1:]):
        above.append(above[-1] + part)
    return above[::-1]


def _waits(
    found: Callable[[int], float], above: Callable[[int], float], rate_per_s: float, service_s: float
) -> Callable[[float], float]:
    """P(waiting > t) of arrivals that find n in the system with probability found(n), above(n) = P(more than n).

    Who finds n, the service of one of them begun u ago, waits n D - u. With k = floor(t / D) + 1 and y = k D - t, more than k
    found means a longer wait, and k found means one when u < y; by renewal of services, the part of time with k in the
    system and u < y is sum over i = 1 .. k of q(i) P(Poisson(rate y) > k - i), where a service begins with i in the system
    in proportion to q(1) = p(0) + p(1), q(i) = p(i). All terms are positive.
    """
    # A quantile is sought at a dozen times, and one figure asks for the same ones again.
    over = lru_cache(maxsize=256)(lambda mean: poisson_over(mean).over)

    def survival(time_s: float) -> float:
        whole = math.floor(time_s / service_s) + 1
        left = max(0.0, whole * service_s - time_s)
        more = over(rate_per_s * left) if left > 0 else []
        total = above(whole)
        for i in range(max(1, whole - len(more) + 1), whole + 1):
            total += (found(i) + (found(0) if i == 1 else 0.0)) * more[whole - i]
        return min(1.0, total)

    return survival
