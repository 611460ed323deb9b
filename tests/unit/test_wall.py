"""The wall of a closed loop, on queueing networks whose wall is known."""

from __future__ import annotations

import heapq
import io
import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

import made_summary
import pytest
from draws import count_between, draws
from hypothesis import assume, given
from hypothesis import strategies as st

from iodyno.analysis.dataset import Dataset
from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.measured import Measured
from iodyno.analysis.trial import Trial
from iodyno.analysis.wall import RATE, RESPONSE, Load, Wall, locate, walls_of
from iodyno.report.json import campaign
from iodyno.report.terminal import show_tables

LOADS = (1, 2, 4, 8, 16, 24, 32, 48, 64)


def mva(demands_us: Sequence[float], think_us: float, clients: int) -> tuple[float, float]:
    """Rate per second and response in ns of a closed network, exactly (Reiser and Lavenberg 1980)."""
    queues, rate, response = [0.0] * len(demands_us), 0.0, 0.0
    for n in range(1, clients + 1):
        each = [d * (1 + q) for d, q in zip(demands_us, queues, strict=True)]
        response = sum(each)
        rate = n / (response + think_us)
        queues = [rate * r for r in each]
    return rate * 1e6, response * 1e3


def network(
    demands_us: Sequence[float],
    think_us: float = 0.0,
    *,
    loads: Sequence[int] = LOADS,
    trials: int = 3,
    noise: float = 0.0,
    seed: int = 1,
) -> list[Load]:
    source, found = random.Random(seed), []
    for clients in loads:
        rate, response = mva(demands_us, think_us, clients)
        factors = [math.exp(source.gauss(0, noise)) for _ in range(trials)]
        found.append(Load(clients, tuple(rate * f for f in factors), tuple(response / f for f in factors)))
    return found


def simulated(think_us: float, service_us: float, clients: int, seed: int) -> tuple[float, float]:
    """Rate and response of a closed network with one server, in order of arrival, by simulation; both times exponential."""
    source = random.Random(seed)
    arriving = [(source.expovariate(1 / think_us), number) for number in range(clients)]
    heapq.heapify(arriving)
    free, waited, ended, warm = 0.0, 0.0, 0, 2_000
    begin = 0.0
    for served in range(12_000):
        at, number = heapq.heappop(arriving)
        free = max(free, at) + source.expovariate(1 / service_us)
        heapq.heappush(arriving, (free + source.expovariate(1 / think_us), number))
        if served == warm:
            begin = free
        elif served > warm:
            waited, ended = waited + free - at, ended + 1
    return ended / (free - begin) * 1e6, waited / ended * 1e3


def holds(wall: Wall, truth: float) -> bool:
    assert wall.clients.low is not None and wall.clients.high is not None
    return wall.clients.low <= truth <= wall.clients.high


@pytest.mark.parametrize(("think_us", "service_us"), [(200, 20), (60, 20), (1000, 50)])
def test_the_wall_of_a_simulated_network_is_found(think_us: float, service_us: float) -> None:
    loads = []
    for clients in LOADS:
        runs = [simulated(think_us, service_us, clients, 100 * clients + n) for n in range(4)]
        loads.append(Load(clients, tuple(x for x, _ in runs), tuple(r for _, r in runs)))
    wall = locate(loads)
    truth = (think_us + service_us) / service_us
    # The plateau may be below its bound by what still counts as flat.
    assert wall.clients.estimate == pytest.approx(truth, rel=0.06)
    assert wall.rate.estimate == pytest.approx(1e6 / service_us, rel=0.05)
    assert wall.added_wait.estimate == pytest.approx(1e3 * service_us, rel=0.05)
    assert wall.response.estimate == pytest.approx(1e3 * service_us, rel=0.05)
    assert min(wall.plateau) > truth
    assert wall.notes == ()


@given(st.floats(5, 100), st.floats(0, 1000), st.lists(st.floats(0.5, 100), max_size=3))
def test_without_noise_the_wall_is_that_of_the_bounds_and_never_beyond(
    most_us: float, think_us: float, others_us: list[float]
) -> None:
    demands = [most_us, *(min(d, 0.7 * most_us) for d in others_us)]
    truth = (sum(demands) + think_us) / most_us
    assume(1.5 < truth < 16)
    wall = locate(network(demands, think_us))
    assert wall.clients.estimate is not None, wall.clients.missing
    # Exactly measured, the cycle of one client is D + Z, and no rate is above 1 / Dmax.
    assert 0.93 * truth <= wall.clients.estimate <= truth * (1 + 1e-9)
    # Nothing depends on the unit of time, nor on the order of the loads.
    slower = [
        Load(each.clients, tuple(x / 7 for x in each.rates_per_s)) for each in network(demands, think_us)
    ]
    assert locate(slower[::-1]).clients.estimate == pytest.approx(wall.clients.estimate)


def test_the_interval_holds_the_wall_as_often_as_it_says() -> None:
    # A wall as sharp as the bounds draw it: what remains is noise.
    truth, walls = 6.0, []
    for seed in range(draws(400)):
        source = random.Random(seed)
        loads = [
            Load(n, tuple(1e3 * min(n, truth) * math.exp(source.gauss(0, 0.05)) for _ in range(2)))
            for n in LOADS
        ]
        walls.append(locate(loads))
    located = [wall for wall in walls if wall.clients.estimate is not None]
    # Now and then chance makes a peak of its own.
    assert len(located) >= count_between(0.98, len(walls))[0]
    assert sum(holds(wall, truth) for wall in located) >= count_between(0.95, len(located))[0]


def test_more_trials_make_the_interval_narrower() -> None:
    def width(trials: int) -> float:
        wall = locate(network([20], 100, trials=trials, noise=0.03)).clients
        assert wall.low is not None and wall.high is not None
        return wall.high - wall.low

    assert width(20) < width(5) < width(2)


def test_a_rise_that_trials_do_not_carry_is_not_said_to_be_one() -> None:
    """From 4 to 16 clients three trials each changed by 10 % less to five times as much: it may as well have fallen."""
    first = Load(1, (2_700.0, 2_800.0, 2_900.0))
    middle, last = Load(4, (2_000.0, 5_000.0, 8_000.0)), Load(16, (10_000.0, 11_000.0, 12_000.0))
    said = locate([first, middle, last]).clients.missing or ""
    low = float(said.partition("[")[2].partition(",")[0])
    assert low < 0 and "still rises" not in said
    assert said.startswith("no plateau can be told: the rate changes by") and "the greatest load" in said


def test_a_rate_that_still_rises_has_no_plateau() -> None:
    wall = locate(network([20], 4_000, noise=0.01))
    assert wall.clients.estimate is None and wall.rate.estimate is None
    assert wall.clients.missing is not None
    assert "still rises by" in wall.clients.missing and "48 to 64" in wall.clients.missing
    assert wall.response.estimate == pytest.approx(20_000, rel=0.05)


@given(st.integers(0, 10_000), st.floats(0.0, 0.1), st.integers(2, 4))
def test_a_rate_in_proportion_to_the_clients_is_never_taken_for_a_plateau(
    seed: int, noise: float, trials: int
) -> None:
    wall = locate(network([1e-6], 1_000, loads=(1, 2, 4, 8), trials=trials, noise=noise, seed=seed))
    assert wall.clients.estimate is None


@pytest.mark.parametrize(
    ("loads", "why"),
    [
        ([], "only 0 numbers"),
        (network([20], 100, loads=(1, 64)), "only 2 numbers"),
        (network([20], 100, trials=1), "every load has one trial"),
        (network([20], 100, loads=(16, 32, 64), noise=0.01), "at or below it"),
        ([Load(n, (1e3 * n, 2e3 * n)) for n in (1, 2, 4)], "vary too much"),
        ([Load(n, (x, x * 1.01)) for n, x in ((1, 10), (2, 20), (4, 40), (8, 20))], "peaks at 4"),
    ],
)
def test_what_cannot_carry_a_wall_is_refused_with_a_reason(loads: list[Load], why: str) -> None:
    wall = locate(loads)
    assert wall.clients.estimate is None and wall.clients.low is None
    assert why in (wall.clients.missing or "")


def test_the_reader_is_told_what_the_bounds_do_not_hold() -> None:
    falls = [Load(n, (x, x * 1.01)) for n, x in ((1, 10), (2, 20), (4, 30), (8, 30), (16, 30), (64, 20))]
    assert any("the rate falls, by 33.3 % at 64" in note for note in locate(falls).notes)
    # What chance takes from one load is no fall: the last one has the rate of the plateau again.
    dips = [
        (948, 986),
        (1902, 1942),
        (4133, 3903),
        (5831, 6232),
        (6123, 6144),
        (6107, 6040),
        (6475, 6652),
        (5946, 5498),
    ]
    again = [Load(n, tuple(map(float, rates))) for n, rates in zip(LOADS, [*dips, (6344, 6169)], strict=True)]
    assert not locate(again).notes and 48 not in locate(again).plateau
    wakes = [Load(n, (x, x * 1.01)) for n, x in ((1, 10), (2, 30), (4, 60), (8, 60))]
    assert any("the wall lies at 4" in note for note in locate(wakes).notes)
    # Who waits for the senders' own CPUs does not see it in the time of an answer.
    own = [Load(n, (x, x * 1.01), (1e8, 1e8)) for n, x in ((1, 10), (2, 20), (4, 20), (8, 20), (16, 20))]
    assert any("senders' side" in note for note in locate(own).notes)


def test_requests_under_way_count_in_what_a_client_adds() -> None:
    loads = [replace(each, in_flight=4) for each in network([20], 100)]
    wall, single = locate(loads), locate(network([20], 100))
    assert wall.added_wait.estimate == pytest.approx(4 * (single.added_wait.estimate or 0.0))
    assert any("4 in flight" in text for text in wall.clients.assumptions)


def lines(kind: str = "request_response", **settings: int | str) -> tuple[Wall, ...]:
    """The walls of a campaign over two MTUs, with a window that is set along with the clients."""
    trials, measured = [], {}
    for mtu, service_us in ((1500, 40.0), (9000, 20.0)):
        for load in network([service_us], 100, noise=0.01):
            for at, (rate, response) in enumerate(zip(load.rates_per_s, load.responses_ns, strict=True)):
                levels = {"all.mtu": mtu, "connections": load.clients, "window": 1024 * load.clients}
                name = f"{len(trials):05d}-1"
                trials.append(
                    Trial(
                        name, len(trials), 1, at, at, "p", levels, levels | settings, "finished", None, "", {}
                    )
                )
                measured[name] = {RATE: Measured(rate), RESPONSE: Measured(response)}
    factors = (
        FactorLevels("connections", LOADS, ("window",), "", True),
        FactorLevels("all.mtu", (1500, 9000), (), "", True),
    )
    dataset = Dataset.__new__(Dataset)
    object.__setattr__(dataset, "header", {"experiment": {"workload": {"kind": kind}}})
    return walls_of(dataset, trials[::-1], measured, factors)


def test_every_line_has_its_own_wall() -> None:
    small, large = lines()
    assert (small.levels, large.levels) == ({"all.mtu": 1500}, {"all.mtu": 9000})
    assert holds(small, 3.5) and holds(large, 6)
    assert lines("stream") == ()
    assert lines(arrivals="poisson") == ()


def test_a_report_says_where_the_walls_lie() -> None:
    refused = replace(locate(network([20], 4_000)), labels=MappingProxyType({"size": "1KiB"}))
    first = replace(lines()[0], labels={"size": "8KiB"}, levels={"size": 8192})
    summary = replace(made_summary.summary(), walls=(refused, first))
    out = io.StringIO()
    show_tables(summary, out)
    said = [line for line in out.getvalue().splitlines() if line.startswith("The wall")]
    assert said[0].startswith("The wall of 8KiB messages lies at 3.4")
    assert "each further client only adds waiting, 39.9 us" in said[0]
    assert said[1].startswith("The wall of 1KiB messages cannot be located: there is no plateau")
    held = json.loads(json.dumps(campaign(summary)))["walls"]
    assert held[1]["clients"]["low"] < held[1]["clients"]["estimate"] < held[1]["clients"]["high"]
    assert held[0]["clients"]["estimate"] is None and "no plateau" in held[0]["clients"]["missing"]
    assert "walls" not in campaign(made_summary.summary())
