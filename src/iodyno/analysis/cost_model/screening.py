"""Results of the trials of a stage of an exploration: effects as ratios, noise, curvature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from iodyno.analysis.cost_model.checks import MISSES_AT, checks_of
from iodyno.analysis.cost_model.coding import FactorScale, Natural
from iodyno.analysis.cost_model.data import CostData
from iodyno.analysis.cost_model.fit import Fit, fit
from iodyno.analysis.cost_model.terms import Term, columns_of
from iodyno.analysis.cost_model.variation import variation_of
from iodyno.core.errors import ExperimentError
from iodyno.designs.adaptive import Effect, Judged

_LARGEST = 700.0
"""Logarithm of a ratio that still is a number."""


def judged(data: CostData, *, squares: Sequence[str] = ()) -> Judged:
    """Main effects and two-factor interactions of the trials, with what they cannot be told from; beside the `squares` of these
    factors. Raises ExperimentError.

    On a logarithmic scale, where an effect is a ratio of the outcome at both ends; of an outcome that may be 0 or less, there is
    none, and effects are shares of the mean.
    """
    logs = bool(np.all(data.values > 0))
    mean = 1.0 if logs else float(np.mean(data.values))
    if mean == 0:
        raise ExperimentError(
            f"{data.outcome} is 0 on average: no effect can be told as a share of it",
            where=data.source,
            advice="name another outcome: --outcome",
        )
    if logs and float(np.ptp(data.values)) > 0:
        data = replace(data, values=np.log(data.values))
    found = fit(data, with_squares(data, squares) if squares else None)
    curved = () if squares else _curved(found)
    if curved:
        # What is bent is no noise. Trials in the middle alone tell one square, and not whose it is.
        found = fit(data, with_squares(data, curved[:1]))
    model = found.model
    columns = columns_of(found.prepared.formula)
    rows = np.eye(len(columns))
    aliases: dict[Term, list[tuple[str, ...]]] = {}
    for one in found.prepared.aliased:
        for term in one.others:
            aliases.setdefault(term, []).append(_factors(one.term))
    effects = []
    for place, column in enumerate(columns):
        if not column.term or any(power > 1 for _, power in column.term):
            continue
        slope = model.linear(rows[place], model.unit)
        assert slope.estimate is not None
        # Coded levels go from -1 to 1: from end to end is twice the coefficient.
        estimate, low, high = (
            None if end is None else math.expm1(min(2 * end, _LARGEST)) if logs else 2 * end / mean
            for end in (slope.estimate, slope.low, slope.high)
        )
        assert estimate is not None
        if low is not None and high is not None and low > high:
            low, high = high, low
        effects.append(
            Effect(
                _factors(column.term),
                estimate,
                low,
                high,
                tuple(aliases.get(column.term, ())),
            )
        )
    noise = None if model.residual_sd is None else abs(model.residual_sd / mean)
    return Judged(tuple(effects), noise, " or ".join(curved) or None, logs)


def with_squares(data: CostData, squares: Sequence[str]) -> str:
    """The formula of all main effects, two-factor interactions and these squares."""
    names = " + ".join(scale.name for scale in data.varying)
    bent = "".join(f" + I({name}**2)" for name in squares)
    return f"{data.outcome.rpartition('.')[2]} ~ ({names})**2{bent}"


def inner(data: CostData) -> tuple[str, ...]:
    """The factors that have a level inside their range."""
    return tuple(scale.name for scale in data.varying if scale.numeric and len(scale.levels) > 2)


def together(parts: Sequence[CostData]) -> CostData:
    """The trials of several stages as one set: each stage has blocks of its own. All have the same factors."""
    first = parts[0]
    rows = tuple(row for part in parts for row in part.rows)
    scales = tuple(
        FactorScale(
            scale.name,
            scale.kind,
            _levels(scale, {row[scale.name] for row in rows}),
            scale.unit,
        )
        for scale in first.factors
    )
    return replace(
        first,
        factors=scales,
        rows=rows,
        values=np.concatenate([part.values for part in parts]),
        blocks=tuple(f"{stage}.{block}" for stage, part in enumerate(parts) for block in part.blocks),
        order=tuple(range(len(rows))),
        left_out=sum(part.left_out for part in parts),
    )


def _levels(scale: FactorScale, seen: set[Natural]) -> tuple[Natural, ...]:
    if scale.numeric:
        return tuple(sorted(float(level) for level in seen))
    return tuple(level for level in scale.levels if level in seen)


def _factors(term: Term) -> tuple[str, ...]:
    return tuple(name for name, _ in term)


def _curved(found: Fit) -> tuple[str, ...]:
    """The factor that is most curved, where that may forbid the equation; those that it cannot be told from, too."""
    for check in checks_of(found, variation_of(found)):
        if check.name == "curvature" and check.p is not None and check.p < MISSES_AT:
            return check.factors
    return ()
