"""Drawn variables: `randvar(...)` and `cvar(...)` become laws.

What they mean is in the manual of Filebench ("Random variables", "Custom variables"): a randvar is at least `min`, has the
mean `mean`, and `gamma` counts in thousandths; a cvar has its parameters as `name:value`, split by semicolons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from iodyno.core.invalid import invalid
from iodyno.loads.files.core.attributes import CUSTOM_KINDS, RANDVAR_KINDS
from iodyno.loads.files.core.bound import Law
from iodyno.loads.files.core.settings import Variables, setting
from iodyno.loads.files.core.values import Expression, Place, RandomVariable

_GAMMA = 1500
"""Gamma of a randvar that names none, in thousandths (Filebench's default)."""

_DEFAULTS: Mapping[str, Mapping[str, float]] = {
    "uniform": {"lower": 0.0, "upper": 1.0},
    "normal": {"mean": 0.0, "sigma": 1.0},
    "lognormal": {"shape": 1.0, "scale": 1.0},
    "exponential": {"mean": 1.0},
    "gamma": {"mean": 4096.0, "gamma": 1.5},
    "erlang": {"shape": 1.0, "rate": 1.0},
    "weibull": {"shape": 1.0, "scale": 1.0},
    "triangular": {"lower": 0.0, "upper": 1.0, "mode": 0.5},
}
"""Parameters that a cvar does not name (Filebench's own defaults)."""
_MOST_STAGES = 1000
"""Of an Erlang law: what agents draw at most."""
_MOST, _MOST_LOGARITHM = 9.2e18, 1000.0
"""Of every number of a law; of those of a lognormal one, which are of the logarithm."""
_POSITIVE = {"shape", "scale", "rate", "gamma", "sigma"}


def law_of(name: str, randvar: RandomVariable, variables: Variables) -> Law:
    """The law of a drawn variable. Raises ExperimentError with its place."""
    law = _custom(name, randvar, variables) if randvar.custom else _random(name, randvar, variables)
    _refuse_undrawable(law, randvar)
    return law


def _refuse_undrawable(law: Law, randvar: RandomVariable) -> None:
    """Check that an agent would draw from the law (`Variable::check` of agent/core/src/file_variable.rs)."""
    place = randvar.place
    if law.least is not None and law.most is not None and law.least > law.most:
        place = randvar.attributes["min"].place if "min" in randvar.attributes else place
        raise place.error(invalid(law.least, f"max={law.most:g} or less", "min"), "a larger max=")
    if law.round_to is not None and (law.round_to < 1 or law.round_to != int(law.round_to)):
        place = randvar.attributes["round"].place
        raise place.error(invalid(law.round_to, "a whole number of bytes", "round"))
    greatest = _MOST_LOGARITHM if law.law == "lognormal" else _MOST
    rows = (part for row in law.rows for part in row)
    for what, value in (*law.parameters.items(), *(("randtable", part) for part in rows)):
        if abs(value) > greatest:
            raise place.error(invalid(value, f"up to {greatest:g}", f"{what} of {law.name}"))
    for key, bound in (("min", law.least), ("max", law.most), ("round", law.round_to)):
        if bound is not None and abs(bound) > _MOST:
            raise randvar.attributes[key].place.error(invalid(bound, f"up to {_MOST:g}", key))


def number(expression: Expression, variables: Variables, what: str) -> float:
    """A number that is not drawn. Raises ExperimentError."""
    value = variables.fixed(expression)
    if isinstance(value, (bool, str)) or not math.isfinite(value):
        raise expression.place.error(invalid(value, "a number", what))
    return value


def _optional(randvar: RandomVariable, key: str, variables: Variables) -> float | None:
    return number(randvar.attributes[key], variables, key) if key in randvar.attributes else None


def _seed(randvar: RandomVariable, variables: Variables) -> int | None:
    value = _optional(randvar, "seed", variables)
    return None if value is None else abs(int(value)) % 2**63


def _kind(
    randvar: RandomVariable, variables: Variables, default: str | None, allowed: tuple[str, ...]
) -> str:
    expression = randvar.attributes.get("type")
    if expression is None:
        if default is None:
            raise randvar.place.error(
                f"missing type of a cvar: expected {', '.join(allowed)}", "type=cvar-gamma"
            )
        return default
    written = str(variables.fixed(expression))
    kind = written.removeprefix("cvar-")
    if kind not in allowed:
        shown = ", ".join(allowed)
        raise expression.place.error(invalid(written, shown, "type"), f"type={allowed[0]}")
    return kind


def _random(name: str, randvar: RandomVariable, variables: Variables) -> Law:
    kind = _kind(randvar, variables, "tabular" if randvar.table else "gamma", RANDVAR_KINDS)
    least = _optional(randvar, "min", variables) or 0.0
    mean = _optional(randvar, "mean", variables)
    gamma = _optional(randvar, "gamma", variables)
    gamma = (_GAMMA if gamma is None else gamma) / 1000
    if gamma <= 0:
        raise randvar.attributes["gamma"].place.error(invalid(gamma * 1000, "more than 0", "gamma"))
    round_to = _optional(randvar, "round", variables) or None
    most = _optional(randvar, "max", variables)
    seed = _seed(randvar, variables)
    if kind == "tabular":
        return Law(name, kind, {}, _rows(randvar, variables, mean, least), least, most, round_to, seed)
    if randvar.table:
        raise randvar.place.error(f"a randtable can only be used with type=tabular, not with {kind}")
    centre = gamma if mean is None else mean
    if centre < least and mean is None:
        middle = f"{(least + most) / 2:g}" if most is not None and most > least else "MEAN"
        raise randvar.place.error(
            f"a randvar of type {kind} with min={least:g} and without a mean; expected mean= (max= only cuts off)",
            f"mean={middle}",
        )
    if centre < least:
        raise randvar.place.error(invalid(centre, f"min={least:g} or more", "mean"), "a larger mean=")
    if kind == "uniform":
        # Between min and as far beyond the mean as that is beyond min.
        return Law(
            name, kind, {"least": least, "greatest": 2 * centre - least}, (), None, most, round_to, seed
        )
    return Law(name, kind, {"mean": centre, "gamma": gamma, "least": least}, (), None, most, round_to, seed)


def _rows(
    randvar: RandomVariable, variables: Variables, mean: float | None, least: float
) -> tuple[tuple[float, float, float], ...]:
    if not randvar.table:
        raise randvar.place.error(
            "type tabular without a table: expected randtable = {{percent, low, high}, ...}"
        )
    rows = []
    for row in randvar.table:
        percent, low, high = (
            number(part, variables, what)
            for part, what in ((row.percent, "percent"), (row.low, "low"), (row.high, "high"))
        )
        if percent < 0 or low < 0 or high < low:
            raise row.percent.place.error(
                f"invalid value: the row {{{percent:g}, {low:g}, {high:g}}}; expected a percentage of "
                "0 or more, then low <= high"
            )
        rows.append((percent, low, high))
    total = sum(row[0] for row in rows)
    if not math.isclose(total, 100):
        raise randvar.table[0].percent.place.error(
            f"the percentages of the table add up to {total:g}; expected 100", "mend one of them"
        )
    own = sum(percent * (low + high) / 200 for percent, low, high in rows)
    if mean is not None and own > least:
        scale = (mean - least) / (own - least)
        rows = [
            (percent, least + (low - least) * scale, least + (high - least) * scale)
            for percent, low, high in rows
        ]
        if any(low < 0 for _, low, _ in rows):
            raise randvar.place.error("mean and min of this table give sizes below 0", "leave mean out")
    return tuple(rows)


def _custom(name: str, randvar: RandomVariable, variables: Variables) -> Law:
    kind = _kind(randvar, variables, None, tuple(CUSTOM_KINDS))
    parameters = dict(_DEFAULTS[kind])
    expression = randvar.attributes.get("parameters")
    written = "" if expression is None else str(variables.fixed(expression))
    place: Place = randvar.place if expression is None else expression.place
    for entry in filter(None, (part.strip() for part in written.replace(",", ";").split(";"))):
        key, colon, text = entry.partition(":")
        value = setting(text) if colon else ""
        if key not in parameters:
            raise place.error(
                invalid(entry, f"parameters of cvar-{kind}, {', '.join(parameters)}", "parameters"),
                f"{CUSTOM_KINDS[kind][0]}:4096",
            )
        if isinstance(value, (str, bool)):
            raise place.error(invalid(entry, f"{key}:NUMBER", "parameters"), f"{key}:4096")
        if key in _POSITIVE and value <= 0:
            raise place.error(invalid(entry, "more than 0", "parameters"))
        parameters[key] = float(value)
    law = _checked(kind, parameters, place)
    return Law(
        name, law[0], law[1], (), _optional(randvar, "min", variables), _optional(randvar, "max", variables),
        _optional(randvar, "round", variables) or None, _seed(randvar, variables),
    )  # fmt: skip


def _checked(kind: str, given: Mapping[str, float], place: Place) -> tuple[str, dict[str, float]]:
    """The law and its parameters, by the names that agents have for them."""
    if kind in ("uniform", "triangular"):
        ordered = [given["lower"], *([given["mode"]] if kind == "triangular" else []), given["upper"]]
        if ordered != sorted(ordered) or ordered[0] == ordered[-1]:
            raise place.error(
                "invalid value for parameters: bounds that are not in order; expected lower < upper",
                "lower:4096;upper:8192",
            )
        mode = {"mode": given["mode"]} if kind == "triangular" else {}
        return kind, {"least": given["lower"], "greatest": given["upper"], **mode}
    if kind == "lognormal":
        # The plug-in names the deviation of the logarithm shape, and its mean scale.
        return kind, {"mu": given["scale"], "sigma": given["shape"]}
    if kind == "erlang":
        stages = given["shape"]
        if not stages.is_integer() or stages > _MOST_STAGES:
            raise place.error(
                invalid(
                    f"shape:{stages:g}", f"a whole number of cvar-erlang, 1 to {_MOST_STAGES}", "parameters"
                ),
                "cvar-gamma, which has stages between",
            )
        return kind, {"shape": int(stages), "rate": given["rate"]}
    if kind in ("gamma", "exponential") and given["mean"] <= 0:
        raise place.error(f"invalid value for parameters: mean:{given['mean']:g}; expected more than 0")
    return kind, dict(given)
