"""Sources of noise: variance components of a nested experiment, what they let anybody claim, and where to repeat.

Blocks > restarts > trials > intervals, each nested in the one before. The variance of the means at a level holds its own
component and that of the levels below, divided by how many of them there are; taking these off leaves the
component (analysis of variance by moments: Searle, Casella and McCulloch, Variance Components 1992, chapter 3; with unequal
numbers, unweighted means and harmonic counts). Intervals of the components by the modified large-sample
method (Graybill and Wang 1980, Journal of the American Statistical Association 75; Ting, Burdick, Graybill, Jeyaratnam
and Lu 1990, Journal of Statistical Computation and Simulation 35).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

from iodyno.analysis.chance import chi2, f, norm, t
from iodyno.core.decision import LEAST_EFFECT
from iodyno.core.noise import LEVELS

ALPHA = 0.05
POWER = 0.8
"""Chance that an effect as large as the floor is claimed (the usual one: Cohen 1988)."""
_SHARES = 64
"""Of the variances of two sides, over which the power of Welch's test is averaged. Chosen: exact to 0.1 %."""

Tree = Sequence["Tree"] | float
"""Values nested by level: blocks of restarts of trials of intervals, or of trials where there are no intervals."""


@dataclass(frozen=True)
class Component:
    """One level: its standard deviation relative to the mean, with a 95 % interval, and its share of the variance.

    `freedom`: degrees of freedom of the level's own mean square. `high` is None where it has none.
    """

    level: str
    sd_ratio: float
    low: float
    high: float | None
    share: float
    freedom: int


@dataclass(frozen=True)
class Noise:
    """The components of one outcome, and what follows. Floors are relative effects; None: cannot be said.

    `floor_within`: smallest effect that `trials` trials a side claim to be beyond the least effect between two points of one
    campaign, as pairs; `floor_between`: between two campaigns, each one start of the agents, by a least effect that `apart` is
    added to, what two of them differ by in 95 % of cases with nothing changed. `missing`: why there is nothing.
    """

    outcome: str
    mean: float | None
    components: tuple[Component, ...]
    trials: int
    floor_within: float | None
    floor_between: float | None
    missing: str = ""
    apart: float | None = None

    def component(self, level: str) -> Component | None:
        """That of a level."""
        return next((each for each in self.components if each.level == level), None)


@dataclass(frozen=True)
class Allocation:
    """Repetitions of a level within one of the next: `count`, None where the level above does not vary."""

    level: str
    within: str
    count: int | None


@dataclass(frozen=True)
class _Square:
    """Variance of the means at a level within their parents, with its freedom; `size`: how many are in a parent."""

    value: float
    freedom: int
    size: float


def noise(outcome: str, tree: Sequence[Tree], levels: Sequence[str] = LEVELS, *, trials: int = 3) -> Noise:
    """The components of one outcome. `tree` has the depth of `levels`; `trials`: how many a point is to have."""
    _, mean, squares = _squares(tree, len(levels))
    if mean is None:
        return Noise(outcome, None, (), trials, None, None, "no trial has a value")
    if mean == 0:
        return Noise(outcome, 0.0, (), trials, None, None, "its mean is 0, of which nothing is a share")
    known = [square for square in squares if square.freedom > 0]
    if not known or all(square.value == 0 for square in known):
        return Noise(outcome, mean, (), trials, None, None, "every trial gave the same value")
    values, components = [], []
    for place, square in enumerate(squares):
        below = squares[place + 1] if place + 1 < len(squares) else None
        values.append(_component(square, below))
    total = sum(max(0.0, value) for value, _, _ in values)
    for level, square, (value, low, high) in zip(levels, squares, values, strict=True):
        components.append(
            Component(
                level,
                math.sqrt(max(0.0, value)) / abs(mean),
                math.sqrt(max(0.0, low)) / abs(mean),
                None if high is None else math.sqrt(max(0.0, high)) / abs(mean),
                max(0.0, value) / total if total else 0.0,
                square.freedom,
            )
        )
    place = list(levels).index("trial")
    of_trials, above = squares[place].value, sum(max(0.0, value) for value, _, _ in values[:place])
    within = between = apart = None
    least, starts = math.log1p(LEAST_EFFECT), sum(square.freedom for square in squares[:place])
    between_starts = math.sqrt(2 * above) / abs(mean)
    if starts:
        apart = t.ppf(1 - ALPHA / 2, starts) * between_starts
    if squares[place].freedom > 0 and trials >= 2:
        by_trials = math.sqrt(2 * of_trials / trials) / abs(mean)
        whole = math.hypot(by_trials, between_starts)
        within = _expm1(least + _wanted_of_pairs(trials) * by_trials)
        if apart is not None:
            share = by_trials / whole if whole else 1.0
            between = _expm1(least + apart + _wanted_of_sides(trials, share) * whole)
    apart = None if apart is None else _expm1(apart)
    return Noise(outcome, mean, tuple(components), trials, within, between, apart=apart)


MOST_TRIALS = 10_000
"""Trials up to which it is worked out how many see an effect (chosen: a day of trials of ten seconds)."""


def trials_for(found: Noise, effect: float) -> int | None:
    """Return how many trials a side claim the effect within one campaign with a chance of 80 %; None: more than are sensible,
    as for one that is not beyond the least effect."""
    if found.floor_within is None or effect <= LEAST_EFFECT:
        return None
    least = math.log1p(LEAST_EFFECT)
    one = (math.log1p(found.floor_within) - least) * math.sqrt(found.trials) / _wanted_of_pairs(found.trials)
    wanted = math.log1p(effect) - least
    first = max(2, math.floor((one * _wanted_of_pairs(MOST_TRIALS) / wanted) ** 2))
    numbers = range(first, MOST_TRIALS)
    return next((n for n in numbers if one * _wanted_of_pairs(n) / math.sqrt(n) <= wanted), None)


def allocation(found: Noise, costs_s: Sequence[float], levels: Sequence[str] = LEVELS) -> list[Allocation]:
    """Compute the repetitions of each level but the slowest, for the narrowest interval in a given time.

    n_i = ceil(sqrt(c_(i+1)/c_i * T_i**2 / T_(i+1)**2)), lowest level first, with c the cost of one more at a level
    beside what it holds and T**2 its component (Kalibera and Jones 2013, "Rigorous benchmarking in reasonable time").
    `costs_s`: of the levels, in their order, in seconds.
    """
    found_levels = [found.component(level) for level in levels]
    result = []
    for place in range(len(levels) - 1, 0, -1):
        mine, above = found_levels[place], found_levels[place - 1]
        if mine is None or above is None:
            continue
        count = None
        if above.sd_ratio > 0 and costs_s[place] > 0:
            ratio = costs_s[place - 1] / costs_s[place] * (mine.sd_ratio / above.sd_ratio) ** 2
            count = max(1, math.ceil(math.sqrt(ratio) - 1e-9))
        result.append(Allocation(levels[place], levels[place - 1], count))
    return result


def _expm1(logarithm: float) -> float | None:
    return math.expm1(logarithm) if logarithm < 700 else None


@lru_cache(maxsize=1000)
def _wanted_of_pairs(pairs: int) -> float:
    """Standard errors by which an effect lies beyond the least one where a t test of so many pairs claims it (noncentral t)."""
    from scipy import special  # slow to import, and few need it

    critical = t.ppf(1 - ALPHA / 2, pairs - 1)
    return _rising_to(POWER, lambda away: 1 - float(special.nctdtr(pairs - 1, away, critical)), critical)


@lru_cache(maxsize=1000)
def _wanted_of_sides(trials: int, known: float = 1.0) -> float:
    """The same of Welch's test of two sides of so many trials each, whose standard error is the share `known` of the whole one.

    Where both spread alike, the noncentral t of twice the freedom does not depend on how the variance was divided among them,
    which sets the freedom that the test uses.
    """
    from scipy import special

    if known == 0:
        return norm.ppf(POWER)
    freedom = trials - 1
    shares = [
        float(special.betaincinv(freedom / 2, freedom / 2, (n + 0.5) / _SHARES)) for n in range(_SHARES)
    ]
    criticals = [known * t.ppf(1 - ALPHA / 2, freedom / (share**2 + (1 - share) ** 2)) for share in shares]
    return _rising_to(
        POWER, lambda away: 1 - float(special.nctdtr(2 * freedom, away, criticals).mean()), max(criticals)
    )


def _rising_to(share: float, power: Callable[[float], float], start: float) -> float:
    """Where a power that rises with its argument is this share; `start`: about there."""
    low, high = 0.0, start + 1
    while power(high) < share:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle) < share else (low, middle)
    return high


def _squares(tree: Tree, depth: int) -> tuple[int, float | None, list[_Square]]:
    """Return the number of values, the unweighted mean, and the mean squares of all levels below this node, pooled."""
    if depth == 0:
        assert isinstance(tree, (int, float))
        return 1, float(tree), []
    assert not isinstance(tree, (int, float))
    children = [_squares(child, depth - 1) for child in tree]
    children = [child for child in children if child[1] is not None]
    if not children:
        return 0, None, [_Square(0.0, 0, 1.0)] * depth
    means = [mean for _, mean, _ in children if mean is not None]
    middle = fmean(means)
    own = _Square(
        sum((mean - middle) ** 2 for mean in means) / (len(means) - 1) if len(means) > 1 else 0.0,
        len(means) - 1,
        float(len(means)),
    )
    pooled = []
    for level in range(depth - 1):
        parts = [child[2][level] for child in children]
        freedom = sum(part.freedom for part in parts)
        value = sum(part.value * part.freedom for part in parts) / freedom if freedom else 0.0
        pooled.append(_Square(value, freedom, len(parts) / sum(1 / part.size for part in parts)))
    return sum(count for count, _, _ in children), middle, [own, *pooled]


def _component(own: _Square, below: _Square | None) -> tuple[float, float, float | None]:
    """Estimate and 95 % interval of a component; no upper bound where nothing was repeated."""
    if own.freedom < 1:
        return 0.0, 0.0, None
    tail = ALPHA / 2
    upper, lower = chi2.ppf(1 - tail, own.freedom) / own.freedom, chi2.ppf(tail, own.freedom) / own.freedom
    if below is None or below.freedom < 1 or below.value == 0:
        return own.value, own.value / upper, own.value / lower
    s1, s2 = own.value, below.value / below.size
    n1, n2 = own.freedom, below.freedom
    g1, h1 = 1 - 1 / upper, 1 / lower - 1
    g2 = 1 - n2 / chi2.ppf(1 - tail, n2)
    h2 = n2 / chi2.ppf(tail, n2) - 1
    f_high, f_low = f.ppf(1 - tail, n1, n2), f.ppf(tail, n1, n2)
    g12 = ((f_high - 1) ** 2 - (g1 * f_high) ** 2 - h2**2) / f_high
    h12 = ((1 - f_low) ** 2 - (h1 * f_low) ** 2 - g2**2) / f_low
    value = s1 - s2
    v_low = (g1 * s1) ** 2 + (h2 * s2) ** 2 + g12 * s1 * s2
    v_high = (h1 * s1) ** 2 + (g2 * s2) ** 2 + h12 * s1 * s2
    return value, float(value - math.sqrt(max(0.0, v_low))), float(value + math.sqrt(max(0.0, v_high)))
