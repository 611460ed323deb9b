"""An equation in natural units as text that can be pasted into Python or a spreadsheet, with what its variables are."""

from __future__ import annotations

import re
from dataclasses import dataclass

from iodyno.analysis.cost_model.coding import NumericCoding, WordCoding
from iodyno.analysis.cost_model.model import CostModel, Equation
from iodyno.core.outcome import Estimate

_DIGITS = 7
"""Of a coefficient (chosen: terms that nearly cancel leave four of them)."""


@dataclass(frozen=True)
class Variable:
    """A variable of the text: its name there, what it means, and how many base units one of it is."""

    name: str
    meaning: str
    scale: float


@dataclass(frozen=True)
class NaturalTerm:
    """One term of the equation: the product as it is written, and its coefficient with interval."""

    product: str
    coefficient: Estimate


@dataclass(frozen=True)
class Written:
    """`left = expression`; `variables` say what stands for what; `terms` are its parts with intervals."""

    left: str
    expression: str
    variables: tuple[Variable, ...]
    terms: tuple[NaturalTerm, ...]


def written(equation: Equation) -> Written:
    """The equation as text; its terms in the order of the model."""
    model = equation.model
    variables: dict[str, Variable] = {}
    for coding in model.formula.codings.values():
        for symbol, variable in _variables(coding).items():
            if any(symbol == name for monomial in equation.monomials for name, _ in monomial):
                variables[symbol] = variable
    terms = []
    per = _variables(model.coding(equation.per))[equation.per] if equation.per else None
    for monomial, row in zip(equation.monomials, equation.map, strict=True):
        scale = 1.0 / per.scale if per else 1.0
        parts = []
        for symbol, power in monomial:
            variable = variables[symbol]
            scale *= variable.scale**power
            parts.append(variable.name if power == 1 else f"{variable.name}**{power}")
        terms.append(NaturalTerm("*".join(parts), model.linear(row, model.unit, scale)))
    left = _identifier(model.outcome) + (f"_per_{per.name}" if per else "")
    return Written(left, _sum(terms), tuple(variables.values()), tuple(terms))


def natural_symbols(model: CostModel) -> dict[str, Variable]:
    """Return the variable of each symbol in an equation where words keep their levels' names, in the units that `written` has."""
    found = {}
    for coding in model.formula.codings.values():
        for symbol, variable in _variables(coding).items():
            name = symbol if variable.scale == 1 else variable.name
            found[symbol] = Variable(name, variable.meaning, variable.scale)
    return found


def _sum(terms: list[NaturalTerm]) -> str:
    text = ""
    for term in terms:
        value = term.coefficient.estimate or 0.0
        sign = ("-" if value < 0 else "") if not text else (" - " if value < 0 else " + ")
        text += sign + f"{abs(value):.{_DIGITS}g}" + (f"*{term.product}" if term.product else "")
    return text or "0"


def _variables(coding: NumericCoding | WordCoding) -> dict[str, Variable]:
    factor = coding.factor
    if isinstance(coding, WordCoding):
        first = factor.show(factor.levels[0])
        zero = ", 0 else" if len(factor.levels) > 2 else ""
        return {
            column: Variable(
                _identifier(f"{factor.name}_{factor.show(level)}"),
                f"{factor.name}: +1 for {factor.show(level)}, -1 for {first}{zero}",
                1.0,
            )
            for column, level in zip(coding.columns, factor.levels[1:], strict=True)
        }
    ends = f"{factor.show(coding.low)} to {factor.show(coding.high)}"
    if coding.scale == "log2":
        name = _identifier(f"{factor.name}_{_base_unit(coding)}")
        return {
            coding.symbol: Variable(f"log2({name})", f"{factor.name}{_in(_base_unit(coding))}, {ends}", 1.0)
        }
    scale, unit = {
        "size": (1024.0, "KiB") if coding.high >= 1024 else (1.0, "B"),
        "duration": (1000.0, "us"),
        "rate": (1.0, "per_s"),
        "bit_rate": (1.0, "bit_per_s"),
    }.get(factor.kind, (1.0, "percent" if factor.unit == "%" else factor.unit))
    shown = {"per_s": "1/s", "bit_per_s": "bit/s", "percent": "%"}.get(unit, unit)
    name = _identifier(f"{factor.name}_{unit}" if unit else factor.name)
    return {coding.symbol: Variable(name, f"{factor.name}{_in(shown)}, {ends}", scale)}


def _base_unit(coding: NumericCoding) -> str:
    return {"size": "B", "duration": "ns", "rate": "per_s"}.get(coding.factor.kind, coding.factor.unit)


def _in(unit: str) -> str:
    return f" in {unit}" if unit else ""


def _identifier(name: str) -> str:
    found = re.sub(r"\W+", "_", name).strip("_")
    return f"_{found}" if not found or found[0].isdigit() else found
