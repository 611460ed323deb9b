"""Intervals of sampled shares, of costs made from them, and of the difference and ratio of two such costs.

A share of n samples has a binomial error; from trial to trial it varies besides. Both intervals are made, and what
is given holds both: the samples' (Wilson 1927) and, where there are two trials or more, Student's t over trials.
Few trials tell little of one function's variance, but hundreds of functions tell what is usual: the variance of each
is drawn towards what sampling and a common variation between trials make of it, by as much as they agree (Smyth 2004).

Two costs are set against each other by the method of variance estimates recovery, which needs no more than the
interval of each (Zou and Donner 2008; for shares Newcombe 1998): with costs a, b and bounds la..ua, lb..ub, the
difference b - a reaches down to b - a - sqrt((b - lb)^2 + (ua - a)^2), and likewise up. A ratio has two such intervals: that on
logarithms, and that of every r at which the interval of b - r a holds 0 (Fieller 1954; with recovered variances Donner and Zou
2012). The second leaves out 1 where the interval of the difference leaves out 0. The first is narrower of costs that are well
known and says nothing of a few samples, so it is given where the two agree on 1, else the second: no row contradicts itself.
Where both sides have two trials or more, an interval holds Welch's t interval too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from iodyno.analysis import chance

LEVEL = 0.95
_COUNT_LEAST = 10
"""Samples of a function over the trials from which on its variance tells something of all (chosen)."""
_FUNCTIONS_LEAST = 8
"""Functions that it takes to know what is usual (chosen: fewer cannot tell how far functions differ)."""
_FREEDOM_MOST = 60.0
"""Degrees of freedom that the others lend at most (chosen: Student's t hardly differs from normal there)."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """Values with their bounds, elementwise; NaN where there is no bound."""

    value: Numbers
    low: Numbers
    high: Numbers


@dataclass(frozen=True)
class Variance:
    """Variances of means, with the degrees of freedom of each."""

    value: Numbers
    freedom: Numbers

    def half(self, level: float) -> Numbers:
        """Half-width of Student's t interval."""
        found: Numbers = _t_quantile((1 + level) / 2, self.freedom) * np.sqrt(self.value)
        return found


@dataclass(frozen=True)
class SampledCosts:
    """Samples of one point, for many functions at once.

    `counts`: samples of each function (column) in each trial (row); `samples`: of all functions, by trial;
    `costs`: what all samples of a trial together stand for (CPU nanoseconds per KiB), by trial; `cost_low` and
    `cost_high`: bounds of that where there is one trial only; `reference`: counts of functions that show what variance is
    usual, None: each stands for itself. Where samples of one class of CPU time count for more than those of another, `counts` are
    weighed, and `most` is the largest weight in each trial: no sum of them varies more than `most` times as much as its share.
    `usual_as`: others of the same `reference`, where what is usual is known already.
    """

    counts: Numbers
    samples: Numbers
    costs: Numbers
    cost_low: float | None = None
    cost_high: float | None = None
    reference: Numbers | None = None
    most: Numbers | None = None
    usual_as: SampledCosts | None = None

    @property
    def trials(self) -> int:
        """Number of trials."""
        return len(self.samples)

    @property
    def total(self) -> float:
        """Mean over trials of what all samples stand for."""
        return float(self.costs.mean())

    @property
    def effective_samples(self) -> float:
        """Samples that a single trial would need for the same binomial error of the mean over trials."""
        return float(self.costs.sum() ** 2 / (self.costs**2 * self._most / self.samples).sum())

    @property
    def _most(self) -> Numbers:
        return np.ones(self.trials) if self.most is None else self.most

    @property
    def cost(self) -> Numbers:
        """Mean over trials of each function's cost: its share of the samples x what they stand for."""
        found: Numbers = self._by_trial.mean(axis=0)
        return found

    def of(self, columns: Sequence[int]) -> SampledCosts:
        """The costs of some of its functions."""
        return self.with_counts(self.counts[:, list(columns)])

    def with_counts(self, counts: Numbers) -> SampledCosts:
        """Costs of other functions of the same trials."""
        return replace(self, counts=counts, usual_as=self.usual_as or self)

    @cached_property
    def cost_variance(self) -> Variance:
        """Of the mean over trials of each function's cost (two trials or more)."""
        return self._variance(self.costs)

    def share_bounds(self, level: float = LEVEL) -> Bounds:
        """Each function's share of all samples, weighted as the costs are."""
        share = self.cost / self.total
        low, high = _wilson(share, self.effective_samples, level)
        if self.trials > 1:
            half = self._variance(np.ones(self.trials)).half(level)
            low, high = np.minimum(low, share - half), np.maximum(high, share + half)
        return Bounds(share, np.maximum(low, 0.0), np.minimum(high, 1.0))

    def cost_bounds(self, level: float = LEVEL) -> Bounds:
        """Each function's cost."""
        sampled = self.sampling_bounds(level)
        low, high = sampled.low, sampled.high
        if self.trials > 1:
            half = self.cost_variance.half(level)
            low, high = np.minimum(low, self.cost - half), np.maximum(high, self.cost + half)
        return Bounds(self.cost, np.maximum(low, 0.0), high)

    def sampling_bounds(self, level: float = LEVEL) -> Bounds:
        """Each function's cost with the error of sampling; of a single trial, with that of the whole cost too."""
        cost = self.cost
        low, high = (
            bound * self.total for bound in _wilson(cost / self.total, self.effective_samples, level)
        )
        if self.trials == 1 and self.cost_low is not None and self.cost_high is not None:
            wider = _t_ratio(level)
            below = wider * (1 - self.cost_low / self.total) * cost
            above = wider * (self.cost_high / self.total - 1) * cost
            low = cost - np.hypot(cost - low, below)
            high = cost + np.hypot(high - cost, above)
        return Bounds(cost, np.maximum(low, 0.0), high)

    @cached_property
    def _usual(self) -> Usual | None:
        """Usual variance of the shares of the functions in `reference`."""
        if self.reference is None or self.trials < 2:
            return None
        if self.usual_as is not None:
            return self.usual_as._usual
        known = self.reference.sum(axis=0) >= _COUNT_LEAST
        # Among themselves: what other programs take moves the shares of all of them alike.
        among = replace(self, samples=self.reference.sum(axis=1))
        return usual_variance(*among._spread(self.reference[:, known], np.ones(self.trials)))

    def _variance(self, scale: Numbers) -> Variance:
        """Of the mean over trials of each function's share of the samples x `scale`."""
        together = scale if self.reference is None else scale * self.reference.sum(axis=1) / self.samples
        between = float(together.var(ddof=1) / together.mean() ** 2)
        return moderated(*self._spread(self.counts, scale), self._usual, between)

    def _spread(self, counts: Numbers, scale: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Values of trials, the variance that sampling alone gives one of them, and what one part more of work adds."""
        values = counts * (scale / self.samples)[:, None]
        # A count of a few: Agresti and Coull's two more in either outcome keep its variance from being nothing.
        share = (counts + 2) / (self.samples[:, None] + 4)
        sampling = (scale**2 * self._most / self.samples)[:, None] * share * (1 - share)
        # Of a share that is the whole nothing can vary: more work of its own makes all others less.
        return values, sampling.mean(axis=0), values.mean(axis=0) * (1 - share.mean(axis=0))

    @cached_property
    def _by_trial(self) -> Numbers:
        found: Numbers = self.counts * (self.costs / self.samples)[:, None]
        return found


def difference(first: SampledCosts, second: SampledCosts, level: float = LEVEL) -> Bounds:
    """Cost at the second point minus cost at the first, of each function."""
    a, b = first.sampling_bounds(level), second.sampling_bounds(level)
    value = b.value - a.value
    low = value - np.hypot(b.value - b.low, a.high - a.value)
    high = value + np.hypot(b.high - b.value, a.value - a.low)
    if first.trials > 1 and second.trials > 1:
        half = _welch(first.cost_variance, second.cost_variance, 1.0, 1.0, level)
        low, high = np.minimum(low, value - half), np.maximum(high, value + half)
    return Bounds(value, low, high)


def ratio(first: SampledCosts, second: SampledCosts, level: float = LEVEL) -> Bounds:
    """Cost at the second point over cost at the first, of each function.

    It leaves out 1 exactly where `difference` leaves out 0. Where one of them was not seen at all, the ratio is 0 or
    infinite; where the first may be nothing, it has no upper end (infinite).
    """
    logarithmic, linear = ratio_on_logarithms(first, second, level), ratio_by_difference(first, second, level)
    agree = beside_one(logarithmic) == beside_one(linear)
    return Bounds(
        logarithmic.value,
        np.where(agree, logarithmic.low, linear.low),
        np.where(agree, logarithmic.high, linear.high),
    )


def beside_one(found: Bounds) -> npt.NDArray[np.int_]:
    """Of intervals of ratios: 1 where they lie above 1, -1 below, 0 where they hold it."""
    return (found.low > 1).astype(np.int_) - (found.high < 1).astype(np.int_)


def ratio_on_logarithms(first: SampledCosts, second: SampledCosts, level: float = LEVEL) -> Bounds:
    """The ratio with the interval that its logarithm has; where one was not seen, as `ratio_by_difference` has it."""
    a, b = first.sampling_bounds(level), second.sampling_bounds(level)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = b.value / a.value
        down = np.hypot(np.log(b.value / b.low), np.log(a.high / a.value))
        up = np.hypot(np.log(b.high / b.value), np.log(a.value / a.low))
        if first.trials > 1 and second.trials > 1:
            # Delta method: the variance of the logarithm of a mean is its relative variance.
            half = _welch(first.cost_variance, second.cost_variance, a.value, b.value, level)
            down, up = np.fmax(down, half), np.fmax(up, half)
        low, high = value * np.exp(-down), value * np.exp(up)
    linear = ratio_by_difference(first, second, level)
    seen = (a.value > 0) & (b.value > 0)
    return Bounds(value, np.where(seen, low, linear.low), np.where(seen, high, linear.high))


def ratio_by_difference(first: SampledCosts, second: SampledCosts, level: float = LEVEL) -> Bounds:
    """The ratio with the interval of every r at which the second cost less r times the first may be nothing."""
    a, b = first.sampling_bounds(level), second.sampling_bounds(level)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = b.value / a.value
        low = _least_ratio(a.value, b.value, a.high - a.value, b.value - b.low)
        high = _greatest_ratio(a.value, b.value, a.value - a.low, b.high - b.value)
        if first.trials > 1 and second.trials > 1:
            of_a, of_b = first.cost_variance, second.cost_variance
            # At the freedom of the difference itself, r = 1, so that the two agree there.
            quantile = _welch_quantile(of_a.value, of_b.value, (of_a.freedom, of_b.freedom), level)
            half_a, half_b = quantile * np.sqrt(of_a.value), quantile * np.sqrt(of_b.value)
            low = np.fmin(low, _least_ratio(a.value, b.value, half_a, half_b))
            high = np.fmax(high, _greatest_ratio(a.value, b.value, half_a, half_b))
    return Bounds(value, low, high)


def _least_ratio(a: Numbers, b: Numbers, above_a: Numbers, below_b: Numbers) -> Numbers:
    """The least r with b - r a <= sqrt(below_b^2 + (r above_a)^2); not below 0."""
    known = b**2 - below_b**2
    root = np.sqrt(np.maximum((a * b) ** 2 - (a**2 - above_a**2) * known, 0.0))
    # As a quotient of the other root, which does not take two like numbers from each other.
    found: Numbers = np.where(known > 0, known / (a * b + root), 0.0)
    return found


def _greatest_ratio(a: Numbers, b: Numbers, below_a: Numbers, above_b: Numbers) -> Numbers:
    """The greatest r with r a - b <= sqrt(above_b^2 + (r below_a)^2); infinite where a is not told from 0."""
    known = a**2 - below_a**2
    root = np.sqrt(np.maximum((a * b) ** 2 - known * (b**2 - above_b**2), 0.0))
    found: Numbers = np.where(known > 0, (a * b + root) / known, np.inf)
    return found


def ratio_of(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float, float] | None:
    """Second over first of two positive (value, low, high) with its bounds; None where a bound is not positive."""
    if min(*first, *second) <= 0:
        return None
    (a, la, ua), (b, lb, ub) = first, second
    down = np.hypot(np.log(b / lb), np.log(ua / a))
    up = np.hypot(np.log(ub / b), np.log(a / la))
    return b / a, float(b / a * np.exp(-down)), float(b / a * np.exp(up))


@dataclass(frozen=True)
class Usual:
    """Usual variance: that of sampling and of a relative variation of work `common` to all, times `level`.

    `lent`: degrees of freedom that this knowledge is worth beside those of a single function's own variance.
    """

    common: float
    level: float
    lent: float


def usual_variance(values: Numbers, sampling: Numbers, gain: Numbers) -> Usual | None:
    """Estimate the usual variance of columns of `values` over rows, whose variance by sampling alone is `sampling`.

    `gain`: how much a column's value grows with its work, relatively.

    The common variation makes the median of all variances what it must be; how far the others lend to one follows
    from how much the variances scatter: Smyth 2004, section 6.2, by the moments of their logarithms. None where
    the columns are too few.
    """
    from scipy import special  # slow to import, and few need it

    freedom = len(values) - 1.0
    own = values.var(axis=0, ddof=1)
    used = own > 0
    if used.sum() < _FUNCTIONS_LEAST:
        return None
    own, sampling, squares = own[used], sampling[used], gain[used] ** 2
    median = chance.chi2.ppf(0.5, freedom) / freedom

    def excess(common: float) -> float:
        return float(np.median(own / (sampling + common * squares)) - median)

    common = 0.0 if excess(0.0) <= 0 else chance.root(excess, 0.0, 100.0)
    scatter = np.log(own / (sampling + common * squares))
    centre = float(special.digamma(freedom / 2)) - np.log(freedom / 2)
    beyond = float(scatter.var(ddof=1) - special.polygamma(1, freedom / 2))
    lent = _FREEDOM_MOST
    if beyond > float(special.polygamma(1, _FREEDOM_MOST / 2)):
        lent = chance.root(lambda d: float(special.polygamma(1, d / 2)) - beyond, 1e-3, _FREEDOM_MOST)
    level = np.exp(scatter.mean() - centre + special.digamma(lent / 2) - np.log(lent / 2))
    return Usual(common, float(level), lent)


def moderated(
    values: Numbers, sampling: Numbers, gain: Numbers, usual: Usual | None, between: float
) -> Variance:
    """Variance of the mean of each column of `values` over its rows, drawn towards what is usual.

    `between`: relative variance of the rows that all columns share. It is known from as many rows only as a column's
    own variance, so that it lends no degrees of freedom (Satterthwaite 1946).
    """
    rows, freedom = len(values), len(values) - 1.0
    own = values.var(axis=0, ddof=1)
    if usual is None:
        return Variance(own / rows, np.full(len(own), freedom))
    alone = usual.level * (sampling + usual.common * gain**2)
    shared = between * values.mean(axis=0) ** 2
    lent = (alone + shared) ** 2 / (alone**2 / usual.lent + shared**2 / freedom)
    shrunk = (lent * (alone + shared) + freedom * own) / (lent + freedom)
    return Variance(shrunk / rows, lent + freedom * alone / (alone + shared))


def _welch(
    first: Variance, second: Variance, a: Numbers | float, b: Numbers | float, level: float
) -> Numbers:
    """Half-width of Welch's t interval (1947) from two variances of means, relative to `a` and `b`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        va, vb = first.value / np.square(a), second.value / np.square(b)
        half: Numbers = _welch_quantile(va, vb, (first.freedom, second.freedom), level) * np.sqrt(va + vb)
    return half


def _welch_quantile(va: Numbers, vb: Numbers, freedoms: tuple[Numbers, Numbers], level: float) -> Numbers:
    """Student's t at the degrees of freedom that the sum of two variances has by Welch."""
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = (va + vb) ** 2 / (va**2 / freedoms[0] + vb**2 / freedoms[1])
        least = np.minimum(*freedoms)
        freedom = np.where(np.isfinite(freedom), np.maximum(freedom, least), least)
        found: Numbers = _t_quantile((1 + level) / 2, freedom)
    return found


def _wilson(shares: Numbers, samples: float, level: float) -> tuple[Numbers, Numbers]:
    # Most of thousands of functions have none or one of a few samples.
    each, place = np.unique(shares, return_inverse=True)
    low, high = np.array([chance.wilson(float(share), samples, level) for share in each]).reshape(-1, 2).T
    return low[place], high[place]


def _t_quantile(share: float, freedom: Numbers) -> Numbers:
    """Student's t quantile at each number of degrees of freedom, of which a profile has thousands."""
    from scipy import special  # slow to import, and few need it

    # Those that were not seen have the same.
    each, place = np.unique(freedom, return_inverse=True)
    return np.asarray(special.stdtrit(each, share), dtype=np.float64)[place]


def _t_ratio(level: float) -> float:
    """Return the factor that a 95 % interval is stretched by for another level, as if it were normal."""
    return float(chance.norm.ppf((1 + level) / 2) / chance.norm.ppf((1 + LEVEL) / 2))
