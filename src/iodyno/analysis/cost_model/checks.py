"""Checks of a fitted model: does it fit the points, are its residuals as assumed, does it pass through the origin?

Each gives a line of what was tested with its number, and a doubt where the test speaks against the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from iodyno.analysis import chance
from iodyno.analysis.cost_model.coding import NumericCoding, Setting
from iodyno.analysis.cost_model.fit import UNEVEN_AT, Fit
from iodyno.analysis.cost_model.model import CostModel
from iodyno.analysis.cost_model.terms import Vector
from iodyno.analysis.cost_model.variation import Variation
from iodyno.analysis.cost_model.whole_plots import still_columns
from iodyno.core.errors import ExperimentError
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import Doubt, WarningCode

DOUBT_AT = 0.01
"""Chance below which a test of an assumption becomes a doubt (chosen: some six tests are made of every model; at 5 % each, one
campaign in four would be doubted for nothing)."""
LEVERAGE_AT = 3.0
"""Times the mean leverage from which on a trial stands apart (Hoaglin and Welsch 1978 have 2, which every small design
exceeds).
"""
ORIGIN_AT = 0.05
"""Chance of an effect at zero load where there is none, below which the origin is rejected (the usual one, for all effects)."""
OUTLIER_AT = 4.0
"""Standard deviations of a residual that stands apart (chosen: one in 16 000 normal ones)."""


@dataclass(frozen=True)
class Check:
    """One test: what was asked, what came out, its chance under the assumption (None: not tested, and why), the doubt if
    any.
    """

    name: str
    found: str
    p: float | None = None
    doubt: Doubt | None = None


def checks_of(fit: Fit, variation: Variation) -> tuple[Check, ...]:
    """Every check in a fixed order; one that cannot be made says why."""
    return (
        _aliased(fit),
        _fits_the_points(fit, variation),
        _curvature(fit),
        _spread(fit),
        _normal(fit),
        _drift(fit),
        *_plots(fit),
        _leverage(fit),
        _outliers(fit),
    )


def _aliased(fit: Fit) -> Check:
    aliased = fit.prepared.aliased
    if not aliased:
        return Check("aliases", "every term of the model can be told from the others")
    text = "; ".join(one.text for one in aliased)
    found = f"effects that cannot be told apart: {text}. What stands first holds the sum of both."
    return Check("aliases", found, doubt=_doubt(fit, WarningCode.MODEL_ALIASED, found))


def _fits_the_points(fit: Fit, variation: Variation) -> Check:
    name = "lack of fit"
    if not fit.squares:
        return Check(name, "not tested: that is a test of least squares (--method auto)")
    if variation.lack_of_fit is None:
        reason = (
            "not tested: no point is replicated"
            if max(fit.data.replicates.values()) == 1
            else "not tested: the model has a term for every point"
        )
        few = max(fit.data.replicates.values()) == 1
        doubt = (
            _doubt(
                fit,
                WarningCode.FEW_REPLICATES,
                "one replicate: what the model leaves out cannot be told from the spread",
            )
            if few
            else None
        )
        return Check(name, reason, doubt=doubt)
    lack, pure = variation.lack_of_fit
    if lack.f is None or lack.p is None:
        return Check(name, "not tested: replicates are equal")
    found = f"F({lack.df}, {pure.df}) = {lack.f:.2f}, p = {lack.p:.2g}"
    if lack.p >= DOUBT_AT:
        return Check(name, found, lack.p)
    text = f"the model misses the means of the points by more than their replicates vary ({found}): a term is missing"
    return Check(name, found, lack.p, _doubt(fit, WarningCode.MODEL_LACKS_FIT, text))


def _curvature(fit: Fit) -> Check:
    """The square of each linear numeric factor with a level inside its range, as one more column (Box, Hunter, Hunter
    2005, 11.4).
    """
    name = "curvature"
    formula = fit.prepared.formula
    squared = {one for term in formula.terms for one, power in term if power > 1}
    inner = [
        coding
        for one, coding in formula.codings.items()
        if isinstance(coding, NumericCoding) and len(coding.factor.levels) > 2 and one not in squared
    ]
    if not inner:
        return Check(name, "not tested: no numeric factor has a level inside its range (add centre points)")
    least: tuple[float, str, float] | None = None
    for coding in inner:
        column = fit.data.coded(coding.name, {level: coding.code(level) for level in coding.factor.levels})[
            :, 0
        ]
        t, p = _one_more(fit, column**2)
        if t is not None and p is not None and (least is None or p < least[0]):
            least = (p, coding.name, t)
    if least is None:
        return Check(name, "not tested: the squares cannot be told from the terms of the model")
    p, factor, t = least
    p = min(1.0, p * len(inner))  # Bonferroni
    found = f"{factor} is most curved: t = {t:.2f}, p = {p:.2g}"
    if p >= DOUBT_AT:
        return Check(name, found, p)
    text = f"{fit.data.outcome} is no straight line in {factor} ({found}): try log({factor}), I({factor}**2) or C({factor})"
    return Check(name, found, p, _doubt(fit, WarningCode.MODEL_LACKS_FIT, text))


def _spread(fit: Fit) -> Check:
    name = "spread"
    if not fit.squares:
        return Check(name, "not tested: that is a test of least squares (--method auto)")
    if fit.power is not None:
        return Check(name, f"grows with the mean, as mean^{fit.power:.2g}: trials are weighted with that")
    if fit.prepared.residual_df < 1:
        return Check(name, "not tested: as many trials as terms")
    if fit.uneven:
        found = f"uneven between points (p < {UNEVEN_AT:g})"
        if "HC3" in fit.model.method:
            return Check(name, f"{found}: standard errors are HC3, which allow for it", UNEVEN_AT)
        text = f"the spread is {found}, and the standard errors take it as even"
        return Check(name, found, UNEVEN_AT, _doubt(fit, WarningCode.MODEL_RESIDUALS, text))
    return Check(name, "nothing speaks against an even one")


def _normal(fit: Fit) -> Check:
    name = "normal residuals"
    if not fit.squares:
        return Check(name, "not tested: this fit does not assume it")
    residuals = fit.standardised
    if fit.prepared.residual_df < 5:
        return Check(name, "not tested: less than 5 degrees of freedom are left")
    from scipy import stats  # slow to import

    if len(residuals) <= 5000:
        p = float(stats.shapiro(residuals).pvalue)
        found = f"Shapiro and Wilk: p = {p:.2g}"
    else:
        p = float(stats.jarque_bera(residuals).pvalue)
        found = f"Jarque and Bera: p = {p:.2g}"
    if p >= DOUBT_AT:
        return Check(name, found, p)
    text = f"the residuals are not normal ({found}): with few trials trust the bootstrap, or --method huber"
    return Check(name, found, p, _doubt(fit, WarningCode.MODEL_RESIDUALS, text))


def _drift(fit: Fit) -> Check:
    """Rank correlation of the residuals with their order in time, and of neighbours."""
    name = "drift"
    count = len(fit.residuals)
    if fit.prepared.residual_df < 5 or len(fit.data.order) != count:
        return Check(
            name, "not tested: less than 5 degrees of freedom are left, or the order in time is not known"
        )
    residuals = fit.standardised[np.argsort(np.array(fit.data.order), kind="stable")]
    from scipy import stats  # slow to import

    slope = stats.spearmanr(np.arange(count), residuals)
    r, p_slope = float(slope.statistic), float(slope.pvalue)
    neighbour, p_neighbour = _neighbours(fit, residuals)
    p = min(1.0, 2 * min(p_slope, p_neighbour))
    found = f"rank correlation with time {r:+.2f}, of neighbours {neighbour:+.2f}, p = {p:.2g}"
    if p >= DOUBT_AT:
        return Check(name, found, p)
    text = f"residuals follow the order in time ({found}): the machine drifted; run in blocks, which the model then takes out"
    return Check(name, found, p, _doubt(fit, WarningCode.MODEL_RESIDUALS, text))


def _neighbours(fit: Fit, residuals: Vector) -> tuple[float, float]:
    """The correlation of residuals with the next one in time, and the chance of one so far above what the fit itself makes of
    independent errors: in small blocks, whose means are taken out, neighbours lean away from each other.

    With M = I - QQ' and A, which joins neighbours, r = e'Ae / e'e has the mean tr(MA) / d and the variance
    2 (tr(MAMA) - tr(MA)^2 / d) / (d (d + 2)), d being the degrees of freedom (Durbin and Watson 1950; Henshaw 1966).
    """
    order = np.argsort(np.array(fit.data.order), kind="stable")
    q, _ = np.linalg.qr(fit.prepared.matrix[order])
    joined = np.zeros_like(q)
    joined[1:] += q[:-1] / 2
    joined[:-1] += q[1:] / 2
    inner = q.T @ joined
    count, d = len(residuals), fit.prepared.residual_df
    of_one = -float(np.trace(inner))
    of_two = (count - 1) / 2 - 2 * float(np.sum(joined**2)) + float(np.sum(inner * inner.T))
    mean, variance = of_one / d, 2 * (of_two - of_one**2 / d) / (d * (d + 2))
    power = float(residuals @ residuals)
    if not power or variance <= 0:
        return 0.0, 1.0
    found = float(residuals[1:] @ residuals[:-1]) / power
    return found, float(chance.norm.sf((found - mean) / math.sqrt(variance)))


def _plots(fit: Fit) -> tuple[Check, ...]:
    """Whether the errors of slow factors are those of whole plots; nothing where there are none."""
    plots = fit.data.plots
    if len(set(plots)) < 2 or len(set(plots)) == len(plots):
        return ()
    name = "whole plots"
    model = fit.model
    if model.still:
        text = f"{len(set(plots))} of them; what changes only between them has {model.plot_df} degrees of freedom"
        return (Check(name, text),)
    slow = [
        c.name
        for c, still in zip(model.columns, still_columns(fit.prepared.matrix, plots), strict=False)
        if still
    ]
    of = ", ".join(name for name in slow if name != "intercept") or "nothing"
    text = (
        f"the error of whole plots is not known ({len(set(plots))} plots, or a method that does not take it): intervals are of"
        f" single trials, too narrow for what changes only between plots ({of}); more replicates tell it"
    )
    return (Check(name, text, doubt=_doubt(fit, WarningCode.MODEL_RESIDUALS, text)),)


def _leverage(fit: Fit) -> Check:
    name = "leverage"
    mean = fit.prepared.matrix.shape[1] / len(fit.residuals)
    most = float(np.max(fit.leverage))
    found = f"greatest {most:.2f}, mean {mean:.2f}"
    if most <= LEVERAGE_AT * mean or most < 0.5:
        return Check(name, found)
    count = int(np.count_nonzero(fit.leverage > LEVERAGE_AT * mean))
    text = f"{count} trial{'s decide' if count > 1 else ' decides'} the model alone (leverage: {found})"
    return Check(name, found, None, _doubt(fit, WarningCode.MODEL_RESIDUALS, text))


def _outliers(fit: Fit) -> Check:
    name = "outliers"
    if fit.prepared.residual_df < 5:
        return Check(name, "not tested: less than 5 degrees of freedom are left")
    sizes = np.abs(fit.standardised)
    place = int(np.argmax(sizes))
    found = f"greatest residual {sizes[place]:.1f} standard deviations"
    if sizes[place] <= OUTLIER_AT:
        return Check(name, found)
    count = int(np.count_nonzero(sizes > OUTLIER_AT))
    text = f"{count} trial{'s lie' if count > 1 else ' lies'} far off the model ({found}): --method huber gives them less weight"
    return Check(name, found, None, _doubt(fit, WarningCode.MODEL_RESIDUALS, text))


def _one_more(fit: Fit, column: Vector) -> tuple[float | None, float | None]:
    """t and p of one more column in the model; None where it lies in the model's columns already."""
    root = np.sqrt(fit.weights)
    matrix = fit.prepared.matrix * root[:, None]
    one = column * root
    q, _ = np.linalg.qr(matrix)
    left = one - q @ (q.T @ one)
    df = fit.prepared.residual_df - 1
    size = float(left @ left)
    if size <= 1e-9 * float(one @ one) or df < 1:
        return None, None
    rest = fit.residuals * root
    rest = rest - q @ (q.T @ rest)
    value = float(left @ rest) / size
    after = rest - value * left
    noise = float(after @ after) / df
    if noise <= 0:
        return None, None
    t = value / math.sqrt(noise / size)
    return t, float(2 * chance.t.sf(abs(t), df))


@dataclass(frozen=True)
class AtNoLoad:
    """The model at zero load: the background, and what each factor seems to do there, though nothing is done.

    `rejected`: names of effects that are not 0 there, at 5 % for all of them together (Bonferroni): for these no line passes
    through the origin.
    """

    load: str
    background: Estimate
    effects: dict[str, Estimate]
    t: dict[str, float | None]
    rejected: tuple[str, ...]

    @property
    def doubt(self) -> Doubt | None:
        """Where the origin is not on the line."""
        if not self.rejected:
            return None
        parts = []
        for name in self.rejected:
            value, t = self.effects[name].estimate, self.t[name]
            parts.append(
                f"{name} {value:+.3g} {self.background.unit}" + (f" (t = {t:.1f})" if t is not None else "")
            )
        text = (
            f"effects at zero {self.load}: {', '.join(parts)}. The line does not pass through the origin: keep the main effects"
            f" beside those of {self.load}, or measure at lower loads"
        )
        return Doubt(WarningCode.MODEL_ORIGIN, text)


def at_no_load(model: CostModel, load: str) -> AtNoLoad:
    """What the model says where the load is zero: only the background should be left (an operation that is not done costs
    nothing).

    An extrapolation, made on purpose: it tests an assumption and predicts nothing. Half of the difference between the ends
    of each factor (the coefficient of its coded column at zero load). Raises ExperimentError where `load` is no number in
    the model.
    """
    coding = model.coding(load)
    if not isinstance(coding, NumericCoding) or coding.scale != "linear":
        raise ExperimentError(f"{load} is not a number on a linear scale in this model", where=load)
    zero = coding.code(0.0)
    middle = {
        name: Setting((0.0,) * len(one.columns), "", chosen=False)
        for name, one in model.formula.codings.items()
    }
    nothing = model.row({**middle, load: Setting(zero, f"{load}=0")})
    effects: dict[str, Estimate] = {}
    t: dict[str, float | None] = {}
    rows = _rows_at(model, load, zero)
    for name, row in rows.items():
        effects[name] = model.linear(row, model.unit)
        error = model.standard_error(row)
        t[name] = float(row @ model.coefficients) / error if error else None
    rejected = tuple(
        name
        for name, value in t.items()
        if value is not None and 2 * float(chance.t.sf(abs(value), model.residual_df)) * len(t) < ORIGIN_AT
    )
    return AtNoLoad(load, model.linear(nothing, model.unit), effects, t, rejected)


def _rows_at(model: CostModel, load: str, zero: tuple[float, ...]) -> dict[str, Vector]:
    """For each term without the load: its own coefficient plus those of its products with the load, at the coded load."""
    found: dict[str, Vector] = {}
    columns = model.columns
    for column in columns:
        if not column.term or any(name == load for name, _ in column.term):
            continue
        row = np.zeros(len(columns))
        for place, other in enumerate(columns):
            rest = tuple(part for part in other.term if part[0] != load)
            labels = [
                label
                for label, (name, _) in zip(other.name.split(":"), other.term, strict=False)
                if name != load
            ]
            if rest == column.term and ":".join(labels) == column.name:
                power = next((power for name, power in other.term if name == load), 0)
                row[place] = zero[0] ** power
        found[column.name] = row
    return found


def _doubt(fit: Fit, code: WarningCode, text: str) -> Doubt:
    return Doubt(code, text, fit.data.outcome)
