"""The Universal Scalability Law through measured points: parameters, knees, and what the points do not carry.

Fitted by bounded least squares in relative errors (logarithms), since what varies between measurements goes with the rate;
`errors="absolute"` gives every unit of rate the same weight, as R's `usl` package has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from iodyno.analysis import chance
from iodyno.analysis.fitting.closed_station import closed_queue
from iodyno.analysis.fitting.curve import RESAMPLES, Errors, Fit, Load, Model, Parameter, check, closest, fit
from iodyno.analysis.fitting.least_squares import Numbers
from iodyno.analysis.interval import LEVEL
from iodyno.analysis.queueing import scaling
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.core.outcome import Estimate

LOADS_LEAST = 5
"""Three parameters, and two points that can contradict them."""
WORST = 0.15
"""Relative error from which on a curve is none (chosen: the good fits of the sources are within 4 and 13 %, the table
that is a mode switch is 25 % off).
"""
SYSTEMATIC = 0.05
"""Errors that keep their sign too long are told from this size on (chosen: below it no decision changes)."""
REACH = 2.0
"""Reach of a curve beyond the greatest load, as a multiple of it, where it may be followed (chosen)."""
MARGINAL = 0.1
"""A further client adds a tenth of what the first has."""
_CONDITION = 100.0
"""Condition number beyond which parameters are not told apart (Belsley, Kuh and Welsch 1980, chapter 3, call 30 to 100
strong; 1, 2, 4, ..., 32 has 8, and 16, 17, 18, 19, 20 has 750).
"""
_QUEUE_MOST = 4096
"""Clients up to which the closed queue is set beside the law (chosen: all numbers of them at the station are summed)."""
_GRID = 61


@dataclass(frozen=True)
class Compared:
    """A model beside others: its parameters, errors, AICc (None: too few points, `missing` says so)."""

    name: str
    parameters: Mapping[str, float]
    rms_error: float
    worst_error: float
    left_out_error: float
    aicc: float | None
    missing: str | None = None


@dataclass(frozen=True)
class Predicted:
    """The curve at a load: `low`, `high` bound the curve, `least`, `most` a measurement anew; all 95 %."""

    load: float
    value: float
    low: float
    high: float
    least: float
    most: float
    measured: float | None = None


@dataclass(frozen=True)
class Scaling:
    """Scaling of the rate as the points tell it. Every knee is an Estimate, None with its reason where it is not had.

    `points`: each measured load with its prediction. `curve`: the same on a grid, for a picture. `beyond`: loads that were
    asked for. `notes`: what its reader must know.
    """

    fit: Fit = field(repr=False)
    parameters: Mapping[str, Estimate]
    knees: Mapping[str, Estimate]
    compared: tuple[Compared, ...]
    points: tuple[Predicted, ...]
    curve: tuple[Predicted, ...] = field(repr=False)
    beyond: tuple[Predicted, ...]
    notes: tuple[str, ...]


def usl(unit: str = "1/s") -> Model:
    """The Universal Scalability Law."""
    return Model(
        "usl",
        "the Universal Scalability Law",
        (Parameter("lambda", unit), Parameter("sigma", "1", 0.0, 1.0), Parameter("kappa", "1")),
        lambda theta, loads: scaling.rate(loads[None, :], theta[:, :1], theta[:, 1:2], theta[:, 2:3]),
        _starts,
    )


def amdahl(unit: str = "1/s") -> Model:
    """Amdahl's law: the same without coherency."""
    return Model(
        "amdahl",
        "Amdahl's law",
        (Parameter("lambda", unit), Parameter("sigma", "1", 0.0, 1.0)),
        lambda theta, loads: scaling.rate(loads[None, :], theta[:, :1], theta[:, 1:2], 0.0),
        lambda loads, values: _starts(loads, values)[:, :2],
    )


def scale(
    loads: Sequence[Load],
    *,
    at: Sequence[float] = (),
    extrapolate: bool = False,
    share: float = MARGINAL,
    errors: Errors = "relative",
    resamples: int = RESAMPLES,
    seed: int = 1,
    unit: str = "1/s",
) -> Scaling:
    """Fits the law to `loads` and derives what the points carry. `at`: loads to predict.

    Raises ExperimentError where they carry no curve: too few loads, rates that are not positive, parameters that cannot be
    told apart, a curve that is a mode switch, and loads beyond the data without `extrapolate` or without a point past the knee.
    """
    ordered = sorted(loads, key=lambda each: each.load)
    _refuse_mode_switch_of_few(ordered, errors)
    check(ordered, 3, "the Universal Scalability Law")
    _refuse_unidentified(ordered)
    scaling.marginal(0.0, 0.0, share)
    found = fit(usl(unit), ordered, errors=errors, resamples=resamples, seed=seed)
    refuse_other_shape(found.model, found.loads, found.relative_errors)
    other = fit(amdahl(unit), ordered, errors=errors, resamples=resamples, seed=seed)
    whole = all(each.load == int(each.load) and each.load <= _QUEUE_MOST for each in ordered)
    queue = (fit(closed_queue(), ordered, errors=errors, resamples=2, seed=seed),) if whole else ()
    notes = list(_superlinear(ordered))
    coherent = significant(found, other)
    most = float(found.loads[-1])
    if not coherent:
        # What is not told from nothing is not nothing: Amdahl's law in the place of this one would put the wall elsewhere, with
        # an interval that does not hold it.
        notes.append(
            f"kappa cannot be told from 0 (F test, {100 * (1 - LEVEL):.0f} %): no peak is claimed; sigma and the wall have"
            " intervals that hold what either would make of them"
        )
    knees = knees_of(found, share, coherent, extrapolate)
    for load in at:
        if not load > 0:
            raise ExperimentError(invalid(load, "loads above 0"), where="--at", advice="--at 24,48")
        if load > most:
            _refuse_beyond(load, most, knees["crossing"], extrapolate)
    grid = np.linspace(float(found.loads[0]), max([most, *at]), _GRID)
    if found.disturbed:
        notes.append(
            "trials of one load differ by more than loads do from the curve, as where some were disturbed: medians count"
        )
    if found.lack_of_fit:
        notes.append("loads lie further from the curve than their trials vary: its shape is not quite theirs")
    notes += _systematic(found)
    parameters = {name: found.parameter(name) for name in ("lambda", "sigma", "kappa")}
    return Scaling(
        found,
        parameters,
        knees,
        tuple(compare((found, other, *queue))),
        predicted(found, found.loads, measured=True),
        predicted(found, grid),
        predicted(found, np.array(at, dtype=float)) if at else (),
        tuple(notes),
    )


def compare(fits: Sequence[Fit]) -> list[Compared]:
    """Models of the same points, the best first: by AICc where all have one, else by leave-one-out error."""
    found = [
        Compared(
            each.model.name,
            {p.name: float(value) for p, value in zip(each.model.parameters, each.theta, strict=True)},
            each.rms_error,
            each.worst_error,
            each.left_out_error,
            each.aicc,
            None
            if each.aicc is not None
            else f"AICc needs {len(each.theta) + 3} loads or more for {len(each.theta)} parameters",
        )
        for each in fits
    ]
    if all(each.aicc is not None for each in found):
        return sorted(found, key=lambda each: each.aicc or 0.0)
    return sorted(found, key=lambda each: each.left_out_error)


def predicted(found: Fit, loads: Numbers, *, measured: bool = False) -> tuple[Predicted, ...]:
    """The curve at `loads` with its bounds; beside what was measured there where that is asked for."""
    values, (low, high, least, most) = found.predict(loads), found.bands(loads)
    known = found.measured if measured else [None] * len(loads)
    return tuple(
        Predicted(
            float(at), float(v), float(a), float(b), float(c), float(d), None if was is None else float(was)
        )
        for at, v, a, b, c, d, was in zip(loads, values, low, high, least, most, known, strict=True)
    )


def _starts(loads: Numbers, values: Numbers) -> Numbers:
    """The law is linear in N / X = a + b (N - 1) + c N (N - 1): weighted by X / N, whose relative errors are alike."""
    cycle = loads / values
    columns = np.stack([np.ones_like(loads), loads - 1, loads * (loads - 1)], axis=1) / cycle[:, None]
    a, b, c = np.linalg.lstsq(columns, np.ones_like(loads), rcond=None)[0]
    one = float(values[0] / loads[0])
    rows = [[one, 0.05, 1e-3], [one, 0.5, 1e-4], [one, 0.02, 0.1]]
    if a > 0:
        rows.append([1 / a, min(max(b / a, 1e-6), 1.0), max(c / a, 1e-9)])
    return np.array(rows)


def significant(found: Fit, without: Fit) -> bool:
    """Tell whether kappa differs from 0: the extra sum of squares (Bates and Watts, Nonlinear Regression, 1988, section 3.10)."""
    if found.theta[2] <= 0:
        return False
    extra = (without.squares - found.squares) / found.deviation**2 if found.deviation else math.inf
    return extra > float(chance.f.ppf(LEVEL, 1, found.freedom))


def knees_of(found: Fit, share: float, coherent: bool, extrapolate: bool) -> dict[str, Estimate]:
    """Each knee of a law by its name, where a point lies beyond it: `crossing`, `power`, `marginal`, `peak`, `peak_rate`.

    `coherent`: whether kappa is told from 0; without it there is no peak to claim, and the others are the whole law's.
    """
    of_law = len(found.theta) > 2
    sigma, kappa = found.theta[1], found.theta[2] if of_law else 0.0
    sigmas = found.resamples[:, 1]
    kappas = found.resamples[:, 2] if of_law else np.zeros_like(sigmas)
    lambdas = found.resamples[:, 0]
    most = float(found.loads[-1])

    unit = found.model.parameters[0].unit

    def known(value: Numbers, resampled: Numbers, definition: str) -> Estimate:
        if math.isfinite(float(value)):
            return found.derived(value, resampled, "1", definition)
        return nothing("1", "the curve is a line as far as it was measured: it has no knee")

    crossing = within(
        known(
            scaling.crossing(sigma, kappa),
            scaling.crossing(sigmas, kappas),
            "lambda N meets the greatest rate",
        ),
        most,
    )
    # Nothing is followed beyond the data unless a point lies past the wall.
    reach = REACH * most if extrapolate and passed(crossing, most) else most
    knees = {
        "crossing": crossing,
        "power": known(scaling.power(sigma, kappa), scaling.power(sigmas, kappas), "greatest X / R"),
        "marginal": known(
            scaling.marginal(sigma, kappa, share),
            scaling.marginal(sigmas, kappas, share),
            f"one more adds less than {100 * share:g} % of lambda",
        ),
    }
    knees = {name: within(each, most, reach) for name, each in knees.items()}
    if not coherent:
        why = "kappa cannot be told from 0, and a curve without coherency has no peak"
        return knees | {"peak": nothing("1", why), "peak_rate": nothing(unit, why)}
    peak = within(
        known(scaling.peak(sigma, kappa), scaling.peak(sigmas, kappas), "greatest rate"), most, reach
    )
    if peak.missing:
        return knees | {"peak": peak, "peak_rate": nothing(unit, peak.missing)}
    value = scaling.greatest_rate(found.theta[0], sigma, kappa)
    resampled = scaling.greatest_rate(lambdas, sigmas, kappas)
    return knees | {"peak": peak, "peak_rate": found.derived(value, resampled, unit, "rate at the peak")}


def passed(crossing: Estimate, most: float) -> bool:
    """Tell whether the greatest load lies past the wall, with all of its interval."""
    return crossing.high is not None and crossing.high < most


def within(known: Estimate, most: float, reach: float | None = None) -> Estimate:
    """The estimate, or why it is not had: no point lies beyond it. `reach`: how far the curve may be followed."""
    if known.estimate is None or known.estimate < (most if reach is None else reach):
        return known
    return nothing(
        known.unit,
        f"no point lies beyond it: the curve would put it at N = {known.estimate:.3g}, and {most:g} is the greatest load",
    )


def nothing(unit: str, why: str) -> Estimate:
    """An estimate that is not had, and why."""
    return Estimate(None, None, None, 0, unit, "none", missing=why)


def _refuse_beyond(load: float, most: float, crossing: Estimate, extrapolate: bool) -> None:
    if not extrapolate:
        raise ExperimentError(
            f"N = {load:g} lies beyond the greatest load measured, {most:g}",
            where="--at",
            advice="measure there, or --extrapolate where a point lies past the knee",
        )
    if not passed(crossing, most):
        why = crossing.missing or f"the crossing may be at N = {crossing.high or math.inf:.3g}"
        raise ExperimentError(
            f"N = {load:g} cannot be predicted: no point lies past the knee ({why})",
            where="--extrapolate",
            advice=f"measure at loads beyond {most:g}",
        )
    if load > REACH * most:
        raise ExperimentError(
            f"N = {load:g} is more than {REACH:g} times the greatest load measured, {most:g}",
            where="--extrapolate",
            advice="measure nearer to it",
        )


def _refuse_unidentified(loads: Sequence[Load]) -> None:
    """Raise ExperimentError unless a, b and c of N / X = a + b (N - 1) + c N (N - 1) can be told apart at these loads.

    The condition number of its columns, each of length 1 (Belsley, Kuh and Welsch, Regression Diagnostics, 1980, chapter 3).
    """
    n = np.array([each.load for each in loads])
    cycle = n / np.array([each.middle for each in loads])
    columns = np.stack([np.ones_like(n), n - 1, n * (n - 1)], axis=1) / cycle[:, None]
    condition = float(np.linalg.cond(columns / np.linalg.norm(columns, axis=0)))
    if condition > _CONDITION:
        raise ExperimentError(
            f"the loads {n[0]:g} to {n[-1]:g} do not tell lambda, sigma and kappa apart (condition number {condition:.0f})",
            where="loads",
            advice="measure over a wider range: from 1 on, each load twice the one before",
        )


def _refuse_mode_switch_of_few(loads: Sequence[Load], errors: Errors) -> None:
    """Four points are too few for a law and enough to see that it is none."""
    if len(loads) != LOADS_LEAST - 1:
        return
    check(loads, 2, "the Universal Scalability Law")
    refuse_other_shape(usl(), *closest(usl(), loads, errors))


def refuse_other_shape(
    model: Model, at: Numbers, errors: Numbers, what: str = "these points are no scaling curve"
) -> None:
    """Raises ExperimentError where the best curve is none. `errors`: relative, of it at the loads `at`."""
    worst = int(np.argmax(np.abs(errors)))
    place = f"N = {at[worst]:.4g}"
    rms = float(np.sqrt(np.mean(errors**2)))
    advice = "look for what changes there (a cap, a full CPU, another path), and fit each side of it alone"
    if abs(errors[worst]) > WORST:
        raise ExperimentError(
            f"{what}: the best fit of {model.title} is {100 * errors[worst]:+.0f} % off"
            f" at {place}, as where the system switches to another mode (more than {100 * WORST:.0f} % is refused)",
            where="fit",
            advice=advice,
        )
    if rms > SYSTEMATIC and _too_few_runs(errors):
        raise ExperimentError(
            f"{what}: errors keep their sign (rms {100 * rms:.0f} %, worst"
            f" {100 * errors[worst]:+.0f} % at {place}), so that they have another shape",
            where="fit",
            advice=advice,
        )


def _systematic(found: Fit) -> list[str]:
    if not _too_few_runs(found.relative_errors):
        return []
    return [
        f"errors keep their sign over many loads (rms {100 * found.rms_error:.1f} %): the shape is not quite this one"
    ]


def _too_few_runs(errors: Numbers) -> bool:
    """Tell whether signs change less often than chance lets them, at 5 % (Wald and Wolfowitz 1940, exact)."""
    signs = errors > 0
    above, below = int(signs.sum()), int((~signs).sum())
    runs = 1 + int(np.sum(signs[1:] != signs[:-1]))
    if not above or not below:
        return False
    total = math.comb(above + below, above)
    ways = 0
    for count in range(2, runs + 1):
        half, odd = divmod(count, 2)
        if odd:
            ways += math.comb(above - 1, half) * math.comb(below - 1, half - 1)
            ways += math.comb(above - 1, half - 1) * math.comb(below - 1, half)
        else:
            ways += 2 * math.comb(above - 1, half - 1) * math.comb(below - 1, half - 1)
    return ways / total < 1 - LEVEL


def _superlinear(loads: Sequence[Load]) -> list[str]:
    """Report a client that is faster among others than alone, which the law (sigma >= 0) cannot say."""
    least = loads[0]
    best = max(loads[1:], key=lambda each: each.middle / each.load)
    more = best.middle / best.load / (least.middle / least.load) - 1
    if more <= SYSTEMATIC:
        return []
    return [
        f"a client has {100 * more:.0f} % more rate at N = {best.load:g} than at {least.load:g}, as where sleeping CPUs must be"
        " woken: lambda lies between the two"
    ]
