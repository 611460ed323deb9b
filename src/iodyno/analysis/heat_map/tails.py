"""Ranks, and tails of distributions on the standard library: binomial, F, Kendall's S. No numpy: see the package.

>>> round(binomial_tail(8, 10, 0.5), 6), round(f_tail(3.0, 4, 20), 4), round(kendall_p(15, 6), 5)
(0.054687, 0.0432, 0.00278)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache


def beta_tail(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b).

    By its continued fraction (Abramowitz and Stegun 26.5.8), evaluated from the front after Lentz (Applied Optics 15
    (1976) 668).
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - beta_tail(1.0 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    product = d
    for m in range(1, 400):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + factor * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + factor / c
            c = c if abs(c) > tiny else tiny
            product *= c * d
        if abs(c * d - 1.0) < 1e-12:
            break
    return min(1.0, front * product / a)


def binomial_tail(k: int, n: int, share: float) -> float:
    """P(X >= k) of n trials with chance `share` each."""
    if k <= 0:
        return 1.0
    return 0.0 if k > n else beta_tail(share, k, n - k + 1)


def f_tail(value: float, above: float, below: float) -> float:
    """P(F >= value) with `above` and `below` degrees of freedom."""
    if value <= 0:
        return 1.0
    return beta_tail(below / (below + above * value), below / 2, above / 2)


@cache
def _kendall_counts(n: int) -> tuple[int, ...]:
    """How many orders of n things have 0, 1, 2, ... pairs out of order (Kendall, Biometrika 30 (1938) 81)."""
    counts = [1]
    for size in range(2, n + 1):
        longer = [0] * (len(counts) + size - 1)
        for inversions, count in enumerate(counts):
            for more in range(size):
                longer[inversions + more] += count
        counts = longer
    return tuple(counts)


def kendall_p(s: int, n: int) -> float:
    """Two-sided chance that a trend of n values without ties has at least |S| more rising than falling pairs; exact."""
    counts = _kendall_counts(n)
    most = n * (n - 1) // 2
    fewest = (most - abs(s) + 1) // 2
    return min(1.0, 2 * sum(counts[: (most - abs(s)) // 2 + 1]) / math.factorial(n)) if fewest >= 0 else 0.0


def ranks_of(values: Sequence[float]) -> list[float]:
    """Ranks from 1, equal values sharing their mean."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    for at in range(1, len(order) + 1):
        if at == len(order) or values[order[at]] != values[order[start]]:
            for place in order[start:at]:
                ranks[place] = (start + 1 + at) / 2
            start = at
    return ranks


def median(values: Iterable[float]) -> float:
    """The median; `statistics` takes longer to import than all else here takes to run. Errors: IndexError without a value."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
