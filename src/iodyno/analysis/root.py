"""Where a function is zero: `scipy.optimize` does it in fewer steps, and its import takes a third of a second of every report."""

from __future__ import annotations

from collections.abc import Callable


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that only rises, or only falls, is zero between two places, to the last digit, by halving.

    Raises ValueError where it has the same sign at both.

    >>> root(lambda x: 4 - x * x, 0.0, 3.0)
    2.0
    """
    at_low, at_high = function(low), function(high)
    if at_low * at_high > 0:
        raise ValueError(f"{at_low} at {low} and {at_high} at {high} have the same sign")
    if at_low == 0:
        return low
    while low < (middle := (low + high) / 2) < high:
        if (function(middle) > 0) == (at_low > 0):
            low = middle
        else:
            high = middle
    return low
