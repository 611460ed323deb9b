"""How many draws a test of chance takes, and how far what it counts may lie from what is right.

A fifth of the draws by default, all of them with IODYNO_FULL=1 (`make truth`). Bounds are those that a program which is right
leaves once in a million times, for either number of draws: fewer draws have wider bounds, which still are far from a gross error.
"""

from __future__ import annotations

import math
import os

from scipy import stats

RARELY = 1e-6
"""How often a program that is right may leave the bounds (chosen: so that none of some hundred tests does)."""
FULL = bool(os.environ.get("IODYNO_FULL"))


def draws(full: int) -> int:
    """Of `full` draws, those that are taken."""
    return full if FULL else -(-full // 5)


def count_between(share: float, count: int) -> tuple[int, int]:
    """Least and greatest number of `count` draws of which each is a hit with probability `share` (binomial law)."""
    low, high = stats.binom.interval(1 - RARELY, count, share)
    return int(low), int(high)


def within(full: float, count: int, of: int) -> float:
    """Tolerance of a mean over `count` draws, where it is `full` over `of` draws: it goes with the root of their number."""
    return full * math.sqrt(of / count)
