"""95 % intervals, each with the name of how it was made.

Trials are the unit: the interval over replicates holds what varies between trials. Only when a point has a
single trial, the interval is made from its parts; it then knows nothing of the variation between trials, and
says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

import numpy as np
import numpy.typing as npt

from iodyno.analysis import chance
from iodyno.analysis.histogram import Histogram, bounds_of
from iodyno.analysis.measured import Measured
from iodyno.core.outcome import Estimate, Median
from iodyno.core.warnings import Warning, WarningCode

Numbers = npt.NDArray[np.float64]

LEVEL = 0.95
_INTERVALS_LEAST = 4
MEDIAN_LEAST = 5
"""Trials from which on their median has an interval (chosen: the range of four holds it in 88 of 100, that of five in 94)."""
_CORRELATIONS = (np.arange(50) + 0.5) / 50
"""Autocorrelations that batches may have (chosen: of 1000 batches it is known to 0.03)."""
_MEDIAN_LEVEL = 0.93
_EIGHTIETHS = 80
"""Parts of a series of which any autocorrelation is as likely (chosen: ten independent batches then cost less than 1.3 times
Student's interval; 50, 100: 1.4 and 1.2, holding the mean of ten with 0.6 in 89 and 84 of 100)."""
_STEPS, _CLOSE = 30, 1e-6
"""Steps to a bound at the most, and how close is enough (chosen: 4 to 1000 batches take 3 to 9 steps)."""
NOTICEABLE = 1.05
"""Least ratio of widths at which an interval is said to be wider by what windows cut off (chosen: what a reader would see)."""

CUT_OFF = ", and one count more or less at the ends of a window"
"""Text that is added then."""

NOT_NEGATIVE = (0.0, None)
"""Range in which the true value of a count, a rate or a time must lie."""
TELLING_LEAST = 0.001
"""Lowest lower end on a log scale, as a part of the mean (chosen: three digits of the mean do not show less)."""


def estimate(
    measured: Sequence[Measured],
    unit: str,
    *,
    where: str = "",
    possible: tuple[float | None, float | None] = (None, None),
) -> Estimate:
    """The outcome over the trials of a point.

    Two trials or more: mean and t interval. One: batch means, or for a quantile the share above it in each batch. None: no
    estimate, and why. What the trials have in common is added in quadrature, as an expanded uncertainty with coverage factor
    1.96 (JCGM 100:2008, 6.2). The interval of a share of what was counted holds Wilson's, too: that none of some thousand was
    lost does not say that none ever is. That of a rate is no narrower than what a window cuts off allows. Of the interval, what
    lies outside of `possible` is cut off, and the method says so: it holds a true value from there as often as before.
    """
    known = [m for m in measured if m.value is not None]
    if not known:
        reasons = sorted({m.missing for m in measured if m.missing}) or ["the point has no finished trial"]
        return Estimate(None, None, None, 0, unit, "none", missing="; ".join(reasons))
    values = [m.value for m in known if m.value is not None]
    notes = "; ".join(sorted({m.note for m in known if m.note}))
    assumptions = tuple(dict.fromkeys(a for m in known for a in m.assumptions))
    if len(known) == 1:
        low, high, method, more = _of_one_trial(known[0])
    else:
        low, high = t_interval(values)
        method, more = f"t interval over {len(values)} trials", ("trials vary independently and normally",)
    in_common = fmean(m.shared_error for m in known)
    shared = 1.96 * in_common
    if low is not None and high is not None and shared:
        middle = fmean(values)
        low, high = middle - math.hypot(middle - low, shared), middle + math.hypot(high - middle, shared)
    low, high, method, rare = _with_counts(low, high, method, known)
    plain = method
    low, high, method, counting = _with_resolution(low, high, method, values, known)
    low, high, ends = _within(low, high, values, possible)
    notes = "; ".join(filter(None, (ends, notes)))
    sampling = max(m.sampling_error for m in known)
    if sampling:
        error = f"{100 * sampling:.2g} points" if unit == "1" else f"{sampling:.2g} {unit}"
        notes = "; ".join(filter(None, (notes, f"standard error of sampling up to {error} in a trial")))
    warnings = []
    if len(known) == 1:
        text = "one trial only: its interval does not hold what varies between trials"
        warnings.append(Warning(WarningCode.ONE_TRIAL, text, where))
    elif len(known) == 2:
        text = f"two trials only: {_of_two(values, method != plain)}"
        warnings.append(Warning(WarningCode.FEW_REPLICATES, text, where))
    robust = median_interval(values)
    if robust and _disagree(fmean(values), low, high, robust):
        warnings.append(Warning(WarningCode.OUTLIER, _decided(fmean(values), robust), where))
    return Estimate(
        estimate=fmean(values),
        low=low,
        high=high,
        n=len(values),
        unit=unit,
        method=f"{method}; {notes}" if notes else method,
        assumptions=(*more, *rare, *assumptions),
        warnings=tuple(warnings),
        counting=counting,
        shared=in_common,
        median=robust,
    )


def median_interval(values: Sequence[float]) -> Median | None:
    """The median of the trials, and the narrowest interval between two of them in order, as far from either end, that holds the
    true one in 93 of 100 cases or more (the sign test, inverted: David and Nagaraja, Order Statistics 2003, 7.1); None of few.
    """
    n = len(values)
    if n < MEDIAN_LEAST:
        return None
    below, chosen, level = 0.0, 0, 0.0
    for place in range((n + 1) // 2):
        below += math.comb(n, place) / 2**n
        if 1 - 2 * below < _MEDIAN_LEVEL:
            break
        chosen, level = place, 1 - 2 * below
    ordered = sorted(values)
    return Median(median(ordered), ordered[chosen], ordered[n - 1 - chosen], level)


def _disagree(mean: float, low: float | None, high: float | None, middle: Median) -> bool:
    """Tell whether the mean lies outside of the median's interval, or the median outside of the mean's; by more than rounding."""
    least = 1e-9 * abs(middle.estimate)
    if not middle.low - least <= mean <= middle.high + least:
        return True
    return low is not None and high is not None and not low - least <= middle.estimate <= high + least


def _decided(mean: float, middle: Median) -> str:
    """By how much a few trials move the mean of all.

    >>> _decided(96.0, Median(100.0, 99.0, 101.0, 0.95))
    'a few trials decide the mean: it is 4 % below the median, whose interval is [-1, +1] % about it'
    """
    scale = abs(middle.estimate) or 1.0
    off, low, high = (100 * (value - middle.estimate) / scale for value in (mean, middle.low, middle.high))
    return (
        f"a few trials decide the mean: it is {abs(off):.2g} % {'below' if off < 0 else 'above'} the median, whose interval is "
        f"[{low:+.2g}, {high:+.2g}] % about it"
    )


def _with_counts(
    low: float | None, high: float | None, method: str, known: Sequence[Measured]
) -> tuple[float | None, float | None, str, tuple[str, ...]]:
    """The interval with that of a share of so many, where all were counted; as it is elsewhere. And what it assumes."""
    counts = [m.counted for m in known if m.counted is not None and m.counted.of]
    if len(counts) < len(known):
        return low, high, method, ()
    of, what = sum(count.of for count in counts), counts[0].what
    share = min(1.0, sum(count.events for count in counts) / of)
    least, most = chance.wilson(share, of, LEVEL)
    text = f"Wilson's interval over {of:.0f} {what}"
    assumed = (
        f"{what} count one by one: where they are lost b at a time, Wilson's interval is over b times too many",
    )
    if low is None or high is None:
        return least, most, text, assumed
    return min(low, least), max(high, most), f"the wider of {text} and the {method}", assumed


def _with_resolution(
    low: float | None, high: float | None, method: str, values: Sequence[float], known: Sequence[Measured]
) -> tuple[float | None, float | None, str, float]:
    """The interval of what was counted in whole operations, no narrower than such counts allow, and how it was made then; and the
    standard uncertainty that all trials share (`counting_error`).

    Where nothing was counted, the upper bound is that of a Poisson count of none, ln 20 in the time of all trials (the "rule
    of three": Hanley and Lippman-Hand 1983, JAMA 249), as long as that is not below what a window may cut off.
    """
    if not min(m.resolution for m in known):
        return low, high, method, 0.0
    least = _cut_off(fmean(m.resolution for m in known))
    if not any(values):
        none = -math.log(1 - LEVEL) / sum(1 / m.resolution for m in known)
        text = f"upper bound of a rate of which nothing was counted in {len(known)} trials (rule of three)"
        return 0.0, max(none, 1.96 * least), text, least
    if low is None or high is None:
        return low, high, method, 0.0
    half = (high - low) / 2
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else half / 1.96
    shared = counting_error(fmean(m.resolution for m in known), spread)
    wider = math.hypot(half, 1.96 * shared)
    if wider > NOTICEABLE * half:
        method += CUT_OFF
    return low - wider + half, high + wider - half, method, shared


def counting_error(resolution: float, spread: float) -> float:
    """The standard uncertainty that trials share which count in whole operations, in their unit.

    `resolution`: what one operation more changes a trial's value by; `spread`: the trials' standard deviation. A window cuts
    off a part of an operation at either end: its count is off by a difference of two errors that are each rectangular and
    one operation wide, so that its standard uncertainty is 1/sqrt(6) of an operation (a triangular distribution: JCGM
    100:2008, 4.3.9). What of it varies between trials is in their spread; where they spread by less, their windows cut
    alike, and the rest is common to all trials: more of them do not reduce it.
    """
    return math.sqrt(max(0.0, _cut_off(resolution) ** 2 - spread**2))


def _cut_off(resolution: float) -> float:
    return resolution / math.sqrt(6)


def _of_two(values: Sequence[float], coarse: bool) -> str:
    """State what an interval of two trials does not tell. `coarse`: it is that of whole operations."""
    if values[0] == values[1]:
        return "they do not differ, and what varies between trials is not known"
    if coarse:
        return "they hardly differ, and what varies between trials is hardly known"
    return "the interval is wide because so little is known of the variation"


def _within(
    low: float | None,
    high: float | None,
    values: Sequence[float],
    possible: tuple[float | None, float | None],
) -> tuple[float | None, float | None, str]:
    """The interval without what is impossible, and how that is said; as it is where what was measured is so itself.

    Of an amount of which every trial has some, the lower end is taken on a log scale where it would be 0 or less: mean x
    exp(-half / mean), the half-width of the logarithm of the mean by the delta method. It holds the mean as often as 0 does
    (simulated: `tests/truth/test_positive.py`). Below `TELLING_LEAST` of the mean it is 0.
    """
    least, most = possible
    ends = []
    if possible == NOT_NEGATIVE and low is not None and low <= 0 < min(values):
        middle = fmean(values)
        share = math.exp((low - middle) / middle)
        low = middle * share if share >= TELLING_LEAST else 0.0
        ends.append(
            "lower end on a log scale, as every trial has some" if low else "cut off at 0: nothing tells more"
        )
    elif least is not None and low is not None and low < least <= min(values):
        low = least
        ends.append(f"cut off at {least:g}, below which there is nothing")
    if most is not None and high is not None and high > most >= max(values):
        high = most
        ends.append(f"cut off at {most:g}, the whole")
    return low, high, "; ".join(ends)


def t_interval(values: Sequence[float]) -> tuple[float, float]:
    """Student's t interval of the mean of two or more independent values."""
    n = len(values)
    half = float(chance.t.ppf((1 + LEVEL) / 2, n - 1)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return fmean(values) - half, fmean(values) + half


def batch_means(values: Sequence[float]) -> tuple[float, float]:
    """Half-width of the interval of the mean of successive batches, and their lag-1 autocorrelation.

    Batches that are like their neighbours are worth fewer than they are, and how alike they are is hardly known of a few. So
    they are taken as a first-order autoregressive series of any autocorrelation, each weighed by how well it fits (Zellner and
    Tiao 1964, Journal of the American Statistical Association 59), and the interval is that of Student's t laws mixed so.
    Beforehand, what is an `_EIGHTIETHS` part of the series is as likely to have any autocorrelation with the next one, so that
    longer batches are less alike. Few batches cannot have it all: of 5, 10, 20, 50 independent ones the interval holds the mean
    in 96 to 98 of 100 cases and is 1.16, 1.27, 1.20, 1.15 times as wide as Student's; with an autocorrelation of 0.6 it holds it
    in 79, 86, 92, 95 (Student's: 73, 69, 66, 66). The same likelihood for all autocorrelations holds it in 98 of ten such, 2.9
    times as wide for independent ones.
    """
    n = len(values)
    x = np.asarray(values, dtype=float) - fmean(values)
    power = float(x @ x)
    if not power:
        return 0.0, 0.0
    weights, errors = (each[:, 0] for each in _mixture(x[:, None]))
    # The share beyond is convex, so that Newton's steps come to the bound from below and never pass it.
    half = float(chance.t.ppf((1 + LEVEL) / 2, n - 1) * errors.min())
    for _ in range(_STEPS):
        scaled = half / errors
        beyond = 2 * float(weights @ _t_beyond(scaled, n - 1)) - (1 - LEVEL)
        step = beyond / (2 * float(weights @ (_t_density(scaled, n - 1) / errors)))
        half += step
        if step <= _CLOSE * half:
            break
    return half, float(x[1:] @ x[:-1]) / power


def _mixture(x: Numbers) -> tuple[Numbers, Numbers]:
    """Of each column less its mean, which is not all 0: the weight of each autocorrelation, and the standard error of the mean
    with it."""
    n = len(x)
    r = (_CORRELATIONS ** max(1.0, _EIGHTIETHS / n))[:, None]
    power, ends = (x**2).sum(axis=0), x[0] + x[-1]
    # Of each r: the weight of all, by that of their mean (generalised least squares), what is left, and how it fits.
    whole = (1 - r) * (2 + (n - 2) * (1 - r))
    along = r * (1 - r) * ends
    lagged = 2 * r * (x[1:] * x[:-1]).sum(axis=0)
    left = power - lagged + r**2 * (power - x[0] ** 2 - x[-1] ** 2) - along**2 / whole
    fits = (np.log(1 - r**2) - np.log(whole) - (n - 1) * np.log(left)) / 2
    weights = np.exp(fits - fits.max(axis=0))
    # The variance of the plain mean of n values of such a series, over that of one of them.
    share = ((1 + r) / (1 - r) - 2 * r * (1 - r**n) / (n * (1 - r) ** 2)) / n
    return weights / weights.sum(axis=0), np.sqrt(left / (n - 1) / (1 - r**2) * share)


def _t_beyond(values: Numbers, freedom: int) -> Numbers:
    """The shares of Student's t law above values of 0 or more, of a whole number of degrees of freedom: the finite series of
    Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    cosine2 = freedom / (freedom + values**2)
    sine = values / np.sqrt(freedom + values**2)
    odd = freedom % 2
    term = np.sqrt(cosine2) if odd else np.ones_like(values)
    total = np.zeros_like(values)
    for step in range(freedom // 2):
        total += term
        term = term * cosine2 * ((2 * step + 1 + odd) / (2 * step + 2 + odd))
    within = 2 / math.pi * (np.arcsin(sine) + sine * total) if odd else sine * total
    beyond: Numbers = (1 - within) / 2
    return beyond


def _t_density(values: Numbers, freedom: int) -> Numbers:
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi * freedom)
    found: Numbers = scale * (1 + values**2 / freedom) ** (-(freedom + 1) / 2)
    return found


def of_quantile(batches: Sequence[Histogram], q: float) -> tuple[float, float] | None:
    """Interval of the q-quantile of all values of `batches`, in the unit of the histograms; None with too few batches.

    It reaches over every bucket that a test at the quantile does not refuse, from end to end, as nobody knows where in one the
    quantile lies: of each batch, the values above less the 1 - q of its values that should lie there, are numbers whose mean is
    nothing at the true quantile (the interval of a ratio, inverted as Woodruff 1952 does it), and the interval of which
    is that of batches which may be like their neighbours.
    """
    n = len(batches)
    if n < _INTERVALS_LEAST:
        return None
    buckets = sorted({bucket for histogram in batches for bucket in histogram.buckets})
    column = {bucket: position for position, bucket in enumerate(buckets)}
    cells = np.zeros((n, len(buckets)))
    for row, histogram in enumerate(batches):
        for bucket, count in zip(histogram.buckets, histogram.counts, strict=True):
            cells[row, column[bucket]] = count
    above = cells.sum(axis=1, keepdims=True) - np.cumsum(cells, axis=1)
    wanted = (1 - q) * cells.sum(axis=1, keepdims=True)
    # Too low is a bucket above which lies too much, too high one of which not enough lies in and above it.
    too_low = _surely_positive(above - wanted)
    too_high = _surely_positive(wanted - above - cells)
    counts = np.cumsum(cells.sum(axis=0))
    # The bucket of the estimate is refused by no test but one of numbers that rounding has moved.
    estimated = np.searchsorted(counts, max(1, math.ceil(q * counts[-1])))
    left = np.append(np.flatnonzero(~(too_low | too_high)), estimated)
    low, high = bounds_of(buckets[left.min()])[0], bounds_of(buckets[left.max()])[1] - 1
    return float(low), float(high)


def _surely_positive(excess: Numbers) -> npt.NDArray[np.bool_]:
    """By column, whether the interval of the mean lies above nothing."""
    means = excess.mean(axis=0)
    off = excess - means
    found = np.asarray(means > 0)
    varies = np.flatnonzero(found & (off**2).any(axis=0))
    weights, errors = _mixture(off[:, varies])
    beyond = 2 * (weights * _t_beyond(means[varies] / errors, len(excess) - 1)).sum(axis=0)
    found[varies] = beyond < 1 - LEVEL
    return found


def _none_of(parts: int) -> str:
    """Why one trial of so many parts gives no interval.

    >>> _none_of(0), _none_of(1), _none_of(3)
    ('no interval: one value of one trial', 'no interval: one trial of 1 interval', 'no interval: one trial of 3 intervals')
    """
    if not parts:
        return "no interval: one value of one trial"
    return f"no interval: one trial of {parts} interval{'' if parts == 1 else 's'}"


def _of_one_trial(one: Measured) -> tuple[float | None, float | None, str, tuple[str, ...]]:
    assert one.value is not None
    if one.quantile is not None:
        found = of_quantile(one.batches, one.quantile)
        if found is None:
            return None, None, _none_of(len(one.batches)), ()
        text = f"batch means of the share above it over {len(one.batches)} intervals of one trial"
        return *found, text, ("the series is first-order autoregressive",)
    n = len(one.intervals)
    if n < _INTERVALS_LEAST:
        return None, None, _none_of(n), ()
    half, r = batch_means(one.intervals)
    method = f"batch means over {n} intervals of one trial, lag-1 autocorrelation {r:.2f}"
    return one.value - half, one.value + half, method, ("the series is first-order autoregressive",)
