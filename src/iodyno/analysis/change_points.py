"""Places in a series from which on it is another one: binary segmentation, with the test that suits the series.

The most telling place is looked for, and where it is no chance, all parts are searched again (hierarchical, as E-divisive does
it: Matteson and James 2014, Journal of the American Statistical Association 109).

Two tests. `RankTest`, for the columns of a picture, on the standard library: Pettitt's of ranks, so that outliers do not count,
whose chance has a formula from some 15 values on ("A non-parametric approach to the change-point problem", Applied Statistics 28
(1979) 126-135). `OrderTest`, for a history of a few campaigns: of values, whose chance is found by permuting. Ranks would not do
there: of 8 campaigns, 3 that differ from 5 have p = 0.064 by ranks, as 4 and 4 rank as far apart, and 0.036 by values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from iodyno.analysis.chance import ranks_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PERMUTATIONS = 4999
"""Orders drawn, beside the one that was measured (p is then known to 0.003 at 0.05)."""
Change = tuple[int, float]
"""Index of the first value after it, and how likely chance makes one as large anywhere."""


class ChangeTest(Protocol):
    """Test that finds the most telling places of a part of a series."""

    def most_telling(self, begin: int, end: int) -> tuple[Sequence[int], float] | None:
        """Return the places where the values from `begin` to before `end` change most, and the chance of that; None: nowhere."""


def change_points(length: int, test: ChangeTest) -> list[Change]:
    """All changes of a series of so many values, ascending."""
    return sorted(_within(0, length, test))


def _within(begin: int, end: int, test: ChangeTest) -> list[Change]:
    split = test.most_telling(begin, end)
    if split is None:
        return []
    places, p = split
    parts = pairwise([begin, *places, end])
    return [(place, p) for place in places] + [found for part in parts for found in _within(*part, test)]


class RankTest:
    """Pettitt's test. A drift is no change point: a step must fit the ranks better than a straight line.

    `alpha`: the chance of a change that is none, shared by `series` series; `least`: values on either side of a change.
    """

    def __init__(self, values: Sequence[float], alpha: float, least: int, series: int = 1) -> None:
        self.values, self.alpha, self.least, self.series = values, alpha, least, series

    def most_telling(self, begin: int, end: int) -> tuple[Sequence[int], float] | None:
        """The place with the largest statistic."""
        n = end - begin
        if n < 2 * self.least:
            return None
        ranks = ranks_of(self.values[begin:end])
        total, best, at = 0.0, 0.0, 0
        for number, rank in enumerate(ranks[:-1], start=1):
            total += rank
            statistic = abs(2 * total - number * (n + 1))
            if self.least <= number <= n - self.least and statistic > best:
                best, at = statistic, number
        p = min(1.0, self.series * 2 * math.exp(-6 * best * best / (n**3 + n**2)))
        return None if p > self.alpha or not _is_step(ranks, at) else ([begin + at], p)


def _is_step(ranks: Sequence[float], at: int) -> bool:
    """Tell whether a step at `at` leaves less of the ranks' variation than a straight line."""
    n = len(ranks)
    mean = sum(ranks) / n
    left, right = sum(ranks[:at]) / at, sum(ranks[at:]) / (n - at)
    step = at * (left - mean) ** 2 + (n - at) * (right - mean) ** 2
    centre = (n - 1) / 2
    slope = sum((x - centre) * (rank - mean) for x, rank in enumerate(ranks))
    line = slope * slope / sum((x - centre) ** 2 for x in range(n))
    return step > line


class OrderTest:
    """A permutation test of values.

    Two statistics, each the largest |t| over all places: of one change (what lies before the place against what lies after it),
    and of a change that went back (a stretch against the rest: circular binary segmentation, Olshen, Venkatraman, Lucito and
    Wigler 2004, Biostatistics 5). Their chance under "nothing changes" is found by permuting, so that it holds for any
    distribution and for having looked at all places. `alphas`: the chance of either that is none.
    """

    def __init__(self, values: NDArray[np.float64], alphas: tuple[float, float], seed: int) -> None:
        import numpy as np

        self.values, self.alphas, self.source = values, alphas, np.random.default_rng(seed)

    def most_telling(self, begin: int, end: int) -> tuple[Sequence[int], float] | None:
        """One change, or two between which the values are others."""
        import numpy as np

        values = self.values[begin:end]
        if len(values) < 4:
            return None
        drawn = self.source.permuted(np.tile(values, (PERMUTATIONS, 1)), axis=1)
        for back, alpha in zip((False, True), self.alphas, strict=True):
            places, measured = _largest(values[None, :], back)
            _, highest = _largest(drawn, back)
            # Equal up to rounding counts as reached.
            p = (1 + int((highest >= measured[0] * (1 - 1e-9)).sum())) / (1 + PERMUTATIONS)
            if p <= alpha:
                return [begin + place for place in places if 0 < place < end - begin], p
        return None


def _largest(rows: NDArray[np.float64], back: bool) -> tuple[tuple[int, int], NDArray[np.float64]]:
    """The largest |t| of each row, and the stretch where the first row has it."""
    import numpy as np

    n = rows.shape[1]
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
    total = sums[:, -1]
    around = (rows**2).sum(axis=1) - total**2 / n
    best, where = np.full(len(rows), -1.0), (0, 0)
    stretches = (
        [(low, high) for low in range(1, n) for high in range(low + 1, n)]
        if back
        else [(0, high) for high in range(1, n)]
    )
    for low, high in stretches:
        k = high - low
        inside = sums[:, high] - sums[:, low]
        between = (inside / k - (total - inside) / (n - k)) ** 2 * k * (n - k) / n
        t = np.sqrt(between * (n - 2) / np.maximum(around - between, 1e-300))
        if t[0] > best[0]:
            where = (low, high)
        best = np.maximum(best, t)
    return where, best
