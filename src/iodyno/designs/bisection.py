"""Probabilistic bisection: the largest level that meets a goal, from trials that may err.

A bisection that believes each trial goes wrong for good at the first disturbed one. Here every trial moves a
probability over the levels: if the level met the goal, the largest one lies above it with the probability that a trial
is right, else below. The next trial is at the median (Horstein 1963; Waeber, Frazier and Henderson 2013, "Bisection
search with noisy responses", which also shows that it converges at a geometric rate). The interval is that of the
probability; it holds as far as a trial is right with the probability assumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from iodyno.core.search import Tried

RIGHT = 0.85
"""Probability that a trial tells on which side of the largest level its own lies. Chosen: near the wall half of them are
wrong, far from it hardly any; a lower one would need more trials, a higher one is misled by a disturbed machine."""
CELLS = 4000
"""Cells of the probability, of equal width in the logarithm. Chosen: over five decades a cell is 0.3 % wide."""
MARGIN = 1.5
"""How far beyond the levels that may be tried the probability goes, so that it can say that the wall lies there."""
CONFIRMATIONS = 3
"""Trials in a row that have to meet the goal at the lower end (RFC 2544 asks for one long trial; several short ones also
tell how often it fails)."""

_SURE = math.log(RIGHT / (1 - RIGHT))


@dataclass(frozen=True)
class Standing:
    """What the trials so far say: median and 95 % interval of the largest level, and what to try next.

    `next_level` is None when nothing is left to try: the interval is narrow, and its lower end confirmed.
    """

    estimate: float
    low: float
    high: float
    confirmed: int | None
    next_level: int | None
    at_edge: bool


def standing(tried: Sequence[Tried], low: int, high: int, precision: float) -> Standing:
    """After these trials at levels from `low` to `high`. The same trials give the same answer."""
    first = math.log(low / MARGIN)
    width = (math.log(high * MARGIN) - first) / CELLS
    # Every trial parts the cells at its level; in logarithms that is a step at one cell.
    steps = [0.0] * (CELLS + 1)
    for trial in tried:
        border = min(CELLS, max(0, round((math.log(trial.level) - first) / width)))
        steps[0] -= _SURE if trial.met else 0.0
        steps[border] += _SURE if trial.met else -_SURE
    logarithms = list(accumulate(steps[:CELLS]))
    greatest = max(logarithms)
    weights = [math.exp(value - greatest) for value in logarithms]
    sums = list(accumulate(weights))

    def quantile(share: float) -> float:
        cell = next(n for n, total in enumerate(sums) if total >= share * sums[-1])
        before = sums[cell - 1] if cell else 0.0
        inside = (share * sums[-1] - before) / weights[cell]
        return math.exp(first + (cell + inside) * width)

    median, bottom, top = quantile(0.5), quantile(0.025), quantile(0.975)
    confirmed = _confirmed(tried)
    at_edge = bottom >= high or top <= low
    level: int | None = min(high, max(low, round(_to_try(tried, median, bottom, top, precision))))
    if at_edge:
        level = None
    elif top - bottom <= precision * median:
        below = max(low, math.floor(bottom))
        # A level that was confirmed within the precision serves as well.
        level = (
            None
            if confirmed is not None and confirmed >= below * (1 - precision)
            else _to_confirm(tried, below)
        )
    return Standing(median, bottom, top, confirmed, level, at_edge)


def _to_try(tried: Sequence[Tried], median: float, bottom: float, top: float, precision: float) -> float:
    """The median; where trials there contradict each other, the middle of the wider side.

    At the wall itself one trial takes back what the other said, and the ends of the interval would never be looked at.
    """
    near = {trial.met for trial in tried if abs(math.log(trial.level / median)) < precision / 4}
    if len(near) < 2:
        return median
    return math.sqrt(median * (top if top / median > median / bottom else bottom))


def _last_of(tried: Sequence[Tried], level: int) -> list[bool]:
    return [trial.met for trial in tried if trial.level == level][-CONFIRMATIONS:]


def _confirmed(tried: Sequence[Tried]) -> int | None:
    levels = [
        level
        for level in {trial.level for trial in tried}
        if len(last := _last_of(tried, level)) == CONFIRMATIONS and all(last)
    ]
    return max(levels, default=None)


def _to_confirm(tried: Sequence[Tried], level: int) -> int:
    """The level that is being confirmed already, as long as it has not failed; else this one."""
    if tried:
        last = tried[-1]
        repeated = sum(trial.level == last.level for trial in tried) > 1 or last.level <= level * 1.01
        if last.met and repeated and last.level >= level * 0.9:
            return last.level
    return level
