"""The public names: what a script or a notebook relies on."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import iodyno
from iodyno.cli.main import run
from iodyno.core.factor import Factor

FILE = """
name: api
question: What does it cost?
hosts: {client: {access: simulated}, server: {access: simulated}}
workload: {kind: stream, sender: client, receiver: server}
factors: {connections: [1, 4], size: [64KiB]}
design: {replicates: 2}
windows: {warm_up: 100ms, measured: 300ms, drain: 50ms, interval: 100ms}
outcomes: [goodput_bits_per_s, client.cpu_ns_per_kib]
"""


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> iodyno.Experiment:
    file = tmp_path_factory.mktemp("api") / "api.yaml"
    file.write_text(FILE)
    return iodyno.read(file)


@pytest.fixture(scope="module")
def campaign(experiment: iodyno.Experiment, tmp_path_factory: pytest.TempPathFactory) -> iodyno.Campaign:
    return iodyno.run(experiment, into=tmp_path_factory.mktemp("campaigns"))


def test_the_names_are_few_sorted_and_documented() -> None:
    assert 15 <= len(iodyno.__all__) <= 25
    assert list(iodyno.__all__) == sorted(iodyno.__all__)
    for name in iodyno.__all__:
        found = getattr(iodyno, name)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert inspect.getdoc(found), name
    with pytest.raises(AttributeError, match="nosuch"):
        iodyno.nosuch  # type: ignore[attr-defined]  # noqa: B018


def test_a_row_of_the_frame_is_a_point(campaign: iodyno.Campaign) -> None:
    frame = campaign.frame()
    rows = [dict(zip(frame.columns, row, strict=True)) for row in frame.fetchall()]
    assert [row["connections"] for row in rows] == [1, 4]
    for row, point in zip(rows, campaign.summary.points, strict=True):
        estimate = point.outcomes["goodput_bits_per_s"]
        assert (row["goodput_bits_per_s"], row["goodput_bits_per_s.low"]) == (estimate.estimate, estimate.low)
        assert row["trials"] == 2 and row["limiter"] == point.limiter.name


def test_a_notebook_shows_question_figure_and_table(campaign: iodyno.Campaign) -> None:
    shown = campaign._repr_html_()
    assert "What does it cost?" in shown and "<svg" in shown and "<table>" in shown
    assert not re.search("<script", shown)


def test_a_campaign_is_drawn_reported_and_loaded_again(campaign: iodyno.Campaign, tmp_path: Path) -> None:
    assert campaign.heatmap("write", tmp_path / "heat.svg").startswith("<svg")
    assert (tmp_path / "heat.svg").read_text().startswith("<svg")
    with pytest.raises(iodyno.IodynoError, match="no trial recorded 'fly'"):
        campaign.heatmap("fly")
    with pytest.raises(iodyno.IodynoError, match=r"heat\.png: a name that ends with \.svg is expected"):
        campaign.heatmap("write", tmp_path / "heat.png")
    with pytest.raises(iodyno.IodynoError, match="the heat map cannot be written: No such file"):
        campaign.heatmap("write", tmp_path / "none" / "heat.svg")
    assert campaign.report(tmp_path / "page.html").read_text().startswith("<!")
    again = iodyno.load(campaign.folder)
    assert again.frame().fetchall() == campaign.frame().fetchall()


def test_two_campaigns_are_compared(campaign: iodyno.Campaign) -> None:
    found = iodyno.compare(campaign, campaign.folder, least=0.5)
    assert [pair.pair.title for pair in found] == ["connections=1", "connections=4"]
    assert {verdict.answer for pair in found for verdict in pair.verdicts} <= {"same", "undecided"}


def test_what_a_cost_is_made_of_and_which_functions_take_it(campaign: iodyno.Campaign) -> None:
    made = campaign.cost()
    assert made.outcome == "client.cpu_ns_per_kib" and "connections" in made.equation.expression
    assert campaign.cost("server.cpu_ns_per_kib", per="connections").outcome == "server.cpu_ns_per_kib"
    functions = campaign.functions("connections=4")
    assert functions == campaign.functions("p02") and functions[0]["host"] == "client"
    assert {row["name"] for row in functions} & {row["name"] for row in campaign.functions("p01")}
    assert campaign.functions("p02", "server")[0]["host"] == "server"
    with pytest.raises(iodyno.IodynoError, match="no point 'p07'"):
        campaign.functions("p07")
    with pytest.raises(iodyno.IodynoError, match="no such host"):
        campaign.functions("p01", "nobody")


def test_a_campaign_runs_where_an_event_loop_does(experiment: iodyno.Experiment, tmp_path: Path) -> None:
    async def notebook() -> iodyno.Campaign:
        return iodyno.run(experiment, into=tmp_path, progress=lines.append)

    lines: list[str] = []
    found = asyncio.run(notebook())
    assert len(found.summary.trials) == 4
    assert sum(line.endswith(": finished") for line in lines) == 4
    folder = found.folder
    assert len(iodyno.run(experiment, resume=folder).summary.trials) == 4, "nothing is left to do"


_ASKED: dict[str, tuple[list[str], Callable[[], object]]] = {
    "tcp": ([], iodyno.tcp),
    "tcp, udp": (["--transport", "udp"], lambda: iodyno.tcp(transport="udp")),
    "rr": ([], iodyno.rr),
    "rr, 16": (["--connections", "16"], lambda: iodyno.rr(16)),
    "rr, open": (["--rate", "1000/s"], lambda: iodyno.rr(rate="1000/s")),
    "disk": (["--target", "null"], lambda: iodyno.disk("null")),
    "disk, file": (
        ["--target", "made.dat", "--queue-depth", "32", "--direct"],
        lambda: iodyno.disk("made.dat", queue_depth=32, direct=True),
    ),
    "search": (
        ["--goal", "loss = 0", "--transport", "udp"],
        lambda: iodyno.search("loss = 0", transport="udp"),
    ),
    "search, times": (["--goal", "p99 <= 1ms"], lambda: iodyno.search("p99 <= 1ms")),
}


@pytest.mark.parametrize("name", _ASKED)
def test_a_name_measures_what_its_command_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not asked for is the same: engine, flows, sizes, working set, bounds of a search."""
    monkeypatch.chdir(tmp_path)
    Path("made.dat").write_bytes(bytes(8 << 20))
    asked: list[iodyno.Experiment] = []

    def stop(experiment: iodyno.Experiment, *_: object, **_named: object) -> None:
        asked.append(experiment)
        raise iodyno.IodynoError("enough")

    monkeypatch.setattr("iodyno.api.run", stop)
    monkeypatch.setattr("iodyno.cli.right_now.measure", stop)
    options, call = _ASKED[name]
    with pytest.raises(iodyno.IodynoError, match="enough"):
        call()
    run([name.partition(",")[0], *options])
    by_name, by_command = asked
    settings = [[each.settings(point.levels) for point in iodyno.plan(each).points] for each in asked]
    assert settings[0] == settings[1]
    assert (by_name.windows, by_name.search) == (by_command.windows, by_command.search)
    assert set(by_name.outcomes) <= set(by_command.outcomes)


def test_what_is_wrong_is_raised(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(
        FILE.replace("size: [64KiB]", "size: [64KiB], nosuch: [1]").replace("replicates: 2", "replicates: 0")
    )
    with pytest.raises(iodyno.ExperimentError) as wrong:
        iodyno.read(file)
    assert "nosuch" in str(wrong.value) and "replicates" in str(wrong.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (iodyno.search, "search: a goal is missing"),
        (lambda: iodyno.search("p99 <= 1"), "search: "),
        (lambda: iodyno.disk("null", read=2), "iodyno.disk: invalid value '2' for read: expected 0% to 100%"),
        (lambda: iodyno.tcp(nagl="on"), "iodyno.tcp: unknown key 'nagl': expected one of nagle"),
        (lambda: iodyno.tcp(repeat=0), "iodyno.tcp: invalid value 0 for repeat: expected 1 to 1000"),
        (lambda: iodyno.rr(seconds="1"), "iodyno.rr: invalid value '1' for seconds: expected a number above 0"),  # type: ignore[arg-type]
        (lambda: iodyno.tcp(clients=0), "iodyno.tcp: invalid value 0 for clients: expected a whole number from 1"),
        (lambda: iodyno.disk("null", to=5), "iodyno.disk: invalid value 5 for to: expected the name of a host"),  # type: ignore[arg-type]
        (lambda: iodyno.plan("api.yaml"), "an experiment is expected, not 'api.yaml'"),  # type: ignore[arg-type]
        (lambda: iodyno.run("api.yaml"), "an experiment is expected, not 'api.yaml'"),  # type: ignore[arg-type]
        (lambda: iodyno.explore("api.yaml"), "an experiment is expected, not 'api.yaml'"),  # type: ignore[arg-type]
        (lambda: iodyno.noise("api.yaml"), "an experiment is expected, not 'api.yaml'"),  # type: ignore[arg-type]
        (lambda: iodyno.compare("a", "b", least=5), "invalid value '5' for least: expected a share above 0 and below 1"),
        (lambda: iodyno.compare("a", "b", least="5%"), "invalid value '5%' for least: expected a share"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_a_call_that_cannot_be_says_what_to_try(call: Callable[[], object], said: str) -> None:
    with pytest.raises(iodyno.ExperimentError, match=re.escape(said)) as refused:
        call()
    assert refused.value.advice


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (Factor("sise", (1024, 65536)), "factors.sise: unknown parameter 'sise' of the workload stream: expected one of "),
        (Factor("client.mtuu", (1500,)), "factors.client.mtuu: unknown tunable 'mtuu' of a host: expected "),
        (
            Factor("size", (1024,), {"windw": (4096,)}),
            "factors.size.together.windw: unknown parameter 'windw' of the workload stream: expected ",
        ),
    ],
)  # fmt: skip
def test_a_factor_that_nothing_has_is_the_error_of_a_file(
    experiment: iodyno.Experiment, tmp_path: Path, factor: Factor, said: str
) -> None:
    wrong = replace(experiment, factors=(factor,))
    for use in (iodyno.plan, lambda asked: iodyno.run(asked, into=tmp_path / "none")):
        with pytest.raises(iodyno.ExperimentError) as refused:
            use(wrong)
        assert str(refused.value).startswith(said)
    assert not (tmp_path / "none").exists()


def test_an_experiment_is_explored_in_stages_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "explored.yaml"
    file.write_text(FILE.replace("[1, 4], size: [64KiB]", "[1, 4], size: [1KiB, 64KiB]"))
    asked = iodyno.read(file)
    lines: list[str] = []
    found = iodyno.explore(asked, outcome="client.cpu_ns_per_kib", into=tmp_path, progress=lines.append)
    answer = found.answer()
    assert answer["stages"][0]["name"] == "resolve" and answer["left_out"] == []
    assert {":".join(e["factors"]) for e in answer["stages"][0]["effects"]} >= {"connections", "size"}
    assert found.study().equation.expression
    assert sum(line.endswith(": finished") for line in lines) == answer["trials"]
    again = iodyno.explore(
        asked, outcome="client.cpu_ns_per_kib", resume=answer["folder"], progress=lines.append
    )
    assert again.answer()["stages"] == answer["stages"], "nothing is left to do"


def test_what_varies_by_itself_is_told_by_level(experiment: iodyno.Experiment, tmp_path: Path) -> None:
    found = iodyno.noise(experiment, point="connections=4", blocks=2, restarts=1, trials=2, into=tmp_path)
    assert found.trials == 4 and "goodput_bits_per_s" in {each.outcome for each in found.outcomes}
    with pytest.raises(iodyno.ExperimentError, match="unknown level '7' of connections"):
        iodyno.noise(experiment, point="connections=7", into=tmp_path)
