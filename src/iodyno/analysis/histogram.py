"""Histograms of the layout `ll7`: exact merging, and quantiles with the bounds of their bucket.

The layout is that of `agent/core/src/histogram.rs`: a value below 256 has a bucket of its own; above, every
octave is cut into 128 equal buckets, at most 1/128 of their lower bound wide; 2^42 ns and more share the
last.

>>> h = merge([Histogram(1, 100, (100,), (1,)), Histogram(2, 2000, (bucket_of(1000),), (2,))])
>>> h.count, h.mean, h.quantile(0.5), bounds_of(bucket_of(1000))
(3, 700.0, 1000.75, (1000, 1004))
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate

SUB_BITS = 7
"""Logarithm of the buckets an octave."""
_TOP_BITS = 42
BUCKETS = ((_TOP_BITS - SUB_BITS - 1) << SUB_BITS) + (2 << SUB_BITS)


def bucket_of(value: int) -> int:
    """Index of the bucket that `value` (ns, not negative) falls into."""
    value = min(value, (1 << _TOP_BITS) - 1)
    shift = (value | 1 << SUB_BITS).bit_length() - 1 - SUB_BITS
    return (shift << SUB_BITS) + (value >> shift)


def bounds_of(index: int, sub_bits: int = SUB_BITS) -> tuple[int, int]:
    """The half-open range [low, high) of values, in ns, that bucket `index` holds.

    `sub_bits`: where the values were counted in 2^`sub_bits` buckets an octave first, the range of the one that it lies in.

    >>> bounds_of(bucket_of(1000), 5)
    (992, 1008)
    """
    if index < 2 << SUB_BITS:
        low, high = index, index + 1
    else:
        shift = (index >> SUB_BITS) - 1
        mantissa = index - (shift << SUB_BITS)
        low, high = mantissa << shift, (mantissa + 1) << shift
    if sub_bits < SUB_BITS:
        width = max(1 << max(0, low.bit_length() - 1 - sub_bits), high - low)
        low = low // width * width
        high = low + width
    return low, high


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts per bucket, sparse and ascending, with the exact sum of the values in ns. Stored ones are views of arrays."""

    count: int
    sum_ns: int
    buckets: Sequence[int]
    counts: Sequence[int]
    __hash__ = None  # type: ignore[assignment]  # stored ones could be no key

    def __eq__(self, other: object) -> bool:
        return self.__reduce__() == other.__reduce__() if isinstance(other, Histogram) else NotImplemented

    def __reduce__(self) -> tuple[type[Histogram], tuple[object, ...]]:
        return Histogram, (self.count, self.sum_ns, tuple(self.buckets), tuple(self.counts))

    @property
    def mean(self) -> float | None:
        """Exact mean in ns; None when nothing was recorded."""
        return self.sum_ns / self.count if self.count else None

    @cached_property
    def time_biased_mean(self) -> float:
        """Mean length, in ns, of the operation that an instant falls into: sum of squares over sum; 0 when empty."""
        if not self.sum_ns:
            return 0.0
        squares = _squares()
        return sum(c * squares[b] for b, c in zip(self.buckets, self.counts, strict=True)) / self.sum_ns

    def count_above(self, value: float) -> int:
        """Count the values that are more than `value` ns, to within the bucket that it falls into."""
        cell = bucket_of(math.ceil(value))
        return sum(c for b, c in zip(self.buckets, self.counts, strict=True) if b > cell)

    def quantile(self, q: float) -> float | None:
        """The value in ns that a share `q` of the values does not exceed; None when nothing was recorded.

        The q-th value is taken to lie in its bucket as if the bucket's values were spread evenly, so that the
        error is at most the bucket's width, 0.8 %.
        """
        if not self.count:
            return None
        rank = max(1, math.ceil(q * self.count))
        place = bisect_left(self._up_to, rank)
        if place == len(self._up_to):
            raise ValueError("the counts of the buckets are fewer than the count of the histogram")
        low, high = bounds_of(self.buckets[place])
        count = self.counts[place]
        before = self._up_to[place] - count
        return low + (high - 1 - low) * (rank - before - 0.5) / count if high - low > 1 else float(low)

    @cached_property
    def _up_to(self) -> list[int]:
        """Values in each bucket and all below it."""
        return list(accumulate(self.counts))


@cache
def _squares() -> list[float]:
    """Square of the middle of each bucket."""
    return [(sum(bounds_of(bucket)) / 2) ** 2 for bucket in range(BUCKETS)]


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """The histogram of all values of all `histograms`; exact, because they share one layout."""
    import numpy as np  # slow to import, and who watches a load adds up few

    each = [histogram for histogram in histograms if histogram.count]
    if not each:
        return Histogram(0, 0, (), ())
    buckets, counts = (
        np.concatenate([np.asarray(cells, dtype=np.int64) for cells in of])
        for of in ([one.buckets for one in each], [one.counts for one in each])
    )
    sums = np.zeros(BUCKETS, dtype=np.int64)
    np.add.at(sums, buckets, counts)
    seen = np.flatnonzero(sums)
    return Histogram(
        sum(one.count for one in each),
        sum(one.sum_ns for one in each),
        seen.data,
        sums[seen].data,
    )
