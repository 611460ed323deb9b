"""The distribution of a time, by its survival function P(T > t), and its quantiles.

Survival and not 1 - survival is what models give here: a 99.99 % quantile of a distribution that is known by its lower
part alone has lost four digits before the search begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from iodyno.core.errors import ExperimentError

_RELATIVE = 1e-14
"""Width of the last bracket over the quantile (chosen: a hundred units in the last place of a double)."""
_STEPS = 400
_DOUBLINGS = 1100


@dataclass(frozen=True)
class Times:
    """A time in seconds that is `shift_s` or longer. `survival(t)` is P(T - shift > t), for t >= 0 and never rising.

    `scale_s`: about how long it is, where the search of a quantile begins.
    """

    survival: Callable[[float], float]
    scale_s: float
    shift_s: float = 0.0

    def later_by(self, delay_s: float) -> Times:
        """The same time with a constant added, in seconds."""
        return replace(self, shift_s=self.shift_s + delay_s)

    def exceeds(self, time_s: float) -> float:
        """P(T > time_s), a ratio; 1 before the shift."""
        after = time_s - self.shift_s
        return 1.0 if after < 0 else self.survival(after)

    def quantile_s(self, p: float) -> float:
        """The least time in seconds that a share `p` of all does not exceed. Raises ExperimentError unless 0 < p < 1."""
        if not 0 < p < 1:
            raise ExperimentError(
                f"invalid value: {p!r} as a quantile; expected between 0 and 1",
                advice="0.99 for the 99 % quantile",
            )
        return self.shift_s + _where_survival_falls_to(1 - p, self.survival, self.scale_s)


def later_of_two_stages(first_per_s: float, second_per_s: float, time_s: float) -> float:
    """The integral of exp(-x u) exp(-y (t - u)) over u from 0 to t, in seconds; x and y may be equal or near to it.

    Source: (exp(-x t) - exp(-y t)) / (y - x), written so that no two near numbers are subtracted.
    """
    apart = abs(first_per_s - second_per_s)
    slower = math.exp(-min(first_per_s, second_per_s) * time_s)
    return slower * (-math.expm1(-apart * time_s) / apart if apart * time_s > 1e-300 else time_s)


def _where_survival_falls_to(level: float, survival: Callable[[float], float], scale_s: float) -> float:
    """By false position on the logarithm (Illinois; Dowell and Jarratt, BIT 11, 1971) with a bisection every third step:
    the logarithm is a straight line where the tail is exponential, and jumps are met by the bisections.
    """
    if survival(0.0) <= level:
        return 0.0
    target = math.log(level)

    def above(time_s: float) -> float:
        left = survival(time_s)
        return math.log(left) - target if left > 0 else -math.inf

    low, high = 0.0, scale_s if scale_s > 0 else 1.0
    at_low, at_high = above(low), above(high)
    for _ in range(_DOUBLINGS):
        if at_high <= 0:
            break
        low, at_low, high = high, at_high, 2 * high
        at_high = above(high)
    for step in range(_STEPS):
        if high - low <= _RELATIVE * high:
            break
        if step % 3 == 2 or math.isinf(at_high) or at_low == at_high:
            middle = low + (high - low) / 2
        else:
            middle = low + (high - low) * at_low / (at_low - at_high)
        if not low < middle < high:
            middle = low + (high - low) / 2
        found = above(middle)
        if found > 0:
            low, at_low, at_high = middle, found, at_high / 2
        elif found < 0:
            high, at_high, at_low = middle, found, at_low / 2
        else:
            return middle
    return high
