"""M/M/c: Poisson arrivals, exponential service, c servers at one shared queue; beside it, c queues of their own."""

from __future__ import annotations

import math
from dataclasses import replace

from iodyno.analysis.queueing.erlang import erlang_c
from iodyno.analysis.queueing.mm1 import mm1
from iodyno.analysis.queueing.station import Method, StationResult, check_count, check_open
from iodyno.analysis.queueing.times import Times, later_of_two_stages

METHOD = Method(True, "Erlang C; response time: Gross and Harris, Fundamentals of Queueing Theory, 1998, 2.3")
SEPARATE = Method(True, "M/M/1 for each; a Poisson process split at random is Poisson (Kleinrock 1975)")


def mmc(arrival_rate_per_s: float, service_time_s: float, servers: int) -> StationResult:
    """The station M/M/c, first come first served, any free server takes the next.

    Source: Erlang C for the share C that waits; P(waiting > t) = C exp(-theta t) with theta = (c - a) / s, and the response is
    the sum of that and an exponential service (Gross and Harris 1998, 2.3), also where theta = 1 / s.
    Raises ExperimentError for bad arguments or a utilisation of 1 or more.
    """
    model = f"M/M/{servers}"
    offered = check_open(arrival_rate_per_s, service_time_s, servers, model)
    waits = erlang_c(servers, offered)
    per_s = 1 / service_time_s
    drain_per_s = (servers - offered) / service_time_s
    waiting_s = waits / drain_per_s
    queue = waits * offered / (servers - offered)
    # P(all servers busy, none waiting); the states below follow by p(n) = p(n + 1) (n + 1) / a.
    full = waits * (servers - offered) / servers

    def probability(customers: int) -> float:
        if customers >= servers:
            return full * (offered / servers) ** (customers - servers)
        if offered == 0:
            return 1.0 if customers == 0 else 0.0
        if full > 1e-250:
            below = full
            for state in range(servers, customers, -1):
                below *= state / offered
            return below
        return _of_poisson(customers, servers, offered)

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
        waiting=Times(lambda t: waits * math.exp(-drain_per_s * t), 1 / drain_per_s),
        response=Times(
            lambda t: math.exp(-per_s * t) + waits * per_s * later_of_two_stages(drain_per_s, per_s, t),
            service_time_s,
        ),
        states=probability,
    )


def separate_queues(arrival_rate_per_s: float, service_time_s: float, servers: int) -> StationResult:
    """c servers with a queue each, over which arrivals are spread at random: queues per CPU instead of a shared one.

    Queue and number count all c. `probability` is that of one of them.
    Source: random splitting keeps arrivals Poisson (Kleinrock 1975), so each is M/M/1. Raises as `mm1` does.
    """
    check_count(servers, "servers", "separate queues")
    one = mm1(arrival_rate_per_s / servers, service_time_s)
    return replace(
        one,
        model=f"{servers} x M/M/1",
        servers=servers,
        arrival_rate_per_s=arrival_rate_per_s,
        throughput_per_s=arrival_rate_per_s,
        queue_length=servers * one.queue_length,
        number_in_system=servers * one.number_in_system,
        method=SEPARATE,
    )


def _of_poisson(customers: int, servers: int, offered: float) -> float:
    """p(n) of a load so small against the servers that all busy at once is next to impossible: Poisson, cut there."""
    logs = [n * math.log(offered) - math.lgamma(n + 1) for n in range(servers + 1)]
    largest = max(logs)
    return math.exp(logs[customers] - largest) / math.fsum(math.exp(log - largest) for log in logs)
