"""M/D/1, M/D/1/K and M/D/c against series and recurrences with 120 digits, published points, and each other."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from station_oracles import TIGHT, check_little, check_quantiles, crommelin, md1k_states, mean_of

from iodyno.analysis.queueing.md1 import md1, md1k
from iodyno.analysis.queueing.mdc import mdc, stationary
from iodyno.analysis.queueing.mm1 import mm1
from iodyno.core.errors import ExperimentError

few = settings(max_examples=25, deadline=None, derandomize=True)
shares = st.floats(0.01, 0.97)


@pytest.mark.parametrize("load", [0.01, 0.3, 0.9, 0.99])
@pytest.mark.parametrize("time", [0.0, 0.3, 1.0, 2.75, 9.5, 40.0])
def test_waits_of_md1_are_crommelins(load: float, time: float) -> None:
    waiting = md1(load, 1.0).waiting
    exact = crommelin(load, time)
    assert waiting is not None
    assert waiting.exceeds(time) == pytest.approx(exact, rel=TIGHT, abs=1e-100)


@few
@given(shares, st.floats(1e-7, 10.0))
def test_little_and_quantiles_of_md1(load: float, service_s: float) -> None:
    found = md1(load / service_s, service_s)
    check_little(found)
    for p in (0.5, 0.99, 0.999999):
        check_quantiles(found, p)
    # Half the wait of exponential service (Pollaczek-Khinchine).
    assert found.waiting_time_s == pytest.approx(
        mm1(load / service_s, service_s).waiting_time_s / 2, rel=TIGHT
    )
    assert found.probability(0) == pytest.approx(1 - load, rel=TIGHT)


@pytest.mark.parametrize("load", [0.1, 0.8, 0.999, 0.999999])
def test_states_of_md1_have_its_mean_also_near_saturation(load: float) -> None:
    found = md1(load, 1.0)
    states = [found.probability(n) or 0.0 for n in range(2000)]
    # Beyond them the ratio of neighbours is constant: geometric sums end it.
    ratio = states[-1] / states[-2] if states[-2] > 1e-280 else 0.0
    rest = states[-1] * ratio / (1 - ratio)
    number = math.fsum(n * p for n, p in enumerate(states)) + rest * (1999 + 1 / (1 - ratio))
    # The ratio itself is good to 1e-16, and 1 - ratio to that over how small it is.
    assert math.fsum([*states, rest]) == pytest.approx(1, rel=max(TIGHT, 1e-15 / (1 - load)))
    assert number == pytest.approx(found.number_in_system, rel=max(TIGHT, 2e-15 / (1 - load)))


@pytest.mark.parametrize("load", [0.05, 0.5, 0.9, 1.0, 1.2, 3.0])
@pytest.mark.parametrize("capacity", [1, 2, 8, 32, 100])
def test_states_and_loss_of_md1k(load: float, capacity: int) -> None:
    found = md1k(load, 1.0, capacity)
    exact = md1k_states(load, capacity)
    assert [found.probability(n) for n in range(capacity + 1)] == pytest.approx(exact, rel=TIGHT, abs=1e-100)
    assert found.blocking_ratio == pytest.approx(exact[-1], rel=TIGHT)
    check_little(found)
    check_quantiles(found, 0.9)


@pytest.mark.parametrize(
    ("service_us", "room", "load", "loss", "wait_us"),
    [
        (1000, 1, 0.5, 0.0963, 213), (1000, 1, 1.2, 0.3339, 418), (1000, 4, 0.8, 0.0353, 1210),
        (1000, 4, 0.95, 0.0828, 1683), (1000, 4, 1.2, 0.1991, 2401), (200, 16, 0.8, 0.0002, 397),
        (200, 16, 1.2, 0.1670, 2676), (100, 4, 0.95, 0.0828, 168),
    ],
)  # fmt: skip
def test_md1k_at_the_points_that_were_measured_on_a_token_bucket(
    service_us: int, room: int, load: float, loss: float, wait_us: float
) -> None:
    # Theory as the research note printed it, beside what tbf did: one unit in the last place of what it printed.
    found = md1k(load / service_us, float(service_us), room + 1)
    assert found.blocking_ratio == pytest.approx(loss, abs=5.1e-5)
    assert found.waiting_time_s == pytest.approx(wait_us, abs=1)


@few
@given(st.floats(0.1, 2.0), st.integers(1, 12))
def test_waits_of_md1k_have_the_mean_that_is_told_and_an_end(load: float, capacity: int) -> None:
    found = md1k(load, 1.0, capacity)
    assert found.waiting is not None
    # 1e-6: Simpson's rule with 32 steps in each service time, where it is smooth.
    mean = mean_of(found.waiting.exceeds, [float(n) for n in range(capacity)])
    assert mean == pytest.approx(found.waiting_time_s, rel=1e-6, abs=1e-12)
    assert found.waiting.exceeds(capacity - 1) == 0
    assert (found.waiting_time_quantile_s(0.999999) or 0) <= capacity - 1


@few
@given(st.floats(0.05, 0.85))
def test_md1k_with_many_places_is_md1(load: float) -> None:
    cut, whole = md1k(load, 1.0, 250), md1(load, 1.0)
    assert cut.waiting_time_s == pytest.approx(whole.waiting_time_s, rel=TIGHT)
    for p in (0.5, 0.99):
        assert cut.waiting_time_quantile_s(p) == pytest.approx(
            whole.waiting_time_quantile_s(p), rel=TIGHT, abs=1e-12
        )


def test_large_buffers_at_and_above_the_full_load() -> None:
    # Far above it the loss is what cannot be served; the fluid limit is exact to e^-K there.
    assert md1k(1.5, 1.0, 10_000).blocking_ratio == pytest.approx(1 - 1 / 1.5, rel=TIGHT)
    full = md1k(1.0, 1.0, 2000)
    check_little(full)
    # At just the full load the states are even, but for both ends: loss is about 1 / (2 K) (diffusion between two walls).
    assert full.blocking_ratio == pytest.approx(1 / 4000, rel=2e-3)


@pytest.mark.parametrize("load", [0.05, 0.6, 0.95])
def test_mdc_with_one_server_is_md1(load: float) -> None:
    one, many = md1(load, 1.0), mdc(load, 1.0, 1)
    assert many.waiting_time_s == pytest.approx(one.waiting_time_s, rel=TIGHT)
    assert [many.probability(n) for n in range(80)] == pytest.approx(
        [one.probability(n) for n in range(80)], rel=TIGHT
    )
    for p in (0.5, 0.99, 0.99999):
        assert many.waiting_time_quantile_s(p) == pytest.approx(
            one.waiting_time_quantile_s(p), rel=TIGHT, abs=1e-12
        )


@few
@given(shares, st.integers(1, 16))
def test_little_and_waits_of_mdc(share: float, servers: int) -> None:
    found = mdc(share * servers, 1.0, servers)
    check_little(found)
    check_quantiles(found, 0.99)
    assert found.waiting is not None
    # Poisson arrivals see time averages: who finds all busy waits. The mean busy servers are the load.
    idle = [found.probability(n) or 0.0 for n in range(servers)]
    assert found.waiting.exceeds(0) == pytest.approx(1 - math.fsum(idle), rel=1e-9, abs=1e-12)
    assert servers - math.fsum((servers - n) * p for n, p in enumerate(idle)) == pytest.approx(
        share * servers, rel=TIGHT
    )


@pytest.mark.parametrize(("share", "servers"), [(0.5, 2), (0.8, 8), (0.95, 4)])
def test_waits_of_mdc_have_the_mean_that_is_told(share: float, servers: int) -> None:
    found = mdc(share * servers, 1.0, servers)
    assert found.waiting is not None
    mean = mean_of(found.waiting.exceeds, [float(n) for n in range(60)])
    # At .95 on 4 servers e^-24 is left beyond 60 service times.
    assert mean == pytest.approx(found.waiting_time_s, rel=1e-6)


def test_mdc_has_states_enough() -> None:
    for servers, share in ((2, 0.5), (8, 0.9), (32, 0.8)):
        some, more = (stationary(servers, servers * share, each) for each in (24, 40))
        for state in (0, servers, 5 * servers, 22 * servers + 60):
            assert some.at(state) == pytest.approx(more.at(state), rel=1e-11)


def test_waits_fall_in_the_order_of_variation() -> None:
    for load in (0.2, 0.7, 0.95):
        times = [model(load, 1.0).waiting_time_quantile_s(0.99) or 0.0 for model in (md1, mm1)]
        assert times[0] <= times[1]
        waits = [md1k(load, 1.0, places).waiting_time_s for places in (2, 4, 8, 100)]
        assert all(less < more for less, more in pairwise([*waits, md1(load, 1.0).waiting_time_s + 1e-9]))


def test_bad_arguments() -> None:
    with pytest.raises(ExperimentError, match=r"unstable at a utilisation of 1\.5"):
        md1(1.5, 1.0)
    with pytest.raises(ExperimentError, match="invalid value: 0 places"):
        md1k(0.5, 1.0, 0)
    with pytest.raises(ExperimentError, match="invalid value: 129 servers; expected 128 at most"):
        mdc(0.5, 1.0, 129)
    assert md1(0.0, 1.0).response_time_quantile_s(0.99) == 1.0
    assert mdc(0.0, 1.0, 4).response_time_quantile_s(0.99) == 1.0
    assert md1k(0.0, 1.0, 4).blocking_ratio == 0.0
