"""Fits of models to tables and campaigns: the solver, the stations, the choice, and what a user reads."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_campaign import Layout, Truth, make_campaign
from places import MS, experiment, run
from scipy.optimize import least_squares

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.fitting.campaign import LineFit, fit_line, held_out
from iodyno.analysis.fitting.closed_station import closed_bounds, closed_general, closed_queue
from iodyno.analysis.fitting.curve import Load, Model, by_load, fit
from iodyno.analysis.fitting.least_squares import minimise
from iodyno.analysis.fitting.open_station import open_queue
from iodyno.analysis.fitting.points import Line, Variability
from iodyno.analysis.fitting.usl import usl
from iodyno.analysis.summary import analyse
from iodyno.cli import main as front
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import DesignSpec, HostSpec, Windows, WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.hosts.access import AgentProgram
from iodyno.report.figures.axes import draw
from iodyno.report.figures.fit import figure, panels
from iodyno.report.figures.panel import Figure
from iodyno.report.fit import sentence, values
from iodyno.report.json import as_json

CLIENTS = (1, 2, 4, 8, 16, 24, 32, 48, 64)
TABLE = "threads,packets_per_s\n1,1180\n2,2300\n4,4400\n8,7900\n16,13500\n32,18000\n"


def machine_repair(service: Fraction, delay: Fraction, clients: int, servers: int) -> Fraction:
    """Rate of M/M/m//N in whole fractions, straight from the balance of its states."""
    shares = [Fraction(1)]
    for k in range(1, clients + 1):
        shares.append(shares[-1] * (clients - k + 1) * service / (delay * min(k, servers)))
    busy = sum(share * min(k, servers) for k, share in enumerate(shares))
    return busy / sum(shares) / service


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 40), st.integers(1, 40))
def test_closed_stations_are_those_of_the_balance_equations(
    clients: int, servers: int, s: int, z: int
) -> None:
    exact = machine_repair(Fraction(s, 7), Fraction(z, 3), clients, servers)
    found = closed_queue(servers).values(np.array([[s / 7, z / 3]]), np.array([float(clients)]))
    assert found[0, 0] == pytest.approx(float(exact), rel=1e-12)


def test_closed_stations_stay_exact_where_naive_ones_break() -> None:
    # M/M/8, 127 us, 1 ms: 62 992.126 with 500 clients, where mean value analysis with p0 = 1 - sum has -30 345.
    at = np.array([500.0, 4096.0, 10_000.0])
    found = closed_queue(8).values(np.array([[127e-6, 1e-3]]), at)[0]
    assert found[0] == pytest.approx(62_992.126, rel=1e-8)
    assert found == pytest.approx(8 / 127e-6, rel=1e-9)
    # M/M/300 with 1200 users: 675.6757.
    assert closed_queue(300).values(np.array([[0.444, 0.5]]), at[:1] + 700)[0, 0] == pytest.approx(
        675.6757, abs=5e-5
    )
    # No time outside: all are always there.
    assert closed_queue(2).values(np.array([[0.5, 0.0]]), np.array([1.0, 2.0, 9.0]))[0] == pytest.approx(
        [2, 4, 4]
    )


@pytest.mark.parametrize("model", [closed_queue(), closed_general(1e-9), closed_bounds()])
def test_a_closed_loop_is_asked_of_no_load_where_none_is_held_out(model: Model) -> None:
    assert model.values(np.array([[1e-4, 1e-2]]), np.array([])).shape == (1, 0)


@given(st.floats(1e-5, 1e-2), st.floats(0, 1e-1), st.integers(1, 50))
def test_models_of_one_server_keep_the_bounds(service: float, delay: float, clients: int) -> None:
    theta, at = np.array([[service, delay]]), np.array([float(clients)])
    bounds = closed_bounds().values(theta, at)[0, 0]
    exponential = closed_queue().values(theta, at)[0, 0]
    general = closed_general(service**2).values(theta, at)[0, 0]
    constant = closed_general(0.0).values(theta, at)[0, 0]
    assert exponential <= bounds * (1 + 1e-9)
    # With a squared coefficient of variation of 1 the recursion is exact; with less there is less waiting.
    assert general == pytest.approx(exponential, rel=1e-6)
    assert exponential * (1 - 1e-9) <= constant <= bounds * (1 + 1e-9)


@pytest.mark.parametrize(
    ("servers", "service_us", "busy", "response_us"),
    # Mean responses of M/M/8 with 127 and 81 us, checked with other tools (claims 1, 2 and 5).
    [
        (8, 127, 0.2, 127.005),
        (8, 127, 0.6, 132.538),
        (8, 127, 0.8, 163.326),
        (8, 81, 0.8, 104.168),
        (1, 81, 0.8, 405),
    ],
)
def test_open_stations_are_erlangs(servers: int, service_us: float, busy: float, response_us: float) -> None:
    rate = np.array([busy * servers / service_us])
    found = open_queue(servers).values(np.array([[service_us, 0.0]]), rate)
    assert found[0, 0] == pytest.approx(response_us, abs=6e-4)


def test_open_stations_with_measured_variance_are_pollaczek_and_khinchines() -> None:
    theta, rate = np.array([[2.5, 0.0]]), np.array([0.95 / 2.5])
    # M/D/1 at 95 %: 26.25 us, where M/M/1 has 50 (claim 14).
    assert open_queue(1, 1.0, 0.0).values(theta, rate)[0, 0] == pytest.approx(26.25)
    assert open_queue(1, 1.0, 2.5**2).values(theta, rate)[0, 0] == pytest.approx(50)
    assert math.isinf(open_queue(1).values(theta, np.array([0.4]))[0, 0])


@pytest.mark.parametrize("seed", range(6))
def test_the_solver_is_as_good_as_scipys(seed: int) -> None:
    source = np.random.default_rng(seed)
    at = np.array([1.0, 2, 4, 8, 16, 32])
    truth = np.array([1000.0, 0.05 * source.random(), 1e-3 * source.random()])
    logs = np.log(usl().values(truth[None, :], at)[0]) + source.normal(0, 0.05, 6)
    lower, upper = np.array([1e-9, 0.0, 0.0]), np.array([1e12, 1.0, 10.0])

    def curve(theta: np.ndarray) -> np.ndarray:
        return np.log(usl().values(theta, at))

    start = np.array([[900.0, 0.02, 1e-4]])
    theta, total = minimise(curve, logs[None, :], np.ones(6), start, lower, upper)
    oracle = least_squares(
        lambda t: curve(t[None, :])[0] - logs,
        start[0],
        bounds=(lower, upper),
        x_scale=start[0],
        xtol=1e-12,
        ftol=1e-14,
    )
    assert total[0] <= 2 * oracle.cost * (1 + 1e-6)
    assert np.all((theta[0] >= lower) & (theta[0] <= upper))


def line(
    model: object, theta: Sequence[float], at: Sequence[float], *, noise: float = 0.01, **more: object
) -> Line:
    source = np.random.default_rng(3)
    exact = model.values(np.array([theta]), np.array(at, dtype=float))[0]  # type: ignore[attr-defined]
    measured = [
        Load(float(n), tuple(x * np.exp(source.normal(0, noise, 3)))) for n, x in zip(at, exact, strict=True)
    ]
    return Line({}, {}, **{"is_open": False, "loads": tuple(measured), **more})  # type: ignore[arg-type]


def known(found: LineFit, name: str) -> float:
    each = {**found.parameters, **found.derived}[name]
    assert each.estimate is not None and each.low is not None and each.high is not None
    assert each.low <= each.estimate <= each.high
    return each.estimate


def test_a_closed_queue_is_told_from_others_and_held_out_loads_are_met() -> None:
    found = fit_line(
        line(closed_queue(), (50e-6, 400e-6), CLIENTS), "operations_per_s", "1/s", hold_out=(48, 64)
    )
    assert found.chosen is not None and found.chosen.model.name == "closed_queue"
    assert known(found, "service_s") == pytest.approx(50e-6, rel=0.02)
    assert known(found, "delay_s") == pytest.approx(400e-6, rel=0.04)
    assert known(found, "crossing") == pytest.approx(9, rel=0.04)
    assert known(found, "capacity_per_s") == pytest.approx(20_000, rel=0.02)
    assert [each.load for each in found.held_out] == [48, 64]
    assert all(each.least <= (each.measured or 0) <= each.most for each in found.held_out)
    assert any("of 2 loads that were held out 2 lie in the band" in note for note in found.notes)
    assert "a closed queue" in sentence(found) and "20" in sentence(found)


def test_servers_are_counted_where_the_curve_tells_them() -> None:
    found = fit_line(line(closed_queue(4), (200e-6, 400e-6), CLIENTS, noise=0.003), "operations_per_s", "1/s")
    assert found.chosen is not None and found.chosen.model.name == "closed_queue_4"
    assert known(found, "crossing") == pytest.approx(12, rel=0.02)


@pytest.mark.parametrize("hold_out", [(), (64,)])
def test_a_closed_queue_with_its_measured_variance(hold_out: Sequence[float]) -> None:
    """Service times of a third of an exponential law's variance, whether or not loads are held out to be predicted."""
    varied = Variability(450e-6, (50e-6) ** 2 / 3, 10_000, 1.0)
    model = closed_general(varied.variance_s2)
    loads = line(model, (50e-6, 400e-6), CLIENTS, noise=0.001, variability=varied)
    found = fit_line(loads, "operations_per_s", "1/s", hold_out=hold_out)
    assert found.chosen is not None and found.chosen.model.name == "closed_general"
    assert known(found, "service_s") == pytest.approx(50e-6, rel=0.02)
    assert [each.load for each in found.held_out] == list(hold_out)


def test_below_the_wall_neither_wall_nor_capacity_is_given() -> None:
    found = fit_line(line(closed_queue(), (10e-6, 400e-6), (1, 2, 3, 4, 6, 8)), "operations_per_s", "1/s")
    assert known(found, "cycle_s") == pytest.approx(410e-6, rel=0.03)
    for each in (*found.parameters.values(), found.derived["crossing"], found.derived["capacity_per_s"]):
        assert each.estimate is None and each.missing
    assert "where its wall is, these points do not say" in sentence(found)


def test_an_open_queue_with_its_measured_variance() -> None:
    rates = (1000, 2000, 4000, 6000, 8000, 10_000, 11_000)
    varied = Variability(380e-6, 0.1 * (80e-6) ** 2, 10_000, 1000.0)
    model = open_queue(1, 1.0, varied.variance_s2)
    found = fit_line(
        line(
            model, (80e-6, 300e-6), rates, noise=0.003, is_open=True, arrivals="poisson", variability=varied
        ),
        "operations_per_s",
        "1/s",
    )
    assert found.chosen is not None and found.chosen.model.name == "M/G/1"
    assert known(found, "service_s") == pytest.approx(80e-6, rel=0.02)
    assert known(found, "capacity_per_s") == pytest.approx(12_500, rel=0.02)
    early = replace(found.line, loads=found.line.loads[:4])
    refused = fit_line(early, "operations_per_s", "1/s").derived["capacity_per_s"]
    assert refused.estimate is None and "% busy" in (refused.missing or "")


def test_a_line_that_no_model_describes_is_refused_in_words() -> None:
    switch = Line(
        {},
        {"transport": "udp"},
        False,
        tuple(by_load(tuple(zip(CLIENTS, (1, 2, 4, 8, 3, 2, 1, 9, 1), strict=True)))),
    )
    found = fit_line(switch, "operations_per_s", "1/s")
    assert found.chosen is None and "no scaling curve" in (found.refused or "")
    assert panels(found) == ()
    assert values(found)["refused"] == found.refused
    assert sentence(found).startswith("No model is fitted (transport udp): ")
    few = fit_line(replace(switch, loads=switch.loads[:3]), "operations_per_s", "1/s")
    assert "3 distinct loads are too few" in (few.refused or "")
    bursty = fit_line(replace(switch, is_open=True, arrivals="bursty"), "operations_per_s", "1/s")
    assert "no formula here holds" in (bursty.refused or "")


def test_loads_to_hold_out_as_they_are_written() -> None:
    loads = by_load([(float(n), 1.0) for n in CLIENTS])
    assert held_out(loads, "64") == (64,)
    assert held_out(loads, "32,64") == (32, 64)
    assert held_out(loads, "largest:2") == (48, 64)
    assert held_out(loads, "third") == (2, 16, 48)
    for wrong in ("largest:9", "largest:x", "some"):
        with pytest.raises(ExperimentError, match="expected loads with commas between, third, or largest:2"):
            held_out(loads, wrong)
    with pytest.raises(ExperimentError, match="no load is 5; there are: 1, 2, 4"):
        fit_line(line(closed_queue(), (1e-4, 1e-3), CLIENTS), "operations_per_s", "1/s", hold_out=(5,))


def test_the_same_seed_gives_the_same_intervals() -> None:
    loads = line(closed_queue(), (50e-6, 400e-6), CLIENTS).loads
    one, two, other = (fit(closed_queue(), loads, seed=seed, resamples=50) for seed in (1, 1, 2))
    assert np.array_equal(one.resamples, two.resamples)
    assert not np.array_equal(one.resamples, other.resamples)


@pytest.fixture(scope="module")
def open_campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated agent whose every connection is a server of 50 us, with one connection: M/M/1."""
    truth = {"open_service_ns": 50_000, "open_lateness_ns": 0, "seed": 5}
    hosts = {name: HostSpec(name, "simulated", {"truth": truth}) for name in ("client", "server")}
    settings = {"arrivals": "poisson", "connections": 1, "engine": "epoll", "size": 64}
    asked = replace(
        experiment(
            hosts=hosts,
            factors=(Factor("rate", (2000, 5000, 8000, 11_000, 13_000, 15_000, 40_000)),),
            windows=Windows(100 * MS, 1_200 * MS, 50 * MS, 300 * MS),
        ),
        workload=WorkloadSpec("request_response", ("client",), ("server",), settings),
        design=DesignSpec(replicates=4, seed=1),
    )
    program = AgentProgram(Path("/nowhere"), "0" * 64, "b")
    return asyncio.run(run(asked, tmp_path_factory.mktemp("open"), program=program)).folder


def test_a_simulated_queue_is_recovered_from_its_campaign(open_campaign: Path) -> None:
    summary = analyse(read_dataset(open_campaign))
    (found,) = summary.fits
    assert found.chosen is not None, found.refused
    service = found.parameters["service_s"]
    # What varies from trial to trial is the chance of the queue: some per cent near saturation.
    assert service.estimate == pytest.approx(50e-6, rel=0.05)
    assert service.low is not None and service.high is not None and service.low <= 50e-6 <= service.high
    assert found.line.variability is not None
    assert found.line.variability.scv == pytest.approx(1, rel=0.1)
    assert found.chosen.model.name in ("M/M/1", "M/G/1")
    assert any("rate 40000: only" in note for note in found.line.left_out)
    shown = json.loads(as_json(summary))["fits"][0]
    assert shown["loop"] == "open" and shown["parameters"]["service_s"]["estimate"] == pytest.approx(
        service.estimate
    )
    picture = figure(summary)
    assert picture is not None
    (svg,) = draw(picture) if isinstance(picture, Figure) else [""]
    assert 'class="band"' in svg and "nan" not in svg


def test_fit_prints_what_a_campaign_says(
    open_campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    svg = tmp_path / "fit.svg"
    assert (
        front.run(["model", "fit", str(open_campaign), "--hold-out", "largest:1", "-v", "--svg", str(svg)])
        == 0
    )
    shown = capsys.readouterr().out
    for text in (
        "Measured and predicted",
        "Held out: not seen by the fit",
        "Models, the best prediction first",
    ):
        assert text in shown
    assert svg.read_text().startswith("<svg xmlns=")
    page = tmp_path / "fit.html"
    assert front.run(["model", "fit", str(open_campaign), "--json", "--html", str(page)]) == 0
    assert 'class="band"' in page.read_text() and "Models, the best prediction first" in page.read_text()
    (each,) = json.loads(capsys.readouterr().out)["lines"]
    assert {"model", "models", "parameters", "derived", "points", "held_out", "notes"} <= set(each)
    for options, text in (
        (["--factor", "size"], "'size' is no factor with numbers that vary; there are: rate"),
        (["--outcome", "rates"], "no outcome is called 'rates'"),
        (["--hold-out", "5"], "no load is 5"),
    ):
        assert front.run(["model", "fit", str(open_campaign), *options]) == 2
        assert text in capsys.readouterr().err
    assert front.run(["model", "fit", str(open_campaign), "--scaling"]) == 2
    assert "the loop is open" in capsys.readouterr().err
    assert front.run(["model", "fit", str(tmp_path)]) == 6


@pytest.mark.parametrize("words", [["fit"], ["fit", "--scaling", "--outcome", "goodput_bits_per_s"]])
def test_a_campaign_that_carries_no_model_is_no_success(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes, rates = (1024, 65536), (1, 2, 4, 8, 3, 2, 1, 9, 1)
    points = [
        ({"connections": clients, "size": size}, Truth(bytes_per_s=1e8 * rate))
        for size in sizes
        for clients, rate in zip(CLIENTS, rates, strict=True)
    ]
    factors = [
        {"name": "connections", "levels": list(CLIENTS), "together": {}},
        {"name": "size", "levels": list(sizes), "together": {}},
    ]
    folder = make_campaign(tmp_path / "c", points, factors=factors, layout=Layout(replicates=2, intervals=4))
    assert front.run(["model", *words, str(folder), "--json"]) == 2
    shown = capsys.readouterr()
    assert shown.err.count("iodyno: error:") == 1 and str(folder) in shown.err
    lines = json.loads(shown.out)["lines"]
    assert len(lines) == 2 and all(one["refused"] for one in lines)
    for options in ([], ["--format", "markdown"], ["--svg", str(tmp_path / "a.svg")]):
        assert front.run(["model", *words, str(folder), *options]) == 2
        shown = capsys.readouterr()
        # Each reason once, in the error alone.
        assert not shown.out and shown.err.count("iodyno: error:") == 1
        assert " fits any of 2 lines:" in shown.err and "lines more" not in shown.err
        for reason in {one["refused"] for one in lines}:
            assert shown.err.count(reason) == 1
    assert not (tmp_path / "a.svg").exists()


def test_usl_from_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, svg = tmp_path / "threads.csv", tmp_path / "curve.svg"
    table.write_text("when," + TABLE.replace("\n", "\nx,").removesuffix("x,").replace("when,", ""))
    options = ["model", "fit", "--csv", str(table), "--columns", "threads,packets_per_s"]
    assert front.run([*options, "--json", "--svg", str(svg)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["load"], shown["rate"], shown["model"]) == ("threads", "packets_per_s", "usl")
    assert shown["parameters"]["lambda"]["estimate"] == pytest.approx(1173, abs=1)
    assert shown["knees"]["peak"]["estimate"] is None and shown["knees"]["peak"]["missing"]
    assert [each["load"] for each in shown["points"]] == [1, 2, 4, 8, 16, 32]
    assert 'class="band"' in svg.read_text()
    assert front.run([*options, "--at", "24"]) == 0
    text = capsys.readouterr().out
    assert "Errors of the curve: rms 1.0 %" in text and re.search(
        r"at 24 +\d+ +\[\d+, \d+\] +predicted", text
    )
    assert "Measured and predicted" not in text and len(text.splitlines()) <= 10


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        ("", [], "the file is empty"),
        ("threads,rate\n", [], "there is no line after the header"),
        ("1,1180\n2,2300\n", [], "the first line has numbers (1,1180), and must name the columns"),
        ("threads\n1\n", [], "one column (threads) where two are needed"),
        (
            TABLE.replace("4400", "4.4k"),
            [],
            "line 4: invalid value '4.4k' for packets_per_s: expected a number",
        ),
        (TABLE.replace("4400", ""), [], "line 4: invalid value '' for packets_per_s: expected a number"),
        (TABLE.replace("4400", "0"), [], "line 4: invalid value 0 for packets_per_s: expected more than 0"),
        (TABLE.replace("4400", "nan"), [], "line 4: invalid value 'nan' for packets_per_s"),
        (TABLE.replace("4,4400", "4"), [], "line 4: invalid value: 1 cell; expected 2"),
        (TABLE, ["--columns", "N,X"], "no column is called 'N'; there are: threads, packets_per_s"),
        (
            TABLE,
            ["--columns", "N"],
            "invalid value for --columns: 1 name; expected the load's and the rate's",
        ),
        (TABLE, ["--at", "x"], "invalid value 'x' for --at: expected numbers with commas between"),
        (TABLE, ["--at", "0"], "invalid value 0 for --at: expected loads above 0"),
        (TABLE, ["--at", "64"], "N = 64 lies beyond the greatest load measured, 32"),
        (TABLE, ["c"], "name the points once: a campaign or a table"),
    ],
)
def test_mistakes_in_a_table_have_their_line(
    text: str, options: list[str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "threads.csv"
    table.write_text(text)
    assert front.run(["model", "fit", "--csv", str(table), *options]) == 2
    said = capsys.readouterr()
    assert error in said.err and "try: " in said.err
    assert said.out == ""


def test_a_table_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert front.run(["model", "fit", "--csv", str(tmp_path / "no.csv")]) == 2
    assert "cannot be read" in capsys.readouterr().err
