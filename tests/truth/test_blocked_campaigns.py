"""Campaigns in blocks: what blocks take out is neither drift nor explained by the factors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from draws import count_between, draws

from iodyno.analysis.cost_model.checks import checks_of
from iodyno.analysis.cost_model.coding import FactorScale
from iodyno.analysis.cost_model.data import CostData
from iodyno.analysis.cost_model.fit import Fit, fit
from iodyno.analysis.cost_model.variation import variation_of


def campaign(factors: int, blocks: int, seed: int, *, within: float = 0.0, effect: float = 0.0) -> Fit:
    """Two levels a factor, each point once a block in an order drawn; errors of 1 with the correlation `within` of neighbours
    in time, and blocks that differ by 10.
    """
    source = np.random.default_rng(seed)
    scales = tuple(FactorScale(f"f{number}", "number", (0.0, 1.0)) for number in range(factors))
    rows, values, names = [], [], []
    error = 0.0
    for block in range(blocks):
        points = list(itertools.product((0.0, 1.0), repeat=factors))
        source.shuffle(points)
        off = 10 * source.normal()
        for point in points:
            error = within * error + np.sqrt(1 - within**2) * source.normal()
            rows.append({f"f{number}": level for number, level in enumerate(point)})
            values.append(100 + off + effect * point[0] + error)
            names.append(str(block))
    return fit(
        CostData(
            "y", "", scales, tuple(rows), np.array(values), tuple(names), order=tuple(range(len(values)))
        )
    )


def drifted(made: Fit) -> bool:
    (found,) = [check for check in checks_of(made, variation_of(made)) if check.name == "drift"]
    return found.warning is not None


@pytest.mark.parametrize(("factors", "blocks"), [(1, 20), (2, 20), (2, 50)])
def test_independent_errors_in_blocks_are_no_drift(factors: int, blocks: int) -> None:
    """It was said of 69, 22 and 70 of 100 such campaigns, with the advice to do what they had done."""
    assert (
        sum(drifted(campaign(factors, blocks, seed)) for seed in range(draws(60)))
        <= count_between(0.01, draws(60))[1]
    )


def test_errors_that_follow_each_other_within_blocks_are_noticed() -> None:
    assert sum(drifted(campaign(3, 20, seed, within=0.7)) for seed in range(20)) >= 16


def test_what_blocks_take_out_is_not_explained_by_the_factors() -> None:
    quiet = variation_of(campaign(2, 8, 1))
    assert quiet.r_squared > 0.9, "with the blocks"
    assert quiet.within_blocks is not None and quiet.within_blocks < 0.4
    assert quiet.p is not None and quiet.p > 0.01
    strong = variation_of(campaign(2, 8, 1, effect=10.0))
    assert strong.within_blocks is not None and strong.within_blocks > 0.9
    assert strong.p is not None and strong.p < 1e-6
