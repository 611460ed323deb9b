"""Was the measured window steady? Trend and halves of the goodput per interval.

A warning needs both: a change too large to be chance, and large enough to matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from iodyno.analysis import chance
from iodyno.core.warnings import Warning, WarningCode

INTERVALS_LEAST = 6
"""Fewer intervals are not tested: two halves of three are the least that a t test can compare (chosen)."""
TOGETHER = 10
"""So many parts are made of twice as many intervals or more (chosen): neighbours are alike, and a t test takes them for
independent."""
CHANGE_LEAST = 0.05
"""Relative change over the window below which it does not matter (chosen: trials differ by as much)."""
CHANCE = 0.01
"""Probability of a warning about a steady series, in each test (chosen: 1 in 100 trials)."""


def steady_state(values: Sequence[float], where: str = "", word: str = "goodput") -> Warning | None:
    """A warning, with the figures, when the goodput of successive intervals drifts or its halves differ; `word`: what it is."""
    counted = len(values)
    if counted >= 2 * TOGETHER:
        values = [float(part.mean()) for part in np.array_split(np.asarray(values, dtype=float), TOGETHER)]
    n, mean = len(values), fmean(values) if values else 0.0
    if n < INTERVALS_LEAST or mean <= 0:
        return None
    found = []
    slope, likely = chance.trend(values)
    drift = slope * (counted - 1) * n / counted / mean
    if abs(drift) > CHANGE_LEAST and likely < CHANCE:
        found.append(f"drifts by {drift:+.1%} of its mean over the window (p = {likely:.1g})")
    first, second = values[: n // 2], values[-(n // 2) :]
    change = (fmean(second) - fmean(first)) / mean
    if abs(change) > CHANGE_LEAST and _differ(first, second):
        found.append(f"changes by {change:+.1%} of its mean from the first half to the second")
    if not found:
        return None
    return Warning(WarningCode.NOT_STEADY, f"{word} {' and '.join(found)}, {n} intervals", where)


def _differ(first: Sequence[float], second: Sequence[float]) -> bool:
    if np.std(first) == 0 and np.std(second) == 0:
        return fmean(first) != fmean(second)
    return chance.differ(first, second) < CHANCE
