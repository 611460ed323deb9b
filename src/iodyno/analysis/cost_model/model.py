"""A fitted linear model as a value: coefficients on the coded scale, their covariance, predictions and the equation in
natural units.

Everything that follows from it is a linear function of the coefficients, c'b with variance c'Vc, or a power product of two
of these; so a model that was published as a table of coefficients serves as well as one that was fitted here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np

from iodyno.analysis import chance
from iodyno.analysis.cost_model.coding import Coding, FactorScale, NumericCoding, Setting, setting_of
from iodyno.analysis.cost_model.terms import (
    Column,
    Formula,
    Matrix,
    Vector,
    columns_of,
    default_formula,
    model_matrix,
    name_of,
)
from iodyno.core.errors import ExperimentError
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import Warning, WarningCode

LEVEL = 0.95
Monomial = tuple[tuple[str, int], ...]
"""Variables of an equation with their powers; the empty one is the constant."""

Draw = Callable[[int, int], Matrix]
"""Gives so many bootstrap draws of the coefficients (a row each) with a seed."""


@dataclass(frozen=True)
class CostModel:
    """A linear model. `covariance` is None where the trials tell nothing of the spread (as many trials as terms).

    `residual_df`: degrees of freedom of that spread, infinite where it is known by an asymptotic law. `draw`: bootstrap.
    `between_blocks`: what the variance of the intercept has on top, as the blocks that were run are a few of many; from
    `blocks_df` degrees of freedom. `still`: the columns that vary only between whole plots, whose effects have `plot_df`
    degrees of freedom; empty where there are none. `published`: of its factors the ends are known, not what was measured between.
    """

    outcome: str
    unit: str
    formula: Formula
    coefficients: Vector
    covariance: Matrix | None
    residual_df: float
    residual_sd: float | None
    n: int
    method: str
    assumptions: tuple[str, ...] = ()
    draw: Draw | None = field(default=None, repr=False, compare=False)
    between_blocks: float = 0.0
    blocks_df: int = 0
    still: tuple[bool, ...] = ()
    plot_df: int = 0
    published: bool = False

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the coefficients belong to."""
        return columns_of(self.formula)

    def quantile(self, row: Vector) -> float:
        """Return the multiplier of the standard error of c'b for a 95 % interval: Student's t.

        Where blocks vary, its degrees of freedom are those of a sum of two variances (Satterthwaite 1946).
        """
        return _t(LEVEL, self._df(row))

    def alpha(self, row: Vector) -> float:
        """The share of a bootstrap that lies below its lower bound: Φ(-t), so that few degrees of freedom widen it too.

        Expanded percentile interval (Hesterberg 2015, What Teachers Should Know About the Bootstrap, section 3.3).
        """
        return float(chance.norm.cdf(-self.quantile(row)))

    def _df(self, row: Vector) -> float:
        own, blocks = self._variances(row)
        between = any(float(part) != 0 and still for part, still in zip(row, self.still, strict=False))
        own_df = self.plot_df if between else self.residual_df
        if blocks <= 0 or own + blocks <= 0:
            return own_df
        return (own + blocks) ** 2 / (own**2 / max(own_df, 1) + blocks**2 / self.blocks_df)

    def _variances(self, row: Vector) -> tuple[float, float]:
        """Of c'b: within blocks, and between them."""
        if self.covariance is None:
            return 0.0, 0.0
        blocks = float(row[0]) ** 2 * self.between_blocks if self.formula.intercept else 0.0
        return max(0.0, float(row @ self.covariance @ row)), blocks

    def coding(self, name: str) -> Coding:
        """Return the coding of a factor. Raises ExperimentError for one that the model does not have."""
        if name not in self.formula.codings:
            raise ExperimentError(
                f"the model of {self.outcome} has no factor {name}",
                where=name,
                advice=f"one of {', '.join(self.formula.codings)}",
            )
        return self.formula.codings[name]

    def settings(self, at: Mapping[str, str]) -> dict[str, Setting]:
        """Return the setting of every factor; one that `at` does not name is at the middle of its range, or an even mix of words.

        Levels are written as people do: `read=50%`, `size=4KiB`, `protocol=tcp:70%+udp:30%`. Raises ExperimentError.
        """
        for name in at:
            self.coding(name)
        return {name: setting_of(coding, at.get(name)) for name, coding in self.formula.codings.items()}

    def row(self, settings: Mapping[str, Setting]) -> Vector:
        """The row c of a point: the model predicts c'b there."""
        coded = {name: np.array([setting.coded]) for name, setting in settings.items()}
        found: Vector = model_matrix(self.formula, coded, 1)[0]
        return found

    def standard_error(self, row: Vector) -> float | None:
        """Of c'b; None where the trials tell nothing of the spread."""
        return None if self.covariance is None else math.sqrt(sum(self._variances(row)))

    def linear(
        self, row: Vector, unit: str, scale: float = 1.0, warnings: tuple[Warning, ...] = ()
    ) -> Estimate:
        """`scale` times c'b with its t interval."""
        value = scale * float(row @ self.coefficients)
        error = self.standard_error(row)
        half = None if error is None else abs(scale) * self.quantile(row) * error
        return Estimate(
            value,
            None if half is None else value - half,
            None if half is None else value + half,
            self.n,
            unit,
            self.method,
            self.assumptions,
            warnings,
            None if half is not None else NO_SPREAD,
        )

    def predict(self, at: Mapping[str, str], *, beyond_range: bool = False) -> Estimate:
        """The mean outcome at a point in natural units. Raises ExperimentError outside the range, unless that is asked for."""
        settings = self.settings(at)
        return self.linear(
            self.row(settings), self.unit, warnings=range_warnings(self, settings, beyond_range)
        )

    def interval_of(self, name: str) -> Estimate:
        """A coefficient by the name of its column, in any order of its factors."""
        wanted = sorted(name.split(":"))
        for place, column in enumerate(self.columns):
            if sorted(column.name.split(":")) == wanted:
                return self.linear(np.eye(len(self.columns))[place], self.unit)
        raise ExperimentError(
            f"there is no coefficient {name}",
            where=self.outcome,
            advice=f"one of {', '.join(column.name for column in self.columns)}",
        )


NO_SPREAD = (
    "there are as many trials as terms, so that nothing is left to tell the spread: replicate the points"
)


def range_warnings(
    model: CostModel, settings: Mapping[str, Setting], beyond_range: bool
) -> tuple[Warning, ...]:
    """Warnings where a point lies between two levels of which no third was measured, or outside of the range that was measured;
    ExperimentError for the latter unless it is allowed.
    """
    outside, between = [], []
    for name, setting in settings.items():
        coding = model.coding(name)
        if not isinstance(coding, NumericCoding):
            continue
        low, high = coding.factor.show(coding.low), coding.factor.show(coding.high)
        if not setting.inside:
            outside.append(f"{setting.text} is outside of the range {low} to {high} that was measured")
        elif (
            setting.chosen
            and not model.published
            and len(coding.factor.levels) == 2
            and abs(setting.coded[0]) < 1
        ):
            between.append(f"{setting.text} lies between {low} and {high}, and no third level was measured")
    supposed = "; ".join(between)
    found = (
        (Warning(WarningCode.MODEL_RANGE, f"{supposed}: the line between them is supposed", model.outcome),)
        if between
        else ()
    )
    if not outside:
        return found
    text = "; ".join(outside)
    if not beyond_range:
        raise ExperimentError(
            text,
            where=model.outcome,
            advice="a level inside; or --beyond-range, if you know that the line goes on",
        )
    beyond = Warning(WarningCode.MODEL_RANGE, f"{text}: nothing tells that the line goes on", model.outcome)
    return (beyond, *found)


def published_model(
    factors: Sequence[FactorScale],
    coefficients: Mapping[str, float],
    *,
    standard_error: float,
    residual_df: int,
    outcome: str,
    unit: str,
    source: str,
) -> CostModel:
    """A model from a published table of coefficients of an orthogonal two-level design, all with one standard error.

    The names are those of the factors, joined by `:`, and `intercept`. Raises ExperimentError for a name that is no term.
    """
    default = default_formula(factors)
    by_name = {frozenset(name_of(term).split(":")): term for term in default.terms}
    terms = []
    for name in coefficients:
        parts = frozenset(name.split(":"))
        if name != "intercept" and parts not in by_name:
            raise ExperimentError(f"there is no term {name}", where=source)
        if name != "intercept":
            terms.append(by_name[parts])
    formula = Formula(outcome, tuple(terms), default.codings, "intercept" in coefficients)
    values = [value for name, value in coefficients.items() if name != "intercept"]
    if formula.intercept:
        values.insert(0, coefficients["intercept"])
    covariance = standard_error**2 * np.eye(len(values))
    n = residual_df + len(values)
    centre = np.array(values)

    def draw(count: int, seed: int) -> Matrix:
        return (
            centre
            + np.random.default_rng(seed).standard_t(residual_df, (count, len(values))) * standard_error
        )

    return CostModel(
        outcome, unit, formula, centre, covariance, residual_df, standard_error * math.sqrt(n), n,
        f"published coefficients of {source}", ("errors vary independently and normally",), draw, published=True,
    )  # fmt: skip


@dataclass(frozen=True)
class Equation:
    """A model in natural units: a coefficient for each monomial, as the linear map L of the coded coefficients (L b)."""

    model: CostModel
    monomials: tuple[Monomial, ...]
    map: Matrix
    per: str = ""
    """The factor that it is a derivative by; empty for the outcome itself."""

    @property
    def values(self) -> Vector:
        """The coefficients in natural units."""
        found: Vector = self.map @ self.model.coefficients
        return found

    def coefficient(self, *variables: str) -> Estimate:
        """The coefficient of a product of variables, with its interval. Raises ExperimentError where there is none."""
        wanted = sorted(variables)
        for place, monomial in enumerate(self.monomials):
            if sorted(name for name, power in monomial for _ in range(power)) == wanted:
                return self.model.linear(self.map[place], self.model.unit)
        raise ExperimentError(
            f"the equation has no term {' * '.join(variables) or 'constant'}", where=self.model.outcome
        )

    def keep(self, monomials: Sequence[Monomial]) -> Equation:
        """The equation with these monomials only."""
        places = [place for place, monomial in enumerate(self.monomials) if monomial in monomials]
        return Equation(
            self.model, tuple(self.monomials[place] for place in places), self.map[places], self.per
        )


def equation_of(model: CostModel, only: Sequence[str] | None = None) -> Equation:
    """Multiplies the coding out: (v - centre) / half range, term by term. Words stay as their codes (-1, 0, +1).

    `only`: the factors that the equation keeps; the others stand at the middle of their ranges.
    """
    found: dict[Monomial, Vector] = {}
    for place, column in enumerate(model.columns):
        if only is not None and any(name not in only for name, _ in column.term):
            continue
        labels = column.name.split(":") if column.term else []
        parts = [
            _expanded(model.formula.codings[name], label, power)
            for (name, power), label in zip(column.term, labels, strict=True)
        ]
        for choice in product(*parts):
            monomial = tuple((symbol, power) for symbol, power, _ in choice if power)
            weight = math.prod(factor for _, _, factor in choice)
            if weight == 0:
                continue
            row = found.setdefault(monomial, np.zeros(len(model.columns)))
            row[place] += weight
    return Equation(model, tuple(found), np.array(list(found.values())))


def equation_per(model: CostModel, load: str, only: Sequence[str] | None = None) -> Equation:
    """The derivative of the outcome by a numeric factor: what one more unit of the load costs. `only` as in `equation_of`.

    Raises ExperimentError where the outcome is no straight line in the load.
    """
    coding = model.coding(load)
    if not isinstance(coding, NumericCoding) or coding.scale != "linear":
        raise ExperimentError(
            f"{load} is not a number on a linear scale in this model",
            where=load,
            advice="the factor of the load",
        )
    whole = equation_of(model, None if only is None else (*only, load))
    found: dict[Monomial, Vector] = {}
    for monomial, row in zip(whole.monomials, whole.map, strict=True):
        powers = dict(monomial)
        if load not in powers:
            continue
        if powers[load] > 1:
            raise ExperimentError(
                f"the model has {name_of(((load, powers[load]),))}: the cost of one more is not one number",
                where=load,
                advice="predict the outcome at the load instead",
            )
        found[tuple((name, power) for name, power in monomial if name != load)] = row
    if not found:
        raise ExperimentError(f"{load} is in no term of the model", where=load)
    return Equation(model, tuple(found), np.array(list(found.values())), load)


def slope_row(model: CostModel, load: str, settings: Mapping[str, Setting]) -> Vector:
    """The row c for which c'b is the derivative by `load` at a point."""
    coding = model.coding(load)
    if not isinstance(coding, NumericCoding) or coding.scale != "linear":
        raise ExperimentError(f"{load} is not a number on a linear scale in this model", where=load)
    if any(power > 1 for column in model.columns for name, power in column.term if name == load):
        raise ExperimentError(f"the outcome is no straight line in {load}", where=load)
    if not any(name == load for column in model.columns for name, _ in column.term):
        raise ExperimentError(f"{load} is in no term of the model", where=load)
    low, high = dict(settings), dict(settings)
    low[load] = Setting((-1.0,), "")
    high[load] = Setting((1.0,), "")
    return (model.row(high) - model.row(low)) / (2 * coding.half_range)


def _expanded(coding: Coding, label: str, power: int) -> list[tuple[str, int, float]]:
    """((v - c) / h)^p by powers of v, as (symbol, power, weight)."""
    if not isinstance(coding, NumericCoding):
        return [(label, 1, 1.0)]
    centre, half = coding.centre, coding.half_range
    return [
        (coding.symbol, k, math.comb(power, k) * (-centre) ** (power - k) / half**power)
        for k in range(power + 1)
    ]


def _t(level: float, df: float) -> float:
    tail = (1 + level) / 2
    return float(chance.norm.ppf(tail) if math.isinf(df) else chance.t.ppf(tail, df)) if df > 0 else math.inf
