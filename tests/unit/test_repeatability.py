"""The noise that a next design is planned with, from the replicates of a campaign."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_campaign import Layout, Truth, make_campaign

from iodyno.analysis.repeatability import of_campaign, pooled
from iodyno.analysis.summary import analyse_campaign
from iodyno.core.errors import ExperimentError, StoreError


def test_two_values_a_point_are_the_closed_form() -> None:
    """Within a pair 1 -+ d, the variance is 2 d^2 with a degree of freedom each."""
    trials = [("p1", 0, 90.0), ("p1", 0, 110.0), ("p2", 0, 1800.0), ("p2", 0, 2200.0)]
    found = pooled("cost", trials)
    assert found is not None
    assert found.noise_ratio == pytest.approx(0.1 * 2**0.5)
    assert (found.degrees_of_freedom, found.points) == (2, 2)
    assert found.low_ratio < found.noise_ratio < found.high_ratio


def test_what_differs_between_blocks_is_no_noise_and_the_interval_covers() -> None:
    source = np.random.default_rng(7)
    covered = 0
    for _ in range(200):
        trials = [
            (f"p{p}", block, (p + 1) * 100.0 * (1 + 0.3 * block) * (1 + 0.05 * source.standard_normal()))
            for p in range(8) for block in range(3)
        ]  # fmt: skip
        found = pooled("cost", trials)
        assert found is not None
        assert found.degrees_of_freedom == 24 - 8 - 2
        covered += found.low_ratio <= 0.05 <= found.high_ratio
    # 95 % of 200, less three standard errors; blocks that multiply make the noise a little uneven.
    assert covered >= 178


@pytest.mark.parametrize(
    "trials",
    [
        [],
        [("p1", 0, 1.0)],
        [("p1", 0, 1.0), ("p2", 0, 2.0)],
        [("p1", 0, 1.0), ("p1", 1, 2.0)],
        [("p1", 0, 0.0), ("p1", 0, 0.0), ("p1", 0, 0.0)],
    ],
)
def test_no_noise_is_made_up(trials: list[tuple[str, int, float]]) -> None:
    assert pooled("cost", trials) is None


def test_a_campaign_tells_its_noise(tmp_path: Path) -> None:
    truth = Truth(between=0.04, within=0.0)
    folder = make_campaign(tmp_path / "c", [({"connections": n}, truth) for n in (1, 2, 3, 4)])
    found = of_campaign(analyse_campaign(folder), "goodput_bits_per_s")
    assert found.points == 4
    assert found.low_ratio < 0.04 < found.high_ratio
    with pytest.raises(ExperimentError, match=r"'speed': expected .*goodput_bits_per_s"):
        of_campaign(analyse_campaign(folder), "speed")


def test_one_replicate_tells_none(tmp_path: Path) -> None:
    folder = make_campaign(
        tmp_path / "c", [({"connections": n}, Truth()) for n in (1, 2)], layout=Layout(replicates=1)
    )
    with pytest.raises(StoreError, match="too few to tell the noise"):
        of_campaign(analyse_campaign(folder))
