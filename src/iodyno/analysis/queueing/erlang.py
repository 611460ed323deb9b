"""Erlang's loss and delay formulas for any number of servers.

Source: A. K. Erlang, Solution of some problems in the theory of probabilities of significance in automatic telephone
exchanges (1917); the recurrence on 1/B is that of Jagerman, Bell System Technical Journal 53:3 (1974). With a the offered
load in servers, 1/B(0) = 1 and 1/B(n) = 1 + (n / a) / B(n - 1): only positive numbers are added and multiplied, so that a
rounding error grows by n units in the last place at most. From where 1/B is beyond 1e250 the 1 no longer counts, and the
rest is a product, of which the logarithm is taken: 512 servers at a load of 1 have a B of 1e-1167, which has a logarithm.
"""

from __future__ import annotations

import math

from iodyno.core.errors import ExperimentError

_LARGE = 1e250


def log_erlang_b(servers: int, offered_load: float) -> float:
    """Natural logarithm of `erlang_b`; -inf without load. Raises ExperimentError as that does."""
    _check(servers, offered_load)
    if offered_load == 0:
        return -math.inf if servers else 0.0
    inverse = 1.0
    for server in range(1, servers + 1):
        inverse = 1 + server / offered_load * inverse
        if inverse > _LARGE:
            rest = math.fsum(math.log(later / offered_load) for later in range(server + 1, servers + 1))
            return -math.log(inverse) - rest
    return -math.log(inverse)


def erlang_b(servers: int, offered_load: float) -> float:
    """Share of arrivals lost by `servers` without a queue (M/G/c/c), a ratio; `offered_load` in servers (erlangs).

    Source: Erlang 1917, recurrence of Jagerman 1974. 0 where it is below the least double.
    Raises ExperimentError for negative servers or a load that is negative or not finite.
    """
    _check(servers, offered_load)
    if offered_load == 0:
        return 0.0 if servers else 1.0
    inverse = 1.0
    for server in range(1, servers + 1):
        inverse = 1 + server / offered_load * inverse
        if inverse > _LARGE:
            return math.exp(log_erlang_b(servers, offered_load))
    return 1 / inverse


def erlang_c(servers: int, offered_load: float) -> float:
    """Share of arrivals that wait in M/M/c, a ratio; `offered_load` in servers, below their number.

    Source: Erlang 1917; C = B / ((1 - rho) + rho B), where both terms are positive (Cooper, Introduction to Queueing Theory,
    1981, 3.5). Raises ExperimentError for a bad argument, or a load of `servers` or more: then all wait, ever longer.
    """
    blocked = erlang_b(servers, offered_load)
    if offered_load >= servers:
        raise ExperimentError(
            f"invalid value: a load of {offered_load:g} servers on {servers}; expected below their number",
            advice="more servers, or erlang_b where those that find no server are lost",
        )
    free = (servers - offered_load) / servers
    return blocked / (free + offered_load / servers * blocked)


def servers_for_waiting(offered_load: float, waiting_ratio: float) -> int:
    """The least number of servers at which no more than `waiting_ratio` of the arrivals wait (M/M/c); load in servers.

    Source: Erlang's C falls with every server. Raises ExperimentError for a bad load, or a ratio outside (0, 1].
    """
    _check(0, offered_load)
    if not 0 < waiting_ratio <= 1:
        raise ExperimentError(
            f"invalid value: {waiting_ratio!r} as the share that waits; expected above 0, at most 1"
        )
    servers = max(1, math.floor(offered_load) + 1)
    inverse = 1 / erlang_b(servers, offered_load) if offered_load else math.inf
    while not math.isinf(inverse):
        blocked = 1 / inverse
        share = blocked / ((servers - offered_load) / servers + offered_load / servers * blocked)
        if share <= waiting_ratio:
            break
        servers += 1
        inverse = 1 + servers / offered_load * inverse
    return servers


def _check(servers: int, offered_load: float) -> None:
    if servers < 0:
        raise ExperimentError(f"invalid value: {servers} servers; expected 0 or more")
    if not (math.isfinite(offered_load) and offered_load >= 0):
        raise ExperimentError(
            f"invalid value: a load of {offered_load} servers; expected a finite number, 0 or more"
        )
