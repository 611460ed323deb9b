"""Confidence sequences: intervals that may be looked at after every block, and hold at all looks together.

A 95 % interval holds at one look that was fixed beforehand. Who looks 20 times and stops at the first that leaves out 0
is wrong in a quarter of all cases where nothing is there. A confidence sequence bounds the chance that it is wrong at ANY
look, so that stopping when it says so is no mistake (Howard, Ramdas, McAuliffe and Sekhon 2021, Annals of Statistics 49).

Here the errors are normal with an unknown standard deviation, and block effects and means of points are nuisance. The
sequence inverts the t mixture: the likelihood ratio of the t statistic between "the effect is d" and "the effect lies
around d, normally with variance g times that of the error", with the invariant (1/sigma) prior on the error's
scale in both. That ratio is a martingale with mean 1 when d is true, so it exceeds 1/alpha at some look with probability
alpha at most (Ville). For regressions: Lindon, Ham, Tingley and Bojinov 2022, "Anytime-valid linear models"; for one
mean: Wang and Ramdas 2024. Where errors are not normal it holds for large n (Waudby-Smith, Arbour, Sinha,
Kennedy and Ramdas 2024, Annals of Statistics 52).

Blocks in a row may be like their neighbours, and then are worth fewer than they are. How alike they are is hardly known of a
few, so both sides of the likelihood ratio are means over correlations from 0 to 0.7 (first-order autoregressive effects in
blocks); "the effect lies around d" has half its weight on independent blocks. Simulated with 20 to 100 looks at nothing, it is
wrong in 0 to 2 % of campaigns of independent blocks, in 1 to 2 % at a correlation of 0.3 and in 3 to 5 % at 0.6, where the ratio
of independent blocks is wrong in 2 to 3, 8 to 14 and 29 to 48 %. The price: 20, 12, 8 independent blocks in place of 12, 7, 5, to
tell an effect of 1, 2, 4 standard deviations of a block (`tests/truth/test_correlated_blocks.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

ALPHA = 0.05
"""Chance of being wrong at any look at all: 1 - 0.95."""

_CORRELATIONS = np.arange(15) / 20
"""Of neighbouring blocks, each as likely (chosen: beyond 0.7, few blocks say nothing of an effect)."""
_INDEPENDENT = 0.5
"""Weight of independent blocks where there is an effect (chosen: it saves one block in eight)."""
_FARTHEST = 1e6
"""Standard errors from the estimate at which no bound is looked for any more."""


@dataclass(frozen=True)
class Fit:
    """An effect as a regression finds it.

    `estimate` in the units of the outcome (or of its logarithm); its variance is `sigma`**2 / `weight`; `sigma` is
    estimated with `freedom` degrees of freedom. `blocks`: by how much each block's own effect is off the estimate, in the order
    of the blocks; empty where they are not known, and taken for independent.
    """

    estimate: float
    weight: float
    sigma: float
    freedom: int
    blocks: tuple[float, ...] = ()

    @property
    def standard_error(self) -> float:
        """Of the estimate."""
        return self.sigma / math.sqrt(self.weight)


def radius_in_errors(freedom: int, information: float, alpha: float = ALPHA) -> float:
    """Half the width of the sequence of independent blocks, in standard errors; `information` is g times the fit's weight.

    Infinite while there is too little to say anything. From B(t) = k**-1/2 * ((1 + t²/v) / (1 + t²/(v k)))**((v+1)/2)
    with k = 1 + information, set equal to 1/alpha and solved for t.
    """
    if freedom < 1 or information <= 0:
        return math.inf
    k = 1 + information
    # As a logarithm: with one degree of freedom and a small alpha the power is large.
    log_c = 2 * (0.5 * math.log(k) - math.log(alpha)) / (freedom + 1)
    if log_c >= math.log(k):
        return math.inf
    c = math.exp(log_c)
    return math.sqrt(freedom * (c - 1) / (1 - c / k))


def bounds(fit: Fit, mixture: float, alpha: float = ALPHA) -> tuple[float, float] | None:
    """The sequence at this look; None while it is infinite. `mixture` is g, fixed before the first look."""
    radius = radius_in_errors(fit.freedom, mixture * fit.weight, alpha)
    if not math.isfinite(radius):
        return None
    half = radius * fit.standard_error
    if len(fit.blocks) < 2 or not half:
        return fit.estimate - half, fit.estimate + half
    low, high = (_bound(fit, side * half, mixture, alpha) for side in (-1, 1))
    return None if low is None or high is None else (low, high)


def _bound(fit: Fit, away: float, mixture: float, alpha: float) -> float | None:
    """Find the value at which the evidence is as much as it takes, on the side that `away` is on; None: nowhere."""
    near = 0.0
    while evidence(fit, fit.estimate + away, mixture) < 1 / alpha:
        near, away = away, 2 * away
        if abs(away) > _FARTHEST * fit.standard_error:
            return None
    while abs(away - near) > 1e-7 * abs(away):
        middle = (near + away) / 2
        near, away = (
            (middle, away) if evidence(fit, fit.estimate + middle, mixture) < 1 / alpha else (near, middle)
        )
    return fit.estimate + away


def tuned(weight: float, freedom: int, alpha: float = ALPHA) -> float:
    """The g that makes the sequence narrowest at a look with this weight and these degrees of freedom.

    Any g is valid; it must not depend on what was measured. With many degrees of freedom g * weight is 8, and the
    interval is 1.55 times as wide as that of a single look.
    """
    steps = [math.exp(0.05 * step) for step in range(-40, 281)]
    return min(steps, key=lambda information: radius_in_errors(max(freedom, 3), information, alpha)) / weight


def evidence(fit: Fit, null: float, mixture: float) -> float:
    """The likelihood ratio against "the effect is `null`": 20 and more leaves it out of the 95 % sequence.

    Infinite where the error is nothing and the estimate is not `null`.
    """
    k = 1 + mixture * fit.weight
    if fit.sigma == 0:
        return math.inf if fit.estimate != null else k**-0.5
    if len(fit.blocks) > 1:
        off = np.asarray(fit.blocks) + fit.estimate - null
        logs = log_evidence(off, fit.sigma**2 * fit.freedom, fit.weight, fit.freedom, mixture)
        return math.exp(min(float(logs), 700.0))
    t2_v = ((fit.estimate - null) / fit.standard_error) ** 2 / fit.freedom
    log = -0.5 * math.log(k) + (fit.freedom + 1) / 2 * (math.log1p(t2_v) - math.log1p(t2_v / k))
    return math.exp(min(log, 700.0))


def log_evidence(
    off: Numbers, squares: float | Numbers, weight: float, freedom: int, mixture: float
) -> Numbers:
    """The logarithm of the likelihood ratio, from what the effect in each block is off the one in question (last axis, in order).

    `squares`: sum of those that the fit leaves, of which the blocks' are a part. A first-order autoregressive series has the
    inverse and the determinant that are written out here (Box and Jenkins 1970, chapter 7); scale and other parameters are
    integrated out.
    """
    n = off.shape[-1]
    x = off * math.sqrt(weight / n)
    mean = x.mean(axis=-1)
    rest = np.maximum(0.0, squares - ((x - mean[..., None]) ** 2).sum(axis=-1))
    r = _CORRELATIONS.reshape(-1, *[1] * (x.ndim - 1))
    free = 1 - r**2
    ends, ends2 = x[..., 0] + x[..., -1], x[..., 0] ** 2 + x[..., -1] ** 2
    whole = (
        (1 + r**2) * (x**2).sum(axis=-1) - r**2 * ends2 - 2 * r * (x[..., 1:] * x[..., :-1]).sum(axis=-1)
    ) / free
    counts = (1 - r) * (2 + (n - 2) * (1 - r)) / free
    along = ((1 - r) * ((1 - r) * n * mean + r * ends) / free) ** 2 / counts
    k = 1 + mixture * weight / n * counts
    power = (freedom + 1) / 2
    tiny = 1e-300
    common = -(n - 1) / 2 * np.log(free)
    without = common - power * np.log(np.maximum(rest + whole, tiny))
    around = common - np.log(k) / 2 - power * np.log(np.maximum(rest + whole - along * (1 - 1 / k), tiny))
    mixed = np.logaddexp.reduce(around, axis=0) - math.log(len(_CORRELATIONS))
    effect = np.logaddexp(math.log(_INDEPENDENT) + around[0], math.log1p(-_INDEPENDENT) + mixed)
    found: Numbers = effect - np.logaddexp.reduce(without, axis=0) + math.log(len(_CORRELATIONS))
    return found
