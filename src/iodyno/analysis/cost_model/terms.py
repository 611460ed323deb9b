"""The terms of a model: what a formula names, the columns they make, and which of them the design cannot tell apart.

A formula is in Wilkinson and Rogers' notation (`notation`): `cost ~ (read + block + protocol)**2`. A name alone is a
numeric factor on its coded scale, or words by effect coding; `log(size)` is the base 2 logarithm, `C(size)` takes numbers as
names, `I(size**2)` is the square of the coded factor, `a:b` an interaction, `- 1` takes the intercept out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from iodyno.analysis.cost_model.coding import Coding, FactorScale, NumericCoding, Scale, coding_of
from iodyno.analysis.cost_model.notation import NotationError, terms_of
from iodyno.core.errors import ExperimentError

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

INTERCEPT = "intercept"
RANK_TOLERANCE = 1e-9
"""Length left of a column of length 1 that counts as nothing (chosen: coded columns are exact to 1e-15)."""

Term = tuple[tuple[str, int], ...]
"""Factors with their powers; the empty one is the intercept."""


@dataclass(frozen=True)
class Formula:
    """Terms and codings that a formula asks for. `outcome` is None where it has no left-hand side."""

    outcome: str | None
    terms: tuple[Term, ...]
    codings: Mapping[str, Coding]
    intercept: bool = True


@dataclass(frozen=True)
class Column:
    """A column of the model matrix: its name, and the term it belongs to."""

    name: str
    term: Term


@dataclass(frozen=True)
class Aliased:
    """A term that the design cannot tell from others."""

    term: Term
    others: tuple[Term, ...]

    @property
    def text(self) -> str:
        """As people say it."""
        return f"{name_of(self.term)} = {' and '.join(name_of(term) for term in self.others)}"


def name_of(term: Term) -> str:
    """A term as people write it: `read:iops`, `size^2`."""
    return ":".join(name if power == 1 else f"{name}^{power}" for name, power in term) or INTERCEPT


WIDE_RATIO = 10
"""Greatest level over least from which on a number with three levels or more is taken by its logarithm (chosen: such levels are
picked a factor apart, and on a linear scale the least ones would be one point)."""


def default_formula(factors: Sequence[FactorScale], *, names: bool = False) -> Formula:
    """All main effects and all two-factor interactions of the factors that vary.

    `names`: numbers with three levels or more are taken as names, so that nothing is supposed of what lies between them.
    """
    varying = [factor for factor in factors if len(factor.levels) > 1]
    mains = [((factor.name, 1),) for factor in varying]
    pairs = [(*a, *b) for a, b in combinations(mains, 2)]
    return Formula(None, (*mains, *pairs), {factor.name: _usual(factor, names) for factor in varying})


def _usual(factor: FactorScale, names: bool) -> Coding:
    if not factor.numeric or len(factor.levels) < 3:
        return coding_of(factor)
    numbers = factor.numbers
    wide = min(numbers) > 0 and max(numbers) / min(numbers) >= WIDE_RATIO
    return coding_of(factor, "log2" if wide and not names else "linear", words=names)


def parse_formula(text: str, factors: Sequence[FactorScale]) -> Formula:
    """The formula in terms of these factors. Raises ExperimentError that names what is not understood."""
    left, tilde, right = text.partition("~")
    outcome = left.strip() if tilde else None
    by_name = {factor.name: factor for factor in factors}
    names = ", ".join(by_name)
    try:
        parsed = terms_of(right if tilde else left, list(by_name))
    except (NotationError, RecursionError) as error:
        if isinstance(error, NotationError) and error.unknown:
            raise _wrong(
                text, f"there is no factor {', '.join(error.unknown)}", f"the factors are {names}"
            ) from error
        if isinstance(error, NotationError) and error.term:
            raise _wrong(
                text, f"{error.term} is no term", "name, log(name), C(name), I(name**2), a:b"
            ) from error
        raise _wrong(text, "the formula is not understood", f"(a + b)**2 of {names}") from error
    codings: dict[str, Coding] = {}
    terms: list[Term] = []
    order = list(by_name)
    for found in parsed:
        powers: dict[str, int] = {}
        for one in found:
            factor = by_name[one.name]
            scale: Scale = "log2" if one.call.startswith("log") else "linear"
            coding = coding_of(factor, scale, words=one.call == "C")
            if codings.setdefault(factor.name, coding) != coding:
                raise _wrong(
                    text, f"{factor.name} is coded in two ways", "the same form of a factor in all terms"
                )
            if one.power > 3 or (one.power > 1 and not isinstance(coding, NumericCoding)):
                raise _wrong(text, f"{one.text} is no term", "squares and cubes of numeric factors")
            powers[factor.name] = max(powers.get(factor.name, 0), one.power)
        if powers:
            terms.append(tuple(sorted(powers.items(), key=lambda item: order.index(item[0]))))
    if not terms:
        raise _wrong(text, "the formula has no term", f"one with the factors {names}")
    # Main effects first, as of two terms that are aliased the later one is dropped.
    terms.sort(key=lambda term: sum(power for _, power in term))
    if () not in parsed:
        return _from_origin(text, outcome, tuple(dict.fromkeys(terms)), codings)
    return Formula(outcome, tuple(dict.fromkeys(terms)), codings)


def through_origin(formula: Formula, load: str) -> Formula:
    """The formula of a line through the origin of `load`: only terms with it, and no intercept."""
    terms = tuple(term for term in formula.terms if any(name == load for name, _ in term))
    used = {name for term in terms for name, _ in term}
    codings = {name: one for name, one in formula.codings.items() if name in used}
    return _from_origin(f"through the origin of {load}", formula.outcome, terms, codings)


def _from_origin(
    text: str, outcome: str | None, terms: tuple[Term, ...], codings: Mapping[str, Coding]
) -> Formula:
    """Without an intercept, the one number that is in all terms is coded from its origin: nothing there, nothing anywhere."""
    for name, coding in codings.items():
        everywhere = all(any(name == one for one, _ in term) for term in terms)
        if everywhere and isinstance(coding, NumericCoding) and coding.scale == "linear":
            return Formula(outcome, terms, {**codings, name: replace(coding, origin=True)}, intercept=False)
    raise _wrong(
        text,
        "without an intercept no level of any factor would mean nothing",
        "the intercept; or a number that is in all terms, such as 0 + rate + rate:size",
    )


def columns_of(formula: Formula) -> tuple[Column, ...]:
    """The columns of the model in order; the intercept is the first."""
    found = [Column(INTERCEPT, ())] if formula.intercept else []
    for term in formula.terms:
        parts = [
            [label if power == 1 else f"{label}^{power}" for label in formula.codings[name].columns]
            for name, power in term
        ]
        found += [Column(":".join(labels), term) for labels in product(*parts)]
    return tuple(found)


def model_matrix(formula: Formula, coded: Mapping[str, Matrix], rows: int) -> Matrix:
    """The columns of the model for `rows` points; `coded` has the coded columns of every factor."""
    found = [np.ones(rows)] if formula.intercept else []
    for term in formula.terms:
        parts = [[coded[name][:, at] ** power for at in range(coded[name].shape[1])] for name, power in term]
        for columns in product(*parts):
            column = np.ones(rows)
            for one in columns:
                column = column * one
            found.append(column)
    return np.column_stack(found)


def aliased_terms(formula: Formula, matrix: Matrix) -> tuple[Aliased, ...]:
    """Terms with a column that the columns before it make up, each with the terms that do. Earlier terms are kept."""
    columns = columns_of(formula)
    kept: list[int] = []
    basis: list[Vector] = []
    found: dict[Term, list[Term]] = {}
    for place, column in enumerate(columns):
        values = matrix[:, place]
        length = float(np.linalg.norm(values))
        rest = values / length if length else values
        for _ in range(2):  # twice is enough to be orthogonal (Giraud et al. 2005)
            for direction in basis:
                rest = rest - (direction @ rest) * direction
        left = float(np.linalg.norm(rest))
        if left > RANK_TOLERANCE and length:
            basis.append(rest / left)
            kept.append(place)
            continue
        weights = np.linalg.lstsq(matrix[:, kept], values, rcond=None)[0]
        others = [columns[at].term for at, weight in zip(kept, weights, strict=True) if abs(weight) > 1e-6]
        found.setdefault(column.term, []).extend(others)
    return tuple(Aliased(term, tuple(dict.fromkeys(others))) for term, others in found.items())


def without(formula: Formula, dropped: Sequence[Term]) -> Formula:
    """The formula less some of its terms."""
    terms = tuple(term for term in formula.terms if term not in dropped)
    used = {name for term in terms for name, _ in term}
    codings = {name: coding for name, coding in formula.codings.items() if name in used}
    return Formula(formula.outcome, terms, codings, formula.intercept)


def _wrong(text: str, what: str, advice: str) -> ExperimentError:
    return ExperimentError(what, where=f"formula {text.strip()!r}", advice=advice)
