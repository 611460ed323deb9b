"""Closed loops, losses of finite populations, fork and join, credits, and operational laws."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from station_oracles import TIGHT, chain, check_little, check_quantiles, mean_of

from iodyno.analysis.queueing import laws
from iodyno.analysis.queueing.credits import credit_flow, credit_rate_per_s, credits_for
from iodyno.analysis.queueing.erlang import erlang_b
from iodyno.analysis.queueing.fork_join import fork_join, quorum_of, varma_makowski_s
from iodyno.analysis.queueing.md1 import md1
from iodyno.analysis.queueing.mm1 import mm1
from iodyno.analysis.queueing.mmcn import engset, mmcn
from iodyno.analysis.queueing.mminf import mminf
from iodyno.core.errors import ExperimentError

few = settings(max_examples=30, deadline=None, derandomize=True)


@pytest.mark.parametrize(
    ("population", "think", "service", "servers", "rate"),
    # The last two are where a solver with p(0) = 1 - sum gives a negative or a tiny rate.
    [(10, 0.9, 0.1, 1, 8.3200), (500, 1e-3, 127e-6, 8, 62_992.126), (1200, 0.5, 0.444, 300, 675.6757)],
)
def test_rates_that_other_solvers_get_wrong(
    population: int, think: float, service: float, servers: int, rate: float
) -> None:
    assert mmcn(population, think, service, servers).throughput_per_s == pytest.approx(rate, rel=5e-5)


@pytest.mark.parametrize(
    ("population", "think", "service", "servers"),
    [
        (1, 1.0, 0.5, 1),
        (60, 1.0, 0.05, 2),
        (1000, 1.0, 0.5, 512),
        (10_000, 1.0, 0.05, 512),
        (10_000, 2.0, 0.001, 1),
    ],
)
def test_large_populations_against_60_digits(
    population: int, think: float, service: float, servers: int
) -> None:
    z, s = Decimal(think), Decimal(service)
    exact = chain([(population - n) * s / (z * min(n + 1, servers)) for n in range(population)])
    busy = sum(min(n, servers) * p for n, p in enumerate(exact))
    number = sum(n * p for n, p in enumerate(exact))
    found = mmcn(population, think, service, servers)
    assert found.throughput_per_s == pytest.approx(float(busy / s), rel=TIGHT)
    assert found.number_in_system == pytest.approx(float(number), rel=TIGHT)
    assert found.response_time_s == pytest.approx(float(number * s / busy), rel=TIGHT)
    assert found.probability(population // 2) == pytest.approx(
        float(exact[population // 2]), rel=TIGHT, abs=1e-300
    )


@few
@given(st.integers(1, 200), st.floats(0, 10), st.floats(1e-3, 1), st.integers(1, 16))
def test_a_closed_loop_keeps_littles_law_and_the_asymptotes(
    population: int, think: float, service: float, servers: int
) -> None:
    found = mmcn(population, think, service, servers)
    check_little(found)
    check_quantiles(found, 0.9)
    # N = X (R + Z), and X below its asymptotes.
    assert found.throughput_per_s * (found.response_time_s + think) == pytest.approx(population, rel=TIGHT)
    rate, least = laws.asymptotic_bounds(population, service, service / servers, think)
    assert found.throughput_per_s <= rate * (1 + TIGHT)
    assert found.response_time_s >= least * (1 - TIGHT)
    assert math.fsum(found.probability(n) or 0 for n in range(population + 1)) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(
    ("population", "think", "servers"), [(20, 1.0, 1), (20, 1.0, 4), (5, 0.0, 2), (3, 1.0, 4)]
)
def test_times_of_a_closed_loop_have_the_means_that_are_told(
    population: int, think: float, servers: int
) -> None:
    # The arrivals see a population of one less; their mean by the distribution is L / X by the states of all.
    found = mmcn(population, think, 1.0, servers)
    assert found.waiting is not None and found.response is not None
    edges = [0.0, *(120 * 2.0**-power for power in range(10, -1, -1))]
    assert mean_of(found.waiting.exceeds, edges) == pytest.approx(found.waiting_time_s, rel=1e-6, abs=1e-12)
    assert mean_of(found.response.exceeds, edges) == pytest.approx(found.response_time_s, rel=1e-6)


@few
@given(st.integers(1, 60), st.floats(0.1, 20), st.integers(1, 8))
def test_engset_against_rational_numbers(population: int, think: float, servers: int) -> None:
    # Engset 1918: of N - 1 others, n ask at once with weight C(N - 1, n) (s / Z)^n.
    load = 1 / Fraction(think)
    weights = [math.comb(population - 1, n) * load**n for n in range(min(servers, population - 1) + 1)]
    lost = weights[-1] / sum(weights) if servers < population else Fraction(0)
    found = engset(population, think, 1.0, servers)
    assert (found.blocking_ratio or 0.0) == pytest.approx(float(lost), rel=TIGHT)
    if found.blocking_ratio is not None:
        done = found.arrival_rate_per_s * (1 - found.blocking_ratio)
        assert found.throughput_per_s == pytest.approx(done, rel=TIGHT)
    assert found.waiting_time_s == 0


def test_thinking_that_is_next_to_nothing_is_none() -> None:
    short, none = mmcn(5, 2.2e-309, 1.0, 2), mmcn(5, 0.0, 1.0, 2)
    check_little(short)
    assert short.throughput_per_s == none.throughput_per_s == 2
    with pytest.raises(ExperimentError, match=r"think time of .* s with fewer places"):
        engset(5, 2.2e-309, 1.0, 2)


def test_engset_becomes_erlangs_loss_and_mmcn() -> None:
    # 1e6 clients that ask for 7 servers together.
    many = engset(1_000_000, 1_000_000 / 7, 1.0, 8)
    assert many.blocking_ratio == pytest.approx(erlang_b(8, 7.0), rel=1e-4)
    waits, whole = engset(12, 2.0, 1.0, 3, capacity=12), mmcn(12, 2.0, 1.0, 3)
    assert waits.throughput_per_s == pytest.approx(whole.throughput_per_s, rel=TIGHT)
    assert waits.blocking_ratio is None


@few
@given(st.floats(0, 0.99), st.integers(1, 64))
def test_fork_join_lies_between_one_answer_and_independent_ones(load: float, servers: int) -> None:
    found, one = fork_join(load, 1.0, servers), mm1(load, 1.0)
    harmonic = math.fsum(1 / n for n in range(1, servers + 1))
    assert (
        one.response_time_s * (1 - TIGHT)
        <= found.response_time_s
        <= harmonic * one.response_time_s * (1 + TIGHT)
    )
    assert found.method.exact == (servers <= 2)
    # Without load it is the longest of k exponential times.
    assert fork_join(0.0, 1.0, servers).response_time_s == pytest.approx(harmonic, rel=TIGHT)


def test_fork_join_of_two_is_the_closed_form_in_both_formulas() -> None:
    for load in (0.1, 0.5, 0.9):
        exact = (12 - load) / 8 / (1 - load)
        assert fork_join(load, 1.0, 2).response_time_s == pytest.approx(exact, rel=TIGHT)
        assert varma_makowski_s(load, 1.0, 2) == pytest.approx(exact, rel=TIGHT)
        # The two approximations were made in different ways and agree to 5 % with each other and with the truth.
        for servers in (4, 8, 32):
            assert fork_join(load, 1.0, servers).response_time_s == pytest.approx(
                varma_makowski_s(load, 1.0, servers), rel=0.1
            )


def test_quantiles_of_fork_join_are_above_those_of_a_simulation() -> None:
    chance, servers, load, total = random.Random(3), 4, 0.7, 60_000
    limit = fork_join(load, 1.0, servers).response_time_quantile_s(0.9)
    assert limit is not None
    waits, beyond, sum_s = [0.0] * servers, 0, 0.0
    for _ in range(total):
        ends = [wait + chance.expovariate(1) for wait in waits]
        gap = chance.expovariate(load)
        waits = [max(0.0, end - gap) for end in ends]
        beyond, sum_s = beyond + (max(ends) > limit), sum_s + max(ends)
    assert beyond / total < 0.1
    # 5 % is what its authors say, 3 % the noise of so short a run.
    assert fork_join(load, 1.0, servers).response_time_s == pytest.approx(sum_s / total, rel=0.08)


@few
@given(st.integers(1, 40), st.data())
def test_a_quorum_is_an_order_statistic(servers: int, data: st.DataObject) -> None:
    needed = data.draw(st.integers(1, servers))
    found = quorum_of(servers, 2.0, needed)
    exact = 2 * sum(Fraction(1, n) for n in range(servers - needed + 1, servers + 1))
    assert found.response_time_s == pytest.approx(float(exact), rel=TIGHT)
    assert found.response is not None
    edges = [0.0, *(100 * 2.0**-power for power in range(12, -1, -1))]
    assert mean_of(found.response.exceeds, edges) == pytest.approx(found.response_time_s, rel=1e-6)
    check_quantiles(found, 0.99)


@few
@given(st.floats(0.01, 0.95), st.integers(1, 16), st.floats(0, 30).map(lambda trip: round(trip, 3)))
def test_credits_that_cover_the_round_trip_are_not_felt(load: float, spare: int, round_trip: float) -> None:
    number = credits_for(1.0, round_trip) + spare - 1
    found, line = credit_flow(load, 1.0, round_trip, number), md1(load, 1.0)
    assert found.method.exact
    assert found.waiting_time_s == line.waiting_time_s
    assert credit_rate_per_s(number, 1.0, round_trip) == 1.0
    short = credits_for(1.0, round_trip) - 1
    assert short < 1 or credit_rate_per_s(short, 1.0, round_trip) < 1.0


@pytest.mark.parametrize(("load", "round_trip", "number"), [(0.3, 16.0, 8), (0.6, 8.0, 8), (0.1, 30.0, 4)])
def test_short_credits_wait_at_least_as_long_as_told(load: float, round_trip: float, number: int) -> None:
    chance, total = random.Random(11), 150_000
    begins, before, now, waited = [-1e9] * number, -1e9, 0.0, 0.0
    for n in range(total):
        now += chance.expovariate(load)
        begin = max(now, before + 1.0, begins[n % number] + 1.0 + round_trip)
        begins[n % number] = before = begin
        waited += begin - now
    found = credit_flow(load, 1.0, round_trip, number)
    check_little(found)
    check_quantiles(found, 0.99)
    assert not found.method.exact
    # A bound from below, and at these loads one that is no more than twice too low.
    assert found.waiting_time_s <= waited / total * 1.05
    assert found.waiting_time_s >= waited / total / 2


def test_a_delay_makes_nobody_wait() -> None:
    found = mminf(5000.0, 0.01)
    check_little(found)
    assert found.number_in_system == pytest.approx(50, rel=TIGHT)
    assert found.waiting_time_quantile_s(0.999) == 0 and found.utilisation is None
    assert math.fsum(found.probability(n) or 0 for n in range(300)) == pytest.approx(1, rel=1e-12)
    assert mminf(0.0, 1.0).probability(0) == 1


def test_operational_laws() -> None:
    assert laws.utilisation(50_000, 127e-6, 8) == pytest.approx(0.79375, rel=TIGHT)
    assert laws.service_demand_s(0.79375, 50_000, 8) == pytest.approx(127e-6, rel=TIGHT)
    assert laws.station_throughput_per_s(100, 3.5) == 350
    assert laws.response_time_s(64, 25_000, 760e-6) == pytest.approx(1.8e-3, rel=TIGHT)
    assert laws.saturation_population(1.0, 0.1) == 10
    assert laws.asymptotic_bounds(10, 0.1, 0.1, 0.9) == pytest.approx((10, 0.1), rel=TIGHT)
    # 0.7 / 0.1 is a little more than 7 in binary numbers, and needs no eighth server.
    assert laws.servers_needed(0.7, 1.0, 0.1) == 7


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: mmcn(0, 1.0, 1.0, 1), "invalid value: 0 clients"),
        (lambda: mmcn(5, -1.0, 1.0, 1), "think time of -1 s"),
        (lambda: mmcn(5, 1.0, 1.0, 0), "invalid value: 0 servers"),
        (lambda: mmcn(5, 1.0, 0.0, 1), "service time of 0 s"),
        (lambda: engset(5, 0.0, 1.0, 1), "think time of .* s with fewer places"),
        (lambda: engset(5, 1.0, 1.0, 3, capacity=2), "2 places in the system for 3 servers"),
        (lambda: fork_join(1.0, 1.0, 3), "unstable"),
        (lambda: fork_join(0.1, 1.0, 513), "513 servers; expected 512"),
        (lambda: quorum_of(3, 1.0, 4), "quorum of 4 of 3"),
        (lambda: quorum_of(3, 1.0, 0), "invalid value: 0 answers"),
        (lambda: credit_flow(0.5, 1.0, 100.0, 8), "8 credits over a round trip"),
        (lambda: credit_flow(0.5, 1.0, -1.0, 8), "round trip of -1 s"),
        (lambda: credit_flow(0.5, 1.0, 1.0, 0), "invalid value: 0 credits"),
        (lambda: credit_flow(0.5, 1.0, 150.0, 140), "140 credits that do not cover"),
        (lambda: mminf(-1.0, 1.0), "load of -1"),
        (lambda: laws.utilisation(1.0, -1.0), "invalid value: -1 as service time s"),
        (lambda: laws.service_demand_s(0.5, 0.0), "throughput of 0"),
        (lambda: laws.response_time_s(1, 0.0), "throughput of 0"),
        (lambda: laws.servers_needed(1.0, 1.0, 1.1), "target utilisation of 1.1"),
        (lambda: laws.saturation_population(1.0, 0.0), "greatest demand"),
        (lambda: laws.number_in_system(math.nan, 1.0), "invalid value: nan"),
    ],
)  # fmt: skip
def test_bad_arguments_are_one_clear_error(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ExperimentError, match=text):
        call()
