"""Stations against closed forms, exact rational arithmetic and each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from station_oracles import TIGHT, chain, check_little, check_quantiles, mean_of

from iodyno.analysis.queueing.erlang import erlang_b, erlang_c, log_erlang_b, servers_for_waiting
from iodyno.analysis.queueing.fork_join import fork_join
from iodyno.analysis.queueing.ggc import ggc
from iodyno.analysis.queueing.md1 import md1, md1k
from iodyno.analysis.queueing.mdc import mdc
from iodyno.analysis.queueing.mg1 import mg1
from iodyno.analysis.queueing.mm1 import mm1
from iodyno.analysis.queueing.mmc import mmc, separate_queues
from iodyno.analysis.queueing.mmck import mm1k, mmck
from iodyno.analysis.queueing.mmcn import mmcn
from iodyno.analysis.queueing.station import StationResult
from iodyno.core.errors import ExperimentError

few = settings(max_examples=40, deadline=None, derandomize=True)
shares = st.floats(0.01, 0.97)
times = st.floats(1e-7, 10.0)
counts = st.integers(1, 64)


def erlang_b_exactly(servers: int, load: Fraction) -> Fraction:
    """By its definition: a^c / c! over the sum of a^n / n!."""
    term = total = Fraction(1)
    for n in range(1, servers + 1):
        term = term * load / n
        total += term
    return term / total


@pytest.mark.parametrize(
    ("servers", "load"), [(1, "1/2"), (8, "32/5"), (64, "60"), (512, "500"), (512, "1000"), (300, "3/7")]
)
def test_erlang_formulas_against_rational_numbers(servers: int, load: str) -> None:
    exact = Fraction(load)
    lost = erlang_b_exactly(servers, exact)
    if lost > Fraction(1, 10**300):
        assert erlang_b(servers, float(exact)) == pytest.approx(float(lost), rel=1e-12)
    log = math.log(lost.numerator) - math.log(lost.denominator)
    assert log_erlang_b(servers, float(exact)) == pytest.approx(log, rel=1e-12)
    if exact < servers:
        waits = lost / (1 - exact / servers * (1 - lost))
        assert erlang_c(servers, float(exact)) == pytest.approx(float(waits), rel=1e-12)


@pytest.mark.parametrize(("servers", "load"), [(512, 10_000), (10_050, 10_000), (10_000, 9_999)])
def test_erlang_formulas_of_large_loads_against_60_digits(servers: int, load: int) -> None:
    lost = chain([Decimal(load) / (n + 1) for n in range(servers)])[-1]
    assert erlang_b(servers, float(load)) == pytest.approx(float(lost), rel=1e-12)
    if load < servers:
        waits = lost / (1 - Decimal(load) / servers * (1 - lost))
        assert erlang_c(servers, float(load)) == pytest.approx(float(waits), rel=1e-12)


def test_erlang_formulas_at_the_ends() -> None:
    assert erlang_b(0, 3.0) == 1 and erlang_b(5, 0.0) == 0 and erlang_c(5, 0.0) == 0
    assert log_erlang_b(512, 1.0) == pytest.approx(-math.lgamma(513) - 1, rel=1e-12)
    assert erlang_b(512, 1.0) == 0.0
    # Large loads: the share lost tends to 1 - c / a.
    assert erlang_b(512, 10_000.0) == pytest.approx(1 - 512 / 10_000, rel=1e-3)
    assert 0 < erlang_c(10_001, 10_000.0) < 1


@few
@given(st.floats(0.1, 300), st.floats(0.001, 1))
def test_servers_for_waiting_is_the_least_number(load: float, share: float) -> None:
    servers = servers_for_waiting(load, share)
    assert erlang_c(servers, load) <= share
    assert servers - 1 <= load or erlang_c(servers - 1, load) > share


@few
@given(shares, times, counts)
def test_little_and_quantiles_of_mmc(share: float, service_s: float, servers: int) -> None:
    found = mmc(share * servers / service_s, service_s, servers)
    check_little(found)
    for p in (0.5, 0.99, 0.9999):
        check_quantiles(found, p)
    states = [found.probability(n) for n in range(servers + 1)]
    tail = states[-1] / (1 - share)  # type: ignore[operator]
    assert math.fsum(states[:-1]) + tail == pytest.approx(1, rel=1e-12)  # type: ignore[arg-type]


@few
@given(shares, times)
def test_mmc_with_one_server_is_mm1(share: float, service_s: float) -> None:
    one, many = mm1(share / service_s, service_s), mmc(share / service_s, service_s, 1)
    check_little(one)
    apart = separate_queues(share / service_s, service_s, 1)
    for other in (many, apart):
        assert other.response_time_s == pytest.approx(one.response_time_s, rel=TIGHT)
        assert other.queue_length == pytest.approx(one.queue_length, rel=TIGHT)
        for p in (0.1, 0.5, 0.99):
            assert other.response_time_quantile_s(p) == pytest.approx(
                one.response_time_quantile_s(p), rel=TIGHT
            )


@few
@given(st.floats(0.01, 0.8), st.integers(1, 8))
def test_mmck_with_many_places_is_mmc(share: float, servers: int) -> None:
    # .8^400 = 1e-39 is what the places cut off.
    cut, whole = mmck(share * servers, 1.0, servers, servers + 400), mmc(share * servers, 1.0, servers)
    assert cut.response_time_s == pytest.approx(whole.response_time_s, rel=TIGHT)
    assert cut.probability(3) == pytest.approx(whole.probability(3), rel=TIGHT)
    for p in (0.5, 0.99, 0.99999):
        assert cut.response_time_quantile_s(p) == pytest.approx(whole.response_time_quantile_s(p), rel=TIGHT)
        assert cut.waiting_time_quantile_s(p) == pytest.approx(
            whole.waiting_time_quantile_s(p), rel=TIGHT, abs=1e-12
        )


@few
@given(st.floats(0, 5), times, st.integers(1, 20), st.integers(0, 60))
def test_little_and_probabilities_of_mmck(share: float, service_s: float, servers: int, room: int) -> None:
    found = mmck(share * servers / service_s, service_s, servers, servers + room)
    check_little(found)
    assert math.fsum(found.probability(n) or 0 for n in range(servers + room + 1)) == pytest.approx(
        1, rel=1e-12
    )
    assert found.blocking_ratio is not None
    assert found.throughput_per_s == pytest.approx(
        found.arrival_rate_per_s * (1 - found.blocking_ratio), rel=1e-9, abs=1e-12 / service_s
    )
    check_quantiles(found, 0.9)


def test_mmck_without_a_waiting_room_is_erlangs_loss() -> None:
    found = mmck(450.0, 1.0, 512, 512)
    assert found.blocking_ratio == pytest.approx(erlang_b(512, 450.0), rel=TIGHT)
    assert found.waiting_time_s == 0 and found.waiting_time_quantile_s(0.999) == 0
    assert found.response_time_quantile_s(0.5) == pytest.approx(math.log(2), rel=TIGHT)


def test_large_stations_against_rational_numbers() -> None:
    # 512 servers, 10 000 places, and a load at which both ends matter.
    servers, places, load = 512, 10_000, Fraction(512)
    weights = [Fraction(1)]
    for n in range(1, servers + 1):
        weights.append(weights[-1] * load / n)
    total = sum(weights) + weights[-1] * (places - servers)
    found = mmck(512.0, 1.0, servers, places)
    assert found.blocking_ratio == pytest.approx(float(weights[-1] / total), rel=TIGHT)
    assert found.probability(100) == pytest.approx(float(weights[100] / total), rel=TIGHT)
    waits = weights[-1] * sum(range(1, places - servers + 1)) / total
    assert found.queue_length == pytest.approx(float(waits), rel=TIGHT)
    check_little(found)


@pytest.mark.parametrize(
    "found", [mmc(7.0, 1.0, 8), mmc(0.5, 1.0, 1), mmck(9.0, 1.0, 8, 20), mm1k(1.2, 1.0, 8), mmck(4.0, 1.0, 4, 4)],
    ids=lambda found: found.model,
)  # fmt: skip
def test_distributions_have_the_means_that_are_told(found: StationResult) -> None:
    assert found.response is not None and found.waiting is not None
    edges = [0.0, *(80 * 2.0**-power for power in range(12, -1, -1))]
    # The rest beyond 80 service times is below 1e-10 in each.
    assert mean_of(found.response.exceeds, edges) == pytest.approx(found.response_time_s, rel=1e-6)
    assert mean_of(found.waiting.exceeds, edges) == pytest.approx(found.waiting_time_s, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("load", "servers", "places"), [(0.9, 1, 8), (1.3, 1, 40), (3.0, 4, 12)])
def test_times_of_mmck_are_sums_over_what_arrivals_find(load: float, servers: int, places: int) -> None:
    found = mmck(load, 1.0, servers, places)
    assert found.waiting is not None and found.response is not None and found.blocking_ratio is not None
    seen = [(found.probability(n) or 0) / (1 - found.blocking_ratio) for n in range(places)]

    def erlang_exceeds(phases: int, mean: float) -> float:
        return math.fsum(math.exp(-mean) * mean**i / math.factorial(i) for i in range(phases))

    for time in (0.1, 1.0, 3.0, 10.0):
        waits = math.fsum(
            seen[n] * erlang_exceeds(n - servers + 1, servers * time) for n in range(servers, places)
        )
        assert found.waiting.exceeds(time) == pytest.approx(waits, rel=TIGHT)
        if servers == 1:
            stays = math.fsum(seen[n] * erlang_exceeds(n + 1, time) for n in range(places))
            assert found.response.exceeds(time) == pytest.approx(stays, rel=TIGHT)
        else:
            # Service at once, or the wait's Erlang law and a slower phase: by partial sums of the faster rate's series.
            stays = math.exp(-time) * math.fsum(seen[:servers])
            for n in range(servers, places):
                phases, ratio = n - servers + 1, servers / (servers - 1)
                later = 1 - erlang_exceeds(phases, (servers - 1) * time)
                stays += seen[n] * (
                    erlang_exceeds(phases, servers * time) + math.exp(-time) * ratio**phases * later
                )
            # 1 - share subtracts, which costs this sum some digits.
            assert found.response.exceeds(time) == pytest.approx(stays, rel=1e-8)


def test_mmc_where_waiting_and_service_drain_at_one_rate() -> None:
    # c - a = 1: the closed form is 0 / 0 there; its neighbours lie on both sides.
    low, at, high = (mmc(7.0 + d, 1.0, 8).response_time_quantile_s(0.99) for d in (-1e-9, 0, 1e-9))
    assert low is not None and at is not None and high is not None
    assert low < at < high
    assert high - low < 1e-7


@few
@given(st.lists(st.floats(0, 0.99), min_size=2, max_size=2, unique=True), counts)
def test_more_load_never_makes_it_faster(loads: list[float], servers: int) -> None:
    less, more = sorted(loads)
    for model in (mmc, separate_queues):
        low, high = (model(share * servers, 1.0, servers) for share in (less, more))
        assert low.response_time_s <= high.response_time_s * (1 + 1e-12)
        assert (low.response_time_quantile_s(0.9) or 0) <= (high.response_time_quantile_s(0.9) or 0) * (
            1 + 1e-12
        )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: mm1(1.0, 1.0), "unstable at a utilisation of 1"),
        (lambda: mmc(8.1, 1.0, 8), "unstable at a utilisation of 1.0125"),
        (lambda: mmc(-1.0, 1.0, 8), "load of -1 arrivals/s"),
        (lambda: mmc(math.nan, 1.0, 8), "load of nan"),
        (lambda: mmc(1.0, 0.0, 8), "service time of 0 s"),
        (lambda: mmc(1.0, 1.0, 0), "invalid value: 0 servers"),
        (lambda: mmck(1.0, 1.0, 8, 7), "7 places in the system for 8 servers"),
        (lambda: erlang_c(3, 3.0), "load of 3 servers on 3"),
        (lambda: erlang_b(-1, 3.0), "-1 servers"),
        (lambda: servers_for_waiting(1.0, 0.0), "share that waits"),
        (lambda: mm1(0.5, 1.0).response_time_quantile_s(1.0), "invalid value: 1.0 as a quantile"),
        (lambda: mm1(0.5, 1.0).waiting_time_quantile_s(0.0), "invalid value: 0.0 as a quantile"),
    ],
)  # fmt: skip
def test_bad_arguments_are_one_clear_error(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ExperimentError, match=text):
        call()


LOADS = st.sampled_from([0.0, 1e-300, 1e-12, 1e-3, 0.5, 0.999, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12])
OVERLOADS = st.one_of(LOADS, st.sampled_from([1.0, 1.1, 10.0, 299.0, 1e4, 1e9]))
TIMES = st.sampled_from([1e-12, 1e-6, 1.0, 1e9])
SERVERS = st.sampled_from([1, 2, 8, 40, 512])
PLACES = st.sampled_from([0, 1, 8, 300])
VARIATIONS = st.sampled_from([0.0, 1e-6, 1e-3, 0.01, 0.3, 1 - 1e-12, 1.0, 1 + 1e-12, 2.0, 1e6])
EXTREME = st.one_of(
    st.builds(lambda a, s: (mm1, (a / s, s)), LOADS, TIMES),
    st.builds(lambda a, s, c: (mmc, (a * c / s, s, c)), LOADS, TIMES, SERVERS),
    st.builds(lambda a, s, c, q: (mmck, (a * c / s, s, c, c + q)), OVERLOADS, TIMES, SERVERS, PLACES),
    st.builds(lambda a, s: (md1, (a / s, s)), LOADS, TIMES),
    st.builds(lambda a, s, q: (md1k, (a / s, s, 1 + q)), OVERLOADS, TIMES, PLACES),
    st.builds(lambda a, s, c: (mdc, (a * c / s, s, c)), LOADS, TIMES, st.sampled_from([1, 2, 12])),
    st.builds(lambda a, s, v: (mg1, (a / s, s, v)), LOADS, TIMES, VARIATIONS),
    st.builds(
        lambda a, s, c, u, v: (ggc, (a * c / s, s, c, u, v)), LOADS, TIMES, SERVERS, VARIATIONS, VARIATIONS
    ),
    st.builds(
        lambda n, z, s, c: (mmcn, (n, z * s, s, c)), st.sampled_from([1, 2, 1000]), OVERLOADS, TIMES, SERVERS
    ),
    st.builds(lambda a, s, k: (fork_join, (a / s, s, k)), LOADS, TIMES, st.sampled_from([1, 2, 5, 40])),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(EXTREME)
def test_no_station_ever_answers_with_a_nan(
    case: tuple[Callable[..., StationResult], tuple[float, ...]],
) -> None:
    model, arguments = case
    try:
        found = model(*arguments)
    except ExperimentError:
        return
    number = found.throughput_per_s * found.response_time_s
    assert found.number_in_system == pytest.approx(number, rel=TIGHT, abs=1e-280)
    quantiles = [found.response_time_quantile_s(p) for p in (1e-6, 0.5, 0.99, 1 - 1e-9)]
    values = [
        found.throughput_per_s, found.utilisation, found.response_time_s, found.waiting_time_s, found.queue_length,
        found.number_in_system, found.blocking_ratio, *quantiles, found.waiting_time_quantile_s(0.99),
        *(found.probability(n) for n in (0, 1, 7, 600)),
    ]  # fmt: skip
    told = [value for value in values if value is not None]
    assert all(math.isfinite(value) and value >= 0 for value in told)
    rising = [value for value in quantiles if value is not None]
    assert all(low <= high * (1 + 1e-12) for low, high in pairwise(rising))
