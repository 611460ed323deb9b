"""Scaling laws and fitted stations: published curves, known truths, intervals that hold what they say, refusals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from draws import count_between, draws
from hypothesis import given
from hypothesis import strategies as st

from iodyno.analysis.fitting.closed_station import closed_bounds, closed_general, closed_queue
from iodyno.analysis.fitting.curve import Load, Model, fit
from iodyno.analysis.fitting.open_station import open_queue
from iodyno.analysis.fitting.usl import Scaling, scale, usl
from iodyno.analysis.queueing import scaling
from iodyno.core.errors import ExperimentError

KVM = ((1, 1180), (2, 2300), (4, 4400), (8, 7900), (16, 13_500), (32, 18_000))
"""Packets per second against threads, source 5: the table of KVM guests."""
ZONES = ((1, 14_000), (2, 23_000), (4, 36_000), (8, 60_000), (16, 78_000))
ZONES_GBIT = ((1, 2.75), (2, 3.32), (4, 4.54), (8, 1.96))
"""Its throughput of zones, where the CPU caps take over at 8 threads."""


def loads(pairs: Sequence[tuple[float, float]]) -> list[Load]:
    return [Load(n, (x,)) for n, x in pairs]


def value(found: Scaling, name: str) -> float:
    each = {**found.parameters, **found.knees}[name]
    assert each.estimate is not None, each.missing
    return each.estimate


def test_the_published_curve_of_guests_by_absolute_errors() -> None:
    # The published fit is that of R's nls, which takes all units of rate alike.
    found = scale(loads(KVM), errors="absolute", extrapolate=True)
    assert value(found, "lambda") == pytest.approx(1135, abs=0.5)
    assert value(found, "sigma") == pytest.approx(0.0140, abs=5e-5)
    assert value(found, "kappa") == pytest.approx(5.89e-4, abs=5e-7)
    assert found.fit.worst_error == pytest.approx(0.038, abs=5e-4)
    assert value(found, "peak") == pytest.approx(41, abs=0.5)
    assert value(found, "peak_rate") == pytest.approx(18_400, abs=50)
    for each in (*found.parameters.values(), *found.knees.values()):
        assert each.low is not None and each.high is not None and each.estimate is not None
        assert each.low < each.estimate < each.high


def test_relative_errors_are_smaller_where_they_are_minimised() -> None:
    relative, absolute = scale(loads(KVM)), scale(loads(KVM), errors="absolute")
    assert relative.fit.rms_error < 0.0102 < 0.0213 < absolute.fit.rms_error
    queue = next(each for each in relative.compared if each.name == "closed_queue")
    # The two-parameter closed queue of the same research: 6.4 %.
    assert queue.rms_error == pytest.approx(0.064, abs=0.0005)


def test_a_peak_without_points_beyond_it_is_not_given() -> None:
    found = scale(loads(KVM))
    for name in ("peak", "peak_rate", "marginal"):
        assert found.knees[name].estimate is None
        assert "no point lies beyond it" in (found.knees[name].missing or "")
    assert "46.3" in (found.knees["peak"].missing or "")
    assert value(found, "crossing") == pytest.approx(16.13, abs=0.01)


def test_zones_have_no_coherency_and_so_no_peak() -> None:
    absolute = next(c for c in scale(loads(ZONES), errors="absolute").compared if c.name == "usl")
    assert absolute.parameters["lambda"] == pytest.approx(12_210, abs=5)
    assert absolute.parameters["sigma"] == pytest.approx(0.0888, abs=5e-5)
    assert absolute.parameters["kappa"] == pytest.approx(6.9e-4, abs=5e-6)
    assert absolute.worst_error == pytest.approx(0.128, abs=5e-4)
    found = scale(loads(ZONES), errors="absolute")
    assert found.fit.model.name == "usl"
    assert "kappa cannot be told from 0" in (found.knees["peak"].missing or "")
    assert any("no peak" in note for note in found.notes)


def test_the_wall_is_held_also_where_kappa_is_not_told_from_nothing() -> None:
    """The curve of docs/background/scaling.md, whose wall is at 16.2, with 3 % of noise: kappa is told from 0 in half of the
    campaigns. With Amdahl's law in the place of the whole one, none of the others held the wall.
    """
    law = usl()
    exact = law.values(np.array([[1135.0, 0.014, 5.89e-4]]), np.array([1.0, 2, 4, 8, 16, 24, 32]))[0]
    truth = float(scaling.crossing(0.014, 5.89e-4))
    told, held, unsure = 0, 0, 0
    for seed in range(draws(60)):
        source = np.random.default_rng((seed, 3))
        points = [
            Load(n, (x * float(np.exp(source.normal(0, 0.03))),))
            for n, x in zip((1, 2, 4, 8, 16, 24, 32), exact, strict=True)
        ]
        found = scale(points, resamples=200, seed=seed)
        wall = found.knees["crossing"]
        if "kappa cannot be told" not in (found.knees["peak"].missing or ""):
            continue
        unsure += 1
        if wall.estimate is not None and wall.low is not None and wall.high is not None:
            told += 1
            held += wall.low <= truth <= wall.high
    # It is told of half of them, and of most of these with a wall.
    assert unsure >= count_between(0.5, draws(60))[0] and told > 0
    assert held >= count_between(0.95, told)[0]


def test_a_mode_switch_is_no_scaling_curve() -> None:
    with pytest.raises(ExperimentError, match=r"no scaling curve.* % off at N = \d.*another mode"):
        scale(loads(ZONES_GBIT))
    more = [*ZONES_GBIT, (16, 1.9), (32, 2.0)]
    with pytest.raises(ExperimentError, match="no scaling curve"):
        scale(loads(more))
    with pytest.raises(ExperimentError, match=r"\+25 % off at N = 8"):
        scale(loads(ZONES_GBIT), errors="absolute")


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        (KVM[:4], "4 distinct loads are too few for the 3 parameters"),
        (
            ((16, 10), (17, 10.5), (18, 11), (19, 11.4), (20, 11.8)),
            "do not tell lambda, sigma and kappa apart",
        ),
        ((*KVM[:5], (32, 0)), "invalid value: 0 at load 32; expected rates above 0"),
        ((*KVM[:5], (32, -1)), "-1 at load 32"),
        ((*KVM[:5], (32, math.nan)), "nan at load 32"),
        (((0, 5), *KVM), "load: invalid value 0: expected loads above 0"),
    ],
)
def test_points_that_carry_no_law_are_refused(pairs: Sequence[tuple[float, float]], text: str) -> None:
    with pytest.raises(ExperimentError, match=text):
        scale(loads(pairs))


def test_nothing_is_predicted_beyond_the_data_but_on_demand_and_past_the_knee() -> None:
    assert scale(loads(KVM), at=(24,)).beyond[0].value == pytest.approx(16_400, rel=0.01)
    with pytest.raises(ExperimentError, match=r"N = 48 lies beyond the greatest load measured, 32"):
        scale(loads(KVM), at=(48,))
    (ahead,) = scale(loads(KVM), at=(48,), extrapolate=True).beyond
    assert ahead.least <= ahead.low < ahead.value < ahead.high <= ahead.most
    with pytest.raises(ExperimentError, match="more than 2 times the greatest load"):
        scale(loads(KVM), at=(65,), extrapolate=True)
    # Up to 16 threads the curve has not bent: it said 20 700 where 18 000 was measured later.
    with pytest.raises(ExperimentError, match="cannot be predicted: no point lies past the knee"):
        scale(loads(KVM[:5]), at=(32,), extrapolate=True)
    with pytest.raises(ExperimentError, match="more than 0 and less than 1"):
        scale(loads(KVM), share=0)


@given(st.floats(0.001, 0.9), st.floats(1e-6, 0.1))
def test_the_knees_are_where_their_definitions_say(sigma: float, kappa: float) -> None:
    n = np.geomspace(1, 1e4, 20_001)
    rates = scaling.rate(n, 1.0, sigma, kappa)
    step = n[1] / n[0]
    assert n[np.argmax(rates)] == pytest.approx(float(scaling.peak(sigma, kappa)), rel=2 * (step - 1))
    assert float(scaling.greatest_rate(1.0, sigma, kappa)) >= rates.max() * (1 - 1e-12)
    assert float(scaling.crossing(sigma, kappa)) == pytest.approx(rates.max(), rel=1e-6)
    assert n[np.argmax(rates**2 / n)] == pytest.approx(float(scaling.power(sigma, kappa)), rel=1e-2)
    at = float(scaling.marginal(sigma, kappa, 0.1))
    if at > 1.001:
        assert float(scaling.gain(at, sigma, kappa)) == pytest.approx(0.1, rel=1e-6)
        ahead = 1e-5 * at
        slope = (scaling.rate(at + ahead, 1, sigma, kappa) - scaling.rate(at - ahead, 1, sigma, kappa)) / (
            2 * ahead
        )
        assert float(slope) == pytest.approx(0.1, rel=1e-3)
    # Efficiency at the crossing of Amdahl's law is one half and a bit.
    assert float(scaling.power(sigma, 0.0)) == pytest.approx(max((1 - sigma) / sigma, 1.0))
    assert float(scaling.crossing(sigma, 0.0)) == pytest.approx(1 / sigma)


def test_a_line_has_no_knee() -> None:
    for place in (scaling.peak(0.0, 0.0), scaling.power(0.0, 0.0), scaling.marginal(0.0, 0.0, 0.1)):
        assert float(place) == math.inf
    found = scale(loads([(n, 100.0 * n) for n in (1, 2, 4, 8, 16)]))
    assert all(each.estimate is None and each.missing for each in found.knees.values())
    assert found.fit.worst_error < 1e-6


def test_a_bound_beyond_all_numbers_is_none_and_said() -> None:
    found = fit(usl(), loads(KVM), resamples=20)
    peak = found.derived(41.0, np.array([30.0] * 10 + [math.inf] * 10), "")
    assert (peak.low, peak.high) == (30.0, None) and "no upper bound" in peak.method


@given(st.floats(1e-3, 1e9), st.floats(0.0, 0.5), st.floats(0.0, 0.01))
def test_without_noise_the_law_is_found_again(lam: float, sigma: float, kappa: float) -> None:
    n = (1, 2, 4, 8, 16, 32, 64)
    found = fit(usl(), loads([(k, float(scaling.rate(k, lam, sigma, kappa))) for k in n]), resamples=2)
    assert found.theta[0] == pytest.approx(lam, rel=1e-3)
    assert found.theta[1] == pytest.approx(sigma, abs=1e-3)
    assert found.theta[2] == pytest.approx(kappa, abs=1e-4)
    assert found.worst_error < 1e-4


LOADS = (1, 2, 4, 8, 16, 24, 32, 48, 64)
RUNS = draws(300)
TRUTHS: tuple[tuple[Model, tuple[float, ...], Sequence[float], int], ...] = (
    (usl(), (1000.0, 0.03, 1e-3), LOADS[:7], 1),
    (usl(), (1000.0, 0.03, 1e-3), LOADS[:7], 3),
    (closed_queue(), (50e-6, 400e-6), LOADS[:7], 3),
    (closed_queue(4), (200e-6, 400e-6), LOADS[:7], 3),
    (closed_general(0.2 * (50e-6) ** 2), (50e-6, 400e-6), LOADS[:6], 3),
    (closed_bounds(), (50e-6, 400e-6), LOADS, 3),
    (open_queue(), (80e-6, 300e-6), (1000, 2000, 4000, 6000, 8000, 10_000, 11_000), 3),
    (open_queue(4, 1.0, 2 * (80e-6) ** 2), (80e-6, 300e-6), (10_000, 20_000, 30_000, 40_000, 45_000), 3),
)


@pytest.mark.parametrize(
    ("model", "truth", "at", "trials"), TRUTHS, ids=lambda each: getattr(each, "name", "")
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    model: Model, truth: tuple[float, ...], at: Sequence[float], trials: int
) -> None:
    exact = model.values(np.array([truth]), np.array(at, dtype=float))[0]
    held, banded = np.zeros(len(truth)), 0
    for seed in range(RUNS):
        source = np.random.default_rng((seed, 7))
        noisy = [
            Load(n, tuple(x * np.exp(source.normal(0, 0.03, trials)))) for n, x in zip(at, exact, strict=True)
        ]
        found = fit(model, noisy, resamples=300, seed=seed)
        for position, parameter in enumerate(model.parameters):
            each = found.parameter(parameter.name)
            assert each.low is not None and each.high is not None
            held[position] += each.low <= truth[position] <= each.high
        again = [float(np.median(x * np.exp(source.normal(0, 0.03, trials)))) for x in exact]
        _, _, least, most = found.bands(at)
        banded += int(((least <= again) & (again <= most)).sum())
    # 0.93: 300 resamples are short of 0.95 by that much; ends at a bound are safe. Of one run, what is held goes together.
    least_held, _ = count_between(0.93, RUNS)
    assert np.all(held >= least_held), held / RUNS
    assert held.mean() >= least_held
    assert least_held / RUNS <= banded / (RUNS * len(at)) <= 0.995


def test_where_one_trial_of_three_was_disturbed_the_curve_stays() -> None:
    truth = closed_queue().values(np.array([[50e-6, 400e-6]]), np.array(LOADS, dtype=float))[0]
    noisy = [
        Load(n, (x, 1.01 * x, 0.5 * x if n in (4, 16) else 0.99 * x))
        for n, x in zip(LOADS, truth, strict=True)
    ]
    found = fit(closed_queue(), noisy, resamples=100)
    assert found.theta == pytest.approx([50e-6, 400e-6], rel=0.01)
    assert found.disturbed
    assert found.lack_of_fit is False
