"""Open loops: rates, response times and the reason of a delay are recovered from a queue whose truth is known."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from places import MS, experiment, run

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.results import CampaignSummary
from iodyno.analysis.summary import analyse
from iodyno.cli.right_now import show_found
from iodyno.core.errors import TrialError
from iodyno.core.experiment import DesignSpec, HostSpec, Windows, WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.hosts.access import AgentProgram

SERVICE_NS = 50_000


def campaign(
    folder: Path, rate: int, connections: int, lateness_ns: float = 1_000, size: int = 64, trials: int = 4
) -> CampaignSummary:
    truth = {"open_service_ns": SERVICE_NS, "open_lateness_ns": lateness_ns, "seed": 3}
    hosts = {name: HostSpec(name, "simulated", {"truth": truth}) for name in ("client", "server")}
    workload = WorkloadSpec(
        "request_response",
        ("client",),
        ("server",),
        {"rate": rate, "arrivals": "poisson", "connections": connections, "engine": "epoll"},
    )
    asked = experiment(
        hosts=hosts,
        factors=(Factor("size", (size,)),),
        windows=Windows(200 * MS, 1_500 * MS, 100 * MS, 500 * MS),
    )
    asked = replace(asked, workload=workload, design=DesignSpec(replicates=trials, seed=1))
    program = AgentProgram(Path("/nowhere"), "0" * 64, "b")
    return analyse(read_dataset(asyncio.run(run(asked, folder, program=program)).folder))


def test_rates_and_response_times_of_a_queue_with_one_server(tmp_path: Path) -> None:
    (point,) = campaign(tmp_path, rate=10_000, connections=1).points
    found = {name: estimate.estimate for name, estimate in point.outcomes.items()}
    # 60 000 arrivals: standard error 0.4 %.
    assert found["offered_operations_per_s"] == pytest.approx(10_000, rel=0.02)
    assert found["achieved_operations_per_s"] == pytest.approx(10_000, rel=0.02)
    assert found["operations_per_s"] == found["achieved_operations_per_s"]
    assert found["missed_arrivals_ratio"] == pytest.approx(0, abs=0.001)
    # M/M/1 at a utilisation of 0.51 (the lateness keeps the server, too): exponential response times of this mean
    # (Kleinrock, Queueing Systems I, 3.2). What follows another is alike: some 2 % of standard error.
    mean = 51_000 / (1 - 0.51)
    assert found["latency_from_schedule_mean_ns"] == pytest.approx(mean, rel=0.1)
    assert found["latency_from_schedule_p50_ns"] == pytest.approx(mean * math.log(2), rel=0.1)
    assert found["latency_from_schedule_p99_ns"] == pytest.approx(mean * math.log(100), rel=0.15)
    assert found["latency_mean_ns"] == pytest.approx(SERVICE_NS, rel=0.03)
    assert found["lateness_p50_ns"] == pytest.approx(1_000, rel=0.01)
    assert point.finished == 4
    assert point.limiter.name == "offered_load"


def test_more_than_the_path_takes_is_the_paths_and_no_trial_is_void(tmp_path: Path) -> None:
    summary = campaign(tmp_path, rate=40_000, connections=1)
    (point,) = summary.points
    found = {name: estimate.estimate for name, estimate in point.outcomes.items()}
    assert point.finished == 4
    assert found["offered_operations_per_s"] == pytest.approx(40_000, rel=0.02)
    assert found["achieved_operations_per_s"] == pytest.approx(1e9 / 51_000, rel=0.02)
    # Half of what comes is served; the last tenth of the load is no part of the window.
    assert found["missed_arrivals_ratio"] == pytest.approx(0.55, abs=0.05)
    assert found["lateness_p50_ns"] == pytest.approx(1_000, rel=0.01)
    assert any(warning.code == "response_censored" for warning in summary.warnings)
    # An arrival at t is served at 2 t: those complete in the window waited for 0.1 to 0.83 s, and those that wait still
    # count with what they had waited. Without them the median would be 0.43 s.
    assert 0.40e9 < (found["latency_from_schedule_p50_ns"] or 0) < 0.65e9
    assert point.limiter.name != "offered_load"


def test_a_generator_that_falls_behind_voids_its_trials(tmp_path: Path) -> None:
    summary = campaign(tmp_path, rate=1_000, connections=64, lateness_ns=300_000)
    (point,) = summary.points
    assert point.finished == 0
    assert {trial.status for trial in summary.trials} == {"void"}
    assert all("the generator fell behind" in (trial.reason or "") for trial in summary.trials)
    assert point.outcomes["latency_from_schedule_p50_ns"].estimate is None
    assert any(warning.code == "generator_behind" for warning in point.warnings)
    # 0.3 ms late every 10 ms: as good as on time.
    (point,) = campaign(tmp_path / "slow", rate=100, connections=64, lateness_ns=300_000).points
    assert point.finished == 4


def test_what_is_shown_right_now_says_why_no_trial_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign(tmp_path, rate=1_000, connections=64, lateness_ns=300_000)
    (folder,) = {found.parent for found in tmp_path.rglob("campaign.json")}
    dataset = read_dataset(folder)
    with pytest.raises(TrialError, match="no trial counts: the generator fell behind"):
        show_found(folder, dataset, analyse(dataset), form="json")
    said = json.loads(capsys.readouterr().out)
    assert all("the generator fell behind" in why for why in said["points"][0]["void"].values())
    assert len(said["points"][0]["void"]) == 4
    with pytest.raises(TrialError):
        show_found(folder, dataset, analyse(dataset), form="text")
    assert "is void: the generator fell behind" in capsys.readouterr().out


def test_both_ends_of_a_simulated_open_loop_move_what_its_operations_carry(tmp_path: Path) -> None:
    (point,) = campaign(tmp_path, rate=10_000, connections=1).points
    found = {name: estimate.estimate for name, estimate in point.outcomes.items()}
    assert found["messages_per_s"] == pytest.approx(10_000, rel=0.02)
    assert found["client.cpu_ns_per_operation"] == pytest.approx(
        (found["client.cpu_ns_per_kib"] or 0.0) * (found["goodput_bits_per_s"] or 0.0) / 8192 / 10_000,
        rel=0.05,
    )
    # Each host has a CPU of its own.
    of_ends = [found[f"{host}.cpu_ns_per_operation"] or 0.0 for host in ("client", "server")]
    assert found["total_cpu_ns_per_operation"] == pytest.approx(sum(of_ends))


def test_no_load_of_simulated_hosts_is_beyond_their_cpus(tmp_path: Path) -> None:
    # A hundred thousand requests of 64 KiB a second would take some thirteen CPUs.
    (point,) = campaign(tmp_path, rate=100_000, connections=64, size=65_536, trials=1).points
    for host in ("client", "server"):
        shares = [
            point.outcomes[f"{host}.cpu_{name}_ratio"].estimate or 0.0
            for name in ("usr", "sys", "irq", "softirq", "other", "idle")
        ]
        assert sum(shares) == pytest.approx(1.0, abs=0.01)
        assert min(shares) >= 0
    assert (point.outcomes["achieved_operations_per_s"].estimate or 0.0) < 20_000
    assert (point.outcomes["goodput_bits_per_s"].estimate or 0.0) < 9e9 * 2
