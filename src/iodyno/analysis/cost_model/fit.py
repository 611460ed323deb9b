"""Fits a linear model: least squares, weighted where the spread grows with the mean, robust, or of a quantile.

Least squares are solved here by QR, the robust fit and the quantile in `robust`. Blocks are fixed effects (sum to zero), so that
a prediction is for the mean of the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Literal

import numpy as np

from iodyno.analysis import chance
from iodyno.analysis.cost_model.data import CostData, checked
from iodyno.analysis.cost_model.model import CostModel, Draw
from iodyno.analysis.cost_model.robust import Solution, huber, quantile_regression
from iodyno.analysis.cost_model.terms import (
    Aliased,
    Formula,
    Matrix,
    Term,
    Vector,
    aliased_terms,
    default_formula,
    model_matrix,
    name_of,
    parse_formula,
    without,
)
from iodyno.analysis.cost_model.whole_plots import fit_plots
from iodyno.core.errors import ExperimentError
from iodyno.core.quantity import counted

Method = Literal["auto", "ols", "wls", "huber", "quantile"]
Errors = Literal["auto", "classical", "hc3"]

UNEVEN_AT = 0.01
"""Chance of an even spread to look as uneven as this, below which it is taken as uneven (chosen: the choice between two
forms of one interval must not follow the noise of every twentieth campaign)."""
_HARVEY_VARIANCE = math.pi**2 / 2
"""Of the logarithm of a chi-squared variable with one degree of freedom: trigamma(1/2)."""
_POWER_MOST = 2.0


@dataclass(frozen=True)
class Prepared:
    """A model that can be fitted to any outcome of the same trials. `matrix` has the model's columns, then those of blocks."""

    data: CostData
    formula: Formula
    matrix: Matrix
    blocks: int
    aliased: tuple[Aliased, ...] = ()
    asked: bool = False

    @property
    def terms(self) -> int:
        """Columns of the model, without those of blocks."""
        return int(self.matrix.shape[1]) - self.blocks

    @cached_property
    def orthogonal(self) -> tuple[Matrix, Matrix]:
        """Q and R of the matrix."""
        q, r = np.linalg.qr(self.matrix)
        return q, r

    @property
    def residual_df(self) -> int:
        """Trials less columns."""
        return int(self.matrix.shape[0]) - int(self.matrix.shape[1])


@dataclass(frozen=True)
class Fit:
    """A fitted model with what its checks need. `leverage` is that of the (weighted) fit; `weights` are relative variances'
    inverse.

    `power`: the spread was taken to grow with this power of the mean; None: it was taken as even. `squares`: by least squares.
    """

    prepared: Prepared
    model: CostModel
    fitted: Vector
    residuals: Vector
    leverage: Vector
    weights: Vector
    coefficients: Vector = field(repr=False)
    covariance: Matrix | None = field(repr=False)
    power: float | None = None
    uneven: bool = False
    squares: bool = True

    @property
    def data(self) -> CostData:
        """The trials."""
        return self.prepared.data

    @property
    def standardised(self) -> Vector:
        """Residuals over their standard deviations (internally studentised)."""
        scaled = self.residuals * np.sqrt(self.weights)
        df = max(self.prepared.residual_df, 1)
        spread = math.sqrt(float(scaled @ scaled) / df) or 1.0
        found: Vector = scaled / (spread * np.sqrt(np.maximum(1 - self.leverage, 1e-12)))
        return found


def prepare(data: CostData, formula: str | Formula | None = None, *, blocks: bool = True) -> Prepared:
    """The model matrix of a formula; None: all main effects and two-factor interactions that the trials can tell apart.

    Of a formula that was asked for, terms that cannot be told apart are an ExperimentError that names them, as are more
    columns than trials. `blocks`: block effects are fitted where there are two blocks or more that the model leaves room for.
    """
    checked(data)
    asked = formula is not None
    chosen = formula or default_formula(data.factors)
    if isinstance(chosen, str):
        chosen = parse_formula(chosen, data.factors)
    matrix = _matrix(data, chosen)
    aliased = aliased_terms(chosen, matrix)
    if aliased and asked:
        raise _singular(data, chosen, aliased)
    if aliased:
        chosen = without(chosen, [one.term for one in aliased])
        matrix = _matrix(data, chosen)
    # A line through the origin has no room for blocks that differ there.
    nuisance = _block_columns(data) if blocks and chosen.intercept else np.zeros((len(data.values), 0))
    if nuisance.shape[1]:
        # Blocks that are confounded with a term, or use up the trials, are left to the residuals, which a check then sees.
        together = np.column_stack([matrix, nuisance])
        full = np.linalg.matrix_rank(together) == together.shape[1]
        if not full or together.shape[1] >= len(data.values):
            nuisance = nuisance[:, :0]
    count = len(data.values)
    if matrix.shape[1] > count or (asked and matrix.shape[1] == count and not _one_each(data)):
        raise ExperimentError(
            f"{counted(count, 'trial')} cannot carry {matrix.shape[1]} coefficients",
            where=_where(data),
            advice="fewer terms in the formula, or more trials",
        )
    return Prepared(data, chosen, np.column_stack([matrix, nuisance]), nuisance.shape[1], aliased, asked)


def fit(
    data: CostData,
    formula: str | Formula | None = None,
    *,
    method: Method = "auto",
    errors: Errors = "auto",
    quantile: float = 0.5,
    blocks: bool = True,
) -> Fit:
    """Fits the formula to the data. Raises ExperimentError where that cannot be done (see `prepare`)."""
    return solve(prepare(data, formula, blocks=blocks), data.values, method, errors, quantile=quantile)


def solve(
    prepared: Prepared,
    values: Vector,
    method: Method = "auto",
    errors: Errors = "auto",
    *,
    quantile: float = 0.5,
) -> Fit:
    """Fits a prepared model to outcomes.

    `auto` is least squares; where the spread grows with the mean (Harvey 1976), least squares weighted with that power of the
    fitted mean, worked out anew once (Carroll and Ruppert 1988, section 2.4). Errors `auto` are HC3 (MacKinnon and White 1985)
    where the spread is uneven otherwise (`_uneven_points`), and classical else.
    """
    if method in ("huber", "quantile"):
        return _resistant(prepared, values, method, quantile)
    even = np.ones(len(values))
    first = _least_squares(prepared, values, even, "classical")
    if method in ("auto", "ols") and errors == "auto" and (found := _with_plots(first)):
        return found
    power, chance = _power_of_mean(first)
    weighted = method == "wls" or (method == "auto" and power is not None and chance < UNEVEN_AT)
    if weighted:
        if power is None:
            raise ExperimentError(
                f"weights cannot be had: {prepared.data.outcome} is not positive at all points, or leaves no residuals",
                where=_where(prepared.data),
                advice="--method ols, whose standard errors take an uneven spread into account (HC3)",
            )
        found, used = first, power
        for _ in range(2):
            used = _power_of_mean(found)[0] or used
            found = _least_squares(prepared, values, _weights(found.fitted, used), errors)
        return _named(replace(found, power=used, uneven=True), "weighted least squares")
    uneven = _uneven_points(first) < UNEVEN_AT
    wanted: Errors = errors if errors != "auto" else "hc3" if uneven else "classical"
    found = first if wanted == "classical" else _least_squares(prepared, values, even, wanted)
    return _named(replace(found, uneven=uneven), "least squares")


def _least_squares(prepared: Prepared, values: Vector, weights: Vector, errors: Errors) -> Fit:
    root = np.sqrt(weights)
    if np.all(weights == weights[0]):
        q, r = prepared.orthogonal
    else:
        q, r = np.linalg.qr(prepared.matrix * root[:, None])
    scaled = values * root
    coefficients: Vector = np.linalg.solve(r, q.T @ scaled).astype(np.float64)
    fitted = prepared.matrix @ coefficients
    residuals = values - fitted
    leverage: Vector = np.einsum("ij,ij->i", q, q)
    inverse = np.linalg.inv(r)
    df = prepared.residual_df
    rest = residuals * root
    covariance: Matrix | None = None
    sd: float | None = None
    if df > 0:
        sd = math.sqrt(float(rest @ rest) / df)
        if errors == "hc3":
            influence = inverse @ q.T * (rest / np.maximum(1 - leverage, 1e-9))
            covariance = influence @ influence.T
        else:
            covariance = sd**2 * inverse @ inverse.T
    data = prepared.data
    keep = prepared.terms
    projection = inverse[:keep] @ q.T
    between = _between_blocks(prepared, coefficients, covariance)

    def draw(count: int, seed: int) -> Matrix:
        """Wild bootstrap with Rademacher signs (Liu 1988, Davidson and Flachaire 2008), residuals over sqrt(1 - leverage)."""
        signs = np.random.default_rng(seed).choice((-1.0, 1.0), size=(count, len(rest)))
        noise = rest / np.sqrt(np.maximum(1 - leverage, 1e-9))
        found: Matrix = coefficients[:keep] + (signs * noise) @ projection.T
        if between:
            found[:, 0] += np.random.default_rng([seed, 1]).normal(0, math.sqrt(between), count)
        return found

    model = CostModel(
        data.outcome, data.unit, prepared.formula, coefficients[:keep],
        None if covariance is None else covariance[:keep, :keep], df, sd, len(values),
        "HC3" if errors == "hc3" else "classical", draw=draw if df > 0 else None,
        between_blocks=between, blocks_df=prepared.blocks,
    )  # fmt: skip
    return Fit(prepared, model, fitted, residuals, leverage, weights, coefficients, covariance)


def _with_plots(plain: Fit) -> Fit | None:
    """The fit with an error of whole plots too; None where the trials are in none, or do not tell it."""
    prepared, plots = plain.prepared, plain.data.plots
    if len(set(plots)) < 2 or len(set(plots)) == len(plots):
        return None
    made = fit_plots(prepared.matrix, plain.data.values, plots)
    if made is None:
        return None
    keep = prepared.terms
    root = np.linalg.cholesky(made.covariance[:keep, :keep] + 1e-300 * np.eye(keep))

    def draw(count: int, seed: int) -> Matrix:
        """Parametric bootstrap: normal errors of plots and trials."""
        found: Matrix = (
            made.coefficients[:keep] + np.random.default_rng(seed).normal(size=(count, keep)) @ root.T
        )
        return found

    model = replace(
        plain.model,
        coefficients=made.coefficients[:keep],
        covariance=made.covariance[:keep, :keep],
        residual_df=made.trial_df,
        residual_sd=math.hypot(made.trial_sd, made.plot_sd),
        draw=draw,
        between_blocks=0.0,
        still=made.still[:keep],
        plot_df=made.plot_df,
        method=f"generalised least squares of {len(plots)} trials in {len(set(plots))} whole plots"
        f"{', blocks as fixed effects' if prepared.blocks else ''}",
        assumptions=(
            "the terms of the model are all there are",
            "errors of plots and of trials vary independently and normally",
            "spread is even",
        ),
    )
    fitted = prepared.matrix @ made.coefficients
    residuals: Vector = plain.data.values - fitted
    return replace(
        plain,
        model=model,
        fitted=fitted,
        residuals=residuals,
        coefficients=made.coefficients,
        covariance=made.covariance,
    )


def _between_blocks(prepared: Prepared, coefficients: Vector, covariance: Matrix | None) -> float:
    """Return the variance of the mean of the blocks beyond that of the trials in them.

    The effects of a model are differences within blocks, and free of what the blocks differ by; a mean is not: another day is
    another block. Variance of the block effects over their number, more by (1 + r) / (1 - r) where neighbours are alike
    (a first-order autoregressive series: Law, Simulation Modeling and Analysis, section 9.5), less what the trials explain.
    """
    if not prepared.blocks or covariance is None or not prepared.formula.intercept:
        return 0.0
    others = coefficients[prepared.terms :]
    effects = np.concatenate([[-others.sum()], others])
    count = len(effects)
    power = float(effects @ effects)
    r = float(effects[1:] @ effects[:-1]) / power if power else 0.0
    # The estimate of r is low by some (1 + 3 r) / n in a short series (Kendall 1954).
    r = min(max(r + (1 + 3 * r) / count, 0.0), 0.9) if r > 0 else 0.0
    return max(0.0, power / (count - 1) / count * (1 + r) / (1 - r) - float(covariance[0, 0]))


def _named(found: Fit, how: str) -> Fit:
    """The fit with a name of its method and what it assumes."""
    blocks = ", blocks as fixed effects" if found.prepared.blocks else ""
    weights = f", spread as mean^{found.power:.2g}" if found.power is not None else ""
    hc3 = found.model.method == "HC3"
    errors = ", HC3 standard errors" if hc3 else ""
    spread = () if hc3 else ("spread is even" if found.power is None else "spread is a power of the mean",)
    model = replace(
        found.model,
        method=f"{how} of {len(found.residuals)} trials{weights}{blocks}{errors}",
        assumptions=(
            "the terms of the model are all there are",
            "errors vary independently and normally",
            *spread,
        ),
    )
    return replace(found, model=model)


def _resistant(prepared: Prepared, values: Vector, method: Method, quantile: float) -> Fit:
    """Huber's M-estimate (1964, k = 1.345) or the regression of a quantile (Koenker and Bassett 1978)."""
    if prepared.residual_df < 1:
        raise ExperimentError(
            f"{method} needs more trials than the {prepared.matrix.shape[1]} coefficients",
            where=_where(prepared.data),
            advice="fewer terms, or more trials",
        )
    coefficients, covariance = _robust(prepared, values, method, quantile)
    if method == "huber":
        how, df = "Huber's robust regression", float(prepared.residual_df)
    else:
        how, df = f"regression of the {100 * quantile:g} % quantile", math.inf
    if not np.all(np.isfinite(covariance)):
        raise ExperimentError(
            f"the {how} has no finite standard errors on these trials",
            where=_where(prepared.data),
            advice="--method ols",
        )
    fitted = prepared.matrix @ coefficients
    q, _ = prepared.orthogonal
    keep = prepared.terms
    residuals: Vector = values - fitted
    data = prepared.data
    blocks = ", blocks as fixed effects" if prepared.blocks else ""
    sd = 1.4826 * float(np.median(np.abs(residuals - np.median(residuals))))
    model = CostModel(
        data.outcome, data.unit, prepared.formula, coefficients[:keep], covariance[:keep, :keep], df, sd,
        len(values), f"{how} of {len(values)} trials{blocks}",
        ("the terms of the model are all there are", "errors vary independently"),
        _refitting(prepared, values, method, quantile),
    )  # fmt: skip
    return Fit(
        prepared,
        model,
        fitted,
        residuals,
        np.einsum("ij,ij->i", q, q),
        np.ones(len(values)),
        coefficients,
        covariance,
        squares=False,
    )


def _robust(prepared: Prepared, values: Vector, method: Method, quantile: float) -> Solution:
    if method == "huber":
        return huber(prepared.matrix, values)
    return quantile_regression(prepared.matrix, values, quantile)


REFITS = 200
"""Bootstrap draws of a fit that must be made again for each (chosen: some seconds; bounds are stable to a tenth of the
width).
"""


def _refitting(prepared: Prepared, values: Vector, method: Method, quantile: float) -> Draw:
    def draw(count: int, seed: int) -> Matrix:
        """Residuals drawn with replacement, the model fitted again (Davison and Hinkley 1997, section 6.2)."""
        source = np.random.default_rng(seed)
        centre = prepared.matrix @ _robust(prepared, values, method, quantile)[0]
        rest = values - centre
        found = []
        for _ in range(min(count, REFITS)):
            again = centre + source.choice(rest, len(rest))
            found.append(_robust(prepared, again, method, quantile)[0][: prepared.terms])
        return np.array(found)

    return draw


def _power_of_mean(found: Fit) -> tuple[float | None, float]:
    """By which power of the mean the spread grows, and the chance of as much where it does not.

    Half the slope of the logarithm of the squared residuals over that of the fitted mean (Harvey 1976). None where the mean is
    not positive everywhere, or hardly varies.
    """
    # A residual of the size of a rounding error is none, and has no logarithm worth taking.
    rounding = 1e-14 * float(np.max(np.abs(found.data.values)))
    usable = (found.leverage < 0.99) & (np.abs(found.residuals) > rounding)
    if found.prepared.residual_df < 4 or np.min(found.fitted) <= 0 or np.count_nonzero(usable) < 8:
        return None, 1.0
    across = np.log(found.fitted[usable])
    squares = np.log(found.residuals[usable] ** 2 / (1 - found.leverage[usable]))
    deviation = across - across.mean()
    power = float(deviation @ deviation)
    if power < 1e-6 * len(across):
        return None, 1.0
    slope = float(deviation @ (squares - squares.mean())) / power
    statistic = slope / math.sqrt(_HARVEY_VARIANCE / power)
    # Only a spread that grows with the mean has a reason (queueing); one that shrinks is for HC3.
    return min(max(slope / 2, 0.0), _POWER_MOST), chance.norm.sf(statistic)


def _weights(fitted: Vector, power: float) -> Vector:
    least = 0.05 * float(np.median(np.abs(fitted)))
    found: Vector = np.maximum(fitted, least) ** (-2 * power)
    return found / float(found.mean())


def _uneven_points(found: Fit) -> float:
    """The chance of as uneven a spread where it is even: the lesser of two tests, times two.

    Between points, by distances from their medians (Brown and Forsythe 1974); along the fitted mean, by squared residuals
    (Koenker 1981), which sees with two replicates what the first does not.
    """
    return min(1.0, 2 * min(_uneven_groups(found), _uneven_along(found)))


def _uneven_groups(found: Fit) -> float:
    cells = np.array(found.data.cells)
    groups = [found.residuals[cells == cell] for cell, count in found.data.replicates.items() if count >= 3]
    if len(groups) < 2:
        return 1.0
    distances = [np.abs(group - np.median(group)) for group in groups]
    if sum(float(np.ptp(one)) for one in distances) == 0:
        return 1.0
    return chance.means_differ([list(each) for each in distances])


def _uneven_along(found: Fit) -> float:
    usable = found.leverage < 0.99
    count = int(np.count_nonzero(usable))
    if found.prepared.residual_df < 4 or count < 8:
        return 1.0
    squares = found.residuals[usable] ** 2 / (1 - found.leverage[usable])
    along = found.fitted[usable] - found.fitted[usable].mean()
    squares = squares - squares.mean()
    power = float(along @ along) * float(squares @ squares)
    if power <= 0:
        return 1.0
    return chance.chi2.sf(count * float(along @ squares) ** 2 / power, 1)


def _matrix(data: CostData, formula: Formula) -> Matrix:
    coded = {
        name: data.coded(name, {level: coding.code(level) for level in coding.factor.levels})
        for name, coding in formula.codings.items()
    }
    return model_matrix(formula, coded, len(data.values))


def _block_columns(data: CostData) -> Matrix:
    """Blocks by effect coding: a column for each but the first, which is -1 in all."""
    names = list(dict.fromkeys(data.blocks))
    if len(names) < 2:
        return np.zeros((len(data.values), 0))
    found = np.zeros((len(data.values), len(names) - 1))
    for row, block in enumerate(data.blocks):
        place = names.index(block)
        if place == 0:
            found[row, :] = -1.0
        else:
            found[row, place - 1] = 1.0
    return found


def _one_each(data: CostData) -> bool:
    return max(data.replicates.values()) == 1


def _singular(data: CostData, formula: Formula, aliased: Sequence[Aliased]) -> ExperimentError:
    """Names the terms, and the combinations of words that were not measured, where these are the reason."""
    missing = [text for one in aliased if (text := _missing_cells(data, one.term))]
    what = "the trials cannot tell these terms apart: " + "; ".join(one.text for one in aliased)
    if missing:
        what += f" (not measured: {'; '.join(dict.fromkeys(missing))})"
    names = " + ".join(name_of(term) for term in without(formula, [one.term for one in aliased]).terms)
    return ExperimentError(what, where=_where(data), advice=f"a formula without them: {names}")


def _missing_cells(data: CostData, term: Term) -> str:
    names = [name for name, _ in term]
    if len(names) < 2:
        return ""
    seen = {tuple(row[name] for name in names) for row in data.rows}
    factors = [factor for name in names if (factor := data.factor(name))]
    absent = [cell for cell in product(*(factor.levels for factor in factors)) if cell not in seen]
    shown = [
        ", ".join(f"{factor.name}={factor.show(level)}" for factor, level in zip(factors, cell, strict=True))
        for cell in absent[:3]
    ]
    return " | ".join(shown) + (f" and {len(absent) - 3} more" if len(absent) > 3 else "")


def _where(data: CostData) -> str:
    return f"{data.source}: {data.outcome}" if data.source else data.outcome
