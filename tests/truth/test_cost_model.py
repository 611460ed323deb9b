"""A fit finds the coefficients again that trials were drawn from, and its intervals hold them as often as they say."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import pytest
from made_trials import Noise, design, drift, even, proportional
from published import COEFFICIENTS, RESIDUAL_SD

from iodyno.analysis.cost_model.checks import at_no_load
from iodyno.analysis.cost_model.derived import ratio_of_levels
from iodyno.analysis.cost_model.fit import Errors, Method, Prepared, fit, prepare, solve
from iodyno.analysis.cost_model.model import CostModel, equation_of, equation_per
from iodyno.analysis.cost_model.study import study
from iodyno.analysis.cost_model.terms import default_formula, through_origin

BY_TERM = {frozenset(name.split(":")): value for name, value in COEFFICIENTS.items()}


def true_coefficients(model: CostModel) -> np.ndarray:
    names = [column.name.replace("[nfs]", "") for column in model.columns]
    return np.array([BY_TERM[frozenset(name.split(":"))] for name in names])


def test_without_noise_the_equation_comes_back_exactly() -> None:
    data, _ = design(2)
    found = fit(data).model
    assert found.coefficients == pytest.approx(true_coefficients(found), abs=1e-12)


def test_640_runs_give_back_every_coefficient() -> None:
    data, truth = design()
    values = truth + even(np.random.default_rng(5), truth)
    found = solve(prepare(data), values)
    errors = [found.model.standard_error(row) for row in np.eye(16)]
    away = np.abs(found.model.coefficients - true_coefficients(found.model)) / np.array(errors)
    assert max(away) < 3
    # The rest of the spread is 4 % of itself in 605 degrees of freedom.
    assert found.model.residual_sd == pytest.approx(RESIDUAL_SD, rel=0.1)
    assert errors[1] == pytest.approx(0.0181, rel=0.1)


CASES: Sequence[tuple[str, Noise, Method, Errors, int, bool]] = (
    ("even", even, "auto", "auto", 6, False),
    ("proportional, HC3", proportional, "ols", "auto", 6, False),
    ("proportional, weighted", proportional, "auto", "auto", 6, False),
    ("proportional, few trials", proportional, "auto", "auto", 3, False),
    ("70 % drift in blocks", drift(0.7), "auto", "auto", 12, True),
)


@pytest.mark.parametrize(
    ("noise", "method", "errors", "replicates", "half"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_intervals_cover_as_often_as_they_say(
    noise: Noise, method: Method, errors: Errors, replicates: int, half: bool
) -> None:
    """Over 200 fits of 15 effects: the share of 3000 intervals is known to 0.4 points, so .93 to .97 is five of these."""
    data, truth = design(replicates, half)
    prepared = prepare(data)
    source = np.random.default_rng(11)
    hit = np.zeros(15)
    for _ in range(200):
        model = solve(prepared, truth + noise(source, truth), method, errors).model
        true = true_coefficients(model)[1:]
        for place, row in enumerate(np.eye(16)[1:]):
            half_width = model.quantile(row) * (model.standard_error(row) or 0.0)
            hit[place] += abs(model.coefficients[place + 1] - true[place]) <= half_width
    assert 0.93 <= hit.mean() / 200 <= 0.97
    # Of one effect alone 200 fits tell the share to 1.5 points.
    assert hit.min() / 200 > 0.88


def test_the_mean_of_drifting_blocks_is_not_known_better_than_blocks_vary() -> None:
    data, truth = design(20, True)
    prepared = prepare(data)
    source = np.random.default_rng(13)
    row = np.eye(16)[0]
    hit, narrow = 0, 0
    for _ in range(120):
        model = solve(prepared, truth + drift(0.7)(source, truth)).model
        away = abs(model.coefficients[0] - COEFFICIENTS["intercept"])
        hit += away <= model.quantile(row) * (model.standard_error(row) or 0.0)
        assert model.covariance is not None
        narrow += away <= 2 * math.sqrt(model.covariance[0, 0])
    assert hit / 120 > 0.83, "a little low: 20 blocks tell their own correlation badly"
    assert narrow / 120 < 0.35, "what trials within blocks would have said"


@pytest.mark.parametrize("noise", [even, proportional])
def test_both_intervals_of_a_ratio_cover(noise: Noise) -> None:
    data, truth = design(3)
    prepared = prepare(data)
    true = (1.142594 + 0.369719) / (1.142594 - 0.369719)
    source = np.random.default_rng(17)
    delta, boot = 0, 0
    for number in range(100):
        model = solve(prepared, truth + noise(source, truth)).model
        found = ratio_of_levels(model, "protocol", {"read": "0%"}, load="iops", seed=number)
        low, high = found.estimate.low, found.estimate.high
        assert low is not None and high is not None and found.bootstrap is not None
        delta += low <= true <= high
        boot += found.bootstrap[0] <= true <= found.bootstrap[1]
    # 100 fits tell a share of 95 % to 2.2 points; three of these.
    assert delta / 100 > 0.88
    assert boot / 100 > 0.88


def test_least_squares_are_those_of_the_normal_equations() -> None:
    """Solved another way, with covariances as the books write them: s^2 (X'WX)^-1, and MacKinnon and White's HC3."""
    data, truth = design(3)
    values = truth + proportional(np.random.default_rng(3), truth)
    prepared = prepare(data)
    x = prepared.matrix
    for method, errors in (("ols", "classical"), ("ols", "hc3"), ("wls", "classical"), ("wls", "hc3")):
        mine = solve(prepared, values, method, errors)  # type: ignore[arg-type]
        w = mine.weights
        inverse = np.linalg.inv(x.T @ (x * w[:, None]))
        b = inverse @ x.T @ (w * values)
        e = values - x @ b
        expected = inverse * (e @ (w * e)) / (len(values) - x.shape[1])
        if errors == "hc3":
            leverage = w * np.array([row @ inverse @ row for row in x])
            bread = inverse @ (x * (w * e / (1 - leverage))[:, None]).T
            expected = bread @ bread.T
        assert mine.coefficients == pytest.approx(b, abs=1e-10)
        assert mine.covariance == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_robust_fits_shrug_off_what_least_squares_do_not() -> None:
    data, truth = design(4)
    values = truth + 0.1 * np.random.default_rng(2).normal(size=len(truth))
    values[::16] += 5
    prepared = prepare(data)
    away = {}
    for method in ("ols", "huber", "quantile"):
        model = solve(prepared, values, method).model  # type: ignore[arg-type]
        away[method] = abs(model.coefficients[0] - COEFFICIENTS["intercept"])
    assert away["huber"] < away["ols"] / 5
    assert away["quantile"] < away["ols"] / 5


def test_a_quantile_is_that_of_the_trials_and_not_the_mean() -> None:
    data, truth = design(20)
    values = truth + even(np.random.default_rng(4), truth)
    upper = solve(prepare(data, blocks=False), values, "quantile", quantile=0.9).model
    # 1.2816 standard deviations above the mean; 640 trials tell that quantile to some 0.03.
    expected = COEFFICIENTS["intercept"] + 1.2816 * RESIDUAL_SD
    assert upper.coefficients[0] == pytest.approx(expected, abs=0.12)
    assert "90 % quantile" in upper.method
    made = study(solve(prepare(data, blocks=False), values, "quantile", quantile=0.9))
    assert made.variation.lack_of_fit is None, "residuals of a quantile have no mean of 0"
    assert 0 <= made.variation.r_squared <= 1
    assert {check.name for check in made.checks if check.found.startswith("not tested")} >= {
        "lack of fit",
        "spread",
    }


def test_the_form_through_the_origin_gives_another_equation() -> None:
    """Claim 11: fitted so, less the background, a per cent of reads saves 1.13e-3 of an operation, and not 1.93e-3."""
    data, truth = design(1)
    formula = through_origin(default_formula(data.factors), "iops")
    found = solve(prepare(data, formula), truth - 1.536).model
    equation = equation_per(found, "iops", only=("read", "protocol"))
    one = equation.coefficient().estimate
    read = equation.coefficient("read").estimate
    assert one is not None and read is not None
    assert read / one == pytest.approx(-1.1349e-3, rel=1e-4)
    assert all("iops" in dict(monomial) for monomial in equation_of(found).monomials), (
        "nothing is left at zero load"
    )


def test_the_origin_is_accepted_where_it_holds() -> None:
    data, _ = design(5)
    iops = np.array([float(row["iops"]) for row in data.rows])
    nfs = np.array([row["protocol"] == "nfs" for row in data.rows])
    values = 1.5 + 1e-3 * iops * (1 + 0.5 * nfs) + np.random.default_rng(6).normal(0, 0.2, len(iops))
    found = at_no_load(solve(prepare(data), values).model, "iops")
    assert found.rejected == () and found.warning is None
    low, high = found.background.low, found.background.high
    assert low is not None and high is not None and low < 1.5 < high


def evaluated(expression: str, **variables: float) -> float:
    return float(eval(expression, {"log2": math.log2}, variables))


def test_the_equation_that_is_printed_can_be_pasted() -> None:
    data, _ = design(2)
    made = study(fit(data), "iops")
    variables = {v.name: v for v in made.equation.variables}
    assert set(variables) == {"read_percent", "rand_percent", "block_KiB", "protocol_nfs", "iops_per_s"}
    at = {"read": "30%", "rand": "80%", "block": "5KiB", "protocol": "fc", "iops": "3300/s"}
    by_text = evaluated(
        made.equation.expression,
        read_percent=30,
        rand_percent=80,
        block_KiB=5,
        protocol_nfs=-1,
        iops_per_s=3300,
    )
    assert by_text == pytest.approx(made.model.predict(at).estimate, rel=1e-5)
    assert re.fullmatch(r"[\w.*+\- e]+", made.equation.expression)


def test_blocks_take_out_what_drifts() -> None:
    data, truth = design(20, True)
    values = truth + drift(0.9)(np.random.default_rng(8), truth)
    row = np.eye(16)[15]
    blocked = solve(prepare(data), values).model.standard_error(row)
    random = solve(prepare(data, blocks=False), values).model.standard_error(row)
    assert blocked is not None and random is not None
    assert blocked < 0.75 * random


def test_half_the_points_estimate_the_same_terms() -> None:
    """Claim 12: 16 runs of resolution V carry the 16 terms."""
    data, _ = design(2, True)
    first: Prepared = prepare(data)
    assert first.aliased == () and first.terms == 16
