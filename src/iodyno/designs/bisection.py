"""Probabilistic bisection: the largest level that meets a goal, from trials that may err.

A bisection that believes each trial goes wrong for good at the first disturbed one. Here every trial moves a probability
over the levels, and the next one is at its median (Horstein 1963; Waeber, Frazier and Henderson 2013, "Bisection search
with noisy responses"). How often a trial near the wall is right is not assumed but found along with it: the share of
trials that meet the goal falls along a logistic curve of unknown width, and the interval is over all widths, each as likely
as the trials make it (Kontsevich and Tyler 1999, "Bayesian adaptive estimation of psychometric slope and threshold"). The
largest level is the one that half of the undisturbed trials meet the goal at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from iodyno.core.search import Tried

FALSE_MISSES = (0.01, 0.1)
"""Shares of trials far below the wall that miss the goal nevertheless: a quiet machine, and one that others disturb at
times."""
FALSE_MET = 0.02
"""Share of trials far beyond it that meet it nevertheless. Chosen: nothing makes a path faster than it is, but a short trial may
be lucky."""
WIDTHS = (0.003, 0.01, 0.02, 0.04, 0.08, 0.16)
"""Widths of the wall, as the logistic curve's scale in the logarithm of the level: from a third of a per cent, where it is as
sharp as the cells, to one whose quarter and three quarters lie 35 % apart. Each, with each share of
misses, is as likely as the others before the first trial."""
CELLS = 4000
"""Cells of the probability, of equal width in the logarithm. Chosen: over five decades each is 0.3 % wide."""
MARGIN = 1.5
"""Ratio by which the probability reaches beyond the levels that may be tried, so that it can say that the wall lies there."""
CONFIRMATIONS = 3
"""Trials in a row that have to meet the goal at the lower end (RFC 2544 asks for one long trial; several short ones also
tell how often it fails)."""


@dataclass(frozen=True)
class Standing:
    """State of the search after the trials so far: median and 95 % interval of the largest level, and what to try next.

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
    likelihood = np.zeros((len(FALSE_MISSES), len(WIDTHS), CELLS))
    for trial in tried:
        border = min(CELLS, max(0, round((math.log(trial.level) - first) / width)))
        likelihood += _logarithms(width, trial.met)[:, :, CELLS - border : 2 * CELLS - border]
    weights = np.exp(likelihood - likelihood.max()).sum(axis=(0, 1))
    sums = np.cumsum(weights)

    def quantile(share: float) -> float:
        cell = min(int(np.searchsorted(sums, share * sums[-1])), CELLS - 1)
        before = sums[cell - 1] if cell else 0.0
        inside = (share * sums[-1] - before) / weights[cell]
        return float(math.exp(first + (cell + inside) * width))

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


@lru_cache(maxsize=4)
def _logarithms(width: float, met: bool) -> NDArray[np.float64]:
    """Logarithm of how likely a trial is to end like this, by share of misses, width of the wall, and how many cells of this
    width in the logarithm the wall lies beyond the trial's level: from `-CELLS` to `CELLS`.
    """
    beyond = (np.arange(2 * CELLS) - CELLS + 0.5) * width
    above = np.clip(beyond / np.array(WIDTHS)[:, None], -500.0, 500.0)
    misses = np.array(FALSE_MISSES)[:, None, None]
    meets = FALSE_MET + (1 - FALSE_MET - misses) / (1 + np.exp(-above))
    likelihood: NDArray[np.float64] = np.log(meets if met else 1 - meets)
    return likelihood


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
