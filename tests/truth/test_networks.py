"""Solvers of networks against every state of 200 random ones, high-precision chains, and each other."""

from __future__ import annotations

import math
import random
from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from product_form import truth

from iodyno.analysis.queueing.networks.approximate import solve_linearizer, solve_schweitzer
from iodyno.analysis.queueing.networks.bounds import bounds
from iodyno.analysis.queueing.networks.convolution import solve_convolution, solve_populations
from iodyno.analysis.queueing.networks.mva import mva, solve_mva, solve_one_class
from iodyno.analysis.queueing.networks.open_network import solve_open
from iodyno.analysis.queueing.networks.solution import Solution
from iodyno.analysis.queueing.networks.solve import solve, solve_sweep
from iodyno.core.errors import ExperimentError
from iodyno.core.network import Class, ClosedClass, Demand, Network, OpenClass, Station

EXACT = 1e-10
"""Relative: sums of a few hundred positive terms in double precision, with room."""


def a_network(seed: int, *, mixed: bool = False, servers: int = 4, classes: int = 3) -> Network:
    """A random network that can be enumerated, with every kind of station."""
    draw = random.Random(seed)
    stations = [
        Station(f"s{k}", draw.choice(("queue", "queue", "queue", "delay")), discipline="ps")
        for k in range(draw.randint(1, 3))
    ]
    stations = [
        Station(s.name, s.kind, draw.randint(1, servers), "ps") if s.kind == "queue" else s for s in stations
    ]
    made: list[Class] = []
    demands: dict[str, dict[str, Demand]] = {}
    states = 1
    for c in range(draw.randint(1, classes)):
        most = max(n for n in range(1, 7) if n == 1 or states * math.comb(n + 3, 3) <= 1500)
        jobs = draw.randint(1, most)
        states *= math.comb(jobs + len(stations), len(stations))
        # The oracle counts completions at the think time where open classes are about.
        think = draw.randint(1, 20) / 10 if mixed or draw.random() < 0.6 else 0.0
        made.append(ClosedClass(f"c{c}", jobs, think))
        demands[f"c{c}"] = {s.name: Demand(draw.randint(1, 30) / 10) for s in stations if draw.random() < 0.8}
        demands[f"c{c}"].setdefault(stations[0].name, Demand(0.7))
    if mixed:
        for o in range(draw.randint(1, 2)):
            demands[f"o{o}"] = {s.name: Demand(draw.randint(1, 30) / 10) for s in stations}
            most_rate = min(
                (s.servers / demands[f"o{o}"][s.name].service_time_s for s in stations if s.kind == "queue"),
                default=1.0,
            )
            made.append(OpenClass(f"o{o}", round(0.35 * most_rate * draw.random(), 3)))
    draw.shuffle(made)
    return Network(tuple(stations), tuple(made), demands)


def assert_true(solution: Solution, tolerance: float = EXACT) -> None:
    network = solution.network
    right = truth(network)
    for c in solution.classes:
        assert c.throughput_per_s == pytest.approx(right.throughput[c.name], rel=tolerance)
        inside = math.fsum(right.length[c.name, s.name] for s in network.stations)
        assert c.number_in_system == pytest.approx(inside, rel=tolerance)
        for s in network.stations:
            share = c.at.get(s.name)
            length = right.length[c.name, s.name]
            assert (0.0 if share is None else share.queue_length) == pytest.approx(
                length, rel=tolerance, abs=1e-14
            )
            if share is not None and s.kind == "queue":
                busy = right.throughput[c.name] * network.demand_s(c.name, s.name) / s.servers
                assert share.utilisation_ratio == pytest.approx(busy, rel=tolerance)


@pytest.mark.parametrize("block", range(10))
def test_a_hundred_closed_networks_are_what_all_their_states_say(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        network = a_network(seed)
        solution = solve(network, "exact")
        assert solution.method.exact
        assert_true(solution)
        assert_true(solve_convolution(network))


@pytest.mark.parametrize("block", range(10))
def test_a_hundred_mixed_networks_are_what_all_their_states_say(block: int) -> None:
    for seed in range(1000 + 10 * block, 1010 + 10 * block):
        assert_true(solve(a_network(seed, mixed=True), "exact"))


@pytest.mark.parametrize("seed", range(20))
def test_mean_values_and_convolution_agree(seed: int) -> None:
    network = a_network(seed + 5000, mixed=seed % 2 == 1, servers=1)
    a, b = solve_mva(network), solve_convolution(network)
    for x, y in zip(a.classes, b.classes, strict=True):
        assert x.throughput_per_s == pytest.approx(y.throughput_per_s, rel=EXACT)
        assert x.response_time_s == pytest.approx(y.response_time_s, rel=EXACT)
        for name in x.at:
            assert x.at[name].queue_length == pytest.approx(y.at[name].queue_length, rel=EXACT)


def one_station(jobs: int, servers: int, demand_s: float, think_s: float) -> Network:
    stations, classes = (Station("cpu", servers=servers),), (ClosedClass("w", jobs, think_s),)
    return Network(stations, classes, {"w": {"cpu": Demand(demand_s)}})


def chain(jobs: int, servers: int, demand_s: float, think_s: float) -> tuple[float, float]:
    """Throughput and number at M/M/m//N by its birth-death chain, with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        service, think = Decimal(demand_s), Decimal(think_s)
        weight = whole = Decimal(1)
        busy = length = Decimal(0)
        for n in range(1, jobs + 1):
            weight *= (jobs - n + 1) / think * service / min(n, servers)
            whole += weight
            busy += weight * min(n, servers)
            length += weight * n
        return float(busy / whole / service), float(length / whole)


@pytest.mark.parametrize(
    "case",
    [(500, 8, 127e-6, 1e-3), (1200, 300, 0.444, 0.5), (10_000, 512, 0.1, 1.0), (10_000, 512, 0.1, 1.95),
     (10_000, 1, 1e-3, 9.5), (9_999, 2, 0.004, 20.0), (5_000, 64, 0.25, 20.0), (100, 512, 0.3, 0.2)],
)  # fmt: skip
def test_many_servers_and_jobs_to_nine_digits(case: tuple[int, int, float, float]) -> None:
    throughput, length = chain(*case)
    found = solve_convolution(one_station(*case))
    assert found.of("w").throughput_per_s == pytest.approx(throughput, rel=1e-9)
    assert found.station("cpu").queue_length == pytest.approx(length, rel=1e-9)


def test_three_multi_server_stations_to_nine_digits() -> None:
    servers, demands, jobs, think = (4, 16, 7), (0.05, 0.3, 0.11), 150, 0.4
    network = Network(
        tuple(Station(f"s{k}", servers=m) for k, m in enumerate(servers)),
        (ClosedClass("w", jobs, think),),
        {"w": {f"s{k}": Demand(d) for k, d in enumerate(demands)}},
    )
    with localcontext() as context:
        context.prec = 60
        constants = [Decimal(think) ** n / math.factorial(n) for n in range(jobs + 1)]
        for m, d in zip(servers, demands, strict=True):
            factor = [Decimal(1)]
            for n in range(1, jobs + 1):
                factor.append(factor[-1] * Decimal(d) / min(n, m))
            constants = [sum(factor[i] * constants[n - i] for i in range(n + 1)) for n in range(jobs + 1)]  # type: ignore[misc]
        right = float(constants[-2] / constants[-1])
    assert solve(network).of("w").throughput_per_s == pytest.approx(right, rel=1e-9)


def test_one_pass_gives_what_every_population_alone_does() -> None:
    network = Network(
        (Station("cpu"), Station("disk"), Station("wan", "delay")),
        (ClosedClass("w", 1, 0.5),),
        {"w": {"cpu": Demand(0.02), "disk": Demand(0.01, 3), "wan": Demand(0.1)}},
    )
    populations = [1, 7, 7, 40, 3]
    for solutions in (
        solve_one_class(network, populations),
        solve_populations(network, [(n,) for n in populations]),
    ):
        for n, solution in zip(populations, solutions, strict=True):
            alone = solve_mva(Network(network.stations, (ClosedClass("w", n, 0.5),), network.demands))
            assert solution.of("w").throughput_per_s == pytest.approx(
                alone.of("w").throughput_per_s, rel=EXACT
            )
            assert solution.network.closed_classes[0].population == n
    swept = solve_sweep(
        [Network(network.stations, (ClosedClass("w", n, 0.5),), network.demands) for n in populations]
    )
    passed = solve_one_class(network, populations)
    assert [s.of("w").throughput_per_s for s in swept] == [s.of("w").throughput_per_s for s in passed]


@pytest.mark.parametrize("seed", range(30))
def test_the_laws_hold_in_every_solution(seed: int) -> None:
    network = a_network(seed + 300, mixed=seed % 3 == 0)
    for how in ("exact", "linearizer", "schweitzer"):
        solution = solve(network, how)  # type: ignore[arg-type]
        for c in network.closed_classes:
            found = solution.of(c.name)
            # Little's law for the whole loop: N = X (R + Z). The approximations stop near their fixed point.
            assert found.throughput_per_s * (found.response_time_s + c.think_time_s) == pytest.approx(
                c.population, rel=1e-8
            )
        for station in solution.stations:
            assert station.utilisation_ratio is None or 0 <= station.utilisation_ratio <= 1 + 1e-8


@pytest.mark.parametrize("seed", range(40))
def test_bounds_hold(seed: int) -> None:
    network = a_network(
        seed + 700, mixed=seed % 4 == 0, classes=1 if seed % 2 else 3, servers=1 if seed % 4 == 1 else 4
    )
    solution = solve(network, "exact")
    for limit in bounds(network):
        found = solution.of(limit.name)
        slack = 1 + 1e-12
        assert limit.throughput_least_per_s <= found.throughput_per_s * slack
        assert (
            limit.throughput_most_per_s is None
            or found.throughput_per_s <= limit.throughput_most_per_s * slack
        )
        assert limit.response_least_s <= found.response_time_s * slack
        assert limit.response_most_s is None or found.response_time_s <= limit.response_most_s * slack
        if limit.balanced_throughput_least_per_s is not None:
            assert limit.balanced_throughput_most_per_s is not None
            assert limit.balanced_throughput_least_per_s <= found.throughput_per_s * slack
            assert found.throughput_per_s <= limit.balanced_throughput_most_per_s * slack
            assert limit.throughput_least_per_s <= limit.balanced_throughput_least_per_s * slack
        else:
            assert limit.missing


def test_balanced_job_bounds_are_equal_where_jobs_are_balanced() -> None:
    network = Network(
        tuple(Station(f"s{k}") for k in range(3)),
        (ClosedClass("w", 9),),
        {"w": {f"s{k}": Demand(0.2) for k in range(3)}},
    )
    (limit,) = bounds(network)
    x = 9 / (0.2 * (9 + 3 - 1))
    assert solve(network).of("w").throughput_per_s == pytest.approx(x, rel=1e-12)
    assert limit.balanced_throughput_most_per_s == pytest.approx(x)
    assert limit.balanced_throughput_least_per_s == pytest.approx(9 / (0.6 + 8 * 0.2))
    assert limit.saturation_population == pytest.approx(3)


@pytest.mark.parametrize("servers", [1, 2, 8, 512])
@pytest.mark.parametrize("ratio", [0.0, 0.3, 0.9, 0.999])
def test_open_networks_are_independent_queues(servers: int, ratio: float) -> None:
    """Erlang's formula by its own sums, in 60 digits; and convolution, with a closed class that is not there."""
    rate = ratio * servers / 0.01
    network = Network(
        (Station("cpu", servers=servers),),
        (OpenClass("a", rate / 4), OpenClass("b", rate * 3 / 4)),
        {"a": {"cpu": Demand(0.01)}, "b": {"cpu": Demand(0.005, 2)}},
    )
    with localcontext() as context:
        context.prec = 60
        load = Decimal(rate) * Decimal("0.01")
        terms = [Decimal(1)]
        for n in range(1, servers + 1):
            terms.append(terms[-1] * load / n)
        last = terms[-1] * servers / (servers - load)
        waits = last / (sum(terms[:-1]) + last)
        right = float(Decimal("0.01") * (1 + waits / (servers - load)))
    solution = solve_open(network)
    assert solution.of("a").response_time_s == pytest.approx(right, rel=1e-9)
    assert solution.of("b").response_time_s == pytest.approx(right, rel=1e-9)
    lonely = Network(
        (*network.stations, Station("else")),
        (*network.classes, ClosedClass("c", 1)),
        {**network.demands, "c": {"else": Demand(1.0)}},
    )
    assert solve_convolution(lonely).of("a").response_time_s == pytest.approx(right, rel=1e-9)


def test_approximations_are_near_and_linearizer_is_nearer() -> None:
    worse: list[tuple[float, float]] = []
    for seed in range(40):
        network = a_network(seed + 9000, servers=1)
        exact = solve_mva(network)
        errors = [
            max(abs(found.of(c.name).throughput_per_s / c.throughput_per_s - 1) for c in exact.classes)
            for found in (solve_schweitzer(network), solve_linearizer(network))
        ]
        worse.append((errors[0], errors[1]))
    # Chandy and Neuse report up to 0.1 or so for Schweitzer, a few per cent for Linearizer at small populations.
    assert max(a for a, _ in worse) < 0.15
    assert max(b for _, b in worse) < 0.03
    assert sum(b for _, b in worse) < 0.3 * sum(a for a, _ in worse)


def test_what_a_product_form_does_not_cover_is_said() -> None:
    network = Network(
        (Station("cpu"),),
        (ClosedClass("a", 2), ClosedClass("b", 2)),
        {"a": {"cpu": Demand(0.1)}, "b": {"cpu": Demand(0.3)}},
    )
    (note,) = solve(network).notes
    assert "cpu" in note and "fcfs" in note
    shared = Network((Station("cpu", discipline="ps"),), network.classes, network.demands)
    assert solve(shared).notes == ()


def test_ten_thousand_jobs_approach_the_bottleneck() -> None:
    found = mva([0.01, 0.02, 0.005], 10_000, 1.0)[10_000]
    assert found.throughput_per_s == pytest.approx(50, rel=1e-12)
    assert math.fsum(found.queue_length) + found.throughput_per_s * 1.0 == pytest.approx(10_000, rel=1e-9)


def test_what_cannot_be_afforded_is_refused_and_auto_approximates() -> None:
    classes = tuple(ClosedClass(f"c{c}", 200, 1.0) for c in range(4))
    demands = {c.name: {"cpu": Demand(0.01 * (k + 1)), "disk": Demand(0.02)} for k, c in enumerate(classes)}
    for servers, refused in ((1, "needs"), (8, "takes")):
        network = Network(
            (Station("cpu", servers=servers, discipline="ps"), Station("disk")), classes, demands
        )
        with pytest.raises(ExperimentError, match=refused) as raised:
            solve(network, "exact")
        assert "approximate" in raised.value.advice
        assert not solve(network, "auto").method.exact


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (Network((), (OpenClass("a", 1),)), "missing station"),
        (Network((Station("s"),), ()), "missing class"),
        (Network((Station("s"), Station("s")), (OpenClass("a", 1),)), "duplicate station"),
        (Network((Station("s", servers=0),), (OpenClass("a", 1),)), "1 server or more"),
        (Network((Station("s", "qeue"),), (OpenClass("a", 1),)), "expected queue, delay"),  # type: ignore[arg-type]
        (Network((Station("s", discipline="lifo"),), (OpenClass("a", 1),)), "fcfs"),  # type: ignore[arg-type]
        (Network((Station("s"),), (OpenClass("a", -1),), {"a": {"s": Demand(1)}}), "0/s or more"),
        (Network((Station("s"),), (OpenClass("a", math.nan),), {"a": {"s": Demand(1)}}), "0/s or more"),
        (Network((Station("s"),), (ClosedClass("a", 0),), {"a": {"s": Demand(1)}}), "1 job or more"),
        (Network((Station("s"),), (ClosedClass("a", 5, -1.0),), {"a": {"s": Demand(1)}}), "think time of 0 s"),
        (Network((Station("s"),), (ClosedClass("a", 5),), {"a": {"s": Demand(-1)}}), "service time of 0 s"),
        (Network((Station("s"),), (ClosedClass("a", 5),), {"a": {"s": Demand(1, -2)}}), "0 visits"),
        (Network((Station("s"),), (ClosedClass("a", 5),), {"a": {"t": Demand(1)}}), "station 't'"),
        (Network((Station("s"),), (ClosedClass("a", 5),), {"b": {"s": Demand(1)}}), "class 'b'"),
        (Network((Station("s"),), (ClosedClass("a", 5),), {"a": {"s": Demand(0)}}), "demands nothing"),
        (Network((Station("s"),), (OpenClass("a", 1),), {"a": {"s": Demand(1)}}), "unstable"),
        (Network((Station("s", servers=3),), (OpenClass("a", 31),), {"a": {"s": Demand(0.1)}}), "unstable"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_one_clear_error(network: Network, said: str) -> None:
    for solver in (solve, bounds):
        with pytest.raises(ExperimentError, match=said) as raised:
            solver(network)
        assert raised.value.where


def test_an_unstable_network_is_told_what_would_be_stable() -> None:
    network = Network((Station("s", servers=3),), (OpenClass("a", 31),), {"a": {"s": Demand(0.1)}})
    with pytest.raises(ExperimentError, match=r"utilisation 1\.033") as raised:
        solve(network)
    assert "below 30/s" in raised.value.advice and "`servers: 4`" in raised.value.advice


def test_solvers_refuse_what_is_not_theirs() -> None:
    opened = Network((Station("s"),), (OpenClass("a", 1),), {"a": {"s": Demand(0.1)}})
    closed = Network((Station("s", servers=2),), (ClosedClass("a", 1),), {"a": {"s": Demand(0.1)}})
    for solver, network in (
        (solve_open, closed), (solve_mva, opened), (solve_mva, closed), (solve_convolution, opened), (solve_schweitzer, opened),
    ):  # fmt: skip
        with pytest.raises(ExperimentError):
            solver(network)


TIMES = st.sampled_from([0.0, 1e-18, 1e-9, 1e-3, 0.7, 1.0, 40.0, 1e6, 1e12])


@st.composite
def extreme_networks(draw: st.DrawFn) -> Network:
    stations = tuple(
        Station(
            f"s{k}",
            draw(st.sampled_from(["queue", "queue", "delay"])),
            draw(st.sampled_from([1, 1, 2, 40])),
            "ps",
        )  # type: ignore[arg-type]
        for k in range(draw(st.integers(1, 3)))
    )
    classes: list[Class] = []
    demands: dict[str, dict[str, Demand]] = {}
    for c in range(draw(st.integers(1, 2))):
        classes.append(ClosedClass(f"c{c}", draw(st.integers(1, 25)), draw(TIMES)))
        demands[f"c{c}"] = {s.name: Demand(draw(TIMES)) for s in stations}
    if draw(st.booleans()):
        demands["o"] = {s.name: Demand(draw(TIMES)) for s in stations}
        most = max(
            (demands["o"][s.name].service_time_s / s.servers for s in stations if s.kind == "queue"),
            default=0.0,
        )
        share = draw(st.sampled_from([0.0, 1e-9, 0.5, 0.999, 1 - 1e-9]))
        classes.append(OpenClass("o", min(share / most, 1e15) if most else 1.0))
    return Network(stations, tuple(classes), demands)


@settings(max_examples=150, deadline=None)
@given(extreme_networks())
def test_no_network_gives_anything_but_numbers(network: Network) -> None:
    """Thirty orders of magnitude in one network: what is answered is finite, and obeys Little's law."""
    try:
        solution = solve(network, "exact")
    except ExperimentError as error:
        assert error.where
        return
    limits = bounds(network)
    for c, limit in zip(solution.classes, limits, strict=True):
        numbers = [c.throughput_per_s, c.response_time_s, c.number_in_system]
        for share in c.at.values():
            numbers += [share.residence_time_s, share.queue_length, share.utilisation_ratio or 0.0]
        numbers += [v for v in vars(limit).values() if isinstance(v, float)]
        assert all(math.isfinite(v) and v >= 0 for v in numbers)
        entry = next(e for e in network.classes if e.name == c.name)
        if isinstance(entry, ClosedClass):
            assert c.throughput_per_s * (c.response_time_s + entry.think_time_s) == pytest.approx(
                entry.population, rel=1e-8
            )
