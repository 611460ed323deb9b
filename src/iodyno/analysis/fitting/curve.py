"""A curve through measured loads: its parameters, how far it is off, and what is known of anything derived from it.

The unit is the load: what trials of one load have in common (the shape of the curve is never quite true) does not become
less by more trials. The residual variance is that of the loads about the curve; where it cannot be told from the variation
of trials (F test of lack of fit, Montgomery, Design and Analysis of Experiments, chapter 11), both are pooled.
Where trials vary by more than the loads can tell, some were disturbed, which medians do not follow: then it is that of
the loads alone.

Intervals come from a parametric bootstrap that knows how little few points tell: each resample first draws its residual
variance, s^2 f / chi^2_f, then points about the curve, then fits again (Davison and Hinkley, Bootstrap Methods and their
Application, 1997, section 6.3; with the drawn variance the interval of a linear curve is Student's: Gelman et al., Bayesian
Data Analysis, 2013, section 14.2). All that is derived, a peak, a band, a ratio, is taken from the same resamples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Literal

import numpy as np

from iodyno.analysis import chance
from iodyno.analysis.fitting.least_squares import Numbers, minimise
from iodyno.analysis.interval import LEVEL
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import counted

Errors = Literal["relative", "absolute"]
RESAMPLES = 1000
"""Chosen: the bounds of a 95 % percentile interval are stable to some per cent of its width."""
_PRIOR = 10
"""Trials that the pooled spread is worth beside a load's own (chosen; the form is that of Smyth, Statistical Applications in
Genetics 3:1, 2004): the spread of three trials alone would give loads weights that are chance.
"""
_DISTURBED = 0.01
"""Chance at which undisturbed trials are taken for disturbed ones, or equal spreads for different ones (chosen: rare, as
intervals become shorter by it).
"""
_MEDIAN = 1.4
"""Variance of a median of a few normal values over that of their mean (1.35, 1.19, 1.43, 1.29 for 3 to 6, and 1.57 of many:
Kendall and Stuart, The Advanced Theory of Statistics 1, section 14.6).
"""
_WEIGHTS_MOST = 4.0
"""Largest factor between a weight and the middle one (chosen: no load decides alone)."""


@dataclass(frozen=True)
class Load:
    """A load and what was measured there, one value a trial, all positive."""

    load: float
    values: tuple[float, ...]

    @property
    def middle(self) -> float:
        """Median over the trials, so that one disturbed trial of three does not bend a curve; of two, their geometric mean."""
        return math.exp(median(math.log(value) for value in self.values))


@dataclass(frozen=True)
class Parameter:
    """A parameter of a curve, its unit, and the bounds that it must keep."""

    name: str
    unit: str
    lower: float = 0.0
    upper: float = math.inf


@dataclass(frozen=True)
class Model:
    """A family of curves. `values(theta, loads)`: parameters, a row each, and loads to predictions, a row each.

    `starts(loads, values)`: rows of parameters to begin the search at.
    """

    name: str
    title: str
    parameters: tuple[Parameter, ...]
    values: Callable[[Numbers, Numbers], Numbers] = field(repr=False)
    starts: Callable[[Numbers, Numbers], Numbers] = field(repr=False)


@dataclass(frozen=True)
class Fit:
    """A model at its best parameters. `resamples` has a row for each resample; `deviation`: residual standard deviation of
    a load, as a share of the value (errors relative) or in its unit (absolute); `freedom`: its degrees of freedom.

    `lack_of_fit`: whether loads are further from the curve than their trials explain; None where there is nothing to compare
    with. `disturbed`: whether trials vary by more than that.
    """

    model: Model
    errors: Errors
    loads: Numbers
    measured: Numbers
    theta: Numbers
    squares: float
    deviation: float
    freedom: int
    weights: Numbers = field(repr=False)
    resamples: Numbers = field(repr=False)
    left_out: Numbers = field(repr=False)
    seed: int = 1
    lack_of_fit: bool | None = None
    disturbed: bool = False

    def predict(self, loads: Sequence[float] | Numbers) -> Numbers:
        """The curve at `loads`."""
        return np.asarray(self.model.values(self.theta[None, :], np.asarray(loads, dtype=float))[0])

    def bands(self, loads: Sequence[float] | Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Bounds of 95 % at `loads`: low and high of the curve, then of a load measured anew."""
        curves = self.model.values(self.resamples, np.asarray(loads, dtype=float))
        source = np.random.default_rng((self.seed, 2))
        noise = self._deviations(source, len(curves))[:, None] * source.standard_normal((len(curves), 1))
        anew = curves * np.exp(noise) if self.errors == "relative" else curves + noise
        ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
        low, high = np.quantile(curves, ends, axis=0)
        least, most = np.quantile(anew, ends, axis=0)
        # A new measurement is never better known than the curve: what the draws say else is their own chance.
        least, most = np.minimum(least, low), np.maximum(most, high)
        return low, high, least, most

    def _deviations(self, source: np.random.Generator, count: int) -> Numbers:
        """Residual deviations as the data allow them: s sqrt(f / chi^2_f)."""
        return self.deviation * np.sqrt(self.freedom / source.chisquare(self.freedom, count))

    @property
    def relative_errors(self) -> Numbers:
        """Curve over measured less 1, a load each."""
        return np.asarray(self.predict(self.loads) / self.measured - 1)

    @property
    def rms_error(self) -> float:
        """Root of the mean square of the relative errors."""
        return float(np.sqrt(np.mean(self.relative_errors**2)))

    @property
    def worst_error(self) -> float:
        """Greatest relative error, without its sign."""
        return float(np.max(np.abs(self.relative_errors)))

    @property
    def left_out_error(self) -> float:
        """Root of the mean square error with which each load is predicted from the others, as a share of it."""
        return float(np.sqrt(np.mean(self.left_out**2)))

    @property
    def aicc(self) -> float | None:
        """Akaike's criterion with the correction for few points (Hurvich and Tsai, Biometrika 76, 1989).

        None where there are no more points than parameters and the variance need.
        """
        n, k = len(self.loads), len(self.theta) + 1
        if n - k - 1 <= 0:
            return None
        least = 1e-300
        return float(n * math.log(max(self.squares, least) / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1))

    def parameter(self, name: str) -> Estimate:
        """A parameter with its interval. Raises KeyError when the model has none of this name."""
        names = [parameter.name for parameter in self.model.parameters]
        if name not in names:
            raise KeyError(name)
        at = names.index(name)
        return self.derived(self.theta[at], self.resamples[:, at], self.model.parameters[at].unit)

    def derived(self, value: float | Numbers, resampled: Numbers, unit: str, method: str = "") -> Estimate:
        """A quantity with its interval, from its value in each resample.

        A bound beyond all numbers is None and said in the method: the data allow any value there.
        """
        ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
        low, high = (float(end) for end in np.quantile(np.asarray(resampled), ends, method="nearest"))
        how = f"parametric bootstrap, {len(self.resamples)} resamples, {self.freedom} degrees of freedom"
        if not math.isfinite(high):
            how += "; no upper bound: some of the curves that fit have none"
        return Estimate(
            float(value),
            low if math.isfinite(low) else None,
            high if math.isfinite(high) else None,
            len(self.loads),
            unit,
            "; ".join(filter(None, (method, how))),
        )


def fit(
    model: Model,
    loads: Sequence[Load],
    *,
    errors: Errors = "relative",
    resamples: int = RESAMPLES,
    seed: int = 1,
) -> Fit:
    """The curve of `model` that fits best. Raises ExperimentError where the points cannot carry its parameters."""
    ordered = sorted(loads, key=lambda each: each.load)
    check(ordered, len(model.parameters), model.title)
    at = np.array([each.load for each in ordered])
    middles = np.array([each.middle for each in ordered])
    weights, within, replicate_freedom = _weights(ordered, errors)
    curve, target = _curve(model, at, errors), _target(middles, errors)
    lower, upper = _bounds(model)
    theta, squares = _best(model, at, middles, weights, errors)
    freedom = len(at) - len(theta)
    variance, lack, disturbed = squares / freedom, None, False
    if within is not None:
        lack = variance > within * float(chance.f.ppf(LEVEL, freedom, replicate_freedom))
        disturbed = variance < within * float(chance.f.ppf(_DISTURBED, freedom, replicate_freedom))
        if not lack and not disturbed:
            variance = (squares + replicate_freedom * within) / (freedom + replicate_freedom)
            freedom += replicate_freedom
    deviation = math.sqrt(variance)
    source = np.random.default_rng((seed, 1))
    deviations = deviation * np.sqrt(freedom / source.chisquare(freedom, resamples))
    noise = deviations[:, None] * source.standard_normal((resamples, len(at))) / np.sqrt(weights)
    around = curve(theta[None, :])[0] + noise
    begin = np.tile(theta, (resamples, 1))
    again, _ = minimise(curve, around, weights, begin, lower, upper)
    out = np.where(np.eye(len(at), dtype=bool), 0.0, weights)
    without, _ = minimise(
        curve, np.tile(target, (len(at), 1)), out, np.tile(theta, (len(at), 1)), lower, upper
    )
    missed = np.diagonal(model.values(without, at)) / middles - 1
    return Fit(
        model, errors, at, middles, theta, squares, deviation, freedom, weights, again, missed, seed,
        lack, disturbed,
    )  # fmt: skip


def closest(model: Model, loads: Sequence[Load], errors: Errors = "relative") -> tuple[Numbers, Numbers]:
    """Loads, and the relative errors of the best curve there, whatever it is worth."""
    at, middles = np.array([each.load for each in loads]), np.array([each.middle for each in loads])
    theta, _ = _best(model, at, middles, np.ones(len(at)), errors)
    return at, model.values(theta[None, :], at)[0] / middles - 1


def check(loads: Sequence[Load], parameters: int, title: str) -> None:
    """Raises ExperimentError where a curve with so many parameters cannot be fitted to these loads."""
    for each in loads:
        if not (math.isfinite(each.load) and each.load > 0):
            raise ExperimentError(invalid(each.load, "loads above 0"), where="load", advice="leave it out")
        bad = next((value for value in each.values if not (math.isfinite(value) and value > 0)), None)
        if bad is not None:
            raise ExperimentError(
                f"invalid value: {bad:g} at load {each.load:g}; expected rates above 0",
                where="rate",
                advice="leave loads without a rate out: they say nothing of the curve",
            )
    if len({each.load for each in loads}) < len(loads):
        raise ExperimentError("two entries have one load", where="load", advice="give its values together")
    least = parameters + 2
    if len(loads) < least:
        raise ExperimentError(
            f"{counted(len(loads), 'distinct load')} {'is' if len(loads) == 1 else 'are'} too few for the {parameters}"
            f" parameters of {title}: {least} are the least",
            where="loads",
            advice="measure at more loads, some of them beyond where the rate stops rising",
        )


def by_load(pairs: Sequence[tuple[float, float]]) -> list[Load]:
    """Loads in order, each with all of its values, from (load, value)."""
    found: dict[float, list[float]] = {}
    for load, value in pairs:
        found.setdefault(load, []).append(value)
    return [Load(load, tuple(values)) for load, values in sorted(found.items())]


def _best(
    model: Model, at: Numbers, middles: Numbers, weights: Numbers, errors: Errors
) -> tuple[Numbers, float]:
    """The best of what the starts lead to."""
    starts, target = np.atleast_2d(model.starts(at, middles)), _target(middles, errors)
    found, sums = minimise(
        _curve(model, at, errors), np.tile(target, (len(starts), 1)), weights, starts, *_bounds(model)
    )
    best = int(np.argmin(sums))
    if not math.isfinite(float(sums[best])):
        raise ExperimentError(f"{model.title} has no finite value at these loads", where="fit")
    return found[best], float(sums[best])


def _bounds(model: Model) -> tuple[Numbers, Numbers]:
    return np.array([p.lower for p in model.parameters]), np.array([p.upper for p in model.parameters])


def _curve(model: Model, at: Numbers, errors: Errors) -> Callable[[Numbers], Numbers]:
    if errors == "absolute":
        return lambda theta: model.values(theta, at)
    return lambda theta: np.log(model.values(theta, at))


def _target(middles: Numbers, errors: Errors) -> Numbers:
    return middles if errors == "absolute" else np.log(middles)


def _differ(values: Sequence[Sequence[float]]) -> bool:
    """Tell whether loads differ in the spread of their trials (Bartlett's test at 1 %): else weights would be chance."""
    groups = [each for each in values if len(each) > 1 and min(each) < max(each)]
    return len(groups) > 1 and chance.spreads_differ(groups) < _DISTURBED


def _weights(loads: Sequence[Load], errors: Errors) -> tuple[Numbers, float | None, int]:
    """Weights of the loads about 1; the variance that trials alone would give a load, None without replicates; and its
    degrees of freedom.
    """
    each = [
        [math.log(value) for value in load.values] if errors == "relative" else list(load.values)
        for load in loads
    ]
    counts = np.array([len(values) for values in each], dtype=float)
    squares = np.array([sum((x - fmean(values)) ** 2 for x in values) for values in each])
    freedom = int(counts.sum() - len(counts))
    weights = counts
    if _differ(each):
        pooled = squares.sum() / freedom
        weights = counts / ((squares + _PRIOR * pooled) / (counts - 1 + _PRIOR))
    weights = np.clip(weights / np.median(weights), 1 / _WEIGHTS_MOST, _WEIGHTS_MOST)
    if not freedom:
        return weights, None, 0
    medians = np.where(counts > 2, _MEDIAN, 1.0)
    return weights, float((squares * weights * medians / counts).sum() / freedom), freedom
