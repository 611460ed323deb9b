"""Quantiles and tails of the laws that tests and intervals use, of single numbers, on the standard library.

Every command that shows a number needs some of them; importing `scipy.special` takes 0.13 s of a CPU, `scipy.stats` 0.5 s, and
numpy is too slow for a picture of a heat map. `ppf` is the quantile, `cdf` and `sf` what lies below and above, as
scipy calls them; scipy is the oracle in the tests (1e-9).

>>> round(t.ppf(0.975, 4), 6), round(f.sf(3.0, 4, 20), 4), round(binomial_tail(8, 10, 0.5), 6), round(kendall_p(15, 6), 5)
(2.776445, 0.0432, 0.054687, 0.00278)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

_TINY = 1e-300
_CLOSE = 1e-14
_TERMS = 20_000
"""Of a series or continued fraction at most: they take some times the root of the degrees of freedom."""


class norm:  # noqa: N801  as scipy calls them
    """The standard normal law."""

    @staticmethod
    @lru_cache(maxsize=1000)
    def ppf(share: float) -> float:
        """The value that a share lies below."""
        if not 0 < share < 1:
            return {0.0: -math.inf, 1.0: math.inf}.get(share, math.nan)
        from statistics import NormalDist  # slow to import for a picture, which needs none

        return NormalDist().inv_cdf(share)

    @staticmethod
    def cdf(value: float) -> float:
        """The share below a value."""
        return math.erfc(-value / math.sqrt(2)) / 2

    @staticmethod
    def sf(value: float) -> float:
        """The share above a value."""
        return math.erfc(value / math.sqrt(2)) / 2


class halfnorm:  # noqa: N801
    """The law of the absolute value of a normal one."""

    @staticmethod
    def ppf(share: float) -> float:
        """The value that a share lies below."""
        return norm.ppf((1 + share) / 2)


class t:  # noqa: N801
    """Student's t law; with infinitely many degrees of freedom it is the normal one."""

    @staticmethod
    @lru_cache(maxsize=1000)
    def ppf(share: float, freedom: float) -> float:
        """The value that a share lies below."""
        if math.isinf(freedom):
            return norm.ppf(share)
        if not freedom > 0:
            return math.nan
        if share == 0.5:
            return 0.0
        found = _quantile(min(share, 1 - share), lambda value: _t_tail(value, freedom), -1)
        return found if share > 0.5 else -found

    @staticmethod
    def sf(value: float, freedom: float) -> float:
        """The share above a value."""
        if math.isinf(freedom):
            return norm.sf(value)
        beyond, _ = _t_tail(value, freedom)
        return beyond if value >= 0 else 1 - beyond


class f:  # noqa: N801
    """Fisher's F law of a ratio of two variances."""

    @staticmethod
    @lru_cache(maxsize=1000)
    def ppf(share: float, above: float, below: float) -> float:
        """The value that a share lies below."""
        if share > 0.5:
            return _quantile(1 - share, lambda value: _f_tail(value, above, below), -1)
        return _quantile(share, lambda value: _f_tail(1 / value, below, above), 1)

    @staticmethod
    def sf(value: float, above: float, below: float) -> float:
        """The share above a value."""
        return _f_tail(value, above, below)[0] if value > 0 else 1.0


class chi2:  # noqa: N801
    """The chi-square law of a sum of squares."""

    @staticmethod
    @lru_cache(maxsize=1000)
    def ppf(share: float, freedom: float) -> float:
        """The value that a share lies below."""
        if share > 0.5:
            return _quantile(1 - share, lambda value: _gamma(freedom / 2, value / 2)[1:], -1, freedom)
        return _quantile(share, lambda value: _gamma(freedom / 2, value / 2)[::2], 1, freedom)

    @staticmethod
    def sf(value: float, freedom: float) -> float:
        """The share above a value."""
        return _gamma(freedom / 2, value / 2)[1]


def _t_tail(value: float, freedom: float) -> tuple[float, float]:
    whole = freedom + value**2
    found, slope = _beta(freedom / whole, value**2 / whole, freedom / 2, 0.5)
    return found / 2, slope


def _f_tail(value: float, above: float, below: float) -> tuple[float, float]:
    whole = below + above * value
    return _beta(below / whole, above * value / whole, below / 2, above / 2)


def _quantile(
    share: float, tail: Callable[[float], tuple[float, float]], rises: int, start: float = 1.0
) -> float:
    """The positive value at which a tail, which rises (1) or falls (-1) with it, is a share. `start`: about its middle.

    By Newton's method on logarithms, on which tails are concave: steps come to the value from its far side. `tail` gives the
    tail, and by how much it changes with the logarithm of the value.
    """
    if share <= 0:
        return math.inf if rises < 0 else 0.0
    place = known = math.log(start)
    for _ in range(500):
        found, slope = tail(math.exp(place))
        if found <= 0 or slope <= 0:  # too far out for a float
            place = (place + known) / 2
            continue
        step = -rises * math.log(found / share) * found / slope
        known, place = place, place + min(max(step, -2.0), 2.0)
        if abs(step) < 1e-9:  # what is left is its square
            break
    return math.exp(place)


def _beta(x: float, y: float, a: float, b: float) -> tuple[float, float]:
    """The regularised incomplete beta function I_x(a, b), and its derivative by the logarithm of x / y.

    y is 1 - x, known apart so that a small one is exact.

    By its continued fraction (Abramowitz and Stegun 26.5.8), evaluated from the front after Lentz (Applied Optics 15
    (1976) 668).
    """
    if x <= 0 or y <= 0:
        return (0.0, 0.0) if x <= 0 else (1.0, 0.0)
    if x > (a + 1) / (a + b + 2):
        found, front = _beta(y, x, b, a)
        return 1.0 - found, front
    log_y = math.log1p(-x) if x < 0.5 else math.log(y)
    log_x = math.log1p(-y) if y < 0.5 else math.log(x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * log_x + b * log_y)
    c, d = 1.0, _inverse(1.0 - (a + b) * x / (a + 1))
    product = d
    for m in range(1, _TERMS):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = _inverse(1.0 + factor * d)
            c = 1.0 + factor / c
            c = c if abs(c) > _TINY else _TINY
            product *= c * d
        if abs(c * d - 1.0) < _CLOSE:
            break
    return min(1.0, front * product / a), front


def _inverse(value: float) -> float:
    return 1.0 / (value if abs(value) > _TINY else _TINY)


def _gamma(a: float, x: float) -> tuple[float, float, float]:
    """The regularised incomplete gamma functions P(a, x) and Q(a, x), and the derivative of P by the logarithm of x.

    By series and continued fraction (Abramowitz and Stegun 6.5.29 and 6.5.31).
    """
    if x <= 0 or math.isinf(x):
        return (0.0, 1.0, 0.0) if x <= 0 else (1.0, 0.0, 0.0)
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for n in range(1, _TERMS):
            term *= x / (a + n)
            total += term
            if term < _CLOSE * total:
                break
        return min(1.0, front * total), 1.0 - min(1.0, front * total), front
    b = x + 1 - a
    c, d = 1 / _TINY, _inverse(b)
    product = d
    for n in range(1, _TERMS):
        factor = -n * (n - a)
        b += 2
        d = _inverse(factor * d + b)
        c = b + factor / c
        c = c if abs(c) > _TINY else _TINY
        product *= c * d
        if abs(c * d - 1.0) < _CLOSE:
            break
    return 1.0 - min(1.0, front * product), min(1.0, front * product), front


def binomial_tail(k: int, n: int, share: float) -> float:
    """P(X >= k) of n trials with chance `share` each."""
    if k <= 0:
        return 1.0
    return 0.0 if k > n else _beta(share, 1 - share, k, n - k + 1)[0]


@cache
def _kendall_counts(n: int) -> tuple[int, ...]:
    """Count the orders of n things that have 0, 1, 2, ... pairs out of order (Kendall, Biometrika 30 (1938) 81)."""
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


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """The place between `low` and `high`, where a function has different signs, at which it is 0.

    By Brent's method (Algorithms for Minimization without Derivatives, 1973, chapter 4): by the secant or an inverse parabola
    where these close in, else by halving.

    >>> round(root(lambda x: x * x - 2, 0.0, 2.0), 12)
    1.414213562373
    """
    before, at, across = low, high, low
    f_before, f_at = function(before), function(at)
    f_across = f_before
    stepped = step = at - before
    for _ in range(200):
        if f_before and f_at and (f_before > 0) != (f_at > 0):
            across, f_across = before, f_before
            stepped = step = at - before
        if abs(f_across) < abs(f_at):
            before, at, across = at, across, at
            f_before, f_at, f_across = f_at, f_across, f_at
        least = (2e-12 + 4 * 2.0**-52 * abs(at)) / 2
        half = (across - at) / 2
        if not f_at or abs(half) < least:
            break
        if abs(stepped) > least and abs(f_at) < abs(f_before):
            if before == across:
                tried = -f_at * (at - before) / (f_at - f_before)
            else:
                near, far = (f_before - f_at) / (before - at), (f_across - f_at) / (across - at)
                tried = -f_at * (f_across * far - f_before * near) / (far * near * (f_across - f_before))
            if 2 * abs(tried) < min(abs(stepped), 3 * abs(half) - least):
                stepped, step = step, tried
            else:
                stepped = step = half
        else:
            stepped = step = half
        before, f_before = at, f_at
        at += step if abs(step) > least else math.copysign(least, half)
        f_at = function(at)
    return at


def wilson(share: float, samples: float, level: float) -> tuple[float, float]:
    """The score interval of a share of `samples` (Wilson 1927); sound also at shares of 0 and of a few samples."""
    z = norm.ppf((1 + level) / 2)
    middle = (share + z * z / (2 * samples)) / (1 + z * z / samples)
    spread = math.sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples))
    half = z / (1 + z * z / samples) * spread
    # At the ends rounding must not push a bound past the estimate.
    return min(max(middle - half, 0.0), share), max(min(middle + half, 1.0), share)


def trend(values: Sequence[float]) -> tuple[float, float]:
    """Slope of the least squares line through values at 0, 1, 2, ..., and how likely one as steep is by chance (t test).

    Three values or more.
    """
    n = len(values)
    mean = math.fsum(values) / n
    x = [place - (n - 1) / 2 for place in range(n)]
    power = math.fsum(place * place for place in x)
    slope = math.fsum(place * value for place, value in zip(x, values, strict=True)) / power
    left = math.fsum((value - mean - slope * place) ** 2 for place, value in zip(x, values, strict=True))
    error = math.sqrt(left / (n - 2) / power)
    if error == 0:
        return slope, 0.0 if slope else 1.0
    return slope, 2 * t.sf(abs(slope) / error, n - 2)


def differ(first: Sequence[float], second: Sequence[float]) -> float:
    """Test two means for a difference and return the p-value (Welch 1947). Two values or more of each, not all of them equal."""
    (x, a), (y, b) = (_mean_and_error(values) for values in (first, second))
    freedom = (a + b) ** 2 / (a**2 / (len(first) - 1) + b**2 / (len(second) - 1))
    return 2 * t.sf(abs(y - x) / math.sqrt(a + b), freedom)


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and the square of its standard error."""
    n = len(values)
    mean = math.fsum(values) / n
    return mean, math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n


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


def shapiro(values: Sequence[float]) -> float:
    """Test a sample for normality and return the p-value (Shapiro and Wilk 1965; Royston 1995, AS R94).

    Of 4 to 5000 values.
    """
    n = len(values)
    places = [norm.ppf((rank - 0.375) / (n + 0.25)) for rank in range(1, n + 1)]
    power = math.fsum(place * place for place in places)
    u = 1 / math.sqrt(n)
    last = places[-1] / math.sqrt(power) + _polynomial(
        u, 0, 0.221157, -0.147981, -2.07119, 4.434685, -2.706056
    )
    ends = [last]
    if n > 5:
        next_to_last = places[-2] / math.sqrt(power)
        ends.append(next_to_last + _polynomial(u, 0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633))
    rest = power - 2 * math.fsum(place * place for place in places[-len(ends) :])
    scale = math.sqrt(rest / (1 - 2 * math.fsum(end * end for end in ends)))
    weights = [place / scale for place in places]
    for at, end in enumerate(ends):
        weights[at], weights[-1 - at] = -end, end
    mean = math.fsum(values) / n
    whole = math.fsum((value - mean) ** 2 for value in values)
    if not whole:
        return 1.0
    along = math.fsum(weight * value for weight, value in zip(weights, sorted(values), strict=True))
    left = max(1 - along**2 / whole, _TINY)
    if n < 12:
        least = 0.459 * n - 2.273
        if math.log(left) >= least:
            return 0.0
        y = -math.log(least - math.log(left))
        middle = _polynomial(n, 0.544, -0.39978, 0.025054, -6.714e-4)
        spread = math.exp(_polynomial(n, 1.3822, -0.77857, 0.062767, -0.0020322))
    else:
        y, x = math.log(left), math.log(n)
        middle = _polynomial(x, -1.5861, -0.31082, -0.083751, 0.0038915)
        spread = math.exp(_polynomial(x, -0.4803, -0.082676, 0.0030302))
    return norm.sf((y - middle) / spread)


def _polynomial(x: float, *weights: float) -> float:
    return math.fsum(weight * x**power for power, weight in enumerate(weights))


def spreads_differ(groups: Sequence[Sequence[float]]) -> float:
    """Test normal samples for equal variances and return the p-value (Bartlett 1937). Two groups or more, each of two values or
    more that are not all equal."""
    freedoms = [len(group) - 1 for group in groups]
    variances = [_mean_and_error(group)[1] * len(group) for group in groups]
    whole = sum(freedoms)
    pooled = math.fsum(d * v for d, v in zip(freedoms, variances, strict=True)) / whole
    apart = whole * math.log(pooled) - math.fsum(
        d * math.log(v) for d, v in zip(freedoms, variances, strict=True)
    )
    correction = 1 + (math.fsum(1 / d for d in freedoms) - 1 / whole) / (3 * (len(groups) - 1))
    return chi2.sf(apart / correction, len(groups) - 1)


def means_differ(groups: Sequence[Sequence[float]]) -> float:
    """Test normal samples of one variance for equal means and return the p-value (one-way analysis of variance).

    Two groups or more, not all of them of equal values.
    """
    whole = [value for group in groups for value in group]
    mean = math.fsum(whole) / len(whole)
    between = within = 0.0
    for group in groups:
        middle = math.fsum(group) / len(group)
        between += len(group) * (middle - mean) ** 2
        within += math.fsum((value - middle) ** 2 for value in group)
    above, below = len(groups) - 1, len(whole) - len(groups)
    return f.sf(between / above / (within / below), above, below) if within else 0.0
