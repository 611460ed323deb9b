"""What `iodyno search` prints of a search that is stored."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from made_campaign import Layout, Truth, make_campaign

from iodyno import quick
from iodyno.cli.main import run
from iodyno.cli.search import _show
from iodyno.core.search import Bound, GoalResult, LoadTrial, SearchSpec, parse_goal
from iodyno.formats.experiment_file import experiment_text, parse_experiment

SPEC = SearchSpec((parse_goal("p99 <= 1ms"),), min_load=100, max_load=10_000)


def searched(folder: Path, found: GoalResult) -> Path:
    """A campaign of one trial at each of three rates, with this end of its search."""
    points = [({"rate": rate}, Truth()) for rate in (10_000, 900, 2500)]
    made = make_campaign(folder, points, layout=Layout(replicates=1, idle=("before",)))
    header = json.loads((made / "campaign.json").read_text())
    header["experiment"]["search"] = asdict(SPEC)
    trials = [asdict(LoadTrial(load, 10**9, (lost,))) for load, lost in ((2000, 0.2), (1950, 0.01))]
    header["search"] = {"goal_results": [asdict(found)], "load_trials": {"p1": trials}}
    (made / "campaign.json").write_text(json.dumps(header))
    return made


def test_json_has_the_rates_by_number_and_the_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bounds, warning = (Bound(1950, 3, 3), Bound(2000, 0, 3)), "the generator may be the limit"
    numbers = (True, 1940.0, 2000.0, 1900.0, 2100.0, 6, 6 * 10**9)
    found = GoalResult("p1", {}, "p99 <= 1ms", *bounds, *numbers, "regular", warning)
    _show(searched(tmp_path / "s", found), "json")
    told = json.loads(capsys.readouterr().out)
    assert [one["levels"]["rate"] for one in told["tried"]] == [900, 2500, 10_000]
    assert any(one["code"] == "background" for one in told["warnings"])
    (one,) = told["goal_results"]
    assert (one["warning"], one["regular"], one["conditional_throughput"]) == (warning, True, 1940.0)
    assert one["relevant_lower_bound"] == {"load": 1950, "low_loss_trials": 3, "trials": 3}
    assert told["goals"][0]["exceed_ratio"] == 0.5
    assert [(step["load"], step["met"]) for step in told["load_trials"]["p1"]] == [
        (2000, [False]),
        (1950, [True]),
    ]


def test_of_a_wall_outside_json_has_no_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = (True, 10_000.0, 10_000.0, 10_000.0, 10_000.0, 3, 3 * 10**9)
    found = GoalResult("p1", {}, "p99 <= 1ms", Bound(10_000, 3, 3), None, *numbers, "edge")
    _show(searched(tmp_path / "s", found), "json")
    (one,) = json.loads(capsys.readouterr().out)["goal_results"]
    assert (one["estimate"], one["low"], one["high"]) == (None, 10_000, None)


def test_a_search_in_a_file_that_has_no_answer_is_an_error_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Requests of a simulated host are not lost: there is no loss ratio that a goal could be held against."""
    file = tmp_path / "lost.yaml"
    file.write_text("""name: lost
hosts: {client: {access: simulated}, server: {access: simulated}}
workload: {kind: request_response, sender: client, receiver: server, transport: udp, arrivals: constant}
search: {goals: [loss = 0], min_load: 1000, max_load: 2000000}
windows: {warm_up: 100ms, measured: 500ms, drain: 50ms, interval: 100ms}
limits: {background_window: 100ms}
""")
    assert run(["run", str(file), "--into", str(tmp_path)]) == 5
    shown = capsys.readouterr()
    assert "the search has no answer: loss_ratio is missing" in shown.err
    assert shown.out.rstrip().splitlines()[-1].startswith(f"{tmp_path}/lost-")


def test_it_asks_for_what_its_options_say() -> None:
    levels = {"transport": "tcp", "connections": "64", "size": "512B", "response_size": "1024"}
    goal = {
        "goals": ["p99 <= 1ms"],
        "min_load": 100,
        "max_load": 10**6,
        "width": 0.02,
        "search_duration": "60s",
    }
    searching = quick.search(levels, search_for=goal, seconds=1, to=None, profile=False)
    spec = parse_experiment(experiment_text(searching), environment={}).search
    assert spec is not None and (spec.goals[0].most, spec.min_load, spec.max_load) == (1e6, 100, 10**6)
    one_way = quick.search(
        {**levels, "transport": "udp"},
        search_for={**goal, "goals": ["loss = 0", "loss <= 0.5 %"]},
        seconds=1,
        to=None,
        profile=False,
    )
    assert one_way["workload"]["kind"] == "stream" and "response_size" not in one_way["workload"]
    both = parse_experiment(experiment_text(one_way), environment={}).search
    assert both is not None and [each.loss_ratio for each in both.goals] == [0, 0.005]


@pytest.mark.parametrize(("goal", "said"), [("p99", "p99 <= 1ms"), ("loss", "loss = 0")])
def test_a_goal_without_its_limit_is_told_so(
    goal: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["search", "--goal", goal]) == 2
    error = capsys.readouterr().err
    assert f"{goal} needs a limit, such as {said}" in error and "did you mean" not in error


def test_the_answer_lies_within_no_interval_of_another_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bounds = (Bound(60_488, 2, 2), Bound(86_411, 0, 2))
    numbers = (True, 59_528.0, 74_706.4, 61_509.6, 99_853.3, 9, 9 * 10**9)
    found = GoalResult("p1", {}, "p99 <= 1ms", *bounds, *numbers, "regular")
    _show(searched(tmp_path / "s", found), "text")
    title, *rows = capsys.readouterr().out.splitlines()
    assert title == "The largest rate with p99 <= 1ms is 60.5 k/s"
    (limit,) = [row for row in rows if "interval" in row]
    assert "Limit " in limit and "begin to miss it at 74.7 k/s, 95 % interval [61.5 k/s, 99.9 k/s]" in limit


def test_a_generator_that_was_too_slow_is_no_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = (True, 1940.0, 2000.0, 1900.0, 2100.0, 6, 6 * 10**9)
    found = GoalResult("p1", {}, "p99 <= 1ms", Bound(1950, 1, 1), Bound(2000, 0, 1), *numbers, "regular")
    folder = searched(tmp_path / "s", found)
    header = json.loads((folder / "campaign.json").read_text())
    late = asdict(LoadTrial(2000, 10**9, (1.0,), None, "the generator fell behind"))
    header["search"]["load_trials"]["p1"][0] = late
    (folder / "campaign.json").write_text(json.dumps(header))
    _show(folder, "text", verbose=True)
    out = capsys.readouterr().out
    assert "100 %" not in out and "p99 <= 1ms: later or lost" in out
    (step,) = [line for line in out.splitlines() if "2000/s" in line and "FAIL" in line]
    assert step.rstrip().endswith("generator too slow  FAIL")
    assert "at 2.00 k/s the load generator was too slow: that bound is its own, not the path's" in out
