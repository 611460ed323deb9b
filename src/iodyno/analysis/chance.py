"""Quantiles, tails and densities of the laws that tests and intervals use: normal, half-normal, Student's t, F and chi-square.

By the special functions that `scipy.stats` uses for the same (Cephes; DiDonato and Morris 1992): its import takes 0.7 s of a CPU,
which every command that shows a number would wait for. `ppf` is the quantile, `cdf` and `sf` what lies below and above, `pdf` the
density, as scipy calls them; all take arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

Number = Any
"""A number or an array of them, as numpy has it."""


class norm:  # noqa: N801  as scipy calls them
    """The standard normal law."""

    @staticmethod
    def ppf(share: Number) -> Number:
        """The value that a share lies below."""
        return special.ndtri(share)

    @staticmethod
    def cdf(value: Number) -> Number:
        """The share below a value."""
        return special.ndtr(value)

    @staticmethod
    def sf(value: Number) -> Number:
        """The share above a value."""
        return special.ndtr(-np.asarray(value))


class halfnorm:  # noqa: N801
    """The law of the absolute value of a normal one."""

    @staticmethod
    def ppf(share: Number) -> Number:
        """The value that a share lies below."""
        return special.ndtri((1 + np.asarray(share)) / 2)


class t:  # noqa: N801
    """Student's t law; with infinitely many degrees of freedom it is the normal one."""

    @staticmethod
    def ppf(share: Number, freedom: Number) -> Number:
        """The value that a share lies below."""
        return np.where(np.isinf(freedom), special.ndtri(share), special.stdtrit(freedom, share))[()]

    @staticmethod
    def pdf(value: Number, freedom: float) -> Number:
        """The density at a value, of one finite number of degrees of freedom."""
        scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(
            math.pi * freedom
        )
        return scale * (1 + np.asarray(value) ** 2 / freedom) ** (-(freedom + 1) / 2)

    @staticmethod
    def sf(value: Number, freedom: Number) -> Number:
        """The share above a value."""
        below = -np.asarray(value)
        return np.where(np.isinf(freedom), special.ndtr(below), special.stdtr(freedom, below))[()]


class f:  # noqa: N801
    """Fisher's F law of a ratio of two variances."""

    @staticmethod
    def ppf(share: Number, above: Number, below: Number) -> Number:
        """The value that a share lies below."""
        return special.fdtri(above, below, share)

    @staticmethod
    def sf(value: Number, above: Number, below: Number) -> Number:
        """The share above a value."""
        return special.fdtrc(above, below, value)


class chi2:  # noqa: N801
    """The chi-square law of a sum of squares."""

    @staticmethod
    def ppf(share: Number, freedom: Number) -> Number:
        """The value that a share lies below."""
        return 2 * special.gammaincinv(np.asarray(freedom) / 2, share)

    @staticmethod
    def sf(value: Number, freedom: Number) -> Number:
        """The share above a value."""
        return special.chdtrc(freedom, value)


def wilson(share: Number, samples: float, level: float) -> tuple[Number, Number]:
    """The score interval of shares of `samples` (Wilson 1927); sound also at shares of 0 and of a few samples."""
    z = float(norm.ppf((1 + level) / 2))
    middle = (share + z * z / (2 * samples)) / (1 + z * z / samples)
    half = (
        z / (1 + z * z / samples) * np.sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples))
    )
    # At the ends rounding must not push a bound past the estimate.
    return np.minimum(np.maximum(middle - half, 0.0), share), np.maximum(
        np.minimum(middle + half, 1.0), share
    )


def trend(values: Sequence[float]) -> tuple[float, float]:
    """Slope of the least squares line through values at 0, 1, 2, ..., and how likely one as steep is by chance (t test).

    Three values or more.
    """
    y = np.asarray(values, dtype=float)
    x = np.arange(len(y)) - (len(y) - 1) / 2
    slope = float(x @ y) / float(x @ x)
    freedom = len(y) - 2
    left = y - y.mean() - slope * x
    error = math.sqrt(float(left @ left) / freedom / float(x @ x))
    if error == 0:
        return slope, 0.0 if slope else 1.0
    return slope, 2 * float(t.sf(abs(slope) / error, freedom))


def differ(first: Sequence[float], second: Sequence[float]) -> float:
    """How likely two means lie so far apart by chance (Welch 1947). Two values or more of each, not all of them equal."""
    a, b = (float(np.var(values, ddof=1)) / len(values) for values in (first, second))
    step = float(np.mean(second) - np.mean(first))
    freedom = (a + b) ** 2 / (a**2 / (len(first) - 1) + b**2 / (len(second) - 1))
    return 2 * float(t.sf(abs(step) / math.sqrt(a + b), freedom))
