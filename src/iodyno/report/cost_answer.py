"""What `iodyno model cost` answers: the equation, what explains the variation, and what speaks against it; rows of CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from iodyno.analysis.cost_model.checks import LACK_OF_FIT
from iodyno.analysis.cost_model.derived import Cores, Derived
from iodyno.analysis.cost_model.shown import CostStudy
from iodyno.core.quantity import counted
from iodyno.report.cost_model import check_lines, derived_values, sentences, study_json
from iodyno.report.form import Headline, Row, flat


def study_headline(study: CostStudy) -> Headline:
    """Return the equation, what explains the variation, and the first of what speaks against it."""
    equation = f"{study.equation.left} = {_rounded(study.equation.expression)}"
    misses = next((one.warning for one in study.checks if one.name == LACK_OF_FIT and one.warning), None)
    rows: list[tuple[str, tuple[str, ...]]] = [("Equation", (equation,))] if misses else []
    meant = "; ".join(f"{one.name}: {one.meaning}" for one in study.equation.variables)
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
