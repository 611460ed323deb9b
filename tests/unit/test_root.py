"""Where a function is zero, against scipy's own search."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from iodyno.analysis.root import root


@given(st.floats(0.001, 999.0), st.floats(0.1, 5.0), st.sampled_from([-1.0, 1.0]))
def test_it_is_that_of_another_search(at: float, power: float, sign: float) -> None:
    def function(x: float) -> float:
        return sign * (math.pow(x, power) - math.pow(at, power))

    found = root(function, 1e-4, 1000.0)
    assert found == pytest.approx(optimize.brentq(function, 1e-4, 1000.0, xtol=1e-12), rel=1e-9, abs=1e-9)


def test_an_end_may_be_it() -> None:
    assert root(lambda x: x - 1, 1.0, 2.0) == 1.0
    assert root(lambda x: 2 - x, 1.0, 2.0) == pytest.approx(2.0, rel=1e-15)


def test_a_function_that_is_zero_nowhere_between_is_refused() -> None:
    with pytest.raises(ValueError, match="same sign"):
        root(lambda x: x + 1, 0.0, 1.0)
