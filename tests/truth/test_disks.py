"""Loads on disks: what the simulated agents really did is what the analysis says, of all clients and of each."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import PROGRAM, run

from iodyno.analysis.dataset import Dataset, read_dataset
from iodyno.analysis.fairness import jain, slowest
from iodyno.analysis.results import CampaignSummary
from iodyno.analysis.summary import analyse
from iodyno.core.errors import TrialError
from iodyno.core.experiment import Experiment, HostSpec
from iodyno.core.warnings import WarningCode
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.loads.disk.campaign import clients as alone
from iodyno.loads.disk.report.tables import storage_tables
from iodyno.report.html import page
from iodyno.report.sentences import sentences
from iodyno.report.tables import source_tables
from iodyno.session import simulated
from iodyno.store.documents import json_schema

TRUTH = {"disk_read_ns": 80_000, "disk_write_ns": 40_000, "disk_iops": 20_000, "disk_cpu_ns": 6000, "seed": 7}


def asked(
    truth: Mapping[str, Any] | None = None,
    count: int = 1,
    factors: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Experiment:
    """Short windows, three replicates."""
    keys = {
        "name": "disks",
        "hosts": {"client": {"access": "simulated", "count": count, "truth": {**TRUTH, **(truth or {})}}},
        "workload": {
            "kind": "disk", "hosts": "client", "target": "/data/file", "working_set": "1GiB", "syscalls": "io_uring",
            **settings,
        },
        "factors": factors or {"queue_depth": [1, 16]},
        "windows": {"warm_up": "100ms", "measured": "1s", "drain": "0s", "interval": "100ms"},
        "limits": {"background_window": "100ms"},
    }  # fmt: skip
    return parse_experiment(experiment_text(keys), environment={})


def measured(experiment: Experiment, into: Path) -> tuple[Dataset, CampaignSummary]:
    outcome = asyncio.run(run(experiment, into, program=PROGRAM))
    assert not outcome.failed
    dataset = read_dataset(outcome.folder)
    return dataset, analyse(dataset)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, CampaignSummary]:
    """Seven reads in ten, at two depths, on three clients."""
    return measured(asked(count=3, read="70%"), tmp_path_factory.mktemp("mixed"))


def test_rates_times_and_cost_are_those_of_the_truth(mixed: tuple[Dataset, CampaignSummary]) -> None:
    _, summary = mixed
    service = 0.7 * 80_000 + 0.3 * 40_000
    for point in summary.points:
        depth = int(point.levels["queue_depth"])
        each = min(20_000, depth / service * 1e9)
        found = {name: estimate.estimate for name, estimate in point.outcomes.items()}
        # Trials vary by 2 %, each client by itself; three clients and three trials make that 0.7 %.
        assert found["iops"] == pytest.approx(3 * each, rel=0.03)
        assert found["read_iops"] == pytest.approx(0.7 * 3 * each, rel=0.03)
        assert found["write_iops"] == pytest.approx(0.3 * 3 * each, rel=0.03)
        assert found["bytes_per_s"] == pytest.approx(3 * each * 4096, rel=0.03)
        assert found["iops"] == pytest.approx((found["read_iops"] or 0) + (found["write_iops"] or 0))
        assert found["client-2.iops"] == pytest.approx(each, rel=0.05)
        stretch = depth / each * 1e9 / service
        assert found["read_service_time_p50_ns"] == pytest.approx(80_000 * stretch, rel=0.01)
        assert found["write_service_time_p99_ns"] == pytest.approx(40_000 * stretch, rel=0.01)
        assert found["service_time_mean_ns"] == pytest.approx(service * stretch, rel=0.01)
        for client in ("client-1", "client-3"):
            assert found[f"{client}.cpu_us_per_io"] == pytest.approx(6.0, rel=0.08)
            assert found[f"{client}.cpu_ns_per_operation"] == pytest.approx(6000, rel=0.08)
        assert "goodput_bits_per_s" not in found
        assert found["fairness"] == pytest.approx(1.0, abs=0.01)
        assert found["response_time_p50_ns"] is None
        assert "closed" in str(point.outcomes["response_time_p50_ns"].missing)


def test_the_classes_of_cpu_time_sum_to_the_cost(mixed: tuple[Dataset, CampaignSummary]) -> None:
    _, summary = mixed
    outcomes = summary.points[1].outcomes
    names = [f"client-1.cpu_{kind}_ns_per_operation" for kind in ("usr", "sys", "irq", "softirq", "other")]
    parts = [outcomes[name].estimate or 0.0 for name in names]
    assert sum(parts) == pytest.approx(outcomes["client-1.cpu_ns_per_operation"].estimate, rel=0.01)


def test_a_report_speaks_of_operations_and_not_of_goodput(mixed: tuple[Dataset, CampaignSummary]) -> None:
    _, summary = mixed
    texts = " ".join(sentence.text for sentence in sentences(summary))
    assert "The rate in operations per second is" in texts
    assert "From queue depth 1 to 16, the rate rises" in texts
    shown = re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", page(summary), flags=re.DOTALL).lower()
    for word in ("goodput", "connections", "delivered to the receiver"):
        assert word not in texts.lower()
        assert word not in shown, (word, shown[max(0, shown.find(word) - 200) :][:300])
    tables = source_tables(summary)
    assert tables[0].title == "Disk load on /data/file, 3 clients"
    heads = [column.title for column in tables[0].columns]
    assert heads[:3] == ["queue depth", "IO/s", "moved"] and "fairness" in heads
    assert tables[1].title == "Each client" and len(tables[1].rows) == 6


def test_every_manifest_fits_the_published_schema(mixed: tuple[Dataset, CampaignSummary]) -> None:
    dataset, _ = mixed
    validator = jsonschema.Draft202012Validator(json_schema("manifest"))
    for trial in dataset.trials:
        stored = json.loads((dataset.folder / "trials" / trial.name / "manifest.json").read_text())
        validator.validate(stored)
        assert stored["start"]["skew_ns"] == max(stored["start"]["offset_ns"].values())
        assert {host["role"] for host in stored["hosts"].values()} == {"alone"}
        seeds = {host["job"]["load"]["disk"]["seed"] for host in stored["hosts"].values()}
        assert len(seeds) == 3, "each client reads blocks of its own"


def test_an_open_loop_keeps_its_rate_and_counts_from_when_it_was_due(tmp_path: Path) -> None:
    settings = {"rate": "4000/s", "arrivals": "poisson", "queue_depth": 8}
    dataset, summary = measured(asked(count=2, factors={"block": ["4KiB", "8KiB"]}, **settings), tmp_path)
    for trial in dataset.trials:
        began = [host["result"] for host in trial.manifest["hosts"].values()]
        late = [result["first_operation_ns"] - result["start_ns"] for result in began]
        assert abs(trial.manifest["start"]["skew_ns"] - (max(late) - min(late))) <= 1, "not the planned start"
    for point in summary.points:
        found = {name: estimate.estimate or 0.0 for name, estimate in point.outcomes.items()}
        assert found["offered_operations_per_s"] == pytest.approx(8000, rel=0.05)
        assert found["iops"] == pytest.approx(8000, rel=0.05)
        assert found["response_time_p50_ns"] >= found["service_time_p50_ns"] > 0


def test_only_as_many_clients_run_as_the_factor_says(tmp_path: Path) -> None:
    dataset, summary = measured(asked(count=4, factors={"clients": [1, 2, 4]}, queue_depth=1), tmp_path)
    for trial in dataset.trials:
        clients = int(trial.levels["clients"])
        assert list(trial.clients) == [f"client-{n}" for n in range(1, clients + 1)]
        idle = [name for name, host in trial.manifest["hosts"].items() if host["role"] == "idle"]
        assert len(idle) == 4 - clients, "the others are measured in the same windows"
    rates = [point.outcomes["iops"].estimate or 0.0 for point in summary.points]
    assert rates[2] == pytest.approx(4 * rates[0], rel=0.05)
    assert summary.points[0].outcomes["fairness"].estimate is None


def test_an_uneven_load_is_told_and_its_slowest_client_named(tmp_path: Path) -> None:
    experiment = asked(count=3, queue_depth=16, factors={"block": ["4KiB"]})
    slow = replace(experiment.hosts["client-2"], options={"truth": {**TRUTH, "disk_iops": 10_000, "seed": 7}})
    experiment = replace(experiment, hosts={**experiment.hosts, "client-2": slow})
    dataset, summary = measured(experiment, tmp_path)
    rates = [20_000, 10_000, 20_000]
    point = summary.points[0]
    assert point.outcomes["fairness"].estimate == pytest.approx(jain(rates), rel=0.02)
    low, high = point.outcomes["fairness"].low, point.outcomes["fairness"].high
    assert low is not None and high is not None and low < high
    assert point.outcomes["slowest_client_ratio"].estimate == pytest.approx(0.6, rel=0.03)
    named = slowest(dataset.trials)
    assert named is not None and named[0] == "client-2"
    assert any("client-2 is the slowest" in sentence.text for sentence in sentences(summary))


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=30))
def test_fairness_lies_between_one_client_of_n_and_all(rates: list[float]) -> None:
    found = jain(rates)
    if found is None:
        assert sum(rate * rate for rate in rates) == 0
    else:
        assert 1 / len(rates) - 1e-9 <= found <= 1 + 1e-9


# The page cache


@pytest.mark.parametrize(
    ("cached", "share", "why"),
    [
        ("no", 0.0, None),
        ("yes", 0.0, None),
        ("any", 0.5, None),
        ("no", 0.5, "50% of the bytes read came from the page cache, in a test that was to be uncached"),
    ],
)
def test_a_trial_whose_page_cache_was_not_as_asked_is_void(
    tmp_path: Path, cached: str, share: float, why: str | None
) -> None:
    experiment = asked({"disk_cached_ratio": share}, factors={"queue_depth": [4]}, cached=cached)
    outcome = asyncio.run(run(experiment, tmp_path, program=PROGRAM))
    dataset = read_dataset(outcome.folder)
    for trial in dataset.trials:
        assert trial.status == ("void" if why else "finished")
        assert why is None or why in str(trial.reason)
        codes = {warning.code for warning in trial.warnings}
        assert (WarningCode.READ_FROM_CACHE in codes) == (why is not None)
    jobs = [
        host.manifest["job"]["disk"]["cache"] for trial in dataset.trials for host in trial.clients.values()
    ]
    assert set(jobs) <= {{"no": "drop", "yes": "warm", "any": "leave"}[cached]}
    summary = analyse(dataset)
    estimate = summary.points[0].outcomes["iops"]
    assert (estimate.estimate is None) == (why is not None)


# Clients that are lost


def _mortal(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """The agent of the host dies in the middle of each of its trials, after three records."""
    real = simulated._Agent._run

    def run_and_die(agent: Any, job: Mapping[str, Any], start_ns: int) -> None:
        if agent._host.name != host or job["role"] != "alone" or job["trial"] == "preflight":
            real(agent, job, start_ns)
            return
        said, kept = agent._say, 0

        def say(kind: str, **content: Any) -> None:
            nonlocal kept
            kept += kind == "record"
            if kept <= 3 and kind != "result":
                said(kind, **content)

        agent._say = say
        real(agent, job, start_ns)
        agent._end(-9)

    monkeypatch.setattr(simulated._Agent, "_run", run_and_die)


def test_a_lost_client_fails_the_trial_or_is_an_event_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _mortal(monkeypatch, "client-2")
    limits = {"retries": 0, "background_ns": 100_000_000}
    fails = asked(count=3, factors={"queue_depth": [4]})
    fails = replace(fails, limits=replace(fails.limits, **limits), design=replace(fails.design, replicates=1))
    outcome = asyncio.run(run(fails, tmp_path, program=PROGRAM))
    assert len(outcome.failed) == 1 and "agent_lost" in str(outcome.failed[0].reason)
    goes_on = asked(count=3, factors={"queue_depth": [4]}, on_client_loss="go_on")
    goes_on = replace(goes_on, limits=fails.limits, design=replace(goes_on.design, replicates=2))
    outcome = asyncio.run(run(goes_on, tmp_path, program=PROGRAM))
    assert not outcome.failed and outcome.finished == 2
    dataset = read_dataset(outcome.folder)
    for trial in dataset.trials:
        (loss,) = trial.manifest["losses"]
        assert loss["host"] == "client-2" and loss["code"] == "agent_lost"
        assert trial.manifest["hosts"]["client-2"]["result"] is None
        (warning,) = [warning for warning in trial.warnings if warning.code is WarningCode.CLIENT_LOST]
        assert "went on with the other 2" in warning.text and "client-2" in warning.where
    summary = analyse(dataset)
    point = summary.points[0]
    marked = [row[1].text for row in storage_tables(summary)[-1].rows]
    assert marked == ["client-1", "client-2, until it was lost", "client-3"]
    assert any("not among them: client-2." in sentence.text for sentence in sentences(summary))
    # What the lost one did not do was not taken from it.
    fairness = point.outcomes["fairness"]
    assert (
        fairness.estimate == pytest.approx(1.0, abs=0.001) and "without client-2, lost on" in fairness.method
    )
    # Two clients of 20 000/s for a second, and the third for two of its ten intervals.
    assert point.outcomes["iops"].estimate == pytest.approx(2.2 * 20_000, rel=0.05)


def test_a_trial_that_loses_its_last_client_fails() -> None:
    account: Any = type("Account", (), {"losses": [], "hosts": {"client": {"role": "alone"}}})()

    async def dies() -> Any:
        raise TrialError("the agent is gone", code="agent_lost")

    with pytest.raises(TrialError, match="the agent is gone"):
        asyncio.run(alone.going_on(dies(), "client", account))


def test_hosts_of_one_machine_read_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = simulated._hello

    def on_one_machine(host: Any, program: Any) -> dict[str, Any]:
        hello = real(host, program)
        hello["host"]["boot_id"] = "one"
        return hello

    monkeypatch.setattr(simulated, "_hello", on_one_machine)
    experiment = asked(count=3, factors={"queue_depth": [4]})
    cpus: dict[str, HostSpec] = {name: replace(host, cpus=(0,)) for name, host in experiment.hosts.items()}
    dataset, summary = measured(replace(experiment, hosts=cpus), tmp_path)
    for trial in dataset.trials:
        asked_for = {name: host["job"]["sensors"] for name, host in trial.manifest["hosts"].items()}
        assert asked_for["client-1"] is None and "cpu_times" not in asked_for["client-2"]
        assert list(trial.hosts) == ["client-1"] and len(trial.clients) == 3
    outcomes = summary.points[0].outcomes
    # The machine's CPU time, which here is that of the first client alone, over the operations of all three.
    assert outcomes["client-1.cpu_us_per_io"].estimate == pytest.approx(2.0, rel=0.08)
    assert "client-1.cpu_us_per_io is that of the machine" in str(outcomes["client-2.cpu_us_per_io"].missing)
    assert outcomes["client-2.iops"].estimate == pytest.approx(20_000, rel=0.05)
    assert not [warning for warning in summary.warnings if "background was not measured" in warning.text]
