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
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property

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


@dataclass(frozen=True)
class Histogram:
    """Counts per bucket, sparse and ascending, with the exact sum of the values in ns."""

    count: int
    sum_ns: int
    buckets: tuple[int, ...]
    counts: tuple[int, ...]

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
        seen = 0
        for bucket, count in zip(self.buckets, self.counts, strict=True):
            if seen + count >= rank:
                low, high = bounds_of(bucket)
                return low + (high - 1 - low) * (rank - seen - 0.5) / count if high - low > 1 else float(low)
            seen += count
        raise ValueError("the counts of the buckets are fewer than the count of the histogram")


@cache
def _squares() -> list[float]:
    """Square of the middle of each bucket."""
    return [(sum(bounds_of(bucket)) / 2) ** 2 for bucket in range(BUCKETS)]


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """The histogram of all values of all `histograms`; exact, because they share one layout."""
    cells: dict[int, int] = {}
    total = sum_ns = 0
    for histogram in histograms:
        total += histogram.count
        sum_ns += histogram.sum_ns
        for bucket, count in zip(histogram.buckets, histogram.counts, strict=True):
            cells[bucket] = cells.get(bucket, 0) + count
    ordered = sorted(cells.items())
    return Histogram(total, sum_ns, tuple(b for b, _ in ordered), tuple(c for _, c in ordered))
