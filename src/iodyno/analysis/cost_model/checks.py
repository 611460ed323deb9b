"""Checks of a fitted model: does it fit the points, are its residuals as assumed, does it pass through the origin?

Each gives a line of what was tested with its number, and a warning where the test speaks against the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from iodyno.analysis import chance
from iodyno.analysis.chance import ranks_of
from iodyno.analysis.cost_model.coding import NumericCoding, Setting
from iodyno.analysis.cost_model.fit import UNEVEN_AT, Fit
from iodyno.analysis.cost_model.model import CostModel
from iodyno.analysis.cost_model.terms import Vector
from iodyno.analysis.cost_model.variation import Variation
from iodyno.analysis.cost_model.whole_plots import still_columns
from iodyno.core.errors import ExperimentError
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import Warning, WarningCode

WARNING_AT = 0.01
"""Chance below which a test of an assumption becomes a warning (chosen: some six tests are made of every model; at 5 % each, one
campaign in four would be warned of for nothing)."""
LACK_OF_FIT = "lack of fit"
MISSES_AT = 0.05
"""Chance of such a lack of fit below which an equation is not to be used (the usual one: what is wrong here is the answer, not an
assumption about its interval)."""
LEVERAGE_AT = 3.0
"""Times the mean leverage from which on a trial stands apart (Hoaglin and Welsch 1978 have 2, which every small design
exceeds).
"""
ORIGIN_AT = 0.05
"""Chance of an effect at zero load where there is none, below which the origin is rejected (the usual one, for all effects)."""
KEPT_AT = 0.95
"""Share of its rate that a trial must have carried (chosen: random arrivals of a short window differ by less)."""
OUTLIER_AT = 4.0
"""Standard deviations of a residual that stands apart (chosen: one in 16 000 normal ones)."""


@dataclass(frozen=True)
class Check:
    """One test: what was asked, what came out, its chance under the assumption (None: not tested, and why), the warning if
    any. `factors`: those that it is about, where it is not about all; several cannot be told apart.
    """

    name: str
    found: str
    p: float | None = None
    warning: Warning | None = None
    factors: tuple[str, ...] = ()


def checks_of(fit: Fit, variation: Variation) -> tuple[Check, ...]:
    """Every check in a fixed order; one that cannot be made says why."""
    return (
        *_rates(fit),
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


def _rates(fit: Fit) -> tuple[Check, ...]:
    """Check that every trial of an open loop carried the rate that it stands for."""
    rates = fit.data.rates
    if not rates:
        return ()
    name = "rates"
    missed = [one for one in rates if one.carried_per_s < KEPT_AT * one.asked_per_s]
    if not missed:
        return (Check(name, f"all {len(rates)} trials carried the rate that was asked for"),)
    worst = min(missed, key=lambda one: one.carried_per_s / one.asked_per_s)
    text = (
        f"{len(missed)} of {len(rates)} trials carried less than the rate that they stand for"
        f" ({worst.carried_per_s:.4g} of {worst.asked_per_s:.4g}/s): their cost is that of another load"
    )
    return (Check(name, text, warning=_warning(fit, WarningCode.MODEL_RANGE, text)),)


def _aliased(fit: Fit) -> Check:
    aliased = fit.prepared.aliased
    if not aliased:
        return Check("aliases", "every term of the model can be told from the others")
    text = "; ".join(one.text for one in aliased)
    found = f"effects that cannot be told apart: {text}. What stands first holds the sum of both."
    return Check("aliases", found, warning=_warning(fit, WarningCode.MODEL_ALIASED, found))


def _fits_the_points(fit: Fit, variation: Variation) -> Check:
    name = LACK_OF_FIT
    if not fit.squares:
        return Check(name, "not tested: that is a test of least squares (--method auto)")
    if variation.lack_of_fit is None:
        if max(fit.data.replicates.values()) == 1:
            text = "one replicate: what the model leaves out cannot be told from the spread"
            warning = _warning(fit, WarningCode.FEW_REPLICATES, text)
            return Check(name, "not tested: no point is replicated", warning=warning)
        if len(fit.data.replicates) <= fit.prepared.terms:
            return Check(name, "not tested: the model has a term for every point")
        return Check(name, "not tested: what the replicates tell is taken by the blocks")
    lack, pure = variation.lack_of_fit
    if lack.f is None or lack.p is None:
        return Check(name, "not tested: replicates are equal")
    found = f"F({lack.df}, {pure.df}) = {lack.f:.2f}, p = {lack.p:.2g}"
    if lack.p >= MISSES_AT:
        return Check(name, found, lack.p)
    text = f"the model misses the means of the points by more than their replicates vary ({found}): a term is missing"
    return Check(name, found, lack.p, _warning(fit, WarningCode.MODEL_LACKS_FIT, text))


def _curvature(fit: Fit) -> Check:
    """The square of each numeric factor with a level inside its range, as one more column (Box, Hunter, Hunter 2005, 11.4).

    Where only the middles of all ranges lie inside (centre points), the squares of several factors are one column: which of
    them is curved cannot be told then (the same book, 11.4), and is not said.
    """
    name = "curvature"
    if not fit.squares:
        return Check(name, "not tested: that is a test of least squares (--method auto)")
    codings = [one for one in fit.prepared.formula.codings.values() if one.factor.numeric]
    inner = [one for one in codings if len(one.factor.levels) > 2]
    if not inner:
        return Check(name, "not tested: no numeric factor has a level inside its range (add centre points)")
    squared = {one for term in fit.prepared.formula.terms for one, power in term if power > 1}
    straight = [one for one in inner if isinstance(one, NumericCoding) and one.name not in squared]
    if not straight:
        listed = ", ".join(one.name for one in inner)
        return Check(name, f"not tested: the model has a curve of {listed} already")
    if fit.prepared.residual_df < 2:
        return Check(name, "not tested: less than 2 degrees of freedom are left")
    if not _left_over(fit):
        return Check(name, "not tested: the model gives every trial to the last digit")
    tested: list[tuple[list[NumericCoding], _More]] = []
    between = []
    for coding in straight:
        codes = {level: coding.code(level) for level in coding.factor.levels}
        square: Vector = fit.data.coded(coding.name, codes)[:, 0] ** 2
        if fit.model.still and still_columns(square[:, None], fit.data.plots)[0]:
            between.append(coding.name)
            continue
        more = _one_more(fit, square)
        if more is None:
            continue
        same = next((group for group, other in tested if abs(float(other.own @ more.own)) > 1 - 1e-9), None)
        if same is None:
            tested.append(([coding], more))
        else:
            same.append(coding)
    if not tested:
        why = (
            f"{', '.join(between)}: only between whole plots"
            if between
            else "the squares cannot be told from the terms of the model"
        )
        return Check(name, f"not tested: {why}")
    group, most = min(tested, key=lambda one: one[1].p)
    p = min(1.0, most.p * len(tested))  # Bonferroni
    which = " or ".join(one.symbol for one in group)
    alike = " (which of them cannot be told)" if len(group) > 1 else ""
    found = f"{which} is most curved{alike}: t = {most.t:.2f}, p = {p:.2g}"
    if p >= WARNING_AT:
        return Check(name, found, p)
    text = f"{fit.data.outcome} is no straight line in {which}{alike} ({found.rpartition(': ')[2]}): "
    text += "measure between the levels of each" if alike else f"try {_curves(group[0])}"
    factors = tuple(one.name for one in group)
    return Check(name, found, p, _warning(fit, WarningCode.MODEL_LACKS_FIT, text), factors)


def _curves(coding: NumericCoding) -> str:
    """Forms of a factor that a formula may have instead of a straight line."""
    factor = coding.name
    logarithm = [f"log({factor})"] if coding.scale == "linear" and coding.low > 0 else []
    return f"{', '.join([*logarithm, f'{factor} + I({factor}**2)'])} or C({factor})"


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
        return Check(name, found, UNEVEN_AT, _warning(fit, WarningCode.MODEL_RESIDUALS, text))
    return Check(name, "nothing speaks against an even one")


def _normal(fit: Fit) -> Check:
    name = "normal residuals"
    if not fit.squares:
        return Check(name, "not tested: this fit does not assume it")
    residuals = fit.standardised
    if fit.prepared.residual_df < 5:
        return Check(name, "not tested: less than 5 degrees of freedom are left")
    if len(residuals) <= 5000:
        p = chance.shapiro(list(residuals))
        found = f"Shapiro and Wilk: p = {p:.2g}"
    else:
        centred = residuals - residuals.mean()
        skew, tails = (
            float(np.mean(centred**power) / np.mean(centred**2) ** (power / 2)) for power in (3, 4)
        )
        p = chance.chi2.sf(len(residuals) / 6 * (skew**2 + (tails - 3) ** 2 / 4), 2)
        found = f"Jarque and Bera: p = {p:.2g}"
    if p >= WARNING_AT:
        return Check(name, found, p)
    text = f"the residuals are not normal ({found}): with few trials trust the bootstrap, or --method huber"
    return Check(name, found, p, _warning(fit, WarningCode.MODEL_RESIDUALS, text))


def _drift(fit: Fit) -> Check:
    """Rank correlation of the residuals with their order in time, and of neighbours."""
    name = "drift"
    count = len(fit.residuals)
    if fit.prepared.residual_df < 5 or len(fit.data.order) != count:
        return Check(
            name, "not tested: less than 5 degrees of freedom are left, or the order in time is not known"
        )
    residuals = fit.standardised[np.argsort(np.array(fit.data.order), kind="stable")]
    ranks = ranks_of(list(residuals))
    slope, p_slope = chance.trend(ranks)
    spread = float(np.std(ranks))
    r = slope * float(np.std(np.arange(count))) / spread if spread else 0.0
    neighbour, p_neighbour = _neighbours(fit, residuals)
    p = min(1.0, 2 * min(p_slope, p_neighbour))
    found = f"rank correlation with time {r:+.2f}, of neighbours {neighbour:+.2f}, p = {p:.2g}"
    if p >= WARNING_AT:
        return Check(name, found, p)
    text = f"residuals follow the order in time ({found}): the machine drifted; run in blocks, which the model then takes out"
    return Check(name, found, p, _warning(fit, WarningCode.MODEL_RESIDUALS, text))


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
    """Check that the errors of slow factors are those of whole plots; nothing where there are none."""
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
    return (Check(name, text, warning=_warning(fit, WarningCode.MODEL_RESIDUALS, text)),)


def _leverage(fit: Fit) -> Check:
    name = "leverage"
    mean = fit.prepared.matrix.shape[1] / len(fit.residuals)
    most = float(np.max(fit.leverage))
    found = f"greatest {most:.2f}, mean {mean:.2f}"
    if most <= LEVERAGE_AT * mean or most < 0.5:
        return Check(name, found)
    count = int(np.count_nonzero(fit.leverage > LEVERAGE_AT * mean))
    text = f"{count} trial{'s decide' if count > 1 else ' decides'} the model alone (leverage: {found})"
    return Check(name, found, None, _warning(fit, WarningCode.MODEL_RESIDUALS, text))


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
    return Check(name, found, None, _warning(fit, WarningCode.MODEL_RESIDUALS, text))


@dataclass(frozen=True)
class _More:
    """t and p of one more column in the model; `own`: what of it is in no other column, of length 1."""

    t: float
    p: float
    own: Vector


def _one_more(fit: Fit, column: Vector) -> _More | None:
    """One more column in the model; None where it lies in the model's columns already. Its error is HC3 where the model's are."""
    root = np.sqrt(fit.weights)
    q, _ = np.linalg.qr(fit.prepared.matrix * root[:, None])
    one = column * root
    left = one - q @ (q.T @ one)
    length = math.sqrt(float(left @ left))
    if length**2 <= 1e-9 * float(one @ one):
        return None
    own = left / length
    df = fit.prepared.residual_df - 1
    rest = fit.residuals * root
    rest = rest - q @ (q.T @ rest)
    value = float(own @ rest)
    after = rest - value * own
    if "HC3" in fit.model.method:
        leverage = np.einsum("ij,ij->i", q, q) + own**2
        error = math.sqrt(float(np.sum((own * after / np.maximum(1 - leverage, 1e-9)) ** 2)))
    else:
        error = math.sqrt(float(after @ after) / df)
    t = value / error if error else math.copysign(math.inf, value)
    return _More(t, float(2 * chance.t.sf(abs(t), df)), own)


def _left_over(fit: Fit) -> bool:
    """Tell whether the residuals are more than rounding."""
    return float(np.max(np.abs(fit.residuals))) > 1e-12 * float(np.max(np.abs(fit.data.values)))


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
    def warning(self) -> Warning | None:
        """Warning where the origin is not on the line."""
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
        return Warning(WarningCode.MODEL_ORIGIN, text)


def at_no_load(model: CostModel, load: str) -> AtNoLoad:
    """Evaluate the model at zero load: only the background should be left (an operation that is not done costs nothing).

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


def _warning(fit: Fit, code: WarningCode, text: str) -> Warning:
    return Warning(code, text, fit.data.outcome)
