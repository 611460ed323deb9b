"""Variation that a model's terms explain: analysis of variance, allocation of variation, and the effects that stand out without
any replicate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from iodyno.analysis import chance
from iodyno.analysis.cost_model.coding import NumericCoding
from iodyno.analysis.cost_model.fit import Fit, solve
from iodyno.analysis.cost_model.model import CostModel
from iodyno.analysis.cost_model.terms import Vector, columns_of, name_of

BLOCKS = "blocks"
RESIDUAL = "error"
LACK_OF_FIT = "lack of fit"
PURE_ERROR = "pure error"
TOTAL = "total"


@dataclass(frozen=True)
class Source:
    """A line of the analysis of variance. `share` is that of the total sum of squares, None where terms share variation."""

    name: str
    df: int
    sum_of_squares: float
    share: float | None
    f: float | None = None
    p: float | None = None


@dataclass(frozen=True)
class Variation:
    """Sources in order: terms, blocks, error, total. `orthogonal`: whether the shares of the terms add up. F and p are of the
    terms. `within_blocks`: what they explain of the variation that blocks leave; None without blocks. `about`: from where
    variation counts.
    """

    sources: tuple[Source, ...]
    r_squared: float
    r_squared_adjusted: float | None
    f: float | None
    p: float | None
    orthogonal: bool
    about: Literal["mean", "zero"]
    within_blocks: float | None = None
    lack_of_fit: tuple[Source, Source] | None = None


def variation_of(fit: Fit) -> Variation:
    """Sums of squares of each term given all others (type III; Jain 1991, sections 17.5 and 18.4, of an orthogonal design).

    Shares are of the variation about the mean, or about zero where the model has no intercept: a line through the origin is no
    change of a mean (Kvalseth 1985, Cautionary note about R2). They add up to 100 % in an orthogonal design only, and where they
    do not `orthogonal` is False. Sums and shares are of the trials as they are, also of a weighted or robust fit; F and p are
    those of the fit.
    The lack of fit is tested where points are replicated.
    """
    prepared = fit.prepared
    plain = fit if fit.power is None and fit.squares else solve(prepared, fit.data.values, "ols", "classical")
    values = fit.data.values
    first = 1 if prepared.formula.intercept else 0
    total = float(np.sum((values - values.mean() * first) ** 2))
    total_df = len(values) - first
    rest = float(plain.residuals @ plain.residuals)
    df = prepared.residual_df
    columns = columns_of(prepared.formula)
    groups: list[tuple[str, list[int]]] = [
        (name_of(term), [place for place, column in enumerate(columns) if column.term == term])
        for term in prepared.formula.terms
    ]
    if prepared.blocks:
        groups.append((BLOCKS, list(range(prepared.terms, prepared.matrix.shape[1]))))
    inverse = np.linalg.inv(prepared.matrix.T @ prepared.matrix)
    sources = []
    explained = 0.0
    for name, places in groups:
        part = plain.coefficients[places]
        squares = float(part @ np.linalg.solve(inverse[np.ix_(places, places)], part))
        explained += squares
        sources.append(Source(name, len(places), squares, squares / total, *_wald(fit, places)))
    sources.append(Source(RESIDUAL, df, rest, rest / total))
    sources.append(Source(TOTAL, total_df, total, 1.0))
    # What blocks take out is explained by the time, and by none of the factors.
    f, p = _wald(fit, list(range(first, prepared.terms)))
    of_blocks = next((one.sum_of_squares for one in sources if one.name == BLOCKS), 0.0)
    within = total - of_blocks
    return Variation(
        tuple(sources),
        1 - rest / total,
        1 - (rest / df) / (total / total_df) if df > 0 else None,
        f,
        p,
        math.isclose(explained + rest, total, rel_tol=1e-6),
        "mean" if prepared.formula.intercept else "zero",
        within_blocks=max(0.0, 1 - rest / within) if prepared.blocks and within > 0 else None,
        lack_of_fit=_lack_of_fit(fit, float(fit.weights @ fit.residuals**2)) if fit.squares else None,
    )


def _wald(fit: Fit, places: list[int]) -> tuple[float | None, float | None]:
    """F and p that these coefficients are all 0; of least squares with classical errors the usual F test."""
    still = fit.model.still
    between = bool(still) and any(place >= len(still) or still[place] for place in places)
    df = fit.model.plot_df if between else fit.model.residual_df if still else fit.prepared.residual_df
    if fit.covariance is None or df < 1:
        return None, None
    own = fit.covariance[np.ix_(places, places)]
    part = fit.coefficients[places]
    try:
        f = float(part @ np.linalg.solve(own, part)) / len(places)
    except np.linalg.LinAlgError:
        return None, None
    return f, float(chance.f.sf(f, len(places), df))


def _f_test(
    squares: float, df: int, noise: float | None, residual_df: int
) -> tuple[float | None, float | None]:
    if not noise or df < 1:
        return None, None
    f = squares / df / noise
    return f, float(chance.f.sf(f, df, residual_df))


def _lack_of_fit(fit: Fit, rest: float) -> tuple[Source, Source] | None:
    """Split the residuals into lack of fit and pure error, the spread of replicates (Draper and Smith 1998, section 2.1).

    Block effects stay those of the model: replicates of a point in two blocks are set against each other less these. None
    without replicates, or where the model has a term for every point.
    """
    cells = np.array(fit.data.cells)
    points = len(fit.data.replicates)
    replicated = len(cells) - points
    lack_df = points - fit.prepared.terms
    pure_df = replicated - fit.prepared.blocks
    if lack_df < 1 or pure_df < 1:
        return None
    pure = 0.0
    if fit.prepared.blocks:
        # Points and blocks together, nothing else: what that leaves is neither the model's nor the blocks' fault.
        indicators = (cells[:, None] == np.arange(points)[None, :]).astype(float)
        full = np.column_stack([indicators, fit.prepared.matrix[:, fit.prepared.terms :]])
        root = np.sqrt(fit.weights)
        weighted, *_ = np.linalg.lstsq(full * root[:, None], fit.data.values * root, rcond=None)
        left = (fit.data.values - full @ weighted) * root
        pure = float(left @ left)
        rank = int(np.linalg.matrix_rank(full))
        pure_df = len(cells) - rank
        lack_df = fit.prepared.residual_df - pure_df
        if lack_df < 1 or pure_df < 1:
            return None
    else:
        for cell in range(points):
            own = cells == cell
            weights = fit.weights[own]
            mean = float(weights @ fit.data.values[own] / weights.sum())
            pure += float(weights @ (fit.data.values[own] - mean) ** 2)
    lack = max(rest - pure, 0.0)
    f, p = _f_test(lack, lack_df, pure / pure_df if pure > 0 else None, pure_df)
    weighted = "" if fit.power is None else ", weighted"
    return (
        Source(LACK_OF_FIT + weighted, lack_df, lack, None, f, p),
        Source(PURE_ERROR + weighted, pure_df, pure, None),
    )


def allocation_of_published(model: CostModel, runs: int) -> dict[str, float]:
    """Allocation of variation of an orthogonal two-level design from its coefficients and spread alone (Jain 1991, section
    18.4).

    Shares of the total by term, and `error`. Raises ValueError where the spread is not known.
    """
    if model.covariance is None:
        raise ValueError("the spread is not known")
    sd = math.sqrt(float(model.covariance[0, 0]) * runs)
    squares = {
        column.name if not column.term else name_of(column.term): runs * float(value) ** 2
        for column, value in zip(model.columns, model.coefficients, strict=True)
        if column.term
    }
    squares[RESIDUAL] = sd**2 * model.residual_df
    total = sum(squares.values())
    return {name: one / total for name, one in squares.items()}


@dataclass(frozen=True)
class Effect:
    """An effect of the half-normal plot: twice the coefficient of a coded column, with the half-normal quantile of its rank."""

    name: str
    effect: float
    quantile: float
    stands_out: bool


@dataclass(frozen=True)
class HalfNormal:
    """Effects by size with Lenth's limits: pseudo standard error, margin of error, simultaneous margin of error.

    An effect beyond the SME stands out; one between ME and SME may be chance, as there are many.
    """

    effects: tuple[Effect, ...]
    pse: float
    me: float
    sme: float


def half_normal(fit: Fit) -> HalfNormal | None:
    """Lenth (1989), Quick and easy analysis of unreplicated factorials, Technometrics 31. None below 5 effects.

    The effects must have one standard error: those of an orthogonal design at two levels, from the trials as they are. There they
    have it also where the spread is uneven, as each is a difference of all points; so a weighted fit is not asked.
    """
    plain = fit.power is None and fit.squares
    model = fit.model if plain else solve(fit.prepared, fit.data.values, "ols", "classical").model
    found = [
        (column.name, 2 * float(value))
        for column, value in zip(model.columns, model.coefficients, strict=True)
        if column.term
    ]
    if len(found) < 5:
        return None
    sizes = np.abs([effect for _, effect in found])
    pse = lenth_pse(sizes)
    df = len(found) / 3
    me = pse * float(chance.t.ppf(0.975, df))
    each = (1 + 0.95 ** (1 / len(found))) / 2
    sme = pse * float(chance.t.ppf(each, df))
    order = sorted(found, key=lambda pair: abs(pair[1]))
    # Plotting positions (i - 1/2) / m of a half-normal law (Daniel 1959).
    effects = tuple(
        Effect(name, effect, float(chance.halfnorm.ppf((rank + 0.5) / len(order))), abs(effect) > sme)
        for rank, (name, effect) in enumerate(order)
    )
    return HalfNormal(effects, pse, me, sme)


def lenth_pse(sizes: Vector) -> float:
    """1.5 times the median of the sizes of effects, those left out that exceed 2.5 times such a first guess."""
    first = 1.5 * float(np.median(sizes))
    kept = sizes[sizes < 2.5 * first]
    return 1.5 * float(np.median(kept)) if len(kept) else first


def two_level(model: CostModel) -> bool:
    """Tell whether every factor is at two levels and linear, so that effects are differences of two means."""
    return all(
        len(coding.factor.levels) == 2 and (not isinstance(coding, NumericCoding) or coding.half_range > 0)
        for coding in model.formula.codings.values()
    )


@dataclass(frozen=True)
class EffectLine:
    """The model along one factor, the others at the middle or at a level of a second one: values with t intervals.

    `numbers`: the levels where they are numbers on a scale; empty for names. `log`: that scale is a logarithm's.
    """

    factor: str
    labels: tuple[str, ...]
    numbers: tuple[float, ...]
    log: bool
    at: str
    values: tuple[tuple[float, float | None, float | None], ...]


def main_effects(model: CostModel) -> tuple[EffectLine, ...]:
    """The predicted mean at every measured level of each factor, the others at the middle (or an even mix)."""
    return tuple(_line(model, name, {}) for name in model.formula.codings)


def interactions(model: CostModel) -> tuple[tuple[str, tuple[EffectLine, ...]], ...]:
    """For each two-factor interaction: lines along the first factor, one for each level of the second."""
    found = []
    for term in model.formula.terms:
        if len(term) == 2 and all(power == 1 for _, power in term):
            (first, _), (second, _) = term
            levels = model.coding(second).factor
            lines = tuple(_line(model, first, {second: levels.show(level)}) for level in levels.levels)
            found.append((name_of(term), lines))
    return tuple(found)


def _line(model: CostModel, name: str, at: dict[str, str]) -> EffectLine:
    coding = model.coding(name)
    factor = coding.factor
    labels = tuple(factor.show(level) for level in factor.levels)
    values = []
    for label in labels:
        one = model.predict({**at, name: label})
        assert one.estimate is not None
        values.append((one.estimate, one.low, one.high))
    text = ", ".join(f"{other}={level}" for other, level in at.items())
    numbers = factor.numbers if isinstance(coding, NumericCoding) else ()
    return EffectLine(
        name,
        labels,
        numbers,
        isinstance(coding, NumericCoding) and coding.scale == "log2",
        text,
        tuple(values),
    )
