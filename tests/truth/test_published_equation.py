"""The published cost equation of a study of 2014, reproduced from its own table of coefficients, and where its use went wrong.

The digits are those of an independent calculation (R's coefficients by hand), numbered as the claims of the research note.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from published import COEFFICIENTS, FACTORS, RESIDUAL_DF, RESIDUAL_SD, RUNS, STANDARD_ERROR

from iodyno.analysis.cost_model.checks import at_no_load
from iodyno.analysis.cost_model.derived import (
    cores_needed,
    cost_per_operation,
    difference_of_levels,
    operations_per_core,
    ratio_of_levels,
)
from iodyno.analysis.cost_model.model import CostModel, equation_of, equation_per, published_model
from iodyno.analysis.cost_model.variation import allocation_of_published
from iodyno.core.errors import ExperimentError


@pytest.fixture(scope="module")
def model() -> CostModel:
    return published_model(
        FACTORS,
        COEFFICIENTS,
        standard_error=STANDARD_ERROR,
        residual_df=RESIDUAL_DF,
        outcome="cpu",
        unit="% of 8 cores",
        source="the article's table",
    )


def value(estimate: object) -> float:
    found = getattr(estimate, "estimate")  # noqa: B009
    assert isinstance(found, float)
    return found


def test_claim_6_equation_1_follows_from_the_coded_coefficients(model: CostModel) -> None:
    equation = equation_per(model, "iops", only=("read", "protocol"))
    at_origin = value(equation.coefficient())
    assert 8 * at_origin == pytest.approx(60.9383e-4, rel=2e-6), (
        "of one core, in per cent; printed 60.9384e-4"
    )
    assert value(equation.coefficient("read")) / at_origin == pytest.approx(-1.92928e-3, rel=5e-6)
    assert value(equation.coefficient("protocol[nfs]")) / at_origin == pytest.approx(0.323579, rel=3e-6)


@pytest.mark.parametrize(
    ("read", "nfs_us", "fc_us"),
    [(0, 80.66, 41.22), (1, 80.54, 41.10), (50, 74.78, 35.34), (100, 68.90, 29.46)],
)
def test_claim_7_the_headline_is_the_cost_at_one_per_cent_reads(
    model: CostModel, read: int, nfs_us: float, fc_us: float
) -> None:
    for protocol, expected in (("nfs", nfs_us), ("fc", fc_us)):
        found = cost_per_operation(model, {"read": f"{read}%", "protocol": protocol}, load="iops")
        assert 1e6 * value(found.estimate) == pytest.approx(expected, abs=0.005)
        assert found.estimate.unit == "s/operation"


def test_claim_7_the_slip_is_not_possible_here(model: CostModel) -> None:
    with pytest.raises(
        ExperimentError, match="invalid value '1': expected a number with its unit, such as 1%"
    ):
        cost_per_operation(model, {"read": "1", "protocol": "nfs"}, load="iops")


@pytest.mark.parametrize(
    ("read", "ratio", "half"), [(0, 1.957, 0.150), (1, 1.959, 0.150), (50, 2.116, 0.178), (100, 2.339, 0.247)]
)
def test_claim_8_the_ratio_holds_for_no_reads_only(
    model: CostModel, read: int, ratio: float, half: float
) -> None:
    found = ratio_of_levels(model, "protocol", {"read": f"{read}%"}, load="iops")
    assert value(found.estimate) == pytest.approx(ratio, abs=6e-4)
    assert found.estimate.high is not None
    assert found.estimate.high - value(found.estimate) == pytest.approx(half, abs=6e-4)
    assert found.bootstrap is not None
    assert found.bootstrap[0] == pytest.approx(ratio - half, abs=0.05), (
        "a ratio is skewed, and so is its bootstrap"
    )
    assert not any(d.code == "model_range" for d in found.warnings)


def test_claim_8_the_constant_is_the_difference(model: CostModel) -> None:
    for read in ("0%", "50%", "100%"):
        found = difference_of_levels(model, "protocol", {"read": read}, load="iops")
        assert 1e6 * value(found.estimate) == pytest.approx(39.44, abs=0.005)


def test_claim_9_cores_at_a_stated_utilisation(model: CostModel) -> None:
    at = {"read": "1%"}
    for protocol, per_core, busy, needed in (("nfs", 12_416, 5.638, 9), ("fc", 24_330, 2.877, 5)):
        point = {**at, "protocol": protocol}
        assert value(operations_per_core(model, point, load="iops").estimate) == pytest.approx(
            per_core, rel=1e-4
        )
        cores = cores_needed(model, point, load_per_s=70_000, target_utilisation=0.7, load="iops")
        assert value(cores.busy.estimate) == pytest.approx(busy, rel=2e-4)
        assert cores.needed == needed
        assert cores.least <= needed <= cores.most


@pytest.mark.parametrize("target", [1.0, 0.0, -0.1, 1.5, math.nan])
def test_claim_9_a_hundred_per_cent_is_no_target(model: CostModel, target: float) -> None:
    with pytest.raises(ExperimentError, match="target utilisation"):
        cores_needed(model, {"read": "1%"}, load_per_s=70_000, target_utilisation=target, load="iops")


def test_claim_10_allocation_of_variation(model: CostModel) -> None:
    found = {name: 100 * share for name, share in allocation_of_published(model, RUNS).items()}
    assert found["iops"] == pytest.approx(59.1, abs=0.05)
    assert found["protocol"] == pytest.approx(20.5, abs=0.05)
    assert found["protocol:iops"] == pytest.approx(7.6, abs=0.05)
    assert found["read:iops"] == pytest.approx(0.7, abs=0.05)
    assert found["read"] == pytest.approx(0.3, abs=0.05)
    assert found["error"] == pytest.approx(11.4, abs=0.05)
    assert sum(found.values()) == pytest.approx(100)
    assert 1 - found["error"] / 100 == pytest.approx(0.8862, abs=5e-5), "R squared as published"
    f = (100 - found["error"]) / 15 / (found["error"] / RESIDUAL_DF)
    assert f == pytest.approx(324, abs=0.5), "F as published"
    assert model.residual_sd == pytest.approx(RESIDUAL_SD, abs=1e-4)


def test_claim_11_the_origin_is_rejected_for_reads(model: CostModel) -> None:
    found = at_no_load(model, "iops")
    assert value(found.background) == pytest.approx(1.536, abs=5e-4), "per cent of 8 cores"
    assert value(found.effects["protocol[nfs]"]) == pytest.approx(-0.0080, abs=5e-5)
    assert abs(found.t["protocol[nfs]"] or 0) < 1, "the protocol passes through the origin"
    assert value(found.effects["read"]) == pytest.approx(0.1090, abs=5e-5)
    assert found.t["read"] == pytest.approx(3.1, abs=0.05)
    assert "read" in found.rejected
    assert found.warning is not None and "read +0.109 % of 8 cores (t = 3.1)" in found.warning.text


def test_claim_11_an_effect_was_dropped_that_stands_out(model: CostModel) -> None:
    found = model.interval_of("protocol[nfs]:block")
    assert value(found) == pytest.approx(0.062063)
    assert found.low is not None and found.low > 0
    assert value(found) / STANDARD_ERROR == pytest.approx(3.423, abs=5e-4)


def test_the_equation_in_natural_units_gives_the_same_as_the_coded_one(model: CostModel) -> None:
    equation = equation_of(model)
    point = {"read": 30.0, "rand": 80.0, "block": 5000.0, "protocol[nfs]": -1.0, "iops": 3300.0}
    by_hand = sum(
        float(weight) * math.prod(point[name] ** power for name, power in monomial)
        for monomial, weight in zip(equation.monomials, equation.values, strict=True)
    )
    at = {"read": "30%", "rand": "80%", "block": "5000B", "protocol": "fc", "iops": "3300/s"}
    assert by_hand == pytest.approx(value(model.predict(at)), rel=1e-12)


def test_outside_of_the_range_needs_a_word(model: CostModel) -> None:
    at = {"iops": "70000/s", "protocol": "nfs"}
    with pytest.raises(ExperimentError, match="iops=70000/s is outside of the range 1000/s to 4000/s"):
        model.predict(at)
    found = model.predict(at, beyond_range=True)
    assert [warning.code for warning in found.warnings] == ["model_range"]


def test_the_coding_is_what_makes_the_protocol_visible(model: CostModel) -> None:
    """Section 0.2: in natural units its main effect is that at zero load, where nothing is done: t = 0."""
    equation = equation_of(model, only=("protocol", "iops"))
    natural = equation.coefficient("protocol[nfs]")
    assert natural.low is not None and natural.high is not None and natural.low < 0 < natural.high
    assert np.isclose(value(model.interval_of("protocol[nfs]")) / STANDARD_ERROR, 33.547, atol=5e-3)
