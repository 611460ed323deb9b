"""Machine and setting told apart: trials of points on pairs of machines as a mixed model, points fixed and pairs random.

Outcome = point + pair + trial. Of values above 0 it is that of their logarithms, as a machine that is slower is so in proportion;
of others that of values over their mean.

- Variances: REML (Patterson and Thompson, Biometrika 58, 1971), which in a balanced design is the analysis of variance.
- Interval of the ratio of both: exact, by Wald (Ann. Math. Stat. 11, 1940; Seely and El-Bassiouni, Ann. Stat. 11, 1983); of that
  of trials: by chi squared; of that of pairs: generalised (Weerahandi, J. Am. Stat. Assoc. 88, 1993). Pairs that by chance differ
  less than trials let them are no proof that none does: an upper bound is no lower than that of pairs which differ as trials do
  (power-constrained limits: Cowan and others, arXiv 1105.3166, 2011).
- Effects of settings: differences within pairs (pairs fixed, "intra-block"), whose t interval is exact with the degrees of
  freedom that points and pairs leave, whatever pairs vary by.
- A pair out of line: its difference from the others, studentised by what these differ by, tested for the farthest of all
  (Grubbs, Technometrics 11, 1969, with Bonferroni's bound).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from iodyno.analysis import chance
from iodyno.core.workload import Level

Numbers = npt.NDArray[np.float64]
Bounds = tuple[float, float | None]

_TAIL = 0.025
ALPHA = 0.05
"""Chance that any pair is called out of line where none is."""
_DRAWS = 50
"""Quantiles of chi squared that the generalised interval averages over (chosen: bounds move by less than 1 % with 200)."""
_ALIKE = 1e-12


@dataclass(frozen=True)
class Part:
    """A source of variation: its standard deviation relative to the outcome, with interval, and its share of the variance."""

    sd: float
    low: float | None
    high: float | None
    share: float


@dataclass(frozen=True)
class PairEffect:
    """A pair of machines against the mean of the others, as a ratio less 1. `p`: that it belongs to them; None of two pairs."""

    name: str
    trials: int
    change: float
    low: float
    high: float
    p: float | None

    @property
    def out_of_line(self) -> bool:
        """True of a pair that is farther from the others than these explain."""
        return self.p is not None and self.p < ALPHA


@dataclass(frozen=True)
class SettingEffect:
    """A level of a factor against its first one, within pairs, as a ratio less 1."""

    factor: str
    level: Level
    base: Level
    change: float
    low: float
    high: float


@dataclass(frozen=True)
class Apart:
    """An outcome, taken apart. `ratio`: variance between pairs over that within; `df`: left of points and pairs for the error;
    `p_setting`, `p_machine`: that the points, or the pairs, do not differ. `missing`: why there is nothing.
    """

    outcome: str
    trials: int = 0
    scale: Literal["log", "mean"] = "log"
    setting: Part | None = None
    machine: Part | None = None
    rest: Part | None = None
    ratio: tuple[float, float, float | None] | None = None
    df: int = 0
    p_setting: float | None = None
    p_machine: float | None = None
    pairs: tuple[PairEffect, ...] = ()
    effects: tuple[SettingEffect, ...] = ()
    missing: str | None = None

    @property
    def differs(self) -> bool:
        """True where the pairs differ by more than trials explain."""
        return self.ratio is not None and self.ratio[1] > 0

    @property
    def farthest(self) -> PairEffect | None:
        """The pair that is farthest from the others."""
        return max(self.pairs, key=lambda pair: abs(math.log1p(max(pair.change, -0.999))), default=None)


@dataclass(frozen=True)
class Row:
    """A trial: its point, its pair, its value."""

    point: str
    pair: str
    value: float


Contrast = tuple[str, Level, Level, Mapping[str, float]]
"""Factor, level, first level, and the weights of the points in the difference."""


def take_apart(outcome: str, rows: Sequence[Row], contrasts: Sequence[Contrast] = ()) -> Apart:
    """Take an outcome apart. Nothing is said of trials that do not tell points and pairs apart."""
    values = np.array([row.value for row in rows])
    points = list(dict.fromkeys(row.point for row in rows))
    names = list(dict.fromkeys(row.pair for row in rows))
    if len(names) < 2:
        return Apart(outcome, len(rows), missing="fewer than two pairs have a trial with it")
    if not values.any() or float(np.ptp(values)) <= _ALIKE * float(np.max(np.abs(values))):
        return Apart(outcome, len(rows), missing="it is the same in all trials")
    positive = bool((values > 0).all())
    mean = abs(float(values.mean()))
    if not positive and not mean:
        return Apart(outcome, len(rows), missing="its mean is 0")
    x = np.array([[row.point == point for point in points] for row in rows], dtype=float)
    z = np.array([[row.pair == name for name in names] for row in rows], dtype=float)
    found = _Fit(x, z, np.log(values) if positive else values / mean)
    if not found.joined or found.df < 1:
        return Apart(outcome, len(rows), missing="its trials do not tell the machine from the setting")

    def back(difference: float) -> float:
        return math.expm1(min(difference, 700.0)) if positive else difference

    def changed(weights: Numbers) -> tuple[float, float, float]:
        difference, half = found.contrast(weights)
        return back(difference), back(difference - half), back(difference + half)

    within, between = found.components()
    settings = found.between_points()
    total = (settings + between + within) or 1.0
    pairs = []
    for place, (name, p) in enumerate(zip(names, found.strangers(), strict=True)):
        weights = np.full(len(names), -1 / (len(names) - 1))
        weights[place] = 1.0
        effect = changed(np.concatenate([np.zeros(len(points)), weights]))
        pairs.append(PairEffect(name, int(z[:, place].sum()), *effect, p))
    effects = []
    for factor, level, base, of_points in contrasts:
        if set(of_points) <= set(points):
            weights = np.array([of_points.get(point, 0.0) for point in points])
            effect = changed(np.concatenate([weights, np.zeros(len(names))]))
            effects.append(SettingEffect(factor, level, base, *effect))
    return Apart(
        outcome,
        len(rows),
        "log" if positive else "mean",
        Part(math.sqrt(settings), None, None, settings / total) if len(points) > 1 else None,
        _part(between, found.between_interval(), total),
        _part(within, found.within_interval(), total),
        (between / within if within else math.inf, *found.ratio_interval()),
        found.df,
        found.p_points(),
        found.p_pairs(),
        tuple(pairs),
        tuple(effects),
    )


def _part(variance: float, bounds: Bounds, total: float) -> Part:
    low, high = bounds
    return Part(
        math.sqrt(variance), math.sqrt(low), None if high is None else math.sqrt(high), variance / total
    )


class _Fit:
    """Points `x` and pairs `z` as indicators, and the values `y`.

    What the points leave of the pairs has orthogonal directions of sizes `sizes`, in which the values are `seen`, with variances
    within + size x between; `rest` is the sum of squares that neither explains, with `df` degrees of freedom.
    """

    def __init__(self, x: Numbers, z: Numbers, y: Numbers) -> None:
        self.points, self.pairs = x.shape[1], z.shape[1]
        basis, _ = np.linalg.qr(x)
        left, alone = y - basis @ (basis.T @ y), z - basis @ (basis.T @ z)
        sizes, directions = np.linalg.eigh(alone.T @ alone)
        kept = sizes > 1e-9 * len(y)
        self.sizes: Numbers = sizes[kept]
        self.seen: Numbers = (directions[:, kept].T @ (alone.T @ left)) / np.sqrt(self.sizes)
        self.df = len(y) - self.points - len(self.sizes)
        self.joined = len(self.sizes) == self.pairs - 1
        # No trial repeats another to the last bit; that of a simulation may, up to rounding.
        least = (_ALIKE * float(np.max(np.abs(y)))) ** 2 * len(y)
        self.rest = max(float(left @ left - self.seen @ self.seen), least)
        design = np.column_stack([x, z])
        self._inverse: Numbers = np.asarray(np.linalg.pinv(design.T @ design), dtype=np.float64)
        self._coefficients: Numbers = np.asarray(self._inverse @ (design.T @ y), dtype=np.float64)

    @property
    def within(self) -> float:
        """Variance of trials, from what points and pairs leave."""
        return float(self.rest / self.df)

    def components(self) -> tuple[float, float]:
        """Variances of trials and of pairs by REML: the one dimension that is left is searched."""

        def within(ratio: Numbers) -> Numbers:
            squares = (self.seen**2 / (1 + ratio[:, None] * self.sizes)).sum(axis=1)
            found: Numbers = (self.rest + squares) / (self.df + len(self.sizes))
            return found

        def twice_less_likely(ratio: Numbers) -> Numbers:
            found: Numbers = (self.df + len(self.sizes)) * np.log(within(ratio)) + np.log1p(
                ratio[:, None] * self.sizes
            ).sum(axis=1)
            return found

        ratios = np.concatenate([[0.0], np.geomspace(1e-6, 1e20, 400)]) / float(self.sizes.mean())
        for _ in range(4):
            best = int(np.argmin(twice_less_likely(ratios)))
            ratios = np.linspace(ratios[max(0, best - 1)], ratios[min(len(ratios) - 1, best + 1)], 101)
        ratio = ratios[[int(np.argmin(twice_less_likely(ratios)))]]
        trials = float(within(ratio)[0])
        return trials, float(ratio[0]) * trials

    def _f(self, ratio: float) -> float:
        """Wald's quantity: distributed as F where that is the ratio of variances."""
        return float((self.seen**2 / (1 + ratio * self.sizes)).mean()) / self.within

    def ratio_interval(self) -> Bounds:
        """Return the bounds of the variance of pairs over that of trials."""
        least, middle, most = (
            chance.f.ppf(share, len(self.sizes), self.df) for share in (_TAIL, 0.5, 1 - _TAIL)
        )
        more = max(1.0, middle / self._f(0.0))
        return _falls_to(self._f, most) or 0.0, _falls_to(lambda ratio: more * self._f(ratio), least)

    def within_interval(self) -> Bounds:
        """Return the bounds of the variance of trials."""
        return (
            self.rest / chance.chi2.ppf(1 - _TAIL, self.df),
            self.rest / chance.chi2.ppf(_TAIL, self.df),
        )

    def between_interval(self) -> Bounds:
        """Return the bounds of the variance of pairs: each variance that trials may have leaves one for pairs."""
        trials = [self.rest / chance.chi2.ppf((draw + 0.5) / _DRAWS, self.df) for draw in range(_DRAWS)]

        def greater(variance: float, more: float = 1.0) -> float:
            """Chance that the variance is greater; `more`: of squares that are so many times those seen."""
            sums = (more * (self.seen**2 / (each + self.sizes * variance)).sum() for each in trials)
            return 1 - sum(chance.chi2.sf(float(one), len(self.sizes)) for one in sums) / _DRAWS

        more = max(1.0, chance.f.ppf(0.5, len(self.sizes), self.df) / self._f(0.0))
        return _falls_to(greater, 1 - _TAIL) or 0.0, _falls_to(lambda at: greater(at, more), _TAIL)

    def contrast(self, weights: Numbers) -> tuple[float, float]:
        """A difference of points, or of pairs, and half of its interval."""
        variance = float(weights @ self._inverse @ weights) * self.within
        half = chance.t.ppf(1 - _TAIL, self.df) * math.sqrt(max(0.0, variance))
        return float(weights @ self._coefficients), half

    def between_points(self) -> float:
        """Variance of the points' means, less what trials add to that of their estimates."""
        if self.points < 2:
            return 0.0
        centre = np.eye(self.points) - 1 / self.points
        means = self._coefficients[: self.points]
        spread = self._inverse[: self.points, : self.points]
        squares = float(means @ centre @ means) - self.within * float(np.trace(centre @ spread))
        return float(max(0.0, squares / (self.points - 1)))

    def p_points(self) -> float | None:
        """Chance of points that differ by so much, were they one."""
        if self.points < 2:
            return None
        turn = np.eye(self.points)[1:] - np.eye(self.points)[0]
        differences = turn @ self._coefficients[: self.points]
        spread = turn @ self._inverse[: self.points, : self.points] @ turn.T
        f = float(differences @ np.linalg.solve(spread, differences)) / (self.points - 1) / self.within
        return float(chance.f.sf(f, self.points - 1, self.df))

    def p_pairs(self) -> float:
        """Chance of pairs that differ by so much, were they one."""
        return float(chance.f.sf(self._f(0.0), len(self.sizes), self.df))

    def strangers(self) -> list[float | None]:
        """Of each pair the chance that the farthest of all is as far from the others."""
        if self.pairs < 3:
            return [None] * self.pairs
        effects = self._coefficients[self.points :]
        # Chance makes others more alike than trials let them be.
        least = self.within * float(np.diag(self._inverse)[self.points :].mean())
        found: list[float | None] = []
        for place in range(self.pairs):
            others = np.delete(effects, place)
            spread = max(float(others.var(ddof=1)), least) * (1 + 1 / len(others))
            size = abs(float(effects[place] - others.mean())) / math.sqrt(spread)
            found.append(min(1.0, 2 * self.pairs * float(chance.t.sf(size, self.pairs - 2))))
        return found


def _falls_to(function: Callable[[float], float], value: float) -> float | None:
    """Return the place from 0 on where a function that falls has that value: 0 where it begins below; None: it never comes
    there.
    """
    if function(0.0) <= value:
        return 0.0
    high = 1e-9
    while function(high) > value:
        high *= 4
        if high > 1e30:
            return None
    return chance.root(lambda at: function(at) - value, high / 4 if high > 1e-9 else 0.0, high)


def contrasts_of(factors: Sequence[Any], points: Mapping[str, Mapping[str, Level]]) -> list[Contrast]:
    """The levels of each factor against its first one, over all points that have them; not of designs that fill a space, where
    points that differ in one factor do so in all.
    """
    varying = [factor for factor in factors if len(factor.levels) > 1]
    found: list[Contrast] = []
    for factor in varying:
        at = {
            level: [point for point, levels in points.items() if levels.get(factor.name) == level]
            for level in factor.levels
        }
        used = [level for level in factor.levels if at[level]]
        if len(used) < 2 or (len(varying) > 1 and len(used) == len(points)):
            continue
        base = used[0]
        for level in used[1:]:
            weights = dict.fromkeys(at[level], 1 / len(at[level]))
            weights |= dict.fromkeys(at[base], -1 / len(at[base]))
            found.append((factor.name, level, base, weights))
    return found
