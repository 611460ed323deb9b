"""Where the largest load that meets a goal lies: a probability over the loads, from trials that may err.

A bisection that believes each trial goes wrong for good at the first disturbed one. Here every trial moves a probability
over the loads (Horstein 1963; Waeber, Frazier and Henderson 2013, "Bisection search with noisy responses"). How often a trial
near the wall is right is not assumed but found along with it: the share of trials that meet the goal falls along a logistic
curve of unknown width, and the interval is over all widths, each as likely as the trials make it (Kontsevich and Tyler 1999,
"Bayesian adaptive estimation of psychometric slope and threshold").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FALSE_MISSES = (0.01, 0.1)
"""Shares of trials far below the wall that miss the goal nevertheless: a quiet machine, and one that others disturb at
times."""
FALSE_MET = 0.02
"""Share of trials far beyond it that meet it nevertheless. Chosen: nothing makes a path faster than it is, but a short trial may
be lucky."""
WIDTHS = (0.003, 0.01, 0.02, 0.04, 0.08, 0.16)
"""Widths of the wall, as the logistic curve's scale in the logarithm of the load: from a third of a per cent, where it is as
sharp as the cells, to one whose quarter and three quarters lie 35 % apart. Each, with each share of
misses, is as likely as the others before the first trial."""
CELLS = 4000
"""Cells of the probability, of equal width in the logarithm. Chosen: over five decades each is 0.3 % wide."""
MARGIN = 1.5
"""Ratio by which the probability reaches beyond the loads that may be tried, so that it can say that the wall lies there."""


@dataclass(frozen=True)
class Wall:
    """The probability of the largest load after some trials, by share of misses, width of the wall, and cell.

    The largest load is the one at which the share `met` of the undisturbed trials meets the goal.
    """

    weights: Array
    first: float
    width: float
    met: float

    def quantile(self, share: float) -> float:
        """The load that the largest one lies below with this probability."""
        weights = self.weights.sum(axis=(0, 1))
        sums = np.cumsum(weights)
        cell = min(int(np.searchsorted(sums, share * sums[-1])), CELLS - 1)
        before = sums[cell - 1] if cell else 0.0
        inside = (share * sums[-1] - before) / weights[cell]
        return float(math.exp(self.first + (cell + inside) * self.width))

    def meets(self, load: int) -> float:
        """Probability that another trial at the load meets the goal."""
        chances = _chances(self.width, self.met)[:, :, _seen_from(load, self.first, self.width)]
        return float((self.weights * chances).sum() / self.weights.sum())


def wall(
    tried: Sequence[tuple[int, bool]],
    low: int,
    high: int,
    met: float = 0.5,
    near: tuple[float, float] | None = None,
) -> Wall:
    """After trials at loads from `low` to `high`, each with whether it met the goal. The same trials give the same answer.

    `near`: a load that the wall is said to be near to, and how near in the logarithm; without it, it is as likely anywhere.
    """
    first = math.log(low / MARGIN)
    width = (math.log(high * MARGIN) - first) / CELLS
    likelihood = np.zeros((len(FALSE_MISSES), len(WIDTHS), CELLS))
    for load, trial_met in tried:
        likelihood += _logarithms(width, trial_met, met)[:, :, _seen_from(load, first, width)]
    if near:
        apart = (first + (np.arange(CELLS) + 0.5) * width - math.log(near[0])) / near[1]
        likelihood -= np.log1p(apart * apart)
    return Wall(np.exp(likelihood - likelihood.max()), first, width, met)


def _seen_from(load: int, first: float, width: float) -> slice:
    border = min(CELLS, max(0, round((math.log(load) - first) / width)))
    return slice(CELLS - border, 2 * CELLS - border)


@lru_cache(maxsize=8)
def _chances(width: float, met: float) -> Array:
    """Chance of a trial to meet the goal, by share of misses, width of the wall, and how many cells of this width in the
    logarithm the wall lies beyond the trial's load: from `-CELLS` to `CELLS`.
    """
    beyond = (np.arange(2 * CELLS) - CELLS + 0.5) * width
    above = np.clip(beyond / np.array(WIDTHS)[:, None] + math.log(met / (1 - met)), -500.0, 500.0)
    misses = np.array(FALSE_MISSES)[:, None, None]
    chances: Array = FALSE_MET + (1 - FALSE_MET - misses) / (1 + np.exp(-above))
    return chances


@lru_cache(maxsize=16)
def _logarithms(width: float, trial_met: bool, met: float) -> Array:
    chances = _chances(width, met)
    logarithms: Array = np.log(chances if trial_met else 1 - chances)
    return logarithms
