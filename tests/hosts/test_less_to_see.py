"""Hosts on which the kernel shows an agent less than it could: a tier or a reason is named, and no trial is lost for it.

Only the agents run under a fault; the machine stays as it is.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import MS, PROFILE_HZ, Meanwhile, carried_out, experiment, namespaces_of, run

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.functions import read_profiles
from iodyno.analysis.results import CampaignSummary
from iodyno.analysis.summary import analyse
from iodyno.analysis.trial import Trial
from iodyno.campaign.account import Account
from iodyno.campaign.ledger import manifests
from iodyno.campaign.runner import CampaignOutcome
from iodyno.campaign.testbed import Testbed
from iodyno.core.experiment import Experiment, Windows
from iodyno.core.factor import Factor
from iodyno.hosts.access import AgentProgram
from iodyno.session import path_levels
from iodyno.session.locate import find_agent

pytestmark = pytest.mark.root

WINDOWS = Windows(100 * MS, 600 * MS, 50 * MS, 200 * MS)
HIDE_TYPES = "mount -t tmpfs none /sys/kernel/btf"
ONLY_VERSION_2 = "mount -t tmpfs none /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup"


def dropped(*capabilities: str) -> tuple[str, ...]:
    return ("setpriv", "--bounding-set", ",".join(f"-{name}" for name in capabilities))


def in_mounts(change: str) -> tuple[str, ...]:
    """In mounts of its own, after a change of them."""
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", f'{change} && exec "$@"', "sh")


def behind(prefix: tuple[str, ...], folder: Path) -> AgentProgram:
    """The agent, started by a command that takes something from it. Skips where that cannot be done."""
    if (
        shutil.which(prefix[0]) is None
        or (tried := subprocess.run([*prefix, "true"], capture_output=True)).returncode
    ):
        pytest.skip(
            f"cannot be made here: {' '.join(prefix)}: {tried.stderr.decode() if shutil.which(prefix[0]) else 'not found'}"
        )
    found = find_agent()
    script = folder / "agent"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(prefix)} {shlex.quote(str(found.path))} "$@"\n')
    script.chmod(0o755)
    return replace(found, path=script)


def asked(**settings: Any) -> Experiment:
    return experiment(
        "local", factors=(Factor("connections", (2,)),), windows=WINDOWS, profile_hz=PROFILE_HZ, **settings
    )


def one_trial(prefix: tuple[str, ...], folder: Path) -> tuple[CampaignSummary, Path]:
    """The campaign of one trial, which was not lost, with agents behind that prefix."""
    outcome = asyncio.run(run(asked(), folder / "campaigns", program=behind(prefix, folder)))
    assert_whole(outcome)
    return analyse(read_dataset(outcome.folder)), outcome.folder


def assert_whole(outcome: CampaignOutcome) -> None:
    assert outcome.finished == 1 and not outcome.failed, outcome


def profile_reasons(folder: Path) -> Mapping[str, str]:
    """What is missing in each host's profile of the one trial, or all of it."""
    (manifest,) = manifests(folder)
    found = {name: facts["profile"] for name, facts in manifest["hosts"].items()}
    return {name: (profile or {}).get("missing") or "" for name, profile in found.items()}


def costs_name_their_tier(summary: CampaignSummary) -> None:
    (point,) = summary.points
    for host in ("client", "server"):
        cost = point.outcomes[f"{host}.cpu_ns_per_kib"]
        if cost.estimate is None:
            # Where others had the CPUs before, /proc/stat cannot tell what the load took, and says so.
            assert cost.missing and "try a machine that does nothing else" in cost.missing
            continue
        assert cost.estimate > 0
        assert f"tier {summary.accounting.tier}" in cost.method


def test_without_rights_the_next_tier_is_taken_and_named(tmp_path: Path) -> None:
    summary, folder = one_trial(dropped("bpf", "perfmon", "sys_admin"), tmp_path)
    assert summary.accounting.tier in ("irq_time", "tick")
    assert "CAP_BPF and CAP_PERFMON" in summary.accounting.why or "built without" in summary.accounting.why
    costs_name_their_tier(summary)
    paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    for said in profile_reasons(folder).values():
        # At 0 and less everybody may sample everything.
        assert "CAP_PERFMON" in said or paranoid < 1, said


def test_a_kernel_without_type_information_will_do(tmp_path: Path) -> None:
    summary, _ = one_trial(in_mounts(HIDE_TYPES), tmp_path)
    if summary.accounting.tier != "bpf":
        assert summary.accounting.why and "BTF" not in summary.accounting.why
    costs_name_their_tier(summary)


def test_hidden_symbols_are_named_with_the_setting(tmp_path: Path) -> None:
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) <= 1:
        pytest.skip("this kernel shows its symbols to all who may profile")
    summary, folder = one_trial(dropped("syslog"), tmp_path)
    costs_name_their_tier(summary)
    profiles = read_profiles(read_dataset(folder))
    if not profiles:
        pytest.skip(f"no call stacks on this machine: {profiles.missing}")
    assert all("kernel.kptr_restrict" in said for said in profile_reasons(folder).values())
    names = {cost.function.name for cost in profiles.found["p01", "client"].functions()}
    assert "[hidden]" in names and not any(name.startswith("tcp_") for name in names)


def test_control_groups_of_version_2_alone(tmp_path: Path) -> None:
    """A quota needs the cpu controller, which may be bound to version 1: then it is refused before the first trial."""
    summary, folder = one_trial(in_mounts(ONLY_VERSION_2), tmp_path)
    costs_name_their_tier(summary)
    (trial,) = read_dataset(folder).trials
    controllers = Path("/sys/fs/cgroup/cgroup.controllers")
    if not (controllers.is_file() and "cpu" in controllers.read_text().split()):
        assert trial.hosts["client"].growth("cgroup_cpu", "cgroup.periods") == 0
        program = behind(in_mounts(ONLY_VERSION_2), tmp_path)
        refused = asyncio.run(run(asked(sender_quota=50), tmp_path / "quota", program=program))
        (failed,) = refused.failed
        assert "no control group here has the cpu controller" in str(failed.reason)


def in_client(*words: str) -> None:
    (name,) = [name for name in namespaces_of(os.getpid()) if name.endswith("-client")]
    subprocess.run(["ip", "-n", name, *words], check=True, capture_output=True)


class Between(Meanwhile):
    """Makes a device in the client's namespace before the trial and removes it in the middle of the load."""

    def __init__(self) -> None:
        super().__init__(lambda: in_client("link", "delete", "passing"))

    def on_trial_start(self, planned: object, attempt: int) -> None:
        super().on_trial_start(planned, attempt)
        # It may be there still, of an attempt before or of a start that came too late.
        with suppress(subprocess.CalledProcessError):
            in_client("link", "delete", "passing")
        in_client("link", "add", "passing", "type", "veth", "peer", "name", "passing2")


def test_a_device_that_goes_in_the_middle_is_named_and_costs_nothing(tmp_path: Path) -> None:
    wanted = replace(asked(), hosts=experiment("netns").hosts)
    wanted = replace(wanted, windows=replace(WINDOWS, measured_ns=2_000 * MS))
    outcome = asyncio.run(run(wanted, tmp_path, notes=Between()))
    assert_whole(outcome)
    (trial,) = read_dataset(outcome.folder).trials
    assert "dev=passing is gone: growth not known" in missing_of(trial, "client", "net_devices")
    measured = trial.hosts["client"].measured_readings("net_devices")
    assert sum(r.values.get(("net.tx_bytes", "dev=veth0"), 0) for r in measured) > 0, "the others count"


def missing_of(trial: Trial, host: str, sensor: str) -> str:
    return "; ".join(reading.missing or "" for reading in trial.hosts[host].readings[sensor].values())


def test_a_quota_by_control_groups_of_version_2(tmp_path: Path) -> None:
    """In a guest, whose kernel has nothing but version 2: the quota is obtained, read back, and its periods are counted."""
    if why := path_levels.unavailable("guest"):
        pytest.skip(f"no guest here: {why}")
    found: list[dict[str, Any]] = []

    async def scenario() -> dict[str, Any]:
        async with Testbed(experiment("netns"), find_agent(), "guest") as testbed:
            account = Account()
            settings = testbed.experiment.settings({"connections": 1, "path": "guest", "receiver_quota": 50})
            keep = lambda host, record: found.append(record) if host == "server" else None  # noqa: E731
            await carried_out(testbed, settings, replace(WINDOWS, measured_ns=1_200 * MS), keep, account)
            return account.hosts["server"]["ready"]["cpu_quota"]  # type: ignore[no-any-return]

    quota = asyncio.run(scenario())
    assert quota["group"].startswith("/sys/fs/cgroup/iodyno-agent-"), quota
    assert quota["quota_ns"] * 2 == quota["period_ns"]
    # The group goes with the load, and so may be gone at the reading after it.
    measured = [record for record in found if record["window"] == "measured"]
    readings = [r for record in measured for r in record["sensors"] if r["sensor"] == "cgroup_cpu"]
    assert not any(r["missing"] for r in readings), {r["missing"] for r in readings}
    periods = sum(v for r in readings for metric, _, v in r["values"] if metric == "cgroup.periods")
    assert periods > 0
