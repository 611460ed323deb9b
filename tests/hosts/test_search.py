"""`iodyno rr` and `iodyno search` between two hosts of this machine, with real traffic."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import command_server
import pytest
from places import HUNG_S, done_or_void

from iodyno.analysis.dataset import read_dataset
from iodyno.core.asked import asked

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def iodyno(*words: str, cwd: Path) -> dict[str, Any]:
    shown = subprocess.run(
        [*command_server.iodyno(), *words, "--json"],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=HUNG_S,
        check=False,
    )
    assert done_or_void(shown), shown.stderr
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def fell_behind(campaign: str, folder: Path) -> int:
    """Trials in which a busy machine kept the generator from its CPU: they are void, and say why."""
    void = [trial for trial in read_dataset(folder / campaign).trials if trial.status == "void"]
    assert all("the generator fell behind" in str(trial.reason) for trial in void)
    return len(void)


def test_requests_are_measured_without_a_file(tmp_path: Path) -> None:
    words = ("--transport", "udp", "--connections", "8", "--size", "512B", "--response-size", "1024B")
    found = iodyno("rr", *words, "--server-engine", "recvmmsg", "--seconds", "0.5", cwd=tmp_path)
    outcomes = found["points"][0]["outcomes"]
    assert outcomes["operations_per_s"]["estimate"] > 0
    assert outcomes["loss_ratio"]["estimate"] is not None
    assert "offered_operations_per_s" not in outcomes, "a closed loop offers no rate"


def test_who_looks_again_and_again_never_sleeps(tmp_path: Path) -> None:
    words = (
        "--transport",
        "udp",
        "--client-engine",
        "epoll",
        "--server-engine",
        "recvmmsg",
        "--busy-wait",
        "on",
    )
    found = iodyno("rr", *words, "--seconds", "0.5", cwd=tmp_path)
    assert found["points"][0]["outcomes"]["operations_per_s"]["estimate"] > 0
    jobs = [
        asked(json.loads(manifest.read_text())["hosts"][host]["job"])
        for manifest in (tmp_path / found["campaign"]).glob("trials/*/manifest.json")
        for host in ("client", "server")
    ]
    assert jobs and all(job["busy_wait"] for job in jobs)


def test_an_open_loop_holds_its_rate(tmp_path: Path) -> None:
    words = ("--rate", "1000/s", "--arrivals", "constant", "--connections", "8", "--seconds", "1.5")
    found = iodyno("rr", *words, cwd=tmp_path)
    if fell_behind(found["campaign"], tmp_path):
        return
    outcomes = found["points"][0]["outcomes"]
    assert outcomes["offered_operations_per_s"]["estimate"] == pytest.approx(1000, rel=0.02)
    assert outcomes["latency_from_schedule_p99_ns"]["estimate"] > 0, outcomes["latency_from_schedule_p99_ns"][
        "missing"
    ]


def test_a_goal_that_every_rate_meets_lies_above_the_search(tmp_path: Path) -> None:
    words = (
        "--goal",
        "p50 <= 9s",
        "--min-load",
        "100",
        "--max-load",
        "1000",
        "--final-trial-duration",
        "0.2",
        "--search-duration",
        "60",
    )
    found = iodyno("search", *words, cwd=tmp_path)
    (one,) = found["goal_results"]
    void = fell_behind(found["campaign"], tmp_path)
    assert one["trials"] == sum(tried["trials"] for tried in found["tried"]) + void
    if not void:
        assert (one["ended"], one["warning"]) == ("edge", "")
        assert (one["estimate"], one["low"], one["high"]) == (None, 1000, None)


def test_the_search_stays_within_its_time_and_what_it_tried(tmp_path: Path) -> None:
    words = (
        "--goal",
        "p99 <= 2us",
        "--min-load",
        "100",
        "--max-load",
        "100000",
        "--final-trial-duration",
        "0.2",
        "--search-duration",
        "5",
    )
    found = iodyno("search", *words, cwd=tmp_path)
    (one,) = found["goal_results"]
    assert one["ended"] in ("duration", "edge")
    # No answer takes two microseconds, at whatever rate; it began at 100000/s, and a busy machine has time for a few trials.
    assert one["relevant_lower_bound"] is None and (one["estimate"] or one["high"]) < 10_000
    folder = Path(found["campaign"])
    again = subprocess.run(
        [*command_server.iodyno(), "report", folder, "--json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=HUNG_S, check=True,
    )  # fmt: skip
    assert json.loads(again.stdout)["search"]["goal_results"][0]["trials"] == one["trials"]
