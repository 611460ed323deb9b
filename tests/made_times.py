"""Times of operations made of values that a test knows."""

from __future__ import annotations

from collections import Counter

from iodyno.analysis.histogram import Histogram, bucket_of
from iodyno.analysis.operation_times import Column, OperationTimes


def histogram(values: list[int]) -> Histogram:
    cells = sorted(Counter(map(bucket_of, values)).items())
    return Histogram(len(values), sum(values), tuple(b for b, _ in cells), tuple(c for _, c in cells))


def times(columns: list[list[int]], windows: str = "") -> OperationTimes:
    """A column a second; windows by their first letters, measured without."""
    names = {"w": "warm_up", "m": "measured", "d": "drain"}
    made = tuple(
        Column(place, place + 1.0, names[(windows or "m" * len(columns))[place]], histogram(values))
        for place, values in enumerate(columns)
    )
    return OperationTimes("write", "service", ("client",), made)
