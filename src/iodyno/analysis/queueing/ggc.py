"""G/G/c by two moments: Allen and Cunneen's approximation of the wait, Kingman's bounds, and an approximate distribution."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

from iodyno.analysis.queueing.erlang import erlang_c
from iodyno.analysis.queueing.service import LEAST_MIXED, Constant, ErlangMixture, Law, law_of
from iodyno.analysis.queueing.station import Method, StationResult, check_open, check_squared_cv
from iodyno.analysis.queueing.times import Times, later_of_two_stages

METHOD = Method(False, "Allen and Cunneen: Allen, Probability, Statistics, and Queueing Theory, 1990")
_NODES = 64


def ggc(
    arrival_rate_per_s: float,
    service_time_s: float,
    servers: int,
    arrival_squared_cv: float,
    service_squared_cv: float,
) -> StationResult:
    """The station G/G/c from squared coefficients of variation of the times between arrivals and of service.

    Source: Allen and Cunneen, W = C s / (c (1 - rho)) x (ca^2 + cs^2) / 2 with Erlang's C; exact for M/M/c and M/G/1 only.
    The wait is taken as 0, or with probability C exponential with the mean W / C (Whitt, Production and Operations
    Management 2:2, 1993, simplified), and service as `service.law_of`. Raises ExperimentError for bad arguments or a
    utilisation of 1 or more.
    """
    model = f"G/G/{servers}"
    offered = check_open(arrival_rate_per_s, service_time_s, servers, model)
    check_squared_cv(arrival_squared_cv, "times between arrivals", model)
    check_squared_cv(service_squared_cv, "service times", model)
    waits = erlang_c(servers, offered)
    mean_cv = (arrival_squared_cv + service_squared_cv) / 2
    waiting_s = waits * service_time_s / (servers - offered) * mean_cv
    law = law_of(service_time_s, service_squared_cv)
    drain_per_s = waits / waiting_s if waiting_s else math.inf
    # Without any variation, or any load, nobody waits.
    share = waits if waiting_s else 0.0
    waiting = Times(
        lambda t: share * math.exp(-drain_per_s * t) if share else 0.0,
        waiting_s / share if share else service_time_s,
    )
    missing = (
        ""
        if law
        else f"no quantiles of the response: no law below a squared coefficient of variation of {LEAST_MIXED:g}"
    )
    return StationResult(
        model=model,
        servers=servers,
        service_time_s=service_time_s,
        arrival_rate_per_s=arrival_rate_per_s,
        throughput_per_s=arrival_rate_per_s,
        utilisation=offered / servers,
        response_time_s=service_time_s + waiting_s,
        waiting_time_s=waiting_s,
        queue_length=arrival_rate_per_s * waiting_s,
        number_in_system=offered + arrival_rate_per_s * waiting_s,
        method=METHOD,
        waiting=waiting,
        response=Times(_response(law, share, drain_per_s), service_time_s) if law else None,
        missing=missing,
    )


def waiting_bounds_s(
    arrival_rate_per_s: float,
    service_time_s: float,
    servers: int,
    arrival_squared_cv: float,
    service_squared_cv: float,
) -> tuple[float, float]:
    """Least and greatest mean waiting time in seconds that any G/G/c with these two moments can have.

    Source: above, Kingman (Journal of the Royal Statistical Society B 32:1, 1970), (va + vs / c + s^2 (c - 1) / c^2) /
    (2 a (1 - rho)) with a, va mean and variance between arrivals; below, Marchal (1978) for a server c times as fast, less
    (c - 1) / (2 c) E[S^2] / s (Brumelle, Operations Research 19:2, 1971); both in Kleinrock, Queueing Systems 2
    (1976), chapter 2. Raises ExperimentError for bad arguments or a utilisation of 1 or more.
    """
    model = f"G/G/{servers}"
    offered = check_open(arrival_rate_per_s, service_time_s, servers, model)
    check_squared_cv(arrival_squared_cv, "times between arrivals", model)
    check_squared_cv(service_squared_cv, "service times", model)
    if offered == 0:
        return 0.0, 0.0
    busy, free = offered / servers, (servers - offered) / servers
    gap_s = 1 / arrival_rate_per_s
    spread = arrival_squared_cv * gap_s**2 + service_time_s**2 * (
        service_squared_cv / servers + (servers - 1) / servers**2
    )
    high = spread / (2 * gap_s * free)
    fast = service_time_s / servers * (busy * (1 + service_squared_cv) - 2) / (2 * free)
    low = max(0.0, fast) - (servers - 1) / (2 * servers) * service_time_s * (1 + service_squared_cv)
    return max(0.0, low), high


def _response(law: Law, share: float, drain_per_s: float) -> Callable[[float], float]:
    """P(wait + service > t), the wait being 0 or with probability `share` exponential."""

    def survival(time_s: float) -> float:
        alone = law.exceeds(time_s)
        if not share or time_s <= 0:
            return alone
        if isinstance(law, Constant):
            after = time_s - law.time_s
            return 1.0 if after < 0 else share * math.exp(-drain_per_s * after)
        if isinstance(law, ErlangMixture):
            both = _both(law, drain_per_s, time_s)
        else:
            both = sum(
                ratio * per_s * later_of_two_stages(drain_per_s, per_s, time_s)
                for ratio, per_s in ((law.fast_ratio, law.fast_per_s), (law.slow_ratio, law.slow_per_s))
            )
        return min(1.0, alone + share * both)

    return survival


@cache
def _nodes() -> tuple[Any, Any]:
    from numpy.polynomial.legendre import leggauss

    return leggauss(_NODES)


def _both(law: ErlangMixture, drain_per_s: float, time_s: float) -> float:
    """The part of P(wait + service > t) with service below t: the integral of its density times the wait's survival.

    By Gauss and Legendre's rule over where either factor is not negligible: 38 / rate below t, and 10 standard deviations
    around the mean of the phases (chosen: e^-38 = 3e-17; the normal tail there is 1e-23).
    """
    import numpy as np

    mean_s, sd_s = law.phases / law.phase_per_s, math.sqrt(law.phases) / law.phase_per_s
    low = max(0.0, time_s - 38 / drain_per_s, mean_s - 10 * sd_s - 10 / law.phase_per_s)
    high = min(time_s, mean_s + 10 * sd_s + 40 / law.phase_per_s)
    if high <= low:
        return 0.0
    points, weights = _nodes()
    total = 0.0
    edges = np.linspace(low, high, 9)
    for left, right in itertools.pairwise(edges):
        at = (left + right) / 2 + (right - left) / 2 * points
        density = np.zeros_like(at)
        for phases, ratio in ((law.phases, 1 - law.fewer_ratio), (law.phases - 1, law.fewer_ratio)):
            if ratio and phases:
                x = law.phase_per_s * at
                density += (
                    ratio * np.exp((phases - 1) * np.log(x) - x - math.lgamma(phases)) * law.phase_per_s
                )
        total += float(weights @ (density * np.exp(-drain_per_s * (time_s - at)))) * (right - left) / 2
    return total
