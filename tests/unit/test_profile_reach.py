"""A profile that has not all: what it is of and why stands wherever it is shown, and no more is claimed of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_calls import receiver, sender
from made_campaign import Call, Truth, changed, make_campaign

from iodyno.analysis.stacks import _SAID
from iodyno.cli.main import run

AGENT = Path(__file__).parents[2] / "agent" / "profile" / "src" / "profiler.rs"
USER_ONLY = f"{_SAID['user']}: run with CAP_PERFMON, or set kernel.perf_event_paranoid to 0"
HIDDEN = "the kernel hides its symbols, functions are [hidden]: set kernel.kptr_restrict to 0 or 1 and give CAP_SYSLOG"
FACTORS = [{"name": "size", "levels": [65536, 1024], "together": {}}]


def user_only(step: float) -> Truth:
    calls = (
        Call(("iodyno-agent:step",), step, mode="user"),
        Call(("libc.so.6:__libc_send",), 10.0, mode="user"),
    )
    return changed(
        Truth(bytes_per_s=5e8, background=0.0, samples=2000),
        cost_ns_per_kib={"client": 20 * (step + 10.0), "server": 300.0},
        calls={"client": calls, "server": calls},
        profile_missing=USER_ONLY,
    )


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = [
        ({"connections": 4, "size": size}, user_only(step)) for size, step in ((65536, 10.0), (1024, 90.0))
    ]
    return make_campaign(tmp_path_factory.mktemp("reach") / "c", points, factors=FACTORS)


@pytest.mark.parametrize("words", list(_SAID.values()))
def test_the_agent_says_it_in_these_words(words: str) -> None:
    assert f'"{words}"' in AGENT.read_text(encoding="utf-8")


def test_the_profile_of_a_point(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", str(campaign), "--point", "p02", "-v"]) == 0
    out = capsys.readouterr().out
    # A tenth of 2000 ns is user time.
    heading = out.splitlines()[0]
    assert heading.startswith("client, size=1KiB, user code of the load only: ")
    assert float(heading.partition(": ")[2].split()[0]) == pytest.approx(200, rel=0.08)
    assert f"warning: client: {USER_ONLY}" in out
    assert "Cost = share of the samples x user time, which is that of all tasks" in out
    assert "what the kernel took is not in it" in out


def test_json(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", str(campaign), "--point", "p02", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sampled"] == "user" and found["missing"] == USER_ONLY
    assert found["busy_ns_per_kib"]["estimate"] is None and found["busy_ns_per_kib"]["missing"] == USER_ONLY
    assert [warning["code"] for warning in found["warnings"]] == ["sensor_missing"]


def test_other_viewers_are_given_it_beside(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", str(campaign), "--point", "p02", "--format", "folded"]) == 0
    assert USER_ONLY in capsys.readouterr().err
    assert run(["profile", str(campaign), "--point", "p02", "--format", "speedscope"]) == 0
    assert "user code of the load only" in capsys.readouterr().out


def test_two_points(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(campaign), "--points", "p01", "p02", "--functions"]) == 0
    out = capsys.readouterr().out
    assert "the user time that a KiB takes grows from" in out and "the CPU time that a KiB" not in out
    assert f"Not all was sampled on client: {USER_ONLY}." in out
    assert run(["compare", str(campaign), "--points", "p01", "p02", "--functions", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["first_profile"]["missing"] == found["second_profile"]["missing"] == USER_ONLY


def test_the_report(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(campaign), "-v"]) == 0
    out = capsys.readouterr().out
    assert f"call stacks: {USER_ONLY}" in out and "the user time that a KiB takes grows" in out
    page = (campaign / "report.html").read_text(encoding="utf-8")
    assert ">all user time<" in page and "all busy time" not in page
    said = USER_ONLY.replace("'", "&#39;")
    assert page.count(said) > 2
    assert (
        "samples, user code of the load only" in page
        and "its user time stands in the place of busy time" in page
    )
    assert run(["report", str(campaign), "--json"]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert f"call stacks: {USER_ONLY}" in [warning["text"] for warning in warnings]


def test_points_of_which_not_as_much_was_sampled_are_not_set_against_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = changed(user_only(10.0), calls={"client": sender(), "server": receiver()}, profile_missing=None)
    points = [({"connections": 4, "size": 65536}, whole), ({"connections": 4, "size": 1024}, user_only(90.0))]
    folder = make_campaign(tmp_path / "c", points, factors=FACTORS)
    assert run(["compare", str(folder), "--points", "p01", "p02", "--functions"]) == 6
    assert f"at one of the points as at the other: {USER_ONLY}" in capsys.readouterr().err
    assert run(["report", str(folder), "-v"]) == 0
    assert "that a KiB takes" not in capsys.readouterr().out


def test_hidden_symbols_are_told_with_the_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = (
        Call(("iodyno-agent:step",), 5.0, mode="user"),
        Call(("iodyno-agent:step", "kernel:[hidden]"), 95.0),
    )
    truth = changed(
        Truth(bytes_per_s=5e8, background=0.0, samples=2000),
        calls={"client": calls, "server": calls},
        profile_missing=HIDDEN,
    )
    folder = make_campaign(tmp_path / "c", [({"connections": 4, "size": 65536}, truth)])
    assert run(["profile", str(folder)]) == 0
    out = capsys.readouterr().out
    assert f"warning: client: {HIDDEN}" in out and "user code of the load only" not in out
    assert float(out.partition(": ")[2].split()[0]) == pytest.approx(400, rel=0.08)
    assert run(["report", str(folder)]) == 0
    assert f"call stacks: {HIDDEN}" in capsys.readouterr().out
    assert HIDDEN in (folder / "report.html").read_text(encoding="utf-8")
