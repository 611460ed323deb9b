"""Fork and join: a request asks k servers at once and is complete when all, or a quorum of them, have answered."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

from iodyno.analysis.queueing.mm1 import mm1
from iodyno.analysis.queueing.station import Method, StationResult, check_count, check_service
from iodyno.analysis.queueing.times import Times
from iodyno.core.errors import ExperimentError

QUORUM = Method(True, "order statistics of exponential times (David and Nagaraja, Order Statistics, 2003)")
PAIR = Method(True, "Flatto and Hahn 1984; Nelson and Tantawi, IEEE Transactions on Computers 37:6, 1988")
NELSON_TANTAWI = Method(
    False, "Nelson and Tantawi, IEEE Transactions on Computers 37:6, 1988; within 5 % for 2 to 32 servers"
)
VARMA_MAKOWSKI = Method(
    False, "Varma and Makowski, Performance Evaluation 20, 1994: between light and heavy traffic"
)
BOUND = Method(
    False, "upper bound: as if the k answers were independent (they are associated: Nelson and Tantawi 1988)"
)

MOST_NELSON_TANTAWI = 32
"""Up to so many servers the approximation was fitted and checked by its authors."""
MOST_SERVERS = 512


def quorum_of(servers: int, service_time_s: float, quorum: int | None = None) -> StationResult:
    """The time until `quorum` of `servers` (all of them, if None) have answered, each in an exponential time, no queue.

    Max of k: striping, replication to all; m of k: a quorum write. Waiting is 0: the load is one request at a time.
    Source: R = s (H(k) - H(k - m)), and P(R > t) is the chance that fewer than m of k are done (David and Nagaraja 2003).
    Raises ExperimentError for bad arguments, or a quorum of more than there are.
    """
    needed = servers if quorum is None else quorum
    model = f"{needed} of {servers}"
    check_count(servers, "servers", model)
    check_count(needed, "answers", model)
    if servers > MOST_SERVERS:
        raise ExperimentError(
            f"invalid value: {servers} servers; expected {MOST_SERVERS} at most", where=model
        )
    check_service(service_time_s, model)
    if needed > servers:
        raise ExperimentError(
            f"invalid value: a quorum of {needed} of {servers} servers; expected {servers} at most",
            where=model,
        )
    mean_s = service_time_s * math.fsum(1 / left for left in range(servers - needed + 1, servers + 1))

    def survival(time_s: float) -> float:
        late = math.exp(-time_s / service_time_s)
        done = -math.expm1(-time_s / service_time_s)
        if needed == servers:
            # 1 - (1 - late)^k, without the subtraction.
            return -math.expm1(servers * math.log1p(-late)) if late < 1 else 1.0
        return math.fsum(math.comb(servers, n) * done**n * late ** (servers - n) for n in range(needed))

    return StationResult(
        model=model,
        servers=servers,
        service_time_s=service_time_s,
        arrival_rate_per_s=0.0,
        throughput_per_s=0.0,
        utilisation=0.0,
        response_time_s=mean_s,
        waiting_time_s=0.0,
        queue_length=0.0,
        number_in_system=0.0,
        method=QUORUM,
        waiting=Times(lambda _: 0.0, mean_s),
        response=Times(survival, mean_s),
    )


def fork_join(arrival_rate_per_s: float, service_time_s: float, servers: int) -> StationResult:
    """Requests come as a Poisson process, each to all of `servers` queues M/M/1; the response ends with the last answer.

    Exact for 1 and 2 servers; to 32 Nelson and Tantawi, R(k) = (H(k) / H(2) + 4 / 11 (1 - H(k) / H(2)) rho) R(2) with
    R(2) = (12 - rho) / 8 R(1); beyond, Varma and Makowski. The wait is that of one of the k parts; `number_in_system` counts
    requests. Quantiles are upper bounds. Raises ExperimentError for bad arguments or a utilisation of 1 or more.
    """
    check_count(servers, "servers", "fork-join")
    if servers > MOST_SERVERS:
        raise ExperimentError(
            f"invalid value: {servers} servers; expected {MOST_SERVERS} at most", where="fork-join"
        )
    one = mm1(arrival_rate_per_s, service_time_s)
    busy, single_s = one.utilisation or 0.0, one.response_time_s
    if servers == 1:
        response_s, method = single_s, one.method
    elif servers == 2:
        response_s, method = (12 - busy) / 8 * single_s, PAIR
    elif servers <= MOST_NELSON_TANTAWI:
        ratio = _harmonic(servers) / _harmonic(2)
        response_s, method = (
            (ratio + 4 / 11 * (1 - ratio) * busy) * (12 - busy) / 8 * single_s,
            NELSON_TANTAWI,
        )
    else:
        response_s, method = varma_makowski_s(arrival_rate_per_s, service_time_s, servers), VARMA_MAKOWSKI

    def survival(time_s: float) -> float:
        late = math.exp(-time_s / single_s)
        return -math.expm1(servers * math.log1p(-late)) if late < 1 else 1.0

    return StationResult(
        model=f"fork-join of {servers}",
        servers=servers,
        service_time_s=service_time_s,
        arrival_rate_per_s=arrival_rate_per_s,
        throughput_per_s=arrival_rate_per_s,
        utilisation=busy,
        response_time_s=response_s,
        waiting_time_s=one.waiting_time_s,
        queue_length=one.queue_length,
        number_in_system=arrival_rate_per_s * response_s,
        method=method,
        waiting=one.waiting,
        response=Times(survival, single_s),
        time_method=one.method if servers == 1 else BOUND,
    )


def varma_makowski_s(arrival_rate_per_s: float, service_time_s: float, servers: int) -> float:
    """Mean response of a fork-join of k queues M/M/1 in seconds: (H(k) + (V(k) - H(k)) rho) s / (1 - rho).

    Source: Varma and Makowski, Performance Evaluation 20 (1994); V(k) = sum over r of C(k, r) (-1)^(r - 1) sum over m of
    C(r, m) (m - 1)! / r^(m + 1), whose signs alternate and which is therefore summed in rational numbers.
    Raises ExperimentError for bad arguments or a utilisation of 1 or more.
    """
    one = mm1(arrival_rate_per_s, service_time_s)
    harmonic = _harmonic(servers)
    return (harmonic + (_heavy(servers) - harmonic) * (one.utilisation or 0.0)) * one.response_time_s


def _harmonic(number: int) -> float:
    return math.fsum(1 / n for n in range(1, number + 1))


@cache
def _heavy(servers: int) -> float:
    total = Fraction(0)
    for r in range(1, servers + 1):
        # C(r, m) (m - 1)! = r (r - 1) ... (r - m + 1) / m, a whole number, over r^(m + 1).
        inner, falling = 0, 1
        for m in range(1, r + 1):
            falling *= r - m + 1
            inner += falling // m * r ** (r - m)
        total += (-1) ** (r - 1) * math.comb(servers, r) * Fraction(inner, r ** (r + 1))
    return float(total)
