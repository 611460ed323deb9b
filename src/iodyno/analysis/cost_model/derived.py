"""Quantities to decide by, derived from a model: cost of an operation, ratio of two levels, operations per core, cores needed.

Each is a power product of one or two linear functions of the coefficients. Its interval is had in two ways that are both
told: by the delta method (first-order error propagation; JCGM 100:2008, 5.2) and by a seeded bootstrap. A ratio whose
denominator may be nothing has no bounded interval (Fieller 1954) and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from iodyno.analysis.cost_model.coding import NumericCoding, Setting, WordCoding
from iodyno.analysis.cost_model.model import NO_SPREAD, CostModel, equation_per, range_warnings, slope_row
from iodyno.analysis.cost_model.terms import Matrix, Vector
from iodyno.analysis.cost_model.written import natural_symbols
from iodyno.core.errors import ExperimentError
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import Warning, WarningCode

RESAMPLES = 2000
"""Bootstrap draws (chosen: the bounds of a 95 % interval are stable to some 3 % of its width)."""
DISAGREE_AT = 0.25
"""Share of the interval's half-width by which the two ways may differ (chosen: what a reader would call the same interval)."""
SEED = 1


@dataclass(frozen=True)
class CostUnit:
    """Size of one unit of an outcome in CPU seconds per operation (`per` operation), or in busy cores (`per` empty)."""

    cpu_s: float
    per: str


_COST_UNITS: Mapping[str, CostUnit] = {
    **{
        f"{time}/{of}": CostUnit(seconds, of)
        for time, seconds in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
        for of in ("operation", "packet", "KiB", "message", "IO")
    },
    "cores": CostUnit(1.0, ""),
    "% of a core": CostUnit(0.01, ""),
}


def cost_unit(unit: str) -> CostUnit:
    """The unit of an outcome that is a cost of CPU: `ns/operation`, `cores`, `% of a core`, `% of 8 cores`.

    Raises ExperimentError for any other.
    """
    if unit in _COST_UNITS:
        return _COST_UNITS[unit]
    words = unit.split()
    if len(words) == 4 and words[0] in ("%", "share") and words[1] == "of" and words[3] == "cores":
        try:
            cores = float(words[2])
        except ValueError:
            cores = 0.0
        if cores > 0:
            return CostUnit(cores * (0.01 if words[0] == "%" else 1.0), "")
    raise ExperimentError(
        f"the outcome's unit is {unit or 'not given'}, and so it is no cost of CPU",
        where="outcome",
        advice="an outcome such as sender.cpu_ns_per_operation; for your own data --unit ns/operation, cores, '% of 8 cores'",
    )


@dataclass(frozen=True)
class Derived:
    """A quantity with its two intervals. `at`: the point, in words; `bootstrap` is None with the reason in `no_bootstrap`."""

    name: str
    at: str
    estimate: Estimate
    bootstrap: tuple[float, float] | None
    no_bootstrap: str = ""

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """Warnings about the estimate."""
        return self.estimate.warnings


@dataclass(frozen=True)
class _Product:
    """scale * (c1'b)^p1 * (c2'b)^p2 ..., with powers 1 and -1."""

    scale: float
    rows: tuple[Vector, ...]
    powers: tuple[int, ...]

    def __call__(self, coefficients: Matrix) -> Vector:
        found = np.full(coefficients.shape[:-1], self.scale)
        for row, power in zip(self.rows, self.powers, strict=True):
            found = found * (coefficients @ row) ** power
        return found

    def gradient(self, coefficients: Vector) -> Vector:
        value = float(self(coefficients))
        if len(self.rows) == 1 and self.powers[0] == 1:
            return self.scale * self.rows[0]
        parts = [p * row / float(coefficients @ row) for row, p in zip(self.rows, self.powers, strict=True)]
        found: Vector = value * np.sum(parts, axis=0)
        return found


def cost_per_operation(
    model: CostModel,
    at: Mapping[str, str],
    *,
    load: str | None = None,
    beyond_range: bool = False,
    seed: int = SEED,
) -> Derived:
    """CPU seconds of one operation at a point or mix of levels.

    Of an outcome that is a cost of an operation, its mean there; of one that is busy cores, the derivative by the factor `load`
    (operations per second). What the background takes is in neither. Raises ExperimentError where the unit is neither.
    """
    unit = _of_one(model, load)
    place = _place(model, at, load, beyond_range)
    of = unit.per or "operation"
    return _derived(model, f"CPU per {of}", place, _Product(unit.cpu_s, (place.row,), (1,)), f"s/{of}", seed)


def ratio_of_levels(
    model: CostModel,
    factor: str,
    at: Mapping[str, str],
    *,
    levels: tuple[str, str] | None = None,
    load: str | None = None,
    beyond_range: bool = False,
    seed: int = SEED,
) -> Derived:
    """The outcome (or with `load` its derivative by it) at one level of a factor over that at another, at one point.

    Without `levels`, the last word over the first, or the greatest over the least number. Raises ExperimentError where the
    denominator's interval spans nothing.
    """
    above, below = levels or ends_of(model, factor)
    if factor in at:
        raise ExperimentError(
            f"{factor} has two levels in its own ratio",
            where=f"{factor}={at[factor]}",
            advice=f"leave {factor} out of --at",
        )
    over = _place(model, {**at, factor: above}, load, beyond_range)
    under = _place(model, {**at, factor: below}, load, beyond_range)
    _not_nothing(model, under)
    shown = replace(over, text=_text({n: s for n, s in over.settings.items() if n not in (factor, load)}))
    name = f"ratio {factor} {above} / {below}" + (f", per {load}" if load else "")
    return _derived(model, name, shown, _Product(1.0, (over.row, under.row), (1, -1)), "1", seed)


def difference_of_levels(
    model: CostModel,
    factor: str,
    at: Mapping[str, str],
    *,
    levels: tuple[str, str] | None = None,
    load: str | None = None,
    beyond_range: bool = False,
    seed: int = SEED,
) -> Derived:
    """The outcome (or its derivative by `load`) at one level less that at another, in CPU seconds where the unit is a cost."""
    above, below = levels or ends_of(model, factor)
    over = _place(model, {**at, factor: above}, load, beyond_range)
    under = _place(model, {**at, factor: below}, load, beyond_range)
    try:
        known = cost_unit(model.unit)
        scale, unit = known.cpu_s, f"s/{known.per or 'operation'}"
        if not known.per and not load:
            scale, unit = 1.0, model.unit
    except ExperimentError:
        scale, unit = 1.0, model.unit
    shown = replace(over, text=_text({n: s for n, s in over.settings.items() if n not in (factor, load)}))
    name = f"difference {factor} {above} - {below}" + (f", per {load}" if load else "")
    return _derived(model, name, shown, _Product(scale, (over.row - under.row,), (1,)), unit, seed)


def operations_per_core(
    model: CostModel,
    at: Mapping[str, str],
    *,
    load: str | None = None,
    beyond_range: bool = False,
    seed: int = SEED,
) -> Derived:
    """Operations per second that keep one core busy all the time: 1 / CPU seconds of one. No core should be kept so."""
    unit = _of_one(model, load)
    place = _place(model, at, load, beyond_range)
    _not_nothing(model, place)
    product = _Product(1 / unit.cpu_s, (place.row,), (-1,))
    return _derived(
        model, f"{unit.per or 'operation'}s per second and core at 100 %", place, product, "1/s", seed
    )


@dataclass(frozen=True)
class Cores:
    """Cores for a load: how many are busy, and how many whole ones to buy so that none is busier than the target.

    `rate`: the load in words, `70000/s` operations or `70000 KiB/s`. `least` and `most` are the whole cores at the ends of the
    95 % interval of what is busy.
    """

    busy: Derived
    rate: str
    load_per_s: float
    target_utilisation: float
    needed: int
    least: int
    most: int


def cores_needed(
    model: CostModel,
    at: Mapping[str, str],
    *,
    load_per_s: float,
    target_utilisation: float,
    load: str | None = None,
    beyond_range: bool = False,
    carried_per_s: float | None = None,
    seed: int = SEED,
) -> Cores:
    """Cores that a load needs at a target utilisation: load x CPU seconds of an operation / target, rounded up.

    `carried_per_s`: the most operations per second that a trial carried, where that is known; a load above it is a warning.

    The utilisation law (Lazowska et al. 1984, section 3.3). The target has no default: at 100 % a queue has no bound. Raises
    ExperimentError for a load or a target that is none.
    """
    if not (math.isfinite(load_per_s) and load_per_s > 0):
        raise ExperimentError(
            f"invalid value: a load of {load_per_s:g}/s; expected more than 0", where="--load"
        )
    if not 0 < target_utilisation < 1:
        raise ExperimentError(
            f"invalid value: a target utilisation of {100 * target_utilisation:g} %; expected "
            "more than 0 % and less than 100 %",
            where="--target-utilisation",
            advice="70%: at 100 % every queue grows without bound",
        )
    unit = _of_one(model, load)
    place = _place(model, at, load, beyond_range)
    coding = model.coding(load) if load else None
    of_operations = unit.per in ("", "operation", "IO")
    rate = f"{load_per_s:g}/s" if of_operations else f"{load_per_s:g} {unit.per}/s"
    most = [
        carried_per_s if of_operations else None,
        coding.high if isinstance(coding, NumericCoding) else None,
    ]
    known = min((rate for rate in most if rate is not None), default=math.inf)
    if load_per_s > 1.01 * known:
        text = (
            f"a load of {load_per_s:g}/s is {load_per_s / known:.3g} times the most that was carried, {known:.4g}/s:"
            " nothing tells that an operation costs the same there"
        )
        place = replace(
            place, warnings=(*place.warnings, Warning(WarningCode.MODEL_RANGE, text, model.outcome))
        )
    product = _Product(unit.cpu_s * load_per_s, (place.row,), (1,))
    busy = _derived(model, f"busy cores at {rate}", place, product, "cores", seed)
    value, low, high = busy.estimate.estimate, busy.estimate.low, busy.estimate.high
    assert value is not None
    if value <= 0:
        raise ExperimentError(
            f"the model gives {value:g} busy cores, which is no cost",
            where=place.text,
            advice="a point where it is positive",
        )
    whole = [
        max(1, math.ceil(bound / target_utilisation - 1e-9)) for bound in (value, low or value, high or value)
    ]
    return Cores(busy, rate, load_per_s, target_utilisation, *whole)


def predicted(
    model: CostModel, at: Mapping[str, str], *, beyond_range: bool = False, seed: int = SEED
) -> Derived:
    """The mean outcome at a point or mix of levels, in the outcome's own unit."""
    place = _place(model, at, None, beyond_range)
    return _derived(model, model.outcome, place, _Product(1.0, (place.row,), (1,)), model.unit, seed)


@dataclass(frozen=True)
class FactoredTerm:
    """A term of what one more unit of the load costs: its `variables` joined by `*`, its coefficient in the units of the equation
    (`written`), and that over the first one's (None of the first itself).
    """

    product: str
    coefficient: Estimate
    over_first: Estimate | None
    variables: tuple[str, ...] = ()


def factored(model: CostModel, load: str, only: Sequence[str] | None = None) -> tuple[FactoredTerm, ...]:
    """The derivative of the outcome by `load` as A (1 + b x + c y ...): A first, then b, c, ..., each with an interval by the
    delta method. `only`: the factors that it keeps; the others stand at the middle of their ranges.

    Raises ExperimentError where the outcome is no straight line in the load, or A is not told from nothing.
    """
    equation = equation_per(model, load, only)
    rows = dict(zip(equation.monomials, equation.map, strict=True))
    first = rows.get(())
    if first is None:
        raise ExperimentError(f"{load} by itself is no term of the model", where=load)
    place = _Place(first, "", {}, ())
    _not_nothing(model, place)
    found = []
    symbols = natural_symbols(model)
    of_load = symbols[load].scale
    for monomial, base in rows.items():
        powers = [(symbols[symbol], power) for symbol, power in monomial]
        product = " * ".join(one.name if power == 1 else f"{one.name}**{power}" for one, power in powers)
        row = base * math.prod(one.scale**power for one, power in powers)
        over = _derived(model, product, place, _Product(1.0, (row, first), (1, -1)), "1", SEED).estimate
        names = tuple(one.name for one, _ in powers)
        of_one = model.linear(row * of_load, model.unit)
        found.append(FactoredTerm(product, of_one, over if monomial else None, names))
    found.sort(key=lambda one: one.over_first is not None)
    return tuple(found)


def ends_of(model: CostModel, factor: str) -> tuple[str, str]:
    """The two levels of a ratio: the last word over the first, or the greatest over the least number."""
    coding = model.coding(factor)
    levels = coding.factor.levels
    if isinstance(coding, WordCoding) and len(levels) > 2:
        raise ExperimentError(
            f"{factor} has {len(levels)} levels: which two?",
            where=factor,
            advice=f"{factor}={coding.factor.show(levels[1])}/{coding.factor.show(levels[0])}",
        )
    low, high = (coding.low, coding.high) if isinstance(coding, NumericCoding) else (levels[0], levels[-1])
    return coding.factor.show(high), coding.factor.show(low)


@dataclass(frozen=True)
class _Place:
    row: Vector
    text: str
    settings: Mapping[str, Setting]
    warnings: tuple[Warning, ...]


def _place(model: CostModel, at: Mapping[str, str], load: str | None, beyond_range: bool) -> _Place:
    settings = model.settings(at)
    warnings = range_warnings(model, settings, beyond_range)
    if load is None:
        return _Place(model.row(settings), _text(settings), settings, warnings)
    row = slope_row(model, load, settings)
    shown = {name: setting for name, setting in settings.items() if name != load}
    return _Place(row, _text(shown), settings, warnings)


def _of_one(model: CostModel, load: str | None) -> CostUnit:
    """The unit, where a cost of one operation can be had from it. Busy cores hold the background, so they need a load."""
    unit = cost_unit(model.unit)
    if unit.per and load:
        raise ExperimentError(
            f"{model.outcome} is per {unit.per} already",
            where=f"--per {load}",
            advice=f"leave --per {load} out",
        )
    if not unit.per and load is None:
        numeric = [
            name for name, coding in model.formula.codings.items() if isinstance(coding, NumericCoding)
        ]
        raise ExperimentError(
            f"{model.outcome} is in {model.unit}, background included: which factor is the load?",
            where=model.outcome,
            advice=f"--per NAME with one of {', '.join(numeric)}" if numeric else "an outcome per operation",
        )
    return unit


def _text(settings: Mapping[str, Setting]) -> str:
    return ", ".join(setting.text for setting in settings.values()) or "everywhere"


def _not_nothing(model: CostModel, place: _Place) -> None:
    """Raises ExperimentError where the interval of a denominator spans nothing."""
    value, error = float(place.row @ model.coefficients), model.standard_error(place.row)
    if value == 0 or (error is not None and abs(value) <= model.quantile(place.row) * error):
        raise ExperimentError(
            f"{model.outcome} at {place.text} is {value:.3g} {model.unit} and its interval spans 0: no ratio to it has a bound",
            where=model.outcome,
            advice="more trials, or a point where it is surely positive",
        )


def _derived(model: CostModel, name: str, place: _Place, product: _Product, unit: str, seed: int) -> Derived:
    value = float(product(model.coefficients))
    half, alpha = None, 0.025
    if model.covariance is not None:
        gradient = product.gradient(model.coefficients)
        half = model.quantile(gradient) * (model.standard_error(gradient) or 0.0)
        alpha = model.alpha(gradient)
    bounds, reason, warnings = None, NO_SPREAD, place.warnings
    if model.draw is not None and half is not None:
        samples = product(model.draw(RESAMPLES, seed))
        low, high = (float(bound) for bound in np.quantile(samples, [alpha, 1 - alpha]))
        bounds, reason = (low, high), ""
        apart = max(abs(low - (value - half)), abs(high - (value + half)))
        if half > 0 and apart > DISAGREE_AT * half:
            scale, shown = (
                (1e6, f"us{unit[1:]}") if unit.startswith("s/") else (1.0, "" if unit == "1" else unit)
            )
            pairs = [f"{scale * a:.4g} to {scale * b:.4g}" for a, b in ((value - half, value + half), bounds)]
            text = (
                f"{name}: the delta method gives {pairs[0]}, the bootstrap {pairs[1]} {shown}".rstrip()
                + ": take the wider"
            )
            warnings = (*warnings, Warning(WarningCode.MODEL_INTERVALS, text, model.outcome))
    estimate = Estimate(
        value,
        None if half is None else value - half,
        None if half is None else value + half,
        model.n,
        unit,
        f"delta method; {model.method}",
        model.assumptions,
        warnings,
        None if half is not None else NO_SPREAD,
    )
    return Derived(name, place.text, estimate, bounds, reason)
