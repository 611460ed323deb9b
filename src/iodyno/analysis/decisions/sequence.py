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
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ALPHA = 0.05
"""Chance of being wrong at any look at all: 1 - 0.95."""


@dataclass(frozen=True)
class Fit:
    """An effect as a regression finds it.

    `estimate` in the units of the outcome (or of its logarithm); its variance is `sigma`**2 / `weight`; `sigma` is
    estimated with `freedom` degrees of freedom.
    """

    estimate: float
    weight: float
    sigma: float
    freedom: int

    @property
    def standard_error(self) -> float:
        """Of the estimate."""
        return self.sigma / math.sqrt(self.weight)


def radius_in_errors(freedom: int, information: float, alpha: float = ALPHA) -> float:
    """Half the width of the sequence, in standard errors; `information` is g times the fit's weight.

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
    return fit.estimate - half, fit.estimate + half


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
    t2_v = ((fit.estimate - null) / fit.standard_error) ** 2 / fit.freedom
    log = -0.5 * math.log(k) + (fit.freedom + 1) / 2 * (math.log1p(t2_v) - math.log1p(t2_v / k))
    return math.exp(min(log, 700.0))
