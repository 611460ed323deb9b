"""Loads between several senders and receivers, each a namespace of its own: what one end sent, the other got."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import Meanwhile, own_agent, processes_of, run

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.analysis.trial import Trial
from iodyno.core.experiment import Experiment
from iodyno.core.factor import Factor
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.report.json import campaign as campaign_json
from iodyno.report.tables import load_tables

pytestmark = pytest.mark.root


def asked(senders: int, receivers: int, measured: str = "300ms", **workload: Any) -> Experiment:
    hosts = {
        "client": {"access": "netns", "count": senders},
        "server": {"access": "netns", "count": receivers},
    }
    keys = {
        "name": "ends",
        "hosts": hosts,
        "workload": {
            "sender": "client",
            "receiver": "server",
            "engine": "epoll",
            "connections": 3,
            **workload,
        },
        "design": {"replicates": 1},
        "windows": {"warm_up": "50ms", "measured": measured, "drain": "100ms", "interval": "100ms"},
        "limits": {"background_window": "50ms", "background": "100%", "retries": 0},
        "profile": False,
    }
    return parse_experiment(experiment_text(keys), environment={})


def trial_of(experiment: Experiment, folder: Path) -> Trial:
    """The one trial; a busy machine may have its hosts start apart, but does not make it fail."""
    (trial,) = read_dataset(asyncio.run(run(experiment, folder)).folder).trials
    assert trial.finished, trial.reason
    return trial


def moved(trial: Trial, role: str) -> dict[str, int]:
    """Bytes of each host with that role, from start to end."""
    hosts = trial.manifest["hosts"].items()
    return {name: facts["result"]["bytes"] for name, facts in hosts if facts["role"] == role}


def test_a_tunable_of_several_hosts_is_one_factor(tmp_path: Path) -> None:
    experiment = asked(3, 1, kind="stream", size="16KiB")
    factor = Factor("client.tcp_autocorking", (True, False))
    trials = read_dataset(asyncio.run(run(replace(experiment, factors=(factor,)), tmp_path)).folder).trials
    assert {trial.levels["client.tcp_autocorking"] for trial in trials if trial.finished} == {True, False}
    for trial in trials:
        for name, facts in trial.manifest["hosts"].items():
            found = {tunable: each["obtained"] for tunable, each in facts.get("tunables", {}).items()}
            level = trial.levels["client.tcp_autocorking"]
            assert found == ({"tcp_autocorking": level} if name.startswith("client-") else {}), name


@pytest.mark.parametrize(
    ("senders", "receivers", "workload"),
    [
        (5, 1, {"kind": "stream", "size": "16KiB"}),
        (5, 1, {"kind": "request_response", "size": "100B"}),
        (1, 3, {"kind": "stream", "size": "16KiB", "engine": "threads"}),
        (2, 2, {"kind": "stream", "size": "16KiB"}),
        (3, 3, {"kind": "stream", "size": "16KiB", "between": "pairs"}),
        (2, 2, {"kind": "stream", "size": "16KiB", "transport": "unix"}),
    ],
)
def test_what_the_senders_sent_is_what_the_receivers_got(
    senders: int, receivers: int, workload: dict[str, Any], tmp_path: Path
) -> None:
    trial = trial_of(asked(senders, receivers, think="1ms", **workload), tmp_path)
    sent, got = moved(trial, "send"), moved(trial, "receive")
    assert (len(sent), len(got)) == (senders, receivers)
    assert all(sent.values()) and all(got.values())
    assert sum(sent.values()) == sum(got.values())
    if workload.get("between") == "pairs":
        assert list(sent.values()) == list(got.values()), "each receiver has what its own sender sent"
    jobs = {name: facts["job"]["load"]["network"] for name, facts in trial.manifest["hosts"].items()}
    others = 1 if workload.get("between") == "pairs" else receivers
    assert all(job["connections"] == 3 * others for job in jobs.values() if job["role"] == "send")
    assert set(trial.manifest["start"]["offset_ns"]) == set(jobs), "the start of every host is known"


def test_datagrams_of_many_clients_are_told_apart(tmp_path: Path) -> None:
    trial = trial_of(asked(5, 1, kind="request_response", transport="udp", size="100B"), tmp_path)
    done = {
        name: facts["result"]["operations"]
        for name, facts in trial.manifest["hosts"].items()
        if facts["role"] == "send"
    }
    answered = trial.manifest["hosts"]["server"]["result"]["operations"]
    assert len(done) == 5 and all(done.values())
    assert sum(done.values()) <= answered


def test_clients_have_rates_of_their_own_and_one_cost(tmp_path: Path) -> None:
    experiment = asked(5, 1, kind="stream", size="16KiB")
    dataset = read_dataset(asyncio.run(run(experiment, tmp_path)).folder)
    (trial,) = dataset.trials
    together = trial.end("send")
    assert together is not None and len(trial.members) == 5
    assert together.measured_bytes == sum(host.measured_bytes for host in trial.members.values())
    summary = analyse(dataset)
    assert {host.name for host in summary.hosts} == set(trial.hosts)
    (point,) = summary.points
    of = {name: found.estimate for name, found in point.outcomes.items()}
    each = [of[f"client-{number}.goodput_bits_per_s"] or 0.0 for number in range(1, 6)]
    assert all(each)
    whole = of["client.goodput_bits_per_s"] or 0.0
    # Each counts by its own clock, whose intervals are not equally long to the nanosecond.
    assert sum(each) == pytest.approx(whole, rel=0.05)
    assert 1 / 5 <= (of["fairness"] or 0.0) <= 1
    slowest, fastest = of["slowest_client_ratio"] or 0.0, of["fastest_client_ratio"] or 0.0
    assert 0 < slowest <= 1 <= fastest <= 5
    assert any(table.title == "Hosts of client" and len(table.rows) == 5 for table in load_tables(summary))
    outcomes = campaign_json(summary)["points"][0]["outcomes"]
    assert {"fairness", "client-5.goodput_bits_per_s", "client.cpu_ns_per_kib"} <= set(outcomes)
    # Where the machine has a CPU for each end and no more, the clients share theirs, and so have one cost.
    if len(os.sched_getaffinity(0)) == 2:
        assert set(trial.hosts) == {"client", "server"}
        assert "shares its CPUs" in str(point.outcomes["client-2.cpu_ns_per_kib"].missing)
        cost = point.outcomes["client.cpu_ns_per_kib"]
        assert cost.estimate is None or cost.estimate > 0


def test_the_rate_of_an_open_loop_is_that_of_all_senders(tmp_path: Path) -> None:
    trial = trial_of(
        asked(3, 1, "600ms", kind="request_response", size="100B", rate=600, arrivals="poisson"), tmp_path
    )
    jobs = [facts["job"]["load"]["network"] for facts in trial.manifest["hosts"].values()]
    arrivals = [job["arrivals"] for job in jobs if job["arrivals"]]
    assert sum(one["operations"] * 1e9 / one["period_ns"] for one in arrivals) == pytest.approx(600)
    assert len({one["seed"] for one in arrivals}) == 3


def test_a_client_that_is_killed_fails_the_trial_with_its_name(tmp_path: Path) -> None:
    program = own_agent(tmp_path)
    killed: list[int] = []

    def kill() -> None:
        killed.append(processes_of(program.path)[2])
        os.kill(killed[0], signal.SIGKILL)

    experiment = asked(3, 1, "2s", kind="stream", size="16KiB")
    outcome = asyncio.run(run(experiment, tmp_path / "c", notes=Meanwhile(kill), program=program))
    (trial,) = read_dataset(outcome.folder).trials
    assert killed and trial.status == "failed"
    assert "killed by signal 9" in str(trial.reason)
    assert not processes_of(program.path)
