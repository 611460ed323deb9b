"""Stations of exponential times and finitely many states: their probabilities, and the times of those that arrive.

Nothing is subtracted here. Probabilities are products of ratios with their binary exponents kept apart, divided by their
sum, so that neither overflow nor p(0) = 1 - sum can spoil them. Times come by uniformisation (Jensen, Skandinavisk
Aktuarietidskrift 36, 1953): as all servers are busy while one waits, departures before its own are a Poisson process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from iodyno.analysis.queueing.times import Times

_NEGLIGIBLE = 1e-17
"""Share of a sum that is left out of it (chosen: a tenth of a unit in the last place of a double)."""


def stationary(ratios: Sequence[float]) -> list[float]:
    """p(0) to p(K) of a birth-death chain, where ratios[n] = birth rate in state n / death rate in state n + 1.

    Source: balance of flows over each cut, p(n + 1) = p(n) ratios[n] (Kleinrock, Queueing Systems 1, 1975, 3.1).
    """
    weights = [(0.5, 1)]
    fraction, exponent = weights[0]
    for ratio in ratios:
        if math.isinf(ratio):
            # Beyond all doubles: next to nothing is left in the states before.
            weights = [(0.0, exponent)] * len(weights)
            weights.append((0.5, 1))
            fraction, exponent = weights[-1]
            continue
        fraction, more = math.frexp(fraction * ratio)
        exponent += more
        weights.append((fraction, exponent))
    largest = max(power for part, power in weights if part > 0)
    scaled = [math.ldexp(part, max(power - largest, -1100)) for part, power in weights]
    total = math.fsum(scaled)
    return [weight / total for weight in scaled]


def poisson_mixture(mean: float, values: Sequence[float], growth: float = math.inf) -> float:
    """Sum over i of P(Poisson(mean) = i) v(i), with v = `values`, after which each further one is the one before over
    1 + `growth`. The v must lie between 0 and 1 and not rise.

    Source: weights from the mode outward by their own ratios, divided by their sum (Fox and Glynn, Communications of the
    ACM 31:4, 1988). What is left out above is smaller than the share of the weights there, since v does not rise. Where
    next to all is beyond the values, the sum of the geometric part alone is exp(-mean growth / (1 + growth)).
    """
    mode, last, ratio = math.floor(mean), len(values) - 1, 1 / (1 + growth)
    beyond = mean * ratio
    # 10 standard deviations: the normal tail there is 1e-23.
    if beyond - 10 * math.sqrt(beyond) > last + 1:
        return values[last] * math.exp(last * math.log1p(growth) - mean * growth * ratio)
    if ratio == 0 and mode > last + 1:
        # All that counts lies below the mode, and may be next to nothing.
        weight, found = math.exp(last * math.log(mean) - mean - math.lgamma(last + 1)), 0.0
        for index in range(last, -1, -1):
            found += weight * values[index]
            weight *= index / mean
        return found

    def value(index: int) -> float:
        return values[index] if index <= last else values[last] * ratio ** (index - last)

    weight, total, found = 1.0, 1.0, value(mode)
    for index in range(mode, 0, -1):
        weight *= index / mean
        total += weight
        found += weight * value(index - 1)
        if weight * index < _NEGLIGIBLE * min(found, total):
            break
    weight, index = 1.0, mode
    while weight > _NEGLIGIBLE * 1e-3:
        index += 1
        weight *= mean / index
        total += weight
        found += weight * value(index)
    return found / total


def times_of_arrivals(found: Sequence[float], servers: int, service_time_s: float) -> tuple[Times, Times]:
    """Waiting and response time (FCFS, exponential service) of arrivals that find n in the system with probability found[n].

    While one waits, departures come at the rate servers / service time. After i of them it still waits when more than i
    were before it, and in service each further one is its own with probability 1 / servers.
    Source: uniformisation (Jensen 1953) of the waiting line of Erlang's model.
    """
    at_once = math.fsum(found[:servers])
    behind = found[servers:]
    # waits[i] = P(more than i departures are to come before service begins)
    waits = [*[*accumulate(reversed(behind))][::-1], 0.0]
    stays, in_service = [waits[0] + at_once], at_once
    for begun, left in zip(behind, waits[1:], strict=True):
        in_service = in_service * (1 - 1 / servers) + begun
        stays.append(min(1.0, left + in_service))
    all_found = stays[0] or 1.0
    per_s = servers / service_time_s
    waits, stays = [w / all_found for w in waits], [s / all_found for s in stays]
    waiting = Times(lambda t: poisson_mixture(per_s * t, waits), service_time_s)
    growth = 1 / (servers - 1) if servers > 1 else math.inf
    response = Times(lambda t: poisson_mixture(per_s * t, stays, growth), service_time_s)
    return waiting, response
