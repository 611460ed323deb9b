"""The terms of a linear model, and the columns that a design's points give them, on the coded scale.

A word with more than two levels has a column for each but the last (effect coding), so a term may have several columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from iodyno.core.design import Coding
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.core.workload import Level

WORDS = ("main", "interactions", "quadratic")
"""Models that name no term by itself."""

Term = tuple[str, ...]
"""The factors of a term, one of them twice for its square."""


def name_of(term: Term) -> str:
    """The term as people write it.

    >>> name_of(("size", "nagle")), name_of(("size", "size"))
    ('size:nagle', 'size^2')
    """
    return f"{term[0]}^2" if len(term) == 2 and term[0] == term[1] else ":".join(term)


def terms(model: Sequence[str], coding: Mapping[str, Coding], where: str = "design.model") -> list[Term]:
    """The terms of `main`, `interactions` (main effects and products of two), `quadratic` (squares too), or those named.

    Raises ExperimentError.
    """
    names = list(coding)
    mains: list[Term] = [(name,) for name in names]
    pairs: list[Term] = list(itertools.combinations(names, 2))
    squares: list[Term] = [(name, name) for name in names if coding[name].kind == "number"]
    words = {"main": mains, "interactions": mains + pairs, "quadratic": mains + pairs + squares}
    found: list[Term] = []
    for written in model:
        for term in words.get(written) or [_named(written, coding, where)]:
            if term not in found:
                found.append(term)
    return found


def _named(written: str, coding: Mapping[str, Coding], where: str) -> Term:
    steps = written.replace("^2", ":=").replace("*", ":").split(":")
    steps = [step.strip() for step in steps]
    term = tuple(steps[index - 1] if step == "=" else step for index, step in enumerate(steps))
    unknown = [step for step in term if step not in coding]
    square_of_word = len(set(term)) < len(term) and any(coding[s].kind == "word" for s in term if s in coding)
    if unknown or square_of_word or len(term) > 3:
        raise ExperimentError(
            invalid(
                written,
                (
                    f"main, interactions, quadratic, or factors that vary ({', '.join(coding)}), joined "
                    "by `:`, with ^2 for the square of one with numbers"
                ),
            ),
            where=where,
            advice="model: interactions",
        )
    return tuple(sorted(term, key=list(coding).index))


def columns(term: Term, coding: Mapping[str, Coding], levels: Mapping[str, Level]) -> tuple[float, ...]:
    """The values of the term's columns at a point."""
    values: tuple[float, ...] = (1.0,)
    for name in term:
        values = tuple(value * code for value in values for code in coding[name].columns(levels[name]))
    return values
