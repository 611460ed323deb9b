"""A cost model as tables and sentences: the equation, its coefficients, what explains the variation, checks, what follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from iodyno.analysis.cost_model.checks import LACK_OF_FIT
from iodyno.analysis.cost_model.consequences import Consequence, consequences
from iodyno.analysis.cost_model.derived import Cores, Derived, FactoredTerm
from iodyno.analysis.cost_model.model import CostModel
from iodyno.analysis.cost_model.shown import CostStudy
from iodyno.analysis.cost_model.variation import Variation
from iodyno.analysis.cost_model.written import natural_symbols
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import counted
from iodyno.report.estimate_json import estimate_values
from iodyno.report.numbers import Scale, digits, with_interval
from iodyno.report.tables import Cell, Column, Table

SHARE_LEAST = 0.0005
"""Shares below are shown as less than that (chosen: a tenth of a per cent is what a table shows)."""


@dataclass(frozen=True)
class CheckLine:
    """A check in a sentence."""

    name: str
    text: str
    warning: bool


@dataclass(frozen=True)
class CostSection:
    """The section of a page about a cost model."""

    sentences: tuple[str, ...]
    equation: tuple[str, ...]
    tables: tuple[Table, ...]
    checks: tuple[CheckLine, ...]
    note: str


def cost_section(study: CostStudy) -> CostSection:
    """Return the contents of the section, figures apart."""
    checks = tuple(
        CheckLine(check.name, check.warning.text if check.warning else check.found, check.warning is not None)
        for check in study.checks
    )
    left = f" {counted(study.left_out, 'trial')} left out, without this outcome." if study.left_out else ""
    note = (
        f"{study.model.method[:1].upper()}{study.model.method[1:]}.{left} Coefficients are per half range (-1 to +1) of"
        " each factor. Assumed: " + "; ".join(study.model.assumptions) + "."
    )
    follows = consequences(study)
    if follows:
        note += (
            " What follows is for all other factors in the middle of their range. One queue: M/M/c, any free core takes the next"
            " operation. A queue each: M/M/1 for each core. Times are of CPU alone, for Poisson arrivals and exponential"
            " service; iodyno model cost --cores and iodyno model queue take any load, target and number of cores."
        )
    return CostSection(
        (*sentences(study), *(consequence_sentence(one) for one in follows)),
        tuple(equation_lines(study)),
        (
            *((consequence_table(follows),) if follows else ()),
            variation_table(study),
            coefficient_table(study),
        ),
        checks,
        note,
    )


def sentences(study: CostStudy) -> Iterator[str]:
    """Name the sources of the variation, and state how much of it the model explains."""
    terms = [one for one in study.variation.sources[:-2] if one.name != "blocks"]
    strong = sorted(
        (one for one in terms if one.p is not None and one.p < 0.05), key=lambda one: -(one.share or 0.0)
    )
    what = outcome_words(study)
    variation = study.variation
    within = variation.within_blocks
    share, of = (variation.r_squared, _about(variation)) if within is None else (within, " within blocks")
    explained = f"The model explains {100 * share:.1f} % of the variation of {what}{of}"
    if not strong:
        yield f"{explained}; no factor has an effect that stands out of the spread of the trials."
        return
    parts = [f"{one.name.replace(':', ' × ')} {shown_share(one.share)}" for one in strong[:5]]
    yield f"{explained}: {', '.join(parts)}."
    weak = [one.name.replace(":", " × ") for one in terms if one.p is not None and one.p >= 0.05]
    if weak:
        yield f"Not told from none: {', '.join(weak[:8])}{f' and {len(weak) - 8} more' if len(weak) > 8 else ''}."


def consequence_sentence(one: Consequence) -> str:
    """State the cost of an operation at a level, and how many cores that makes."""
    cost = with_interval(one.cost.estimate, scale=derived_scale(one.cost.estimate))
    at = f"With {one.factor} {one.level} an" if one.factor else "An"
    return f"{at} operation takes {cost} of CPU; {cores_sentence(one.cores)}"


def consequence_table(found: Sequence[Consequence]) -> Table:
    """Cores for a load by level, and response times with so many."""
    load, target = found[0].cores.load_per_s, found[0].cores.target_utilisation
    columns = (
        Column(found[0].factor or "all"),
        Column("CPU an operation", hint="with its 95 % interval"),
        Column("cores", hint=f"for {load:g}/s, none busier than {100 * target:g} %; over the interval"),
        Column("utilisation"),
        Column("mean, one queue", hint="response time, CPU alone"),
        Column("p99, one queue", hint="1 % of the operations take longer"),
        Column("mean, a queue each", hint="response time, CPU alone"),
        Column("p99, a queue each", hint="1 % of the operations take longer"),
    )
    rows = []
    for one in found:
        scale = derived_scale(one.cost.estimate)
        span = f" ({one.cores.least} to {one.cores.most})" if one.cores.least != one.cores.most else ""
        stations = (one.shared, one.separate)
        times = [
            Cell(f"{digits(value / scale.factor)} {scale.unit.partition('/')[0]}")
            for station in stations
            for value in (station.mean_s, station.p99_s)
        ]
        rows.append(
            (
                Cell(one.level or "–"),
                Cell(with_interval(one.cost.estimate, scale=scale), one.cost.estimate.method),
                Cell(f"{one.cores.needed}{span}"),
                Cell(f"{100 * one.utilisation:.0f} %"),
                *times,
            )
        )
    return Table(f"What follows: cores for {load:g} operations a second", columns, tuple(rows))


def consequence_json(one: Consequence) -> dict[str, Any]:
    """One level's consequences as values that JSON knows."""
    return {
        "factor": one.factor,
        "level": one.level,
        "cost": derived_values(one.cost),
        "load_per_s": one.cores.load_per_s,
        "target_utilisation_ratio": one.cores.target_utilisation,
        "cores": one.cores.needed,
        "cores_least": one.cores.least,
        "cores_most": one.cores.most,
        "utilisation": one.utilisation,
        "shared_response_time_s": one.shared.mean_s,
        "shared_p99_s": one.shared.p99_s,
        "separate_response_time_s": one.separate.mean_s,
        "separate_p99_s": one.separate.p99_s,
    }


def outcome_words(study: CostStudy) -> str:
    """The outcome in a title: `CPU per operation of client`."""
    host, _, name = study.outcome.rpartition(".")
    words = {
        "cpu_ns_per_operation": "CPU time per operation",
        "cpu_ns_per_kib": "CPU time per KiB",
        "cpu_us_per_io": "CPU time per operation",
        "cycles_per_kib": "CPU cycles per KiB",
    }.get(name, name.replace("_", " "))
    return f"{words} on {host}" if host else words


def unit_scale(study: CostStudy) -> Scale:
    """The unit that the figures of a model have: that of the outcome, in thousands where the numbers are long."""
    most = max((abs(point.measured) for point in study.points), default=0.0)
    if study.unit.startswith("ns/") and most >= 1e4:
        return Scale(1e3, f"us{study.unit[2:]}")
    return Scale(1.0, study.unit or "no unit")


def share_of(study: CostStudy, name: str) -> float | None:
    """The share of the variation that a term explains."""
    return next((one.share for one in study.variation.sources if one.name == name), None)


def equation_lines(study: CostStudy) -> Iterator[str]:
    """The equation in natural units, to be pasted, and what its variables are."""
    misses = next((one for one in study.checks if one.name == LACK_OF_FIT and one.warning), None)
    if misses and misses.warning:
        yield f"! not to be used: {misses.warning.text}"
    yield f"{study.equation.left} = {study.equation.expression}"
    yield f"  in {study.unit or 'no unit'}, where"
    for variable in study.equation.variables:
        name = variable.name.removeprefix("log2(").removesuffix(")")
        yield f"  {name} is {variable.meaning}"


def coefficient_table(study: CostStudy) -> Table:
    """Coefficients on the coded scale, where -1 and +1 are the ends of a factor's range."""
    columns = (
        Column("term"),
        Column("coefficient", hint=f"{study.unit}, from the middle of the range to its upper end"),
        Column("interval", hint="95 %"),
        Column("t"),
    )
    rows = tuple(
        (
            Cell(one.name),
            Cell(_value(one.estimate)),
            Cell(_bounds(one.estimate), one.estimate.missing or one.estimate.method),
            Cell("–" if one.t is None else f"{one.t:.1f}"),
        )
        for one in study.coefficients
    )
    return Table(f"Coefficients, -1 to +1 over each range ({study.unit or 'no unit'})", columns, rows)


def variation_table(study: CostStudy) -> Table:
    """Analysis of variance with the share of the variation of each source, the greatest first."""
    columns = (
        Column("source"),
        Column("df"),
        Column("sum of squares"),
        Column("share"),
        Column("F"),
        Column("p"),
    )
    *terms, error, total = study.variation.sources
    ordered = [
        *sorted(terms, key=lambda one: -one.sum_of_squares),
        error,
        *(study.variation.lack_of_fit or ()),
        total,
    ]
    rows = tuple(
        (
            Cell(one.name),
            Cell(str(one.df)),
            Cell(f"{one.sum_of_squares:.4g}"),
            Cell(shown_share(one.share)),
            Cell("–" if one.f is None else f"{one.f:.3g}"),
            Cell(_chance(one.p)),
        )
        for one in ordered
    )
    note = "" if study.variation.orthogonal else "; shares overlap, as the terms are correlated"
    return Table(
        f"What explains the variation of {study.outcome}{_about(study.variation)}{note}", columns, rows
    )


def _about(variation: Variation) -> str:
    """From where variation counts, where that is not the mean."""
    return " about zero" if variation.about == "zero" else ""


def effects_table(study: CostStudy) -> Table | None:
    """Effects by size with Lenth's limits; None where there are too few, or they are not of one precision."""
    found = study.half_normal
    if found is None:
        return None
    rows = tuple(
        (Cell(one.name), Cell(digits(one.effect)), Cell("stands out" if one.stands_out else ""))
        for one in reversed(found.effects)
    )
    limits = f"PSE {digits(found.pse)}, ME {digits(found.me)}, SME {digits(found.sme)}"
    return Table(
        f"Effects, low to high (Lenth: {limits} {study.unit})",
        (Column("effect"), Column("size"), Column("")),
        rows,
    )


def check_lines(study: CostStudy) -> Iterator[str]:
    """One line a check; a warning is marked."""
    for check in study.checks:
        yield f"{'!' if check.warning else ' '} {check.name}: {check.warning.text if check.warning else check.found}"
    if study.no_load:
        warning = study.no_load.warning
        background = (
            f"background {_value(study.no_load.background)} {_bounds(study.no_load.background)} {study.unit}"
        )
        text = warning.text if warning else "no factor has an effect where nothing is done"
        yield f"{'!' if warning else ' '} origin: {background}; {text}"


def derived_table(found: Sequence[Derived], cores: Cores | None = None) -> Table:
    """Derived quantities with both intervals."""
    columns = (
        Column("quantity"),
        Column("at"),
        Column("value"),
        Column("delta method"),
        Column("bootstrap"),
    )
    rows = []
    for one in (*found, *((cores.busy,) if cores else ())):
        scale = derived_scale(one.estimate)
        low, high = one.bootstrap or (None, None)
        rows.append(
            (
                Cell(one.name),
                Cell(one.at),
                Cell(f"{_scaled(one.estimate.estimate, scale, one.estimate)} {scale.unit}".rstrip()),
                Cell(_pair(one.estimate.low, one.estimate.high, scale), one.estimate.missing or ""),
                Cell(_pair(low, high, scale), one.no_bootstrap),
            )
        )
    return Table("What follows, with 95 % intervals", columns, tuple(rows))


def factored_lines(model: CostModel, load: str, terms: Sequence[FactoredTerm]) -> Iterator[str]:
    """Yield the cost of one more of the load, to be pasted: `cpu per iops = A * (1 + b*read + c*protocol[nfs])`, with its unit
    and the meaning of its variables.
    """
    first, *others = terms
    inside = "1"
    for one in others:
        ratio = one.over_first.estimate if one.over_first else None
        inside += f" {'-' if (ratio or 0.0) < 0 else '+'} {abs(ratio or 0.0):.6g} * {one.product}"
    lead = f"{first.coefficient.estimate:.6g}"
    yield f"{model.outcome} per {load} = {lead}" + (f" * ({inside})" if others else "")
    variables = _variables(model, terms)
    yield f"  in {_unit_per(model, load)}{', where' if variables else ''}"
    for name, meaning in variables.items():
        yield f"  {name} is {meaning}"


def factored_table(model: CostModel, load: str, terms: Sequence[FactoredTerm]) -> Table:
    """The same with intervals. Words are -1 and +1, and numbers in the units of their levels."""
    columns = (
        Column("term"),
        Column("coefficient", hint=_unit_per(model, load)),
        Column("interval", hint="95 %"),
        Column("over the first"),
        Column("interval", hint="95 %, delta method"),
    )
    rows = []
    for one in terms:
        over = one.over_first
        rows.append(
            (
                Cell(one.product or "1"),
                Cell(f"{one.coefficient.estimate:.6g}"),
                Cell(_ends(one.coefficient)),
                Cell("" if over is None else f"{over.estimate:.6g}"),
                Cell("" if over is None else _ends(over)),
            )
        )
    return Table(f"What one more of {load} costs ({_unit_per(model, load)})", columns, tuple(rows))


def _unit_per(model: CostModel, load: str) -> str:
    unit = natural_symbols(model)[load].meaning.partition(",")[0].removeprefix(load).removeprefix(" in ")
    return f"{model.unit or 'no unit'} for each {unit or 'one'} of {load}"


def _variables(model: CostModel, terms: Sequence[FactoredTerm]) -> dict[str, str]:
    used = {name for one in terms for name in one.variables}
    return {one.name: one.meaning for one in natural_symbols(model).values() if one.name in used}


def _ends(found: Estimate) -> str:
    return "–" if found.low is None or found.high is None else f"{found.low:.4g} to {found.high:.4g}"


def published_json(
    model: CostModel, terms: Sequence[FactoredTerm], derived: Sequence[Derived], cores: Cores | None
) -> dict[str, Any]:
    """A published model and what follows from it."""
    return {
        "outcome": model.outcome,
        "unit": model.unit,
        "method": model.method,
        "factored": [_factored(one) for one in terms],
        "factored_variables": _variables(model, terms),
        "derived": [derived_values(one) for one in derived],
        "cores": _cores(cores) if cores else None,
    }


def cores_sentence(cores: Cores) -> str:
    """State how many cores to buy, at which utilisation; with the ends of the interval where they differ."""
    span = f" ({cores.least} to {cores.most} over the interval)" if cores.least != cores.most else ""
    busy = with_interval(cores.busy.estimate, scale=Scale(1.0, "cores"))
    return (
        f"{cores.rate} keep {busy} busy: {cores.needed} core{'' if cores.needed == 1 else 's'}{span}"
        f" for at most {100 * cores.target_utilisation:g} % utilisation."
    )


def study_json(
    study: CostStudy,
    derived: Sequence[Derived] = (),
    cores: Cores | None = None,
    terms: Sequence[FactoredTerm] = (),
) -> dict[str, Any]:
    """The model as values that JSON knows."""
    variation = study.variation
    return {
        "outcome": study.outcome,
        "unit": study.unit,
        "trials": study.trials,
        "left_out": study.left_out,
        "method": study.model.method,
        "residual_df": None if study.model.residual_df == float("inf") else study.model.residual_df,
        "residual_sd": study.model.residual_sd,
        "equation": {
            "left": study.equation.left,
            "expression": study.equation.expression,
            "variables": {one.name: one.meaning for one in study.equation.variables},
            "terms": [
                {"product": one.product, **estimate_values(one.coefficient)} for one in study.equation.terms
            ],
        },
        "factored": [_factored(one) for one in terms],
        "factored_variables": _variables(study.model, terms),
        "coefficients": [
            {
                "name": one.name,
                **estimate_values(one.estimate),
                "standard_error": one.standard_error,
                "t": one.t,
            }
            for one in study.coefficients
        ],
        "variation": {
            "r_squared": variation.r_squared,
            "within_blocks_ratio": variation.within_blocks,
            "r_squared_adjusted": variation.r_squared_adjusted,
            "f": variation.f,
            "p": variation.p,
            "orthogonal": variation.orthogonal,
            "sources": [
                {
                    "name": one.name,
                    "df": one.df,
                    "sum_of_squares": one.sum_of_squares,
                    "share_ratio": one.share,
                    "f": one.f,
                    "p": one.p,
                }
                for one in (*variation.sources, *(variation.lack_of_fit or ()))
            ],
        },
        "half_normal": study.half_normal
        and {
            "pse": study.half_normal.pse,
            "me": study.half_normal.me,
            "sme": study.half_normal.sme,
            "effects": [
                {"name": e.name, "effect": e.effect, "quantile": e.quantile, "stands_out": e.stands_out}
                for e in study.half_normal.effects
            ],
        },
        "checks": [
            {"name": c.name, "found": c.found, "p": c.p, "warning": c.warning.text if c.warning else None}
            for c in study.checks
        ],
        "no_load": study.no_load
        and {
            "load": study.no_load.load,
            "background": estimate_values(study.no_load.background),
            "effects": {
                name: {**estimate_values(one), "t": study.no_load.t[name]}
                for name, one in study.no_load.effects.items()
            },
            "rejected": list(study.no_load.rejected),
        },
        "consequences": [consequence_json(one) for one in consequences(study)],
        "derived": [derived_values(one) for one in derived],
        "cores": _cores(cores) if cores else None,
        "warnings": [
            {"code": d.code, "text": d.text, "where": d.where}
            for d in (
                *study.warnings,
                *(d for one in derived for d in one.warnings),
                *(cores.busy.warnings if cores else ()),
            )
        ],
    }


def derived_scale(found: Estimate) -> Scale:
    """A unit to show a derived quantity in."""
    value = abs(found.estimate or 0.0)
    if found.unit.startswith("s/"):
        for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
            if value >= factor:
                return Scale(factor, unit + found.unit[1:])
        return Scale(1e-9, "ns" + found.unit[1:])
    return Scale(1.0, {"1": "", "1/s": "/s"}.get(found.unit, found.unit))


def _factored(one: FactoredTerm) -> dict[str, Any]:
    over = estimate_values(one.over_first) if one.over_first else None
    return {"product": one.product, **estimate_values(one.coefficient), "over_first": over}


def _cores(cores: Cores) -> dict[str, Any]:
    return {
        "load_per_s": cores.load_per_s,
        "target_utilisation_ratio": cores.target_utilisation,
        "busy": derived_values(cores.busy),
        "needed": cores.needed,
        "least": cores.least,
        "most": cores.most,
    }


def derived_values(one: Derived) -> dict[str, Any]:
    """Return a derived quantity as values that JSON knows."""
    low, high = one.bootstrap or (None, None)
    return {
        "name": one.name,
        "at": one.at,
        **estimate_values(one.estimate),
        "bootstrap_low": low,
        "bootstrap_high": high,
        "no_bootstrap": one.no_bootstrap or None,
    }


def _half(found: Estimate) -> float | None:
    return (found.high - found.low) / 2 or None if found.low is not None and found.high is not None else None


def _value(found: Estimate) -> str:
    return "–" if found.estimate is None else digits(found.estimate, _half(found))


def _scaled(value: float | None, scale: Scale, found: Estimate) -> str:
    half = _half(found)
    return "–" if value is None else digits(value / scale.factor, half and half / scale.factor)


def _bounds(found: Estimate) -> str:
    return _pair(found.low, found.high, Scale(1.0, ""))


def _pair(low: float | None, high: float | None, scale: Scale) -> str:
    if low is None or high is None:
        return "none"
    half = (high - low) / 2 / scale.factor or None
    return f"{digits(low / scale.factor, half)} to {digits(high / scale.factor, half)}"


def shown_share(share: float | None) -> str:
    """A share of the variation as it is written."""
    if share is None:
        return "–"
    return f"{100 * share:.1f} %" if share >= SHARE_LEAST else "< 0.05 %"


def _chance(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 1e-6" if p < 1e-6 else f"{p:.2g}"
