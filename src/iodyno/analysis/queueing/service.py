"""Service times of a given mean and squared coefficient of variation: a law that has both.

Two moments do not make a distribution. What is chosen here is the usual choice (Tijms, A First Course in Stochastic Models,
2003, appendix B; Whitt, Operations Research 30:1, 1982): constant at 0, a mixture of two Erlang laws with a common rate
below 1, exponential at 1, hyper-exponential of two phases with balanced means above it. Block I/O traces are often
nearer to the last one than to an exponential law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iodyno.analysis.queueing.birth_death import poisson_mixture
from iodyno.analysis.queueing.station import check_service, check_squared_cv

LEAST_MIXED = 1e-3
"""Least squared coefficient of variation, above 0, for which there is a law: it has 1000 phases (chosen: below it, use constant
service, whose quantiles differ by less than 1 % of a service time's standard deviation).
"""


@dataclass(frozen=True)
class ErlangMixture:
    """`phases` exponential phases of `phase_per_s` each, or with `fewer_ratio` one less. One phase: exponential."""

    phases: int
    phase_per_s: float
    fewer_ratio: float

    @property
    def name(self) -> str:
        """Name of the service law, in words."""
        if self.phases == 1:
            return "exponential service"
        return f"service of {self.phases - 1} or {self.phases} Erlang phases"

    def at_least(self, phases: int) -> float:
        """P(so many phases or more)."""
        if phases < self.phases:
            return 1.0
        return 1 - self.fewer_ratio if phases == self.phases else 0.0

    def exceeds(self, time_s: float) -> float:
        """P(service > time_s)."""
        ahead = [1.0] * (self.phases - 1) + [1 - self.fewer_ratio, 0.0]
        return poisson_mixture(self.phase_per_s * time_s, ahead)


@dataclass(frozen=True)
class HyperExponential:
    """A fast and a slow exponential law, one of which is drawn each time. Rates in 1/s; ratios sum to 1."""

    fast_ratio: float
    fast_per_s: float
    slow_ratio: float
    slow_per_s: float

    name = "hyper-exponential service of two phases with balanced means"

    def exceeds(self, time_s: float) -> float:
        """P(service > time_s)."""
        fast = self.fast_ratio * math.exp(-self.fast_per_s * time_s)
        return fast + self.slow_ratio * math.exp(-self.slow_per_s * time_s)


@dataclass(frozen=True)
class Constant:
    """Always the same time."""

    time_s: float

    name = "constant service"

    def exceeds(self, time_s: float) -> float:
        """P(service > time_s)."""
        return 1.0 if time_s < self.time_s else 0.0


Law = ErlangMixture | HyperExponential | Constant


def law_of(mean_s: float, squared_cv: float) -> Law | None:
    """The law of this mean in seconds and squared coefficient of variation; None between 0 and `LEAST_MIXED`.

    Source: Tijms 2003, appendix B: k phases with 1 / k <= cv^2 <= 1 / (k - 1), one less with probability
    (k cv^2 - sqrt(k (1 + cv^2) - k^2 cv^2)) / (1 + cv^2); above 1, p = (1 + sqrt((cv^2 - 1) / (cv^2 + 1))) / 2 with rates
    2 p / mean and 2 (1 - p) / mean. Raises ExperimentError for a bad argument.
    """
    check_service(mean_s, "service")
    check_squared_cv(squared_cv, "service times", "service")
    if squared_cv == 0:
        return Constant(mean_s)
    if squared_cv < LEAST_MIXED:
        return None
    if squared_cv <= 1:
        phases = math.ceil(1 / squared_cv - 1e-9)
        root = math.sqrt(max(0.0, phases * (1 + squared_cv) - phases**2 * squared_cv))
        fewer = min(1.0, max(0.0, (phases * squared_cv - root) / (1 + squared_cv)))
        # One phase is never one less.
        fewer = 0.0 if phases == 1 else fewer
        return ErlangMixture(phases, (phases - fewer) / mean_s, fewer)
    fast = (1 + math.sqrt((squared_cv - 1) / (squared_cv + 1))) / 2
    # 1 - fast, which rounds to few digits where the variation is large.
    slow = 1 / (squared_cv + 1) / (2 * fast)
    return HyperExponential(fast, 2 * fast / mean_s, slow, 2 * slow / mean_s)
