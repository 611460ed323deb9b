"""Two-level fractions: known tables, and the algebra of aliases against the runs themselves."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from iodyno.core import effect
from iodyno.designs import two_level
from iodyno.designs.two_level import Fraction

LEAST = {
    (4, 8): 4, (5, 8): 3, (6, 8): 3, (7, 8): 3,
    (5, 16): 5, (6, 16): 4, (7, 16): 4, (8, 16): 4, (9, 16): 3, (10, 16): 3, (15, 16): 3,
    (6, 32): 6, (7, 32): 4, (8, 32): 4, (9, 32): 4, (10, 32): 4, (11, 32): 4, (15, 32): 4,
    (7, 64): 7, (8, 64): 5, (9, 64): 4, (10, 64): 4, (11, 64): 4,
    (8, 128): 8, (9, 128): 6, (10, 128): 5, (11, 128): 5,
}  # fmt: skip
"""Highest resolution of a number of factors and of runs (Montgomery, Design and Analysis of Experiments, table 8.14)."""

PATTERNS = {
    (5, 16): [0, 0, 1], (6, 16): [0, 3, 0], (7, 16): [0, 7, 0], (7, 32): [0, 1, 2], (8, 32): [0, 3, 4],
    (9, 32): [0, 6, 8], (10, 32): [0, 10, 16], (11, 32): [0, 25, 0], (8, 64): [0, 0, 2], (9, 64): [0, 1, 4],
    (10, 64): [0, 2, 8], (11, 64): [0, 4, 14],
}  # fmt: skip
"""Words of length 3, 4 and 5 of the fractions of minimum aberration (Chen, Sun and Wu 1993, "A catalogue of two-level
and three-level fractional factorial designs with small runs")."""


@pytest.mark.parametrize(("factors", "runs"), LEAST)
def test_the_resolution_is_the_highest_that_the_tables_know(factors: int, runs: int) -> None:
    found = two_level.least_aberration(factors, runs.bit_length() - 1)
    assert found is not None
    assert found.resolution == LEAST[factors, runs]
    assert found.runs == runs == len({*found.rows()})


@pytest.mark.parametrize(("factors", "runs"), PATTERNS)
def test_the_word_lengths_are_those_of_minimum_aberration(factors: int, runs: int) -> None:
    found = two_level.least_aberration(factors, runs.bit_length() - 1)
    assert found is not None
    assert [found.word_lengths.get(length, 0) for length in (3, 4, 5)] == PATTERNS[factors, runs]


def test_claim_12_half_of_the_32_cells_estimate_the_same_16_terms() -> None:
    """Source 2 ran 2^5 cells; 2^(5-1) of resolution V are 16 runs, in which mean, 5 main effects and 10 interactions
    are clear.
    """
    half = two_level.smallest(5, 5)
    assert (half.runs, half.resolution) == (16, 5)
    assert 1 + len(half.clear()) == 16
    assert len({half.column(mask) for mask in effect.up_to_second(5)} | {0}) == 16


@pytest.mark.parametrize("resolution", [3, 4, 5, 6])
@pytest.mark.parametrize("factors", range(3, 12))
def test_the_smallest_of_a_resolution_has_it_and_half_of_it_has_not(factors: int, resolution: int) -> None:
    found = two_level.smallest(factors, resolution)
    assert found.resolution is None or found.resolution >= resolution
    if (1 << factors.bit_length()) <= found.runs // 2:
        smaller = two_level.least_aberration(factors, found.base - 1)
        assert smaller is None or (smaller.resolution or 99) < resolution


def test_a_fraction_of_one_factor_or_two_is_the_full_factorial() -> None:
    assert [two_level.smallest(count, 3).words for count in (1, 2)] == [(), ()]


@st.composite
def fractions(draw: st.DrawFn) -> Fraction:
    """Any fraction, of any resolution of III or more, with any signs."""
    base = draw(st.integers(2, 5))
    products = [mask for mask in range(1, 1 << base) if mask.bit_count() > 1]
    added = draw(st.lists(st.sampled_from(products), max_size=4, unique=True))
    columns = (*(1 << index for index in range(base)), *added)
    order = draw(st.permutations(range(len(columns))))
    signs = [draw(st.sampled_from((-1, 1))) if columns[place].bit_count() > 1 else 1 for place in order]
    return Fraction(base, tuple(columns[place] for place in order), tuple(signs))


@given(fractions())
@settings(max_examples=150)
def test_what_the_algebra_says_is_in_the_runs(fraction: Fraction) -> None:
    rows = list(fraction.rows())
    assert len(rows) == fraction.runs

    def product(mask: int, row: tuple[int, ...]) -> int:
        value = 1
        for index, level in enumerate(row):
            value *= level if mask >> index & 1 else 1
        return value

    for index in range(fraction.factors):
        assert sum(row[index] for row in rows) == 0
    for one, other in itertools.combinations(range(fraction.factors), 2):
        assert sum(row[one] * row[other] for row in rows) == 0
    for word in fraction.words:
        assert {product(word, row) for row in rows} == {fraction.sign_of(word)}
    constant = {m for m in range(1, 1 << fraction.factors) if len({product(m, row) for row in rows}) == 1}
    assert constant == set(fraction.words)
    masks = effect.up_to_second(fraction.factors)
    columns = {mask: tuple(product(mask, row) for row in rows) for mask in masks}
    for one, other in itertools.combinations(masks, 2):
        same = columns[one] in (columns[other], tuple(-value for value in columns[other]))
        assert same == (fraction.column(one) == fraction.column(other))


@given(fractions(), st.integers(1, 2))
@settings(max_examples=80)
def test_parts_are_of_one_size_and_hide_what_is_said(fraction: Fraction, power: int) -> None:
    parts = 1 << power
    if parts * 2 > fraction.runs:
        return
    columns = two_level.blocks(fraction, parts)
    if columns is None:
        return
    rows = list(fraction.rows())
    belongs = [two_level.part_of(fraction, columns, row) for row in rows]
    assert sorted({*belongs}) == list(range(parts))
    assert {belongs.count(part) for part in range(parts)} == {fraction.runs // parts}
    hidden = set(two_level.hidden_by(fraction, columns))
    assert not any(mask.bit_count() == 1 for mask in hidden)
    for mask in effect.up_to_second(fraction.factors):
        sums = dict.fromkeys(range(parts), 0)
        for row, part in zip(rows, belongs, strict=True):
            value = 1
            for index, level in enumerate(row):
                value *= level if mask >> index & 1 else 1
            sums[part] += value
        # An effect is hidden when it is constant in every part.
        constant = all(abs(total) == fraction.runs // parts for total in sums.values())
        assert constant == (mask in hidden)


@pytest.mark.parametrize(
    ("factors", "wanted", "runs"),
    [(5, [0b11], 16), (6, [0b11, 0b101, 0b1001], 32), (7, [0b1000001], 32), (4, [0b11], 16)],
)
def test_effects_that_are_asked_for_are_clear(factors: int, wanted: list[int], runs: int) -> None:
    bases = list(range(factors.bit_length(), factors + 1))
    found = two_level.with_clear(factors, wanted, 4, bases)
    assert found is not None
    assert found.runs == runs
    assert set(wanted) <= set(found.clear())


def test_words_and_letters_name_effects() -> None:
    names = ("size", "nagle", "rate")
    assert (
        effect.parse("size:rate", names)
        == effect.parse("rate * size", names)
        == effect.parse("AC", names)
        == 5
    )
    assert effect.parse("B", names) == 2
    for wrong in ("", "size:sise", "AD", "size:size", "AA", ":", "I"):
        with pytest.raises(ValueError, match="expected"):
            effect.parse(wrong, names)
