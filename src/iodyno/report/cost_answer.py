"""Answer of `iodyno model cost`: the equation, what explains the variation, and what speaks against it; rows of CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from iodyno.analysis.cost_model.asked import Asked, factored_of
from iodyno.analysis.cost_model.checks import LACK_OF_FIT
from iodyno.analysis.cost_model.derived import Cores, Derived, FactoredTerm
from iodyno.analysis.cost_model.model import CostModel
from iodyno.analysis.cost_model.shown import CostStudy
from iodyno.core.quantity import counted
from iodyno.report.cost_model import (
    check_lines,
    coefficient_table,
    cores_sentence,
    derived_table,
    derived_values,
    effects_table,
    equation_lines,
    factored_lines,
    factored_table,
    published_json,
    sentences,
    study_json,
    variation_table,
)
from iodyno.report.form import Block, Headline, Row, Shown, flat


def study_shown(
    made: CostStudy,
    derived: list[Derived],
    cores: Cores | None,
    asked: Asked,
    *,
    verbose: bool,
) -> Shown:
    """Return what there is to show of a model and what follows from it; `verbose`: its coefficients and checks, too."""
    model = made.model
    terms = factored_of(model, asked)

    def blocks() -> Iterator[Block]:
        # What was asked for comes before what it is from.
        yield from _what_follows(derived, cores)
        yield from _factored_blocks(model, asked, terms)
        yield study_headline(made)
        yield from _warned(derived, cores)
        if verbose:
            yield ""
            yield from model_blocks(made)

    return Shown(
        blocks=blocks,
        values=lambda: study_json(made, derived, cores, terms),
        rows=lambda: coefficient_rows(made, derived, cores),
    )


def published_shown(model: CostModel, derived: list[Derived], cores: Cores | None, asked: Asked) -> Shown:
    """Return what there is to show of coefficients that somebody else has published."""
    terms = factored_of(model, asked)

    def blocks() -> Iterator[Block]:
        yield from _factored_blocks(model, asked, terms)
        yield from _what_follows(derived, cores)
        yield f"{model.method[:1].upper()}{model.method[1:]}. Intervals are 95 %."
        yield from _warned(derived, cores)

    return Shown(
        blocks=blocks,
        values=lambda: published_json(model, terms, derived, cores),
        rows=lambda: derived_rows(derived, cores),
    )


EQUATION_MOST = 400
"""Characters of an equation that stands in an answer (chosen: four lines)."""


def study_headline(study: CostStudy) -> Headline:
    """Return the equation, what explains the variation, and the first of what speaks against it."""
    equation = f"{study.equation.left} = {_rounded(study.equation.expression)}"
    misses = next((one.warning for one in study.checks if one.name == LACK_OF_FIT and one.warning), None)
    rows: list[tuple[str, tuple[str, ...]]] = [("Equation", (equation,))] if misses else []
    meant = "; ".join(f"{one.name}: {one.meaning}" for one in study.equation.variables)
    if len(equation) > EQUATION_MOST:
        equation = f"{study.equation.left} of {len(study.coefficients)} terms, in which levels stand for themselves (with -v)"
        rows, meant = [("Equation", (equation,))] if misses else [], ""
    rows.append(("In", (f"{study.unit or 'no unit'}{f'; {meant}' if meant else ''}",)))
    rows += [("" if at else "Found", (text,)) for at, text in enumerate(sentences(study))]
    against = [line[2:] for line in check_lines(study) if line.startswith("!")]
    against = [line for line in against if not (misses and line.startswith(LACK_OF_FIT))]
    if against:
        more = f"; {len(against) - 1} more with -v" if len(against) > 1 else ""
        rows.append(("Warning", (against[0] + more,)))
    left = f", {study.left_out} without this outcome left out" if study.left_out else ""
    rows.append(
        ("From", (f"{counted(study.trials, 'trial')}{left}; coefficients, intervals and checks with -v",))
    )
    return Headline(f"Not to be used: {misses.text}" if misses else equation, tuple(rows))


def _rounded(expression: str) -> str:
    """Return the expression with four digits of each number.

    >>> _rounded("2008.368 - 24.78954*size_KiB + 0.00123456*x**2")
    '2008 - 24.79*size_KiB + 0.001235*x**2'
    """
    return re.sub(r"(?<![\w.])\d+\.\d+", lambda number: f"{float(f'{float(number[0]):.4g}'):g}", expression)


def coefficient_rows(
    study: CostStudy, derived: Sequence[Derived] = (), cores: Cores | None = None
) -> Iterator[Row]:
    """Yield a row for each coefficient, and for each quantity that follows."""
    values = study_json(study, derived, cores)
    for one in values["coefficients"]:
        yield {"kind": "coefficient", "at": "", **flat(one)}
    yield from derived_rows(derived, cores)


def derived_rows(derived: Sequence[Derived], cores: Cores | None = None) -> Iterator[Row]:
    """Yield a row for each quantity that follows."""
    for one in (*derived, *((cores.busy,) if cores else ())):
        yield {"kind": "derived", **flat(derived_values(one))}
    if cores:
        yield {
            "kind": "cores",
            "name": "cores needed",
            "at": cores.busy.at,
            "estimate": cores.needed,
            "low": cores.least,
            "high": cores.most,
        }


def model_blocks(made: CostStudy) -> Iterator[Block]:
    """Yield the equation with all digits, its coefficients, what explains the variation, and checks."""
    yield from equation_lines(made)
    yield ""
    yield coefficient_table(made)
    yield variation_table(made)
    effects = effects_table(made)
    if effects:
        yield effects
    yield "Checks (! is a warning)"
    yield from check_lines(made)
    left = f" {counted(made.left_out, 'trial')} left out, without this outcome." if made.left_out else ""
    yield f"\n{made.model.method[:1].upper()}{made.model.method[1:]}.{left} Intervals are 95 %."


def _what_follows(derived: list[Derived], cores: Cores | None) -> Iterator[Block]:
    if cores:
        yield cores_sentence(cores) + "\n"
    if derived or cores:
        yield derived_table(derived, cores)


def _warned(derived: list[Derived], cores: Cores | None) -> Iterator[Block]:
    texts: dict[str, list[str]] = {}
    for one in (*derived, *((cores.busy,) if cores else ())):
        for warning in one.warnings:
            texts.setdefault(warning.code, []).append(warning.text)
    for first, *others in texts.values():
        yield f"warning: {first}{f'; and {len(others)} more like it' if others else ''}"


def _factored_blocks(model: CostModel, asked: Asked, terms: tuple[FactoredTerm, ...]) -> Iterator[Block]:
    if terms and asked.per:
        yield "\n".join((*factored_lines(model, asked.per, terms), ""))
        yield factored_table(model, asked.per, terms)
