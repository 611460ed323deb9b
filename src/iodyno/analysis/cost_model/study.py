"""Study of the parts of an outcome of a campaign: the data of a model from a campaign, and everything that is shown of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np

from iodyno.analysis.cost_model.checks import at_no_load, checks_of
from iodyno.analysis.cost_model.coding import FactorScale, Kind, Natural, Setting
from iodyno.analysis.cost_model.data import CostData, Rate
from iodyno.analysis.cost_model.fit import Fit, fit
from iodyno.analysis.cost_model.model import equation_of
from iodyno.analysis.cost_model.shown import Coefficient, CostStudy, PointFit
from iodyno.analysis.cost_model.terms import default_formula
from iodyno.analysis.cost_model.variation import (
    half_normal,
    interactions,
    main_effects,
    two_level,
    variation_of,
)
from iodyno.analysis.cost_model.written import written
from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.interval import t_interval
from iodyno.analysis.results import CampaignSummary
from iodyno.core.errors import ExperimentError, TrialError
from iodyno.core.factor import parameter_of
from iodyno.core.outcome import OUTCOMES
from iodyno.core.warnings import WarningCode
from iodyno.core.workload import Level
from iodyno.loads.base.workloads import workload_of_stored

LEFT_LEAST = 4
"""Degrees of freedom that a model in a report must leave (chosen: with less Student's t is over 2.8, and nothing is found)."""
PREFERRED = ("cpu_us_per_io", "cpu_ns_per_operation", "cpu_ns_per_kib", "cycles_per_kib")
PREFERRED_OF_LOAD = PREFERRED[:3]
"""Those that a load of so many a second can be reckoned with."""


def study(found: Fit, load: str | None = None) -> CostStudy:
    """Everything that is shown of a fit. `load`: the factor by which the outcome should pass through the origin."""
    model = found.model
    variation = variation_of(found)
    rows = np.eye(len(model.columns))
    coefficients = []
    for place, column in enumerate(model.columns):
        error = model.standard_error(rows[place])
        value = float(model.coefficients[place])
        coefficients.append(
            Coefficient(
                column.name, model.linear(rows[place], model.unit), error, value / error if error else None
            )
        )
    return CostStudy(
        outcome=model.outcome,
        unit=model.unit,
        model=model,
        coefficients=tuple(coefficients),
        equation=written(equation_of(model)),
        variation=variation,
        half_normal=half_normal(found)
        if two_level(model) and variation.orthogonal and variation.about == "mean"
        else None,
        checks=checks_of(found, variation),
        main_effects=main_effects(model),
        interactions=interactions(model),
        points=_points(found),
        trials=len(found.residuals),
        left_out=found.data.left_out,
        no_load=at_no_load(model, load) if load else None,
    )


def study_costs(summary: CampaignSummary) -> CostStudy | None:
    """The model of a cost, for a report: None where fewer than two factors vary, or the trials do not carry one.

    The first cost that the experiment asks for, else the sender's. Where no line fits, every level stands for itself.
    """
    varying = [factor for factor in summary.factors if factor.varies]
    if len(varying) < 2 or summary.search is not None or summary.scripts:
        return None
    for outcome in costs_of(summary):
        if sum(trial.outcomes.get(outcome) is not None for trial in summary.trials) < LEFT_LEAST + 3:
            continue
        try:
            made = usual_studies(campaign_data(summary, outcome))[0]
        except ExperimentError:
            return None
        return made if made.model.residual_df >= LEFT_LEAST else None
    return None


def usual_studies(data: CostData, **how: Any) -> tuple[CostStudy, ...]:
    """Return the models of a cost for which no formula is given, the better one first: lines, and where no line fits one in
    which every level stands for itself. `how`: as for `fit`. Raises ExperimentError.
    """
    lines = study(fit(data, **how))
    if not _misses(lines):
        return (lines,)
    levels = study(fit(data, default_formula(data.factors, names=True), **how))
    return (lines, levels) if levels.model.residual_df < LEFT_LEAST else (levels, lines)


def costs_of(summary: CampaignSummary, *, of_an_operation: bool = False) -> tuple[str, ...]:
    """The costs that a model may be of, the likeliest first: those that the experiment names, then the sender's.

    `of_an_operation`: those of an operation before all others, and CPU time alone.
    """
    asked = [name for name in summary.asked if name.rpartition(".")[2] in PREFERRED]
    sender = summary.host("send")
    found = dict.fromkeys([*asked, *(f"{sender.name}.{name}" for name in PREFERRED if sender)])
    if not of_an_operation:
        return tuple(found)
    return tuple(name for last in PREFERRED_OF_LOAD for name in found if name.rpartition(".")[2] == last)


def data_of(
    summary: CampaignSummary, outcome: str | None = None, *, of_an_operation: bool = False
) -> CostData:
    """Return the trials of a campaign as data of an outcome: that named, of the sender where it says no host, or a likely cost
    (see `costs_of`).

    Raises ExperimentError where no trial has it.
    """
    known = {name for trial in summary.trials for name, value in trial.outcomes.items() if value is not None}
    if outcome is None:
        costs = costs_of(summary, of_an_operation=of_an_operation)
        found = next((name for name in costs if name in known), costs[0] if costs else "cpu_ns_per_operation")
        return campaign_data(summary, found)
    sender = summary.host("send")
    if "." not in outcome and sender and not any(outcome in trial.outcomes for trial in summary.trials):
        outcome = f"{sender.name}.{outcome}"
    return campaign_data(summary, outcome)


def _misses(made: CostStudy) -> bool:
    return any(warning.code == WarningCode.MODEL_LACKS_FIT for warning in made.warnings)


def campaign_data(summary: CampaignSummary, outcome: str) -> CostData:
    """The trials of a campaign as the data of a model. Raises ExperimentError for an outcome that it does not have,
    and TrialError for one that none of its trials tells.
    """
    known = sorted(
        {name for trial in summary.trials for name, value in trial.outcomes.items() if value is not None}
    )
    if outcome not in known:
        found = [point.outcomes[outcome] for point in summary.points if outcome in point.outcomes]
        if why := next((each.missing for each in found if each.missing), None):
            raise TrialError(
                f"no trial tells {outcome}: {why}",
                where=summary.folder,
                advice="measure for longer, with more load, or on a machine with less beside",
            )
        ending = outcome.rpartition(".")[2]
        near = [name for name in known if name.endswith(ending)] or [
            name for name in known if any(part in name for part in ending.split("_") if len(part) > 2)
        ]
        raise ExperimentError(
            f"no trial has the outcome {outcome}",
            where=summary.folder,
            advice=f"one of {', '.join((near or known)[:8])}" if known else "a campaign with finished trials",
        )
    levels_of = {point.id: point.levels for point in summary.points}
    scales = tuple(_scale(summary, factor) for factor in summary.factors)
    rows, values, blocks, order, plots, left_out = [], [], [], [], [], 0
    rates: list[Rate] = []
    carried: list[float] = []
    for trial in summary.trials:
        value = trial.outcomes.get(outcome)
        levels = levels_of.get(trial.point, {})
        if trial.status != "finished" or value is None or any(scale.name not in levels for scale in scales):
            left_out += 1
            continue
        rows.append({scale.name: _natural(scale, levels[scale.name]) for scale in scales})
        values.append(value)
        # Pairs of machines differ by more than blocks in time.
        blocks.append(trial.pair or str(trial.block))
        order.append(trial.order)
        plots.append(f"{trial.block}/{summary.plots.get(trial.order, trial.order)}")
        offered, achieved = (
            trial.outcomes.get(f"{name}_operations_per_s") for name in ("offered", "achieved")
        )
        if offered and achieved is not None:
            rates.append(Rate(offered, achieved))
        carried += [
            rate for name in ("operations_per_s", "iops") if (rate := trial.outcomes.get(name)) is not None
        ]
    used = [
        FactorScale(
            scale.name,
            scale.kind,
            tuple(level for level in scale.levels if any(row[scale.name] == level for row in rows)),
            scale.unit,
        )
        for scale in scales
    ]
    kind = OUTCOMES.get(outcome.rpartition(".")[2])
    unit = kind.unit if kind else ""
    if outcome.endswith("cpu_busy_ratio"):
        host = next((host for host in summary.hosts if outcome.startswith(f"{host.name}.")), None)
        unit = f"share of {len(host.cpus)} cores" if host and host.cpus else unit
    return CostData(
        outcome,
        unit,
        tuple(used),
        tuple(rows),
        np.array(values),
        tuple(blocks),
        tuple(order),
        left_out,
        summary.folder,
        tuple(plots) if summary.plots else (),
        tuple(rates),
        max(carried, default=None),
    )


_PER_CENT = "%"
_PPM_PER_CENT = 10**4


def _scale(summary: CampaignSummary, factor: FactorLevels) -> FactorScale:
    parameter = parameter_of(workload_of_stored(summary.workload), factor.name)
    kind: Kind = "word"
    if factor.numeric:
        kinds: Mapping[str, Kind] = {
            "size": "size",
            "duration": "duration",
            "rate": "rate",
            "bit_rate": "bit_rate",
            "count": "count",
        }
        kind = kinds.get(parameter.kind, "number") if parameter else "number"
    if kind == "word":
        return FactorScale(factor.name, kind, summary.factor_labels[factor.name])
    if parameter is not None and parameter.kind == "share":
        levels = sorted(int(level) / _PPM_PER_CENT for level in factor.levels)
        return FactorScale(factor.name, kind, tuple(levels), _PER_CENT)
    return FactorScale(factor.name, kind, tuple(sorted(float(level) for level in factor.levels)))


def _natural(scale: FactorScale, level: Level) -> Natural:
    if scale.kind != "word":
        return float(level) / (_PPM_PER_CENT if scale.unit == _PER_CENT else 1)
    return ("on" if level else "off") if isinstance(level, bool) else str(level)


def _points(found: Fit) -> tuple[PointFit, ...]:
    """Measured means of the points beside the model. A point's own interval is of its trials alone, blocks included."""
    data, model = found.data, found.model
    by_cell: dict[int, list[int]] = {}
    for place, cell in enumerate(data.cells):
        by_cell.setdefault(cell, []).append(place)
    points = []
    for places in by_cell.values():
        row = data.rows[places[0]]
        values = [float(data.values[place]) for place in places]
        low, high = t_interval(values) if len(values) > 1 else (None, None)
        text = ", ".join(f"{factor.name} {factor.show(row[factor.name])}" for factor in data.varying)
        settings = {
            name: Setting(coding.code(row[name]), "") for name, coding in model.formula.codings.items()
        }
        points.append(
            PointFit(
                text, fmean(values), low, high, len(values), model.linear(model.row(settings), model.unit)
            )
        )
    return tuple(points)
