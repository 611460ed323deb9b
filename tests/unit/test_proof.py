"""The trials of a proof: how they are planned, kept, taken up again, and what they do not touch."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from places import PROGRAM, Notes, Stopped, experiment, run

from iodyno import designs
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.campaign.ledger import manifests
from iodyno.core.design import ProofPlan
from iodyno.core.experiment import DesignSpec, Experiment, HostSpec
from iodyno.core.factor import Factor
from iodyno.designs import perturbation
from iodyno.designs.perturbation import BLOCKS, Suspicion, changes
from iodyno.store.documents import json_schema
from iodyno.strategies.prove import Prove

ASKED = replace(
    experiment(factors=(Factor("connections", (2, 8)),), receive_buffer=16384, think=1_000_000),
    design=DesignSpec(replicates=2, seed=7),
)
DESIGN = designs.plan(ASKED)


def suspicions(*limiters: str, cpus: float = 0.9) -> list[Suspicion]:
    return [Suspicion(point, limiters, {"client": cpus, "server": cpus}) for point in DESIGN.points]


def test_every_block_holds_every_change_and_one_trial_without() -> None:
    plan = perturbation.plan(ASKED, DESIGN, suspicions("receive_window", "client.cpu"))
    assert plan == perturbation.plan(ASKED, DESIGN, suspicions("receive_window", "client.cpu"))
    assert [trial.order for trial in plan.trials] == list(range(4, 4 + len(plan.trials)))
    assert len(plan.trials) == BLOCKS * 2 * (1 + 2 + 1)
    for block in range(2, 2 + BLOCKS):
        for point in DESIGN.points:
            mine = [t for t in plan.trials if (t.block, t.point.id) == (block, point.id)]
            found = sorted((t.perturbation.limiter, t.perturbation.direction) for t in mine if t.perturbation)
            assert found == [
                ("", "none"),
                ("client.cpu", "tighten"),
                ("receive_window", "relax"),
                ("receive_window", "tighten"),
            ]
            assert mine[-1].order - mine[0].order == len(mine) - 1, "pairs are near in time"


def test_what_cannot_be_tested_is_said_and_the_next_suspect_is_tested_instead() -> None:
    plan = perturbation.plan(
        ASKED, DESIGN, suspicions("send_buffer", "receive_window", "client.cpu", "concurrency")
    )
    tested = {trial.perturbation.limiter for trial in plan.trials if trial.perturbation} - {""}
    assert tested == {"receive_window", "client.cpu"}
    assert "set send_buffer" in plan.untestable["p01"]["send_buffer"]
    assert not perturbation.plan(ASKED, DESIGN, suspicions("unknown")).trials


def test_two_suspects_with_one_test_are_not_tested_twice() -> None:
    plan = perturbation.plan(ASKED, DESIGN, suspicions("client.run_queue", "client.cpu", "receive_window"))
    tested = {trial.perturbation.limiter for trial in plan.trials if trial.perturbation} - {""}
    assert tested == {"client.run_queue", "receive_window"}


@pytest.mark.parametrize(
    ("limiter", "settings", "expected"),
    [
        ("receive_window", {"receive_buffer": 16384}, [("receive_buffer", 32768, 2.0), ("receive_buffer", 8192, 0.5)]),
        ("receive_window", {"window": 16384}, [("receive_buffer", 32768, 2.0), ("receive_buffer", 8192, 0.5)]),
        ("send_buffer", {"send_buffer": 4096}, [("send_buffer", 16384, 4.0)]),
        ("client.application", {"think": 1000}, [("think", 500, 2.0), ("think", 2000, 0.5)]),
        ("server.application", {"reader_think": 1000}, [("reader_think", 500, 2.0), ("reader_think", 2000, 0.5)]),
        ("client.cpu_quota", {"sender_quota": 40}, [("sender_quota", 50, 1.25), ("sender_quota", 32, 0.8)]),
        ("server.cpu", {}, [("receiver_quota", 70, 0.7)]),
        ("client.generator", {"compute": 1000}, [("compute", 500, 2.0), ("compute", 2000, 0.5)]),
        ("client.lock", {"serialised": True, "connections": 4}, [("serialised", False, 4.0)]),
        ("link_rate", {"link_rate": 10**6}, [("link_rate", 1250000, 1.25), ("link_rate", 800000, 0.8)]),
        ("queue", {"link_queue": 8000}, [("link_queue", 32000, 4.0)]),
        ("loss", {"link_queue": 8000}, [("link_queue", 32000, 4.0)]),
        ("loss", {"transport": "udp", "receive_buffer": 8000}, [("receive_buffer", 32000, 4.0)]),
        ("loss", {"transport": "udp", "receive_buffer": 8000, "link_queue": 8000}, [("link_queue", 32000, 4.0)]),
        ("block_timeout", {"block_timeout": 4_000_000}, [("block_timeout", 2_000_000, 2.0), ("block_timeout", 8_000_000, 0.5)]),
        ("block_timeout", {}, [("block_timeout", 5_000_000, 2.0), ("block_timeout", 20_000_000, 0.5)]),
        ("concurrency", {"connections": 1}, [("connections", 2, 2.0)]),
        ("concurrency", {"connections": 4}, [("connections", 8, 2.0), ("connections", 2, 0.5)]),
    ],
)  # fmt: skip
def test_the_changes_of_a_resource(
    limiter: str, settings: dict[str, int | bool], expected: list[tuple[str, object, float]]
) -> None:
    settings = {"connections": 1, **settings}
    found = changes(limiter, settings, sends=not limiter.startswith("server"), cpus=1.0)
    assert not isinstance(found, str)
    assert [(c.setting, c.after, c.resource_ratio) for c in found] == expected
    assert all(c.direction == ("relax" if c.resource_ratio > 1 else "tighten") for c in found)


THERE = {
    "client.shaper_rate": 113_000_000, "server.shaper_rate": 33_333_000, "client.cpu_limit": 40,
    "client.disk_limit": 200,
    "server.tcp_rmem_max": 6_291_456, "client.tcp_rmem_max": 131_072, "client.tcp_wmem_max": 65_536,
}  # fmt: skip


@pytest.mark.parametrize(
    ("limiter", "expected"),
    [
        ("link_rate", [("server.shaper_rate", 41_666_000, 1.25), ("server.shaper_rate", 26_666_000, 0.8)]),
        ("client.cpu_quota", [("client.cpu_limit", 50, 1.25), ("client.cpu_limit", 32, 0.8)]),
        (
            "receive_window",
            [("server.tcp_rmem_max", 12_582_912, 2.0), ("server.tcp_rmem_max", 3_145_728, 0.5)],
        ),
        ("send_buffer", [("client.tcp_wmem_max", 262_144, 4.0), ("client.tcp_wmem_max", 16_384, 0.25)]),
    ],
)
def test_what_others_have_set_is_changed_where_that_is_asked_for(
    limiter: str, expected: list[tuple[str, int, float]]
) -> None:
    asked = replace(experiment(factors=(Factor("connections", (2,)),)), design=DesignSpec(replicates=1))
    design = designs.plan(asked)
    suspected = [Suspicion(point, (limiter,), {}) for point in design.points]
    assert not perturbation.plan(asked, design, suspected).trials
    found = {
        (
            t.perturbation.setting,
            t.perturbation.after,
            round(t.perturbation.resource_ratio, 3),
            t.perturbation.before,
        )
        for t in perturbation.plan(asked, design, suspected, THERE).trials
        if t.perturbation and t.perturbation.limiter
    }
    assert found == {(name, after, ratio, THERE[name]) for name, after, ratio in expected}


@pytest.mark.parametrize(
    ("limiter", "settings", "expected"),
    [
        (
            "concurrency",
            {"queue_depth": 4, "syscalls": "io_uring"},
            [("queue_depth", 8, 2.0), ("queue_depth", 2, 0.5)],
        ),
        ("concurrency", {"workers": 1, "syscalls": "pread"}, [("workers", 2, 2.0)]),
        ("client.disk", {}, [("device_limit", 700, 0.7)]),
        ("client.disk", {"device_limit": 400}, [("device_limit", 500, 1.25), ("device_limit", 320, 0.8)]),
        ("offered_load", {"rate": 1000}, [("rate", 1250, 1.25), ("rate", 800, 0.8)]),
        ("client.cpu", {}, [("quota", 70, 0.7)]),
        ("client.cpu_quota", {"quota": 40}, [("quota", 50, 1.25), ("quota", 32, 0.8)]),
    ],
)
def test_the_changes_of_a_load_on_storage(
    limiter: str, settings: dict[str, int | bool | str], expected: list[tuple[str, object, float]]
) -> None:
    found = changes(limiter, settings, sends=True, cpus=1.0, alone=True, device_per_s=1000.0)
    assert not isinstance(found, str)
    assert [(c.setting, c.after, c.resource_ratio) for c in found] == expected


def test_a_device_is_throttled_to_less_than_it_could_do_and_only_where_that_is_known() -> None:
    assert "not known" in str(changes("client.disk", {}, sends=True, cpus=1.0, alone=True))
    program = changes("concurrency", {"syscalls": "pread"}, sends=True, cpus=1.0, alone=True)
    assert "file program" in str(program)


def test_a_server_that_can_be_slower_tests_how_many_operations_are_under_way() -> None:
    """X = N / R: with a time that is half as long again, two thirds of the rate, as with two thirds of the operations."""
    settings = {"syscalls": "pread", "workers": 1, "volume": "nbd"}
    more, slower = changes("concurrency", settings, sends=True, cpus=1.0, alone=True, service_ns=2e6)
    assert not isinstance(more, str) and (more.setting, more.after, more.resource_ratio) == (
        "workers",
        2,
        2.0,
    )
    assert not isinstance(slower, str) and (slower.setting, slower.direction) == ("device_delay", "tighten")
    assert (slower.after, slower.resource_ratio) == (1_000_000, pytest.approx(2 / 3))
    found = changes(
        "concurrency", {**settings, "volume": "nfs"}, sends=True, cpus=1.0, alone=True, service_ns=2e6
    )
    assert [change.setting for change in found if not isinstance(change, str)] == ["workers"]


def test_a_server_that_was_told_to_take_long_is_told_to_take_less_long() -> None:
    """Of 6 ms, 5 ms are the delay: with 2 ms of it an operation takes 3 ms, and twice as many are done."""
    settings = {"syscalls": "pread", "workers": 1, "volume": "nbd", "device_delay": 5_000_000}
    _, faster = changes("concurrency", settings, sends=True, cpus=1.0, alone=True, service_ns=6e6)
    assert not isinstance(faster, str) and (faster.setting, faster.direction) == ("device_delay", "relax")
    assert (faster.before, faster.after, faster.resource_ratio) == (5_000_000, 2_000_000, 2.0)
    # What was measured so short cannot have had the delay.
    found = changes("concurrency", settings, sends=True, cpus=1.0, alone=True, service_ns=4e6)
    assert [change.setting for change in found if not isinstance(change, str)] == ["workers"]


def test_a_disk_that_moves_no_more_bytes_is_asked_with_other_blocks() -> None:
    settings = {"block": 131072, "working_set": 1 << 26}
    smaller, larger = changes("client.disk_bandwidth", settings, sends=True, cpus=1.0, alone=True)
    assert not isinstance(smaller, str) and not isinstance(larger, str)
    assert [(c.after, c.resource_ratio) for c in (smaller, larger)] == [(65536, 2.0), (262144, 0.5)]
    mixed = changes("client.disk_bandwidth", {"block": "mix(4KiB: 1)"}, sends=True, cpus=1.0, alone=True)
    assert "blocks of many sizes" in str(mixed)


def test_a_cpu_with_slack_is_not_tightened_below_what_is_used() -> None:
    """Capacity is what the agent takes and what idles: at 60 % of a CPU, a quota of 70 % leaves the rate alone."""
    (change,) = changes("client.cpu", {"connections": 1}, sends=True, cpus=1.0)
    assert not isinstance(change, str) and change.after == 70
    assert isinstance(changes("client.cpu", {"connections": 1}, sends=True, cpus=None), str)
    assert "already" in str(
        changes("client.cpu", {"connections": 1, "sender_quota": 50}, sends=True, cpus=1.0)
    )


@pytest.mark.parametrize(
    "limiter", ["client.memory", "client.disk", "client.observer", "offered_load", "unknown"]
)
def test_what_no_setting_changes_is_not_testable(limiter: str) -> None:
    assert isinstance(changes(limiter, {"connections": 1}, sends=True, cpus=1.0), str)


class Concurrency(Prove):
    """Suspects concurrency everywhere, and counts how often it is asked."""

    asked = 0

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(experiment, designs.plan(experiment), Path("/nowhere"))

    def plan(self) -> ProofPlan:
        self.asked += 1
        points = [Suspicion(point, ("concurrency",), {}) for point in self._design.points]
        return perturbation.plan(self._experiment, self._design, points)


def simulated(**truth: float) -> Experiment:
    hosts = {name: HostSpec(name, "simulated", {"truth": truth}) for name in ("client", "server")}
    return replace(experiment(factors=(Factor("connections", (2, 8)),), hosts=hosts), prove=True)


def test_a_known_law_is_proved_where_it_holds_and_contradicted_where_it_does_not(tmp_path: Path) -> None:
    """Each connection carries 1 Gbit/s until 8 Gbit/s are reached: concurrency limits 2 connections and not 8."""
    law = {"connection_bits_per_s": 1e9, "goodput_bits_per_s": 8e9, "per_message_ns": 0, "per_kib_ns": 50}
    asked = simulated(**law, noise_between_trials=0.01)
    outcome = asyncio.run(run(asked, tmp_path, program=PROGRAM, proof=Concurrency(simulated())))
    summary = analyse(read_dataset(outcome.folder))
    few, many = (point.limiter for point in summary.points)
    assert (few.name, few.status) == ("concurrency", "proved")
    assert few.elasticity is not None and few.elasticity.low is not None and few.elasticity.high is not None
    assert few.elasticity.low <= 1.0 <= few.elasticity.high and few.elasticity.n == 2 * BLOCKS
    (proof,) = many.proofs
    assert proof.verdict == "contradicted" and proof.by_direction["relax"].estimate == pytest.approx(
        0.0, abs=0.1
    )
    assert proof.by_direction["tighten"].estimate == pytest.approx(1.0, abs=0.1)


def test_the_trials_of_a_proof_are_stored_apart(tmp_path: Path) -> None:
    plain, proved = (
        asyncio.run(run(replace(simulated(), prove=prove), tmp_path / name, program=PROGRAM, proof=strategy))
        for name, prove, strategy in (("plain", False, None), ("proved", True, Concurrency(simulated())))
    )
    content = json.loads((proved.folder / "campaign.json").read_text())
    assert content["finished"] and proved.finished == 2
    written = list(manifests(proved.folder))
    assert [m["purpose"] for m in written] == ["design"] * 2 + ["proof"] * BLOCKS * 6
    for manifest in written:
        jsonschema.validate(manifest, json_schema("manifest"))
        change = manifest["perturbation"]
        if change and change["setting"]:
            assert manifest["settings"]["connections"] == change["after"] != manifest["levels"]["connections"]
    summaries = [analyse(read_dataset(outcome.folder)) for outcome in (plain, proved)]
    for one, other in zip(*(summary.points for summary in summaries), strict=True):
        assert one.finished == other.finished == 1
        assert one.outcomes["goodput_bits_per_s"].n == other.outcomes["goodput_bits_per_s"].n == 1
    assert len(summaries[1].trials) == 2


def test_a_stopped_proof_goes_on_with_the_plan_that_it_has(tmp_path: Path) -> None:
    first = Concurrency(simulated())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run(simulated(), tmp_path, notes=Stopped(60), program=PROGRAM, proof=first))
    (folder,) = tmp_path.iterdir()
    done = [manifest["order"] for manifest in manifests(folder)]
    assert first.asked == 1 and 2 < len(done) < 2 + BLOCKS * 6
    notes, second = Notes(), Concurrency(simulated())
    asyncio.run(run(simulated(), tmp_path, resume=folder, notes=notes, program=PROGRAM, proof=second))
    orders = [manifest["order"] for manifest in manifests(folder)]
    assert (
        orders == list(range(2 + BLOCKS * 6)) and [m["order"] for m in notes.manifests] == orders[len(done) :]
    )


def test_a_finished_campaign_can_be_proved_later(tmp_path: Path) -> None:
    asked = replace(simulated(), prove=False)
    folder = asyncio.run(run(asked, tmp_path, program=PROGRAM)).folder
    later, again = Concurrency(simulated()), Concurrency(simulated())
    outcome = asyncio.run(run(simulated(), tmp_path, resume=folder, program=PROGRAM, proof=later))
    assert later.asked == 1 and outcome.finished == 2
    before = list(manifests(folder))
    outcome = asyncio.run(run(simulated(), tmp_path, resume=folder, program=PROGRAM, proof=again))
    assert again.asked == 1 and outcome.finished == 2 and list(manifests(folder)) == before


def test_the_suspects_of_real_evidence_are_planned(tmp_path: Path) -> None:
    asked = simulated(per_kib_ns=2000, exact=True)
    folder = asyncio.run(run(asked, tmp_path, program=PROGRAM)).folder
    plan = Prove(asked, designs.plan(asked), folder).plan()
    limiters = {trial.perturbation.limiter for trial in plan.trials if trial.perturbation}
    assert limiters <= {"", "client.cpu"} or plan.untestable
