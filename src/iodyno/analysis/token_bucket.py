"""A rate that falls once, from one level to another: what a token bucket of a cloud volume or a shaper does when it is empty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean, pvariance, stdev

from iodyno.analysis import chance
from iodyno.core.outcome import Estimate

PART_LEAST = 6
"""Intervals on either side of the fall (chosen: as many as are tested for a trend)."""
FALL_LEAST = 0.2
"""Of the first level (chosen: four times what makes a window unsteady)."""
EXPLAINED_LEAST = 0.9
"""Share of the variance that one fall explains (chosen: what is left is the noise of either level). Of the means of ten parts of
a level: what comes a moment too late is missing in one short interval and too much in the next.
"""
_FLAT_WITHIN = 0.05
_CHANCE = 0.01
_TOGETHER = 10


@dataclass(frozen=True)
class TokenBucket:
    """`burst_rate` while there are tokens, `refill_rate` afterwards, in units a second; `held`: tokens at the begin of the load,
    in units; `empty_after_s`: seconds of load.
    """

    burst_rate: Estimate
    refill_rate: Estimate
    held: Estimate
    empty_after_s: Estimate


def token_bucket(rates: Sequence[float], interval_s: float, before_s: float, unit: str) -> TokenBucket | None:
    """Fit a bucket to the rates of successive intervals; None: they are not two levels.

    The fall that leaves the least squares is taken, with the interval that it is in divided between both levels. `before_s`: time
    under load before the first interval, at the same rate as in it. `held` is (burst rate - refill rate) x that time in all; its
    interval follows from those of rates and time, which are independent.
    """
    n = len(rates)
    if n < 2 * PART_LEAST + 1:
        return None
    sums, squares = [0.0, *accumulate(rates)], [0.0, *accumulate(rate * rate for rate in rates)]

    def left(at: int) -> float:
        """Squares that are left when the interval `at` holds the fall."""
        first = squares[at] - sums[at] ** 2 / at
        rest = n - at - 1
        return first + squares[n] - squares[at + 1] - (sums[n] - sums[at + 1]) ** 2 / rest

    at = min(range(PART_LEAST, n - PART_LEAST), key=left)
    high, low = rates[:at], rates[at + 1 :]
    fall = fmean(high) - fmean(low)
    noise = sum(len(level) * pvariance(_parts(level)) for level in (high, low))
    explained = fall**2 * len(high) * len(low) / (n - 1)
    if (
        fall <= FALL_LEAST * fmean(high)
        or explained < EXPLAINED_LEAST * (explained + noise)
        or not (_flat(high) and _flat(low))
    ):
        return None
    share = min(1.0, max(0.0, (rates[at] - fmean(low)) / fall))
    time_s = before_s + (at + share) * interval_s
    # Of one interval nobody knows how its noise fell on either side; it is known to no better than a part of itself.
    time_error_s = interval_s * max(stdev(high) / fall, 1 / math.sqrt(12))
    burst, refill = _level(high, unit), _level(low, unit)
    errors = [((each.high or 0) - (each.low or 0)) / 2 for each in (burst, refill)]
    held = fall * time_s
    half = math.hypot(errors[0] * time_s, errors[1] * time_s, 1.96 * time_error_s * fall)
    return TokenBucket(
        burst,
        refill,
        Estimate(held, held - half, held + half, n, unit.removesuffix("/s"), "from both rates and the time"),
        Estimate(time_s, time_s - 1.96 * time_error_s, time_s + 1.96 * time_error_s, n, "s", "least squares"),
    )


def _parts(values: Sequence[float]) -> list[float]:
    """Means of ten parts where there are so many: neighbours are alike, and are no independent values."""
    if len(values) < 2 * _TOGETHER:
        return list(values)
    edges = [len(values) * number // _TOGETHER for number in range(_TOGETHER + 1)]
    return [fmean(values[begin:end]) for begin, end in pairwise(edges)]


def _flat(values: Sequence[float]) -> bool:
    parts = _parts(values)
    slope, likely = chance.trend(parts)
    return abs(slope) * (len(parts) - 1) <= _FLAT_WITHIN * fmean(values) or likely >= _CHANCE


def _level(values: Sequence[float], unit: str) -> Estimate:
    parts = _parts(values)
    middle = fmean(values)
    half = chance.t.ppf(0.975, len(parts) - 1) * stdev(parts) / math.sqrt(len(parts))
    return Estimate(middle, middle - half, middle + half, len(parts), unit, "t, batch means")


def in_words(found: TokenBucket, word: str) -> str:
    """Return the fit in a sentence; `word`: what the rate is."""
    levels = [_shown(each.estimate, each.unit) for each in (found.burst_rate, found.refill_rate)]
    held = [
        _shown(value, found.held.unit) for value in (found.held.estimate, found.held.low, found.held.high)
    ]
    return (
        f"{word} falls from {levels[0]} to {levels[1]} after {found.empty_after_s.estimate:.2f} s of load, as by a token bucket"
        f" of {held[0]} [{held[1]}, {held[2]}] that is refilled at {levels[1]}: the mean is of neither; end the warm-up after it"
    )


def _shown(value: float | None, unit: str) -> str:
    """To three digits; tokens that are bits as bytes.

    >>> _shown(8.1234e8, "bit/s"), _shown(8e8, "bit"), _shown(1234.5, "1/s")
    ('812 Mbit/s', '100 MB', '1.23 k/s')
    """
    assert value is not None
    if unit == "bit":
        value, unit = value / 8, "B"
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")):
        if abs(value) >= factor or factor == 1.0:
            text = f"{value / factor:.3g}" if abs(value / factor) < 1000 else f"{value / factor:.0f}"
            return f"{text} {prefix}{unit.removeprefix('1')}".rstrip()
    raise AssertionError
