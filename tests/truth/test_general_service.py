"""M/G/1 and G/G/c: means for any law, quantiles for the law that is named, bounds that hold."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from station_oracles import TIGHT, check_little, check_quantiles, mean_of

from iodyno.analysis.queueing.ggc import ggc, waiting_bounds_s
from iodyno.analysis.queueing.md1 import md1
from iodyno.analysis.queueing.mdc import mdc
from iodyno.analysis.queueing.mg1 import mg1
from iodyno.analysis.queueing.mm1 import mm1
from iodyno.analysis.queueing.mmc import mmc
from iodyno.analysis.queueing.service import Constant, law_of
from iodyno.analysis.queueing.station import StationResult
from iodyno.core.errors import ExperimentError

few = settings(max_examples=20, deadline=None, derandomize=True)
shares = st.floats(0.02, 0.97)
variations = st.one_of(st.just(0.0), st.floats(0.02, 20.0))


def edges(longest: float) -> list[float]:
    return [0.0, *(longest * 2.0**-power for power in range(14, -1, -1))]


@few
@given(st.floats(1e-6, 10), st.floats(0.002, 50.0))
def test_a_law_has_the_two_moments(mean_s: float, squared_cv: float) -> None:
    law = law_of(mean_s, squared_cv)
    assert law is not None and not isinstance(law, Constant)
    # Areas of P(S > t) and of 2 t P(S > t), on pieces about the mean where a law of many phases falls steeply.
    spread = math.sqrt(squared_cv) * mean_s
    steps = sorted(
        {*edges((1 + squared_cv) * 60 * mean_s), *(max(0.0, mean_s + k * spread / 4) for k in range(-24, 25))}
    )
    assert mean_of(law.exceeds, steps) == pytest.approx(mean_s, rel=1e-6)
    second = mean_of(lambda t: 2 * t * law.exceeds(t), steps)
    assert second / mean_s**2 - 1 == pytest.approx(squared_cv, rel=1e-4, abs=1e-6)


@few
@given(shares, variations)
def test_mean_of_mg1_is_pollaczek_khinchines(load: float, squared_cv: float) -> None:
    found = mg1(load, 1.0, squared_cv)
    assert found.waiting_time_s == pytest.approx(load * (1 + squared_cv) / (2 * (1 - load)), rel=TIGHT)
    check_little(found)
    for p in (0.5, 0.99, 0.9999):
        check_quantiles(found, p)
    # Poisson arrivals: those that find the server busy wait.
    assert found.waiting is not None
    assert found.waiting.exceeds(0) == pytest.approx(load, rel=TIGHT)
    assert found.probability(0) == pytest.approx(1 - load, rel=TIGHT)


@pytest.mark.parametrize("squared_cv", [0.05, 0.3, 0.5, 0.99, 1.0, 1.5, 10.0])
@pytest.mark.parametrize("load", [0.1, 0.8])
def test_distributions_of_mg1_have_the_means_that_are_told(load: float, squared_cv: float) -> None:
    found = mg1(load, 1.0, squared_cv)
    assert found.waiting is not None and found.response is not None
    longest = 40 * (1 + squared_cv) / (1 - load)
    # 1e-5: Simpson's rule where a law of 20 phases is steep.
    assert mean_of(found.waiting.exceeds, edges(longest)) == pytest.approx(found.waiting_time_s, rel=1e-5)
    assert mean_of(found.response.exceeds, edges(longest)) == pytest.approx(found.response_time_s, rel=1e-5)
    number = math.fsum(n * (found.probability(n) or 0) for n in range(3000))
    assert number == pytest.approx(found.number_in_system, rel=1e-8)


@pytest.mark.parametrize("load", [0.1, 0.5, 0.95])
def test_mg1_meets_its_special_cases(load: float) -> None:
    for other, squared_cv in ((mm1(load, 1.0), 1.0), (md1(load, 1.0), 0.0)):
        found = mg1(load, 1.0, squared_cv)
        for p in (0.5, 0.9, 0.999):
            assert found.response_time_quantile_s(p) == pytest.approx(
                other.response_time_quantile_s(p), rel=TIGHT
            )
        assert found.probability(4) == pytest.approx(other.probability(4), rel=TIGHT)
    # From above 1 the law is another one, and its limit the same; near 0 a thousand phases are nearly constant.
    above, exponential = mg1(load, 1.0, 1 + 1e-9), mm1(load, 1.0)
    assert above.response_time_quantile_s(0.99) == pytest.approx(
        exponential.response_time_quantile_s(0.99), rel=1e-7
    )
    near = mg1(load, 1.0, 0.001).response_time_quantile_s(0.99)
    assert near == pytest.approx(md1(load, 1.0).response_time_quantile_s(0.99), rel=2e-3)


@pytest.mark.parametrize("missing", [1e-3, 1e-6, 1e-9])
def test_mg1_near_saturation(missing: float) -> None:
    # The load itself is a double: 1 - load is good to 1e-16 over how small it is.
    load, rel = 1 - missing, max(TIGHT, 1e-14 / missing)
    for other, squared_cv in ((mm1(load, 1.0), 1.0), (md1(load, 1.0), 0.0)):
        found = mg1(load, 1.0, squared_cv)
        for p in (0.01, 0.5, 0.99999):
            assert found.response_time_quantile_s(p) == pytest.approx(
                other.response_time_quantile_s(p), rel=rel
            )
    # In heavy traffic the wait is exponential, whatever the law (Kingman 1961).
    for squared_cv in (0.0, 0.2, 5.0):
        found = mg1(load, 1.0, squared_cv)
        assert found.waiting_time_quantile_s(0.9) == pytest.approx(
            found.waiting_time_s * math.log(10), rel=max(4 * missing, 1e-6)
        )


@pytest.mark.parametrize(("load", "squared_cv"), [(0.7, 0.5), (0.7, 4.0)])
def test_quantiles_of_mg1_are_those_of_a_simulation(load: float, squared_cv: float) -> None:
    # Lindley's recurrence with the same law, drawn another way; 200 000 customers, standard error of the share about 0.2 %.
    chance = random.Random(5)
    fast = (1 + math.sqrt(3 / 5)) / 2

    def service() -> float:
        if squared_cv < 1:
            return chance.expovariate(2) + chance.expovariate(2)
        share = fast if chance.random() < fast else 1 - fast
        return chance.expovariate(2 * share)

    found = mg1(load, 1.0, squared_cv)
    limit, wait, beyond = found.response_time_quantile_s(0.9), 0.0, 0
    assert limit is not None
    for _ in range(200_000):
        time = service()
        beyond += wait + time > limit
        wait = max(0.0, wait + time - chance.expovariate(load))
    assert beyond / 200_000 == pytest.approx(0.1, abs=0.01)


def test_mg1_says_what_it_does_not_know() -> None:
    found = mg1(0.5, 1.0, 1e-4)
    assert found.response_time_quantile_s(0.9) is None and "use md1" in found.missing
    assert found.waiting_time_s == pytest.approx(0.50005, rel=TIGHT)
    named = mg1(0.5, 1.0, 4.0).time_method
    assert named is not None and not named.exact and "hyper-exponential" in named.source


@few
@given(shares, st.integers(1, 32), st.floats(0, 5), variations)
def test_allen_cunneen_and_its_bounds(
    share: float, servers: int, arrival_cv: float, service_cv: float
) -> None:
    found = ggc(share * servers, 1.0, servers, arrival_cv, service_cv)
    check_little(found)
    low, high = waiting_bounds_s(share * servers, 1.0, servers, arrival_cv, service_cv)
    assert 0 <= low <= high
    exact: list[StationResult] = [mmc(share * servers, 1.0, servers)]
    if servers <= 16:
        exact.append(mdc(share * servers, 1.0, servers))
    for other, squared_cv in zip(exact, (1.0, 0.0), strict=False):
        low, high = waiting_bounds_s(share * servers, 1.0, servers, 1.0, squared_cv)
        assert low <= other.waiting_time_s <= high


@few
@given(shares, st.integers(1, 32))
def test_ggc_is_exact_for_exponential_times(share: float, servers: int) -> None:
    found, exact = ggc(share * servers, 1.0, servers, 1.0, 1.0), mmc(share * servers, 1.0, servers)
    assert found.waiting_time_s == pytest.approx(exact.waiting_time_s, rel=TIGHT)
    for p in (0.5, 0.99):
        # 1e-7: the response comes by numerical integration.
        assert found.response_time_quantile_s(p) == pytest.approx(exact.response_time_quantile_s(p), rel=1e-7)
        assert found.waiting_time_quantile_s(p) == pytest.approx(
            exact.waiting_time_quantile_s(p), rel=TIGHT, abs=1e-12
        )


@pytest.mark.parametrize("service_cv", [0.0, 0.04, 0.7, 3.0])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_distributions_of_ggc_have_the_means_that_are_told(service_cv: float, share: float) -> None:
    found = ggc(share * 4, 1.0, 4, 0.5, service_cv)
    assert found.response is not None and found.waiting is not None
    steps = sorted({*edges(40 * (1 + service_cv) / (1 - share)), 1.0})
    assert mean_of(found.waiting.exceeds, steps) == pytest.approx(found.waiting_time_s, rel=1e-6)
    assert mean_of(found.response.exceeds, steps) == pytest.approx(found.response_time_s, rel=1e-5)
    assert not found.method.exact


def test_without_variation_nobody_waits() -> None:
    found = ggc(0.9, 1.0, 1, 0.0, 0.0)
    assert found.waiting_time_s == 0 and found.response_time_quantile_s(0.99) == 1.0
    assert ggc(0.0, 1.0, 4, 1.0, 1.0).waiting_time_quantile_s(0.99) == 0
    assert waiting_bounds_s(0.0, 1.0, 4, 1.0, 1.0) == (0.0, 0.0)


def test_bad_arguments() -> None:
    with pytest.raises(ExperimentError, match="squared coefficient of variation of service times"):
        mg1(0.5, 1.0, -0.1)
    with pytest.raises(ExperimentError, match="squared coefficient of variation of times between arrivals"):
        ggc(0.5, 1.0, 1, math.nan, 1.0)
    with pytest.raises(ExperimentError, match="unstable"):
        mg1(1.0, 1.0, 0.5)
    with pytest.raises(ExperimentError, match="unstable"):
        waiting_bounds_s(4.0, 1.0, 4, 1.0, 1.0)
