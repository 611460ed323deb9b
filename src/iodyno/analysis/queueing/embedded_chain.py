"""One server, Poisson arrivals, any service law: how many are in the system, by the chain at departures.

By level crossing (Brill, 1975; Tijms, A First Course in Stochastic Models, 2003, 9.2.1), with A the arrivals in one service,

    p(j) P(A = 0) = p(0) P(A > j - 1) + sum over k = 1 .. j - 1 of p(k) P(A > j - k)

Every term is positive, where the textbook recurrence on P(A = n) subtracts and loses all digits after some dozen states.
The same holds for a finite system up to its last state but one, which needs no load below 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

_SAME = 1e-13
"""Relative difference of the ratio of neighbours from its limit, from where on the tail is geometric (chosen: a thousandth of
what is asked of a result).
"""
_SMALLEST = 1e-290
_LARGEST = 1e100
_MOST_STATES = 200_000


@dataclass(frozen=True)
class Arrivals:
    """Arrivals in one service: `none` = P(A = 0), `over[n]` = P(A > n), as far as it is above 1e-290."""

    none: float
    over: Sequence[float]


@dataclass(frozen=True)
class GeometricTail:
    """Probabilities p(0), p(1), ... which fall from the last one on by the factor 1 / (1 + `growth`) each."""

    first: Sequence[float]
    more: Sequence[float]
    growth: float

    def at(self, state: int) -> float:
        """P(N = state)."""
        last = len(self.first) - 1
        if state <= last:
            return self.first[state] if state >= 0 else 0.0
        return self.first[last] * math.exp(-(state - last) * math.log1p(self.growth))

    def above(self, state: int) -> float:
        """P(N > state)."""
        last = len(self.first) - 1
        if state <= last:
            return self.more[state] if state >= 0 else 1.0
        return self.more[last] * math.exp(-(state - last) * math.log1p(self.growth))


def poisson_over(mean: float) -> Arrivals:
    """Arrivals in a constant service, `mean` of them: P(A > n) summed from the smallest term up."""
    mode = math.floor(mean)
    weights = [1.0]
    for n in range(mode, 0, -1):
        weights.append(weights[-1] * n / mean)
    weights.reverse()
    n, weight = mode, 1.0
    while weight > _SMALLEST:
        n += 1
        weight *= mean / n
        weights.append(weight)
    return over_of(weights)


def over_of(weights: Sequence[float]) -> Arrivals:
    """P(A = 0) and P(A > n) from weights of A = 0, 1, 2, ..., in any scale."""
    total = math.fsum(weights)
    sums = [*accumulate(reversed(weights))][::-1]
    return Arrivals(weights[0] / total, [part / total for part in sums[1:]])


def infinite(arrivals: Arrivals, busy: float) -> GeometricTail:
    """P(N = n) of M/G/1 at utilisation `busy` < 1, over time and as arrivals find it.

    Source: level crossing as above, with p(0) = 1 - rho. The tail is geometric with the root of E[z^A] = z, z > 1 (Tijms
    2003, 9.2.1); as (E[z^A] - 1) / (z - 1) = sum of P(A > n) z^n, the root has sum of P(A > n) (z^n - 1) = 1 - rho.
    """
    over = arrivals.over
    growth = decay_root(over, 1 - busy)
    limit = math.log1p(growth)
    states = [1 - busy]
    settled = 0
    while settled < 3 and states[-1] > _SMALLEST and len(states) < _MOST_STATES:
        states.append(_next(states, arrivals))
        near = (
            abs(math.log(states[-2] / states[-1]) - limit) <= _SAME * max(1.0, limit) if states[-1] else True
        )
        settled = settled + 1 if near else 0
    return with_tail(states, growth)


def with_tail(states: Sequence[float], growth: float) -> GeometricTail:
    """States with the sums above each, beginning with the geometric tail after the last one."""
    beyond = states[-1] / growth
    more = [*accumulate(reversed(states[1:]), initial=beyond)][::-1]
    return GeometricTail(states, more, growth)


def finite(arrivals: Arrivals, capacity: int) -> list[float]:
    """p(0) to p(K) of M/G/1/K over time; K = `capacity` counts the one in service.

    Source: level crossing as above for p(1) to p(K - 1); p(K) from p(0) E[(A - K + 1)+] + sum of p(k) E[(A - K + k)+].
    """
    states = [1.0]
    for _ in range(1, capacity):
        states.append(_next(states, arrivals))
        if states[-1] > _LARGEST:
            largest = states[-1]
            states = [state / largest for state in states]
    excess = [*accumulate(reversed(arrivals.over))][::-1]

    def left_over(places: int) -> float:
        return excess[places] if places < len(excess) else 0.0

    last = states[0] * left_over(capacity - 1)
    last += math.fsum(states[k] * left_over(capacity - k) for k in range(1, capacity))
    total = math.fsum([*states, last])
    return [state / total for state in (*states, last)]


def decay_root(over: Sequence[float], missing: float) -> float:
    """The growth u > 0 with sum of over[n] ((1 + u)^n - 1) = `missing`: nothing is subtracted, also where u is tiny."""

    def reached(growth: float) -> bool:
        log, total = math.log1p(growth), 0.0
        for n, part in enumerate(over):
            if part == 0:
                continue
            if n * log + math.log(part) > 1:
                return True
            total += part * math.expm1(n * log)
        return total >= missing

    low, high = 0.0, 1.0
    while not reached(high) and high < 1e290:
        low, high = high, 4 * high
    if low == 0.0:
        while reached(high / 4) and high > 1e-290:
            high /= 4
        low = high / 4
    # Bisection: some 50 sums over a few hundred terms at most.
    while high - low > 1e-15 * high:
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _next(states: Sequence[float], arrivals: Arrivals) -> float:
    """The next state from all before it."""
    number, over = len(states), arrivals.over
    flow = states[0] * over[number - 1] if number - 1 < len(over) else 0.0
    for k in range(max(1, number - len(over) + 1), number):
        flow += states[k] * over[number - k]
    return flow / arrivals.none
