"""The simulator gives what closed forms and another simulator give: inside its own intervals, from fixed seeds."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno.analysis.queueing import random_times, simulation
from iodyno.analysis.queueing.credits import credit_flow
from iodyno.analysis.queueing.md1 import md1k
from iodyno.cli.model.queue import command
from iodyno.core.errors import ExperimentError

SLACK = 1.6
"""Half-widths that a simulated mean may lie from the truth: 95 % intervals miss 1 of 20, and there are some thirty here;
of a normal law 0.2 % lie beyond 1.6 half-widths."""


def near(found: simulation.Interval, truth: float) -> None:
    half = (found.high - found.low) / 2
    assert abs(found.value - truth) <= SLACK * half, (found, truth)


@pytest.mark.parametrize(
    ("rho", "places", "loss", "wait"),
    [
        # M/D/1/K, offered, with a service of 1 s: packet-paths 4 (loss) and the chain embedded at departures (both).
        (0.5, 2, 0.096274, 0.213061),
        (0.8, 5, 0.035290, 1.209667),
        (1.2, 5, 0.199083, 2.401),
        (0.9, 8, 0.0272636, 2.446268),
    ],
)
def test_constant_service_and_few_places(rho: float, places: int, loss: float, wait: float) -> None:
    found = simulation.station(
        random_times.exponential(1 / rho), random_times.constant(1.0), places=places, precision_ratio=0.03
    )
    near(found.blocking_ratio, loss)
    # The last digits of the paper are 0.5 units off at most.
    assert (
        abs(found.waiting_time_s.value - wait)
        < SLACK * (found.waiting_time_s.high - found.waiting_time_s.value) + 5e-4
    )


@pytest.mark.parametrize(("rho", "places"), [(0.9, 8), (0.5, 1), (1.0, 4), (2.0, 3)])
def test_exponential_service_and_few_places(rho: float, places: int) -> None:
    found = simulation.station(
        random_times.exponential(1 / rho), random_times.exponential(1.0), places=places, precision_ratio=0.03
    )
    weights = [rho**n for n in range(places + 1)]
    near(found.blocking_ratio, weights[-1] / sum(weights))
    near(found.number_in_system, sum(n * w for n, w in enumerate(weights)) / sum(weights))


def test_the_claim_of_eight_buffers() -> None:
    found = simulation.station(
        random_times.exponential(2.5e-6 / 0.9),
        random_times.exponential(2.5e-6),
        places=8,
        precision_ratio=0.02,
    )
    near(found.blocking_ratio, 0.0703)


@pytest.mark.parametrize(
    ("service", "scv"),
    [
        (random_times.constant(1.0), 0.0),
        (random_times.erlang(1.0, 4), 0.25),
        (random_times.exponential(1.0), 1.0),
        (random_times.hyperexponential(1.0, 4.0), 4.0),
        (random_times.lognormal(1.0, 2.0), 2.0),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_mean_wait_is_that_of_pollaczek_and_khinchine(service: random_times.Law, scv: float) -> None:
    rho = 0.7
    found = simulation.station(random_times.exponential(1 / rho), service, precision_ratio=0.03)
    near(found.waiting_time_s, rho * (1 + scv) / (2 * (1 - rho)))
    near(found.utilisation, rho)


def test_eight_servers_share_one_queue() -> None:
    # Claim 1 of the source: 163.326 us at 80 % of eight servers of 127 us; p99 of 81 us is 417 us.
    found = simulation.station(
        random_times.exponential(127e-6 / (8 * 0.8)),
        random_times.exponential(127e-6),
        8,
        precision_ratio=0.01,
    )
    near(found.response_time_s, 163.326e-6)
    short = simulation.station(
        random_times.exponential(81e-6 / (8 * 0.8)),
        random_times.exponential(81e-6),
        8,
        precision_ratio=0.02,
        percentiles=(99,),
    )
    # Given as 417 us: to three digits.
    assert abs(short.quantiles_s[99].value - 417e-6) < 1e-6 + SLACK * (
        short.quantiles_s[99].high - short.quantiles_s[99].value
    )


def test_the_response_of_one_server_is_exponential() -> None:
    found = simulation.station(
        random_times.exponential(1 / 0.5), random_times.exponential(1.0), percentiles=(50, 90, 99)
    )
    for percentile, interval in found.quantiles_s.items():
        near(interval, -math.log(1 - percentile / 100) * 2)


def test_credits_that_never_run_out_are_a_port_without_limit() -> None:
    arrivals, service = random_times.exponential(1 / 0.6), random_times.constant(1.0)
    few = simulation.credits_station(arrivals, service, 200, 3.0, precision_ratio=0.03)
    near(few.waiting_time_s, 0.6 / (2 * 0.4))


def test_one_credit_is_a_server_for_the_whole_round_trip() -> None:
    arrivals, service = random_times.exponential(1 / 0.15), random_times.constant(1.0)
    found = simulation.credits_station(arrivals, service, 1, 3.0, precision_ratio=0.03)
    # M/D/1 with a service of 4 s.
    near(found.waiting_time_s, 4 * 0.6 / (2 * 0.4))


@pytest.mark.parametrize(("rho", "places"), [(0.64, 8), (0.95, 3), (1.3, 32)])
def test_it_agrees_with_the_exact_station(rho: float, places: int) -> None:
    exact = md1k(rho, 1.0, places)
    found = simulation.station(
        random_times.exponential(1 / rho),
        random_times.constant(1.0),
        places=places,
        precision_ratio=0.03,
        percentiles=(50, 99),
    )
    near(found.blocking_ratio, exact.blocking_ratio or 0.0)
    near(found.waiting_time_s, exact.waiting_time_s)
    near(found.number_in_system, exact.number_in_system)
    for percentile, interval in found.quantiles_s.items():
        # A percentile of batches is biased by what lies between two frames of a batch: a thousandth and less.
        wanted = exact.response_time_quantile_s(percentile / 100)
        half = (interval.high - interval.low) / 2
        assert wanted is not None and abs(interval.value - wanted) <= SLACK * half + 1e-3 * wanted


def test_credits_cost_no_less_than_their_lower_bound() -> None:
    bound = credit_flow(0.8, 1.0, 8.0, 8)
    found = simulation.credits_station(
        random_times.exponential(1 / 0.8), random_times.constant(1.0), 8, 8.0, precision_ratio=0.03
    )
    assert found.waiting_time_s.high > bound.waiting_time_s
    covered = credit_flow(0.8, 1.0, 7.0, 8)
    found = simulation.credits_station(
        random_times.exponential(1 / 0.8), random_times.constant(1.0), 8, 7.0, precision_ratio=0.03
    )
    near(found.waiting_time_s, covered.waiting_time_s)


def test_a_tandem_without_limits_is_a_product_of_stations() -> None:
    rate = 0.6
    laws = [random_times.exponential(1.0), random_times.exponential(0.5)]
    found = simulation.tandem(random_times.exponential(1 / rate), laws, [None, None], precision_ratio=0.03)
    near(found.response_time_s, 1 / (1 - rate) + 1 / (2 - rate))


def test_blocking_takes_from_what_a_tandem_lets_pass() -> None:
    # Two equal exponential servers, always supplied: mu (b + 2) / (b + 3) pass with b places between them (Hunt, Operations
    # Research 4:6, 1956). Places count the one in service: b is one less.
    law = random_times.exponential(1.0)
    for places in (1, 3):
        found = simulation.tandem(
            random_times.exponential(0.05), [law, law], [2, places], precision_ratio=0.02
        )
        # Nearly always supplied: 20 arrivals a service, so that the first one is without work for 1 / 20 of a service.
        assert found.throughput_per_s.value == pytest.approx((places + 1) / (places + 2), rel=0.02)


def test_another_simulator_agrees() -> None:
    ciw = pytest.importorskip("ciw")
    rho, horizon = 0.8, 4000.0
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=2 * rho)],
        service_distributions=[ciw.dists.Gamma(shape=2, scale=0.5)],
        number_of_servers=[2],
        queue_capacities=[3],
    )
    waits, lost = [], []
    for seed in range(6):
        ciw.seed(seed)
        run = ciw.Simulation(network)
        run.simulate_until_max_time(horizon)
        records = [r for r in run.get_all_records(only=["service"]) if r.arrival_date > 200]
        refused = [r for r in run.get_all_records(only=["rejection"]) if r.arrival_date > 200]
        waits.append(float(np.mean([r.waiting_time for r in records])))
        lost.append(len(refused) / (len(refused) + len(records)))
    found = simulation.station(
        random_times.exponential(1 / (2 * rho)), random_times.erlang(1.0, 2), 2, 5, precision_ratio=0.02
    )
    for ours, theirs in ((found.waiting_time_s, waits), (found.blocking_ratio, lost)):
        # Student's t of 5 degrees of freedom, 99 %: 4.03; and our own interval.
        half = 4.03 * float(np.std(theirs, ddof=1)) / math.sqrt(len(theirs))
        assert abs(ours.value - float(np.mean(theirs))) <= half + (ours.high - ours.low) / 2


@given(
    rho=st.floats(0.1, 1.6),
    servers=st.integers(1, 4),
    places=st.integers(0, 6),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=30, deadline=None)
def test_laws_that_hold_in_every_run(rho: float, servers: int, places: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    arrived = np.cumsum(random.exponential(1 / (rho * servers), 400))
    served = random.exponential(1.0, 400)
    run = simulation._many_servers(arrived, served, servers, servers + places)
    begun = (run.arrived_s + run.waited_s)[run.admitted]
    gone = begun + served[run.admitted]
    assert np.all(run.waited_s >= 0)
    assert np.all(np.diff(begun) >= 0), "first come, first served"
    for at, let_in in zip(arrived, run.admitted, strict=True):
        present = int(np.sum((arrived[run.admitted] < at) & (gone > at)))
        busy = int(np.sum((begun < at) & (gone > at)))
        assert present <= servers + places
        assert busy <= servers
        assert let_in == (present < servers + places), "turned away only where there is no place"


@given(rho=st.floats(0.05, 0.95), seed=st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_one_server_by_sums_and_by_steps(rho: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    arrived = np.cumsum(random.exponential(1 / rho, 300))
    served = random.exponential(1.0, 300)
    by_sums = simulation._one_server(arrived, served).waited_s
    by_steps = simulation._many_servers(arrived, served, 1, None).waited_s
    np.testing.assert_allclose(by_sums, by_steps, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("rho", "service_times"), [(0.5, 3.7e4), (0.8, 1.7e5), (0.9, 6.5e5), (0.95, 2.5e6)])
def test_run_lengths_are_those_of_whitt(rho: float, service_times: float) -> None:
    # To the two digits that are given, of which the last is 3 % at 3.7.
    assert simulation.run_length(rho, 0.05) / rho == pytest.approx(service_times, rel=0.04)


def test_runs_of_a_length_differ_as_theory_has_it() -> None:
    # Loss at 1.2 into one place is that of independent trials nearly: rho / (1 + rho), alternating idle and busy.
    spread = simulation.spread_of_runs(1200, 0.001, 1, 4000)
    low, high = spread.blocking_ratio
    assert low < 1.2 / 2.2 < high
    assert 0.01 < high - low < 0.05
    longer = simulation.spread_of_runs(1200, 0.001, 1, 16_000).blocking_ratio
    assert (longer[1] - longer[0]) == pytest.approx((high - low) / 2, rel=0.01)


def test_the_same_seed_gives_the_same_numbers() -> None:
    def once() -> simulation.Simulated:
        return simulation.station(
            random_times.exponential(1.2), random_times.lognormal(1.0, 2.0), precision_ratio=0.2, seed=7
        )

    assert once() == once()


@pytest.mark.parametrize(
    ("words", "what", "advice"),
    [
        (
            "M/M/1 --service 1ms --utilisation 1.2",
            "the offered utilisation is 1.2",
            "give the station a number of places",
        ),
        ("M/M/1 --service 1ms --utilisation 0", "expected loads above 0", "--utilisation .8"),
        ("M/M/1 --service 1ms", "missing option --utilisation or --rate", "--rate 20k/s"),
        ("M/M/1 --service 1 --rate 10", "a unit is missing", "1us"),
        ("M/M/1 --service 0ms --rate 10", "invalid value: a mean of 0 s", "1ms"),
        ("M/M/0 --service 1ms --rate 100", "invalid value: 0 servers", "servers 8"),
        (
            "M/M/4/2 --service 1ms --rate 100",
            "invalid value: 2 places for 4 servers",
            "in service, too",
        ),
        ("credits/8 --service 1ms --rate 100", "missing option --round-trip or --distance", "--distance 2"),
        ("credits/2 --service 1ms --rate 900 --round-trip 5ms", "let 333.333 pass", "take 6 credits"),
        ("M/G/1 --service 1ms --rate 100 --service-law gamma", "invalid value 'gamma'", "exponential"),
        (
            "M/G/1 --service 1ms --rate 100 --service-law hyperexponential(.5)",
            "invalid value: an SCV of 0.5",
            "erlang",
        ),
        ("M/M/1 --service 1ms --rate 100 --percentiles 100", "invalid value 100", "50,99"),
        ("M/M/1 --service 1ms --rate 100 --precision 0%", "invalid value 0 for the precision", "2%"),
        (
            "tandem/0/4 --service 1ms --service 1ms --rate 100",
            "invalid value: 0 places",
            "places 8",
        ),
    ],
)
def test_what_cannot_be_simulated_is_said(words: str, what: str, advice: str) -> None:
    found = CliRunner().invoke(command, ["--simulate", *words.split()])
    assert isinstance(found.exception, ExperimentError)
    assert what in found.exception.what
    assert advice in found.exception.advice


def test_the_command_prints_a_table_and_json() -> None:
    words = "M/D/1/8 --simulate --service 2.5us --utilisation .9 --precision 5%"
    shown = CliRunner().invoke(command, words.split())
    assert shown.exit_code == 0
    assert "turned away" in shown.output and "Student" not in shown.output and "batch means" in shown.output
    values = json.loads(CliRunner().invoke(command, [*words.split(), "--json"]).output)
    assert values["blocking_ratio"]["low"] < 0.02726 < values["blocking_ratio"]["high"]
    assert values["p50_s"]["value"] < values["p99_s"]["value"] < 8 * 2.5e-6 * 1.001
