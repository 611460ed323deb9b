"""A host that goes away in the middle of a campaign: it is waited for, and whatever becomes of it, the way to go on is named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from places import Notes, experiment, run

from iodyno.campaign import testbed, trial
from iodyno.cli import main as front
from iodyno.cli import right_now
from iodyno.core.errors import AccessError, TrialError
from iodyno.core.factor import Factor
from iodyno.hosts.access import AgentProgram, AgentStreams
from iodyno.session import simulated

FILE = """
name: far
question: What becomes of a host that is away?
hosts:
  client: {access: simulated}
  server: {access: simulated}
workload: {kind: stream, sender: client, receiver: server}
factors: {connections: [1, 2]}
design: {replicates: 1}
windows: {warm_up: 100ms, measured: 300ms, drain: 50ms, interval: 100ms}
limits: {retries: 1, background_window: 100ms}
"""


class Far:
    """The server: its agent dies at the first job of that name, and so many starts after it are refused."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, dies_at: str, refusals: float, deaths: int = 1
    ) -> None:
        self.refusals, self.deaths, self.refused = refusals, deaths, 0
        prepare, start, far = simulated._Agent._prepare, simulated.SimulatedAccess.start, self

        def maybe(agent: Any, job: Mapping[str, Any]) -> None:
            if agent._host.name == "server" and far.deaths and str(job["trial"]).startswith(dies_at):
                far.deaths -= 1
                agent.kill()
            else:
                prepare(agent, job)

        async def refusing(access: Any, program: AgentProgram, command: str = "serve") -> AgentStreams:
            if access.name == "server" and far.deaths < deaths and far.refused < far.refusals:
                far.refused += 1
                raise AccessError("the connection was refused", where="host server", advice="look at it")
            return await start(access, program, command)

        monkeypatch.setattr(simulated._Agent, "_prepare", maybe)
        monkeypatch.setattr(simulated.SimulatedAccess, "start", refusing)
        monkeypatch.setattr(testbed, "_TRY_EVERY_S", 0.01)


def started(tmp_path: Path, *words: str) -> tuple[int, Path, list[Path]]:
    file = tmp_path / "far.yaml"
    file.write_text(FILE)
    code = front.run(["run", str(file), "--into", str(tmp_path / "into"), *words])
    return code, file, sorted((tmp_path / "into").iterdir())


def test_a_host_that_comes_back_costs_an_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    far = Far(monkeypatch, "00000", refusals=3)
    code, _, (folder,) = started(tmp_path)
    said = capsys.readouterr().err
    assert code == 0 and far.refused == 3
    assert said.count("host server: the connection was refused; trying to reach it for up to 120 s") == 1
    assert {place.name for place in (folder / "trials").iterdir()} == {"00000-1", "00000-2", "00001-1"}


def test_a_host_that_stays_away_ends_the_campaign_with_the_way_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testbed, "REACH_AGAIN_S", 0.05)
    Far(monkeypatch, "00001", refusals=float("inf"))
    code, file, (folder,) = started(tmp_path)
    assert code == 3
    *_, error, advice = capsys.readouterr().err.splitlines()
    assert "the connection was refused, also when it was tried again" in error
    assert f"finished trials are kept in {folder}" in error
    assert advice == f"  try: look at it; then iodyno run {file} --resume {folder}"


def test_when_all_trials_are_done_the_report_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testbed, "REACH_AGAIN_S", 0.05)
    far = Far(monkeypatch, "background-after", refusals=float("inf"))
    code, file, (folder,) = started(tmp_path)
    out, err = capsys.readouterr()
    assert code == 3 and (folder / "report.html").is_file()
    assert out.splitlines()[-1] == str(folder)
    assert err.endswith(f"then iodyno run {file} --resume {folder}\n")
    far.refusals = 0
    assert front.run(["run", str(file), "--resume", str(folder)]) == 0
    assert (folder / "background" / "after").is_dir()


@pytest.mark.parametrize(
    "dies_at", ["calibration-threads", "calibration-epoll", "preflight", "background-before"]
)
def test_an_agent_that_dies_before_the_trials_is_started_anew(
    dies_at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = Far(monkeypatch, dies_at, refusals=0)
    assert started(tmp_path)[0] == 0
    assert far.deaths == 0


def test_an_agent_that_keeps_dying_while_calibrating_is_no_trial_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Far(monkeypatch, "calibration", refusals=0, deaths=99)
    code, _, folders = started(tmp_path)
    assert code == 3 and "host server" in capsys.readouterr().err
    assert not folders, "nothing was begun in it"


def test_a_campaign_whose_hosts_were_never_reached_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Far(monkeypatch, "nothing", refusals=1, deaths=0).deaths = -1
    code, _, folders = started(tmp_path)
    assert code == 3 and not folders
    assert "--resume" not in capsys.readouterr().err


def test_ctrl_c_while_the_report_is_made_names_the_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("iodyno.cli.report.show", interrupted)
    code, _, (folder,) = started(tmp_path)
    assert code == 130
    assert f"{folder}: stopped; the campaign has ended" in (said := capsys.readouterr().err)
    assert said.endswith(f"try: iodyno report {folder}\n")


def test_a_trial_that_is_void_counts_as_failed_however_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "late.yaml"
    far = "{access: simulated, truth: {open_service_ns: 50000, open_lateness_ns: 900000}}"
    file.write_text(
        FILE.replace("{access: simulated}", far)
        .replace("kind: stream", "kind: request_response, rate: 1000, engine: epoll")
        .replace("[1, 2]", "[4]")
    )
    assert front.run(["run", str(file), "--into", str(tmp_path / "into"), "--json"]) == 5
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["finished"] is False and told["finished_trials"] == 0
    assert [trial["order"] for trial in told["failed"]] == [0]
    assert told["failed"][0]["reason"].startswith("void: the generator fell behind")
    assert "trial 1 is void" in err and "1 of 1 trial failed" in err
    assert err.splitlines()[-1].strip() == "try: a lower rate, or CPUs of its own for the sender"
    # It stays so: nothing makes such a trial again.
    assert front.run(["run", str(file), "--resume", told["campaign"]]) == 5


def test_one_void_trial_of_several_is_a_failure_of_commands_without_a_file_too(tmp_path: Path) -> None:
    right_now._refuse_void(tmp_path, {}, 3, "")
    with pytest.raises(TrialError, match="1 of 3 trials are void, the first of them: late"):
        right_now._refuse_void(tmp_path, {"00000-1": "late"}, 2, "")


def test_a_host_of_this_machine_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testbed, "_ON_THIS_MACHINE", ("simulated",))
    far = Far(monkeypatch, "00001", refusals=float("inf"))
    assert started(tmp_path)[0] == 3
    assert far.refused == 1


def test_a_start_that_comes_too_late_is_armed_further_ahead_and_counts_as_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, patience = trial.carry_out, []

    async def late_twice(bed: testbed.Testbed, *more: Any) -> None:
        patience.append(bed.patience)
        if len(patience) < 3:
            raise TrialError("the start was armed with 0 ns left", code="late")
        await real(bed, *more)

    monkeypatch.setattr("iodyno.campaign.runner.carry_out", late_twice)
    notes = Notes()
    outcome = asyncio.run(run(experiment(factors=(Factor("connections", (1,)),)), tmp_path, notes=notes))
    assert (outcome.finished, outcome.failed) == (1, ())
    assert patience == [1, 8, 64]
    (manifest,) = notes.manifests
    assert (manifest["attempt"], manifest["warnings"]) == (1, [])
    assert [path.name for path in (outcome.folder / "trials").iterdir()] == ["00000-1"]


@pytest.mark.parametrize(
    ("codes", "lengths"),
    [(("late", "late"), [1, 1, 1]), (("stalled",), [1, 8]), (("late", "stalled", "late"), [1, 1, 8, 8])],
)
def test_a_short_test_is_longer_where_chance_failed_it_but_not_where_it_had_not_begun(
    codes: tuple[str, ...], lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: Any) -> None: ...

    async def test(longer: int) -> None:
        asked.append(longer)
        if len(asked) <= len(codes):
            raise TrialError("by chance", code=codes[len(asked) - 1])

    asked: list[int] = []
    bed = testbed.Testbed.__new__(testbed.Testbed)
    bed.patience = 1
    monkeypatch.setattr(testbed.Testbed, "abort", nothing)
    monkeypatch.setattr(testbed.Testbed, "mend", nothing)
    asyncio.run(bed.in_time(test))
    assert asked == lengths
