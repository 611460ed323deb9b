"""Rules that decide, where blocks in a row are like their neighbours: first-order autoregressive contrasts, one pair a block."""

from __future__ import annotations

import math

import numpy as np
import pytest

from iodyno.analysis.decisions.contrast import Observation, between_levels
from iodyno.analysis.decisions.sequence import (
    ALPHA,
    Fit,
    bounds,
    evidence,
    log_evidence,
    radius_in_errors,
    tuned,
)

Array = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def contrasts(repeats: int, blocks: int, correlation: float, effect: float, seed: int) -> Array:
    """Effects in blocks, with a standard deviation of 1."""
    made = np.random.default_rng(seed).standard_normal((repeats, blocks))
    for block in range(1, blocks):
        made[:, block] *= math.sqrt(1 - correlation**2)
        made[:, block] += correlation * made[:, block - 1]
    return made + effect


def decided(made: Array, *, alike: bool = True) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Blocks until "no effect" is left out; infinite where it never is. `alike`: as the product does it."""
    most = made.shape[1]
    tuned_blocks = max(2, most // 4)
    mixture, found = tuned(tuned_blocks, tuned_blocks - 1), np.full(len(made), np.inf)
    for n in range(2, most + 1):
        off = made[:, :n]
        squares = off.var(axis=1) * n
        if alike:
            out = log_evidence(off, squares, n, n - 1, mixture) > -math.log(ALPHA)
        else:
            radius = radius_in_errors(n - 1, mixture * n)
            out = np.abs(off.mean(axis=1)) > radius * np.sqrt(squares / (n - 1) / n)
        found[np.isinf(found) & out] = n
    return found


@pytest.mark.parametrize("blocks", [20, 50])
@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6])
def test_looks_at_nothing_rarely_find_something(correlation: float, blocks: int) -> None:
    """Taken for independent: false in 2, 8 and 28 of 100 campaigns of 20 blocks, in 2, 10 and 39 of 50."""
    count = 2000
    made = contrasts(count, blocks, correlation, 0.0, 20081217)
    false = float(np.isfinite(decided(made)).mean())
    assert false <= 0.06
    if correlation == 0.6:
        assert np.isfinite(decided(made, alike=False)).mean() > 0.2


@pytest.mark.parametrize(("effect", "most"), [(1, 21), (2, 13), (4, 9)])
def test_what_independent_blocks_pay_for_it(effect: float, most: int) -> None:
    made = contrasts(500, 50, 0.0, effect, 3)
    assert np.median(decided(made)) <= most
    # In place of 12, 7 and 5.
    assert np.median(decided(made)) <= 1.8 * np.median(decided(made, alike=False))


def test_an_effect_is_told_of_blocks_that_are_alike() -> None:
    made = contrasts(500, 50, 0.6, 2.0, 4)
    assert np.isfinite(decided(made)).mean() > 0.98 and np.median(decided(made)) <= 14


def test_the_bounds_are_where_the_evidence_is_twenty() -> None:
    made = contrasts(1, 12, 0.5, 1.0, 5)[0]
    trials = [
        Observation({"size": name}, block, float(value))
        for block, each in enumerate(made)
        for name, value in (("a", each), ("b", 0.0))
    ]
    fit, _ = between_levels(trials, "size", "a", "b")
    assert fit is not None
    assert np.array(fit.blocks) + fit.estimate == pytest.approx(made)
    mixture = 10 / fit.weight
    found = bounds(fit, mixture)
    alone = bounds(Fit(fit.estimate, fit.weight, fit.sigma, fit.freedom), mixture)
    assert found is not None and alone is not None
    assert found[0] < alone[0] < alone[1] < found[1]
    for bound in found:
        assert evidence(fit, bound, mixture) == pytest.approx(20, rel=1e-6)


def test_blocks_of_many_trials_and_of_fractions_are_alike_too() -> None:
    """The block's effect is what its trials differ by, whatever else is in it."""
    source = np.random.default_rng(6)
    effects = source.normal(1, 1, 6)
    trials = [
        Observation({"size": size, "connections": n}, block, (effect if size == "a" else 0.0) + float(n))
        for block, effect in enumerate(effects)
        for size in "ab"
        for n in (1, 8)
    ]
    fit, _ = between_levels(trials, "size", "a", "b")
    assert fit is not None and fit.freedom == 15
    assert np.array(fit.blocks) + fit.estimate == pytest.approx(effects)
    # All that is left is what the effects differ by.
    assert fit.sigma**2 * fit.freedom == pytest.approx(fit.weight / 6 * np.square(fit.blocks).sum())
