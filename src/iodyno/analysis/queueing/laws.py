"""Operational laws: what holds for every system that was observed, whatever its distributions.

Source: Denning and Buzen, The operational analysis of queueing network models, ACM Computing Surveys 10:3 (1978); Little,
Operations Research 9:3 (1961); bounds: Muntz and Wong (1974), Lazowska et al., Quantitative System Performance (1984), 5.
"""

from __future__ import annotations

import math

from iodyno.core.errors import ExperimentError


def number_in_system(throughput_per_s: float, response_time_s: float) -> float:
    """Little's law, N = X R: the mean number in a system. Raises ExperimentError for a negative argument."""
    _check(throughput_per_s=throughput_per_s, response_time_s=response_time_s)
    return throughput_per_s * response_time_s


def response_time_s(number: float, throughput_per_s: float, think_time_s: float = 0.0) -> float:
    """Little's law for a closed loop, R = N / X - Z, in seconds (interactive response time law).

    Raises ExperimentError for a negative argument, no throughput, or more thinking than N / X leaves time for: then the
    three were not measured on the same system.
    """
    _check(number=number, throughput_per_s=throughput_per_s, think_time_s=think_time_s)
    if throughput_per_s == 0:
        raise ExperimentError("found a throughput of 0: no response has ended, and there is no response time")
    found = number / throughput_per_s - think_time_s
    if found < 0:
        raise ExperimentError(
            f"found N / X = {number / throughput_per_s:g} s, less than the think time of {think_time_s:g} s",
            advice="number, throughput and think time of the same clients in the same interval",
        )
    return found


def utilisation(throughput_per_s: float, service_time_s: float, servers: int = 1) -> float:
    """Utilisation law, U = X s / c: the busy share of each server. Raises ExperimentError for a bad argument.

    A result above 1 contradicts itself, and is returned: it is the check.
    """
    _check(throughput_per_s=throughput_per_s, service_time_s=service_time_s)
    if servers < 1:
        raise ExperimentError(f"invalid value: {servers} servers; expected 1 or more")
    return throughput_per_s * service_time_s / servers


def service_demand_s(utilisation_ratio: float, throughput_per_s: float, servers: int = 1) -> float:
    """Service demand law, D = U c / X: seconds of all its servers that a station spends on a request of the system.

    Raises ExperimentError for a negative argument, or no throughput.
    """
    _check(utilisation_ratio=utilisation_ratio, throughput_per_s=throughput_per_s)
    if throughput_per_s == 0:
        raise ExperimentError("found a throughput of 0: nothing was done, and a demand cannot be told")
    return utilisation_ratio * servers / throughput_per_s


def station_throughput_per_s(throughput_per_s: float, visits: float) -> float:
    """Forced flow law, X(k) = X V(k): what a station does when a request visits it so often. Raises as the others."""
    _check(throughput_per_s=throughput_per_s, visits=visits)
    return throughput_per_s * visits


def servers_needed(throughput_per_s: float, service_time_s: float, target_utilisation: float) -> int:
    """The least whole number of servers whose utilisation is at most `target_utilisation` (above 0, to 1).

    Source: utilisation law. A number of cores without its target utilisation is one at 100 %, where queues have no end.
    Raises ExperimentError for a bad argument.
    """
    _check(throughput_per_s=throughput_per_s, service_time_s=service_time_s)
    if not 0 < target_utilisation <= 1:
        raise ExperimentError(
            f"invalid value: a target utilisation of {target_utilisation:g}; expected above 0, to 1",
            advice="0.7",
        )
    # What is a whole number but for a rounding error needs no further server.
    return max(1, math.ceil(throughput_per_s * service_time_s / target_utilisation * (1 - 1e-12)))


def saturation_population(cycle_s: float, greatest_demand_s: float) -> float:
    """N* = (D + Z) / Dmax: the clients at which the asymptotes of the rate, N / (D + Z) and 1 / Dmax, meet.

    Source: Lazowska et al. 1984, 5.2. Raises ExperimentError for a bad argument.
    """
    _check(cycle_s=cycle_s)
    if not (math.isfinite(greatest_demand_s) and greatest_demand_s > 0):
        raise ExperimentError(
            f"invalid value: {greatest_demand_s:g} s as the greatest demand; expected above 0"
        )
    return cycle_s / greatest_demand_s


def asymptotic_bounds(
    population: float, demand_s: float, greatest_demand_s: float, think_time_s: float = 0.0
) -> tuple[float, float]:
    """The most throughput per second and the least response in seconds of a closed system, whatever its distributions.

    X <= min(N / (D + Z), 1 / Dmax), R >= max(D, N Dmax - Z). Source: Muntz and Wong 1974; Lazowska et al. 1984, 5.2.
    Raises ExperimentError for a bad argument.
    """
    _check(population=population, demand_s=demand_s, think_time_s=think_time_s)
    meet = saturation_population(demand_s + think_time_s, greatest_demand_s)
    rate = 1 / greatest_demand_s if population >= meet else population / (demand_s + think_time_s)
    return rate, max(demand_s, population * greatest_demand_s - think_time_s)


def _check(**arguments: float) -> None:
    for name, value in arguments.items():
        if not (math.isfinite(value) and value >= 0):
            raise ExperimentError(
                f"invalid value: {value:g} as {name.replace('_', ' ')}; expected a finite number, 0 or more"
            )
