"""Ratios of paired measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence


def paired(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Median, least and greatest of ours / theirs over pairs measured one after the other."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios)


def middle(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Median of ours / theirs over pairs, and an interval that holds it with at least 95 % (order statistics; least and
    greatest where there are fewer than six pairs, which hold it with less).
    """
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    count = len(ratios)
    # The median lies outside of [r(k), r(n+1-k)] with the probability that fewer than k of n fair coins fall on one side.
    beyond = [
        2 * sum(math.comb(count, below) for below in range(k)) / 2**count for k in range(1, count // 2 + 1)
    ]
    dropped = max(1, sum(probability <= 0.05 for probability in beyond))
    return statistics.median(ratios), ratios[dropped - 1], ratios[count - dropped]


def best_by_the_others(sides: Mapping[str, Sequence[float]], best: Callable[..., str] = max) -> list[str]:
    """For each pair, the side with the best median over all other pairs.

    Of several that are alike, the luckiest is the best of the pairs by which it is chosen, and would be ahead of all in them.
    """
    (pairs,) = {len(values) for values in sides.values()}

    def of_others(name: str, pair: int) -> float:
        values = sides[name]
        return statistics.median([*values[:pair], *values[pair + 1 :]] or values)

    return [best(sides, key=lambda name: of_others(name, pair)) for pair in range(pairs)]
