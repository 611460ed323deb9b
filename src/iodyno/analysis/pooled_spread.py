"""The spread of trials about their points, on a logarithmic scale, pooled over the points of a campaign.

A point of two trials knows next to nothing of its own spread: Student's t is 12.7. All points together know it, where they spread
alike (one-way layout: Montgomery, Design and Analysis of Experiments, chapter 3). Where they clearly do not (Bartlett 1937,
Proceedings of the Royal Society A 160), there is no pooled spread, and each point stands on its own trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import variance

from iodyno.analysis.chance import chi2
from iodyno.core.outcome import Spread

ALIKE_AT = 0.1
"""Chance of spreads so different below which they are not pooled (chosen: of points that spread alike, nine campaigns in ten are
pooled)."""
_FREEDOM_LEAST = 2
_FLOOR = 0.01
"""Least variance of a point, as a share of the pooled one: trials that agree to the last digit are mostly rounded alike."""


def pooled_spread(points: Sequence[Sequence[float]]) -> Spread | None:
    """The spread of the values of each point about their mean; None where it is not known, or not one."""
    known = [values for values in points if values]
    if not known or min(map(min, known)) <= 0:
        return None
    groups = [[math.log(value) for value in values] for values in known if len(values) > 1]
    each = [(variance(logs), len(logs) - 1) for logs in groups]
    freedom = sum(free for _, free in each)
    if freedom < _FREEDOM_LEAST:
        return None
    pooled = sum(free * spread for spread, free in each) / freedom
    # Rounding of logarithms of equal numbers is no spread.
    if pooled < 1e-24 or (len(each) > 1 and _unlike([(max(s, _FLOOR * pooled), n) for s, n in each])):
        return None
    return Spread(math.sqrt(pooled), freedom, len(known))


def _unlike(each: Sequence[tuple[float, int]]) -> bool:
    """Bartlett's test of variances with their degrees of freedom."""
    freedom = sum(free for _, free in each)
    pooled = sum(free * spread for spread, free in each) / freedom
    apart = freedom * math.log(pooled) - sum(free * math.log(spread) for spread, free in each)
    corrected = 1 + (sum(1 / free for _, free in each) - 1 / freedom) / (3 * (len(each) - 1))
    return chi2.sf(max(0.0, apart / corrected), len(each) - 1) < ALIKE_AT
