"""M/D/c: Poisson arrivals, constant service, c servers at one shared queue; exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from iodyno.analysis.queueing.embedded_chain import GeometricTail, decay_root, poisson_over, with_tail
from iodyno.analysis.queueing.station import Method, StationResult, check_open
from iodyno.analysis.queueing.times import Times
from iodyno.core.errors import ExperimentError

METHOD = Method(
    True,
    "chain from one service time to the next, and Franx's formula (Operations Research Letters 29:5, 2001)",
)
MOST_SERVERS = 128
"""Chosen: the chain has 24 states a server, and takes a second there."""
_STATES_A_SERVER = 24
_STATES_MORE = 60
"""Beyond so many states the tail is geometric to 1e-13 (found by doubling both; a test does it again)."""


def mdc(arrival_rate_per_s: float, service_time_s: float, servers: int) -> StationResult:
    """The station M/D/c, first come first served.

    Source: after one service time D who was in service is gone, and who came is there: N' = max(N - c, 0) + A (Crommelin
    1932). Its probabilities by elimination without subtraction (Grassmann, Taksar and Heyman, Operations Research 33:5,
    1985), states beyond the last as one with a geometric law within. Waits by Franx's formula, whose terms are positive.
    Raises ExperimentError for bad arguments, a utilisation of 1 or more, or more than 128 servers.
    """
    model = f"M/D/{servers}"
    offered = check_open(arrival_rate_per_s, service_time_s, servers, model)
    if servers > MOST_SERVERS:
        raise ExperimentError(
            f"invalid value: {servers} servers; expected {MOST_SERVERS} at most",
            where=model,
            advice="ggc --service-scv 0, an approximation that is good for many servers",
        )
    states = stationary(servers, offered)
    last = len(states.first) - 1
    queue = math.fsum((n - servers) * p for n, p in enumerate(states.first) if n > servers)
    # The rest is geometric: each state beyond the last one adds what is above it.
    queue += (last - servers) * states.more[last] + states.more[last] * (1 + 1 / states.growth)
    waiting_s = queue / arrival_rate_per_s if arrival_rate_per_s else 0.0
    waiting = Times(
        _Waits(states, servers, arrival_rate_per_s, service_time_s), max(waiting_s, service_time_s / servers)
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
        queue_length=queue,
        number_in_system=offered + queue,
        method=METHOD,
        waiting=waiting,
        response=waiting.later_by(service_time_s),
        states=states.at,
    )


@lru_cache(maxsize=64)
def stationary(servers: int, offered: float, states_a_server: int = _STATES_A_SERVER) -> GeometricTail:
    """P(N = n) over time; `offered` load in servers, below their number."""
    import numpy as np

    if offered == 0:
        return GeometricTail([1.0], [0.0], 1.0)
    came = np.array(_poisson(offered))
    growth = decay_root(poisson_over(offered / servers).over, 1 - offered / servers)
    last = states_a_server * servers + _STATES_MORE
    moves = np.zeros((last + 1, last + 1))
    for state in range(last):
        first = max(state - servers, 0)
        reach = min(len(came), last - first)
        moves[state, first : first + reach] = came[:reach]
        moves[state, last] = came[reach:].sum()
    # The last state stands for all beyond, of which each has 1 / (1 + growth) of the one before.
    share = 0.0
    for step in range(servers):
        share = share / (1 + growth) + growth / (1 + growth) * (came[step] if step < len(came) else 0.0)
        moves[last, last - servers + step] = share
    reach = len(came)
    for state in range(last, 0, -1):
        low, high = max(0, state - servers), max(0, state - reach) if state < last else 0
        leaves = moves[state, low:state].sum()
        moves[high:state, state] /= leaves
        moves[high:state, low:state] += np.outer(moves[high:state, state], moves[state, low:state])
    found = np.zeros(last + 1)
    found[0] = 1.0
    for state in range(1, last + 1):
        found[state] = found[:state] @ moves[:state, state]
    found /= found.sum()
    # The last one holds all from there on: the first of these has growth / (1 + growth) of it.
    found[last] *= growth / (1 + growth)
    return with_tail(found.tolist(), growth)


def _poisson(mean: float) -> Sequence[float]:
    over = poisson_over(mean)
    parts = [1.0, *over.over]
    weights = [math.exp(n * math.log(mean) - mean - math.lgamma(n + 1)) for n in range(len(parts))]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


class _Waits:
    """P(waiting > t): with k = floor(t / D) + 1 and y = k D - t, sum over j < k c of P(A = j) P(N > k c + c - 1 - j), and
    P(A >= k c), where A is Poisson with rate x y. Source: Franx 2001, of which this is the complement, term by term."""

    def __init__(self, states: GeometricTail, servers: int, rate_per_s: float, service_s: float) -> None:
        self.states, self.servers, self.rate_per_s, self.service_s = states, servers, rate_per_s, service_s

    def __call__(self, time_s: float) -> float:
        whole = math.floor(time_s / self.service_s) + 1
        mean = self.rate_per_s * max(0.0, whole * self.service_s - time_s)
        places = whole * self.servers
        if mean == 0:
            return self.states.above(places + self.servers - 1)
        came = _poisson(mean)
        total = math.fsum(
            part * self.states.above(places + self.servers - 1 - j) for j, part in enumerate(came[:places])
        )
        return min(1.0, total + math.fsum(came[places:]))
