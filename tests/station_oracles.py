"""What stations are held against: decimal arithmetic with many digits, areas under curves, and the laws of all systems."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal, localcontext
from math import factorial

import pytest

from iodyno.analysis.queueing.station import StationResult

TIGHT = 1e-9
"""What issue 5 asks for."""


def check_little(found: StationResult) -> None:
    """N = X R and Q = X W (Little 1961), R = W + s, and utilisation is X s / c."""
    rate = found.throughput_per_s
    assert found.number_in_system == pytest.approx(rate * found.response_time_s, rel=TIGHT, abs=1e-300)
    assert found.queue_length == pytest.approx(rate * found.waiting_time_s, rel=TIGHT, abs=1e-300)
    assert found.response_time_s == pytest.approx(
        found.waiting_time_s + found.service_time_s, rel=TIGHT, abs=0
    )
    if found.servers is not None:
        busy = rate * found.service_time_s / found.servers
        assert found.utilisation == pytest.approx(busy, rel=TIGHT, abs=1e-300)


def check_quantiles(found: StationResult, p: float) -> None:
    """A share p has passed at the p-quantile, and no more of them shortly before it."""
    for times, quantile in (
        (found.response, found.response_time_quantile_s(p)),
        (found.waiting, found.waiting_time_quantile_s(p)),
    ):
        assert times is not None and quantile is not None
        assert times.exceeds(quantile) <= (1 - p) * (1 + TIGHT)
        if quantile > 0:
            assert times.exceeds(quantile * (1 - 1e-12)) >= (1 - p) * (1 - TIGHT)


def mean_of(exceeds: Callable[[float], float], edges: list[float]) -> float:
    """The mean as the area under the survival function, by Simpson's rule between the edges; it may jump at them."""
    total = 0.0
    for low, high in itertools.pairwise(edges):
        # Just inside the edges, where a jump belongs to neither side.
        step = (high - low) * (1 - 2e-12) / 32
        start = low + (high - low) * 1e-12
        total += (
            step
            / 3
            * sum((1 if i in (0, 32) else 4 if i % 2 else 2) * exceeds(start + i * step) for i in range(33))
        )
    return total


def crommelin(load: float, time: float) -> float:
    """P(waiting > time) of M/D/1 with service 1: Crommelin's alternating series, which 120 digits can bear."""
    with localcontext() as context:
        context.prec = 120
        rate, at, total = Decimal(load), Decimal(time), Decimal(0)
        for k in range(int(time) + 1):
            x = rate * (k - at)
            total += (x**k if k else Decimal(1)) / factorial(k) * (-x).exp()
        return float(1 - (1 - rate) * total)


def md1k_states(load: float, capacity: int) -> list[float]:
    """p(0) to p(K) of M/D/1/K by the textbook recurrence at departures, with 120 digits."""
    with localcontext() as context:
        context.prec = 120
        rate = Decimal(load)
        came = [(-rate).exp()]
        for n in range(1, capacity + 1):
            came.append(came[-1] * rate / n)
        left = [Decimal(1)]
        for j in range(capacity - 1):
            later = sum((left[i] * came[j - i + 1] for i in range(1, j + 1)), Decimal(0))
            left.append((left[j] - left[0] * came[j] - later) / came[0])
        total = sum(left)
        first = left[0] / total
        return [*(float(part / total / (first + rate)) for part in left), float(1 - 1 / (first + rate))]


def chain(ratios: list[Decimal]) -> list[Decimal]:
    """The states of a birth-death chain with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        weights = [Decimal(1)]
        for ratio in ratios:
            weights.append(weights[-1] * ratio)
        total = sum(weights)
        return [weight / total for weight in weights]
