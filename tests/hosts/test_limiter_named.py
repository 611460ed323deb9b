"""Planted limiters are named, a shaped path is what was asked for, and a proof finds the receive window, on real traffic."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import command_server
import pytest
from bench.corpus import spinning
from places import HUNG_S, UNSET, Notes, experiment, namespaces_of, run

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.limiter.elasticity import LEAST
from iodyno.analysis.limiter.verdict import of_point, of_trial
from iodyno.analysis.summary import analyse
from iodyno.analysis.trial import Trial
from iodyno.campaign.folder import new_folder
from iodyno.campaign.runner import run_campaign
from iodyno.core.design import Design, PlannedTrial, Point
from iodyno.core.errors import PreflightError
from iodyno.core.experiment import DesignSpec, Windows
from iodyno.core.factor import Factor
from iodyno.core.warnings import WarningCode
from iodyno.core.workload import Level
from iodyno.designs import order, runs
from iodyno.report.limiter import finding_json
from iodyno.strategies.fixed import Fixed

MS = 1_000_000
WINDOWS = Windows(300 * MS, 1_200 * MS, 50 * MS, 200 * MS)
pytestmark = pytest.mark.root


class _Foreign(Notes):
    """Sets before a trial what somebody else would have set: commands in the namespace of a host."""

    def __init__(self, host: str, commands: str) -> None:
        super().__init__()
        self._host, self._commands = host, commands

    def on_trial_start(self, planned: PlannedTrial, attempt: int) -> None:
        super().on_trial_start(planned, attempt)
        (namespace,) = [name for name in namespaces_of(os.getpid()) if name.endswith(f"-{self._host}")]
        subprocess.run(["ip", "netns", "exec", namespace, "sh", "-ec", UNSET + self._commands], check=True)


def measured(
    into: Path, points: Mapping[str, Mapping[str, Level]], notes: Notes | None = None
) -> dict[str, list[Trial]]:
    """The finished trials of each point, from one campaign."""
    asked = experiment("netns", factors=(), windows=WINDOWS)
    asked = replace(asked, profile_hz=0, limits=replace(asked.limits, retries=1))
    named = [Point(name, levels) for name, levels in points.items()]
    trials = order.trials(runs.of_points(named), DesignSpec(replicates=1))
    design = Design("full_factorial", 1, tuple(named), trials)
    folder = new_folder(into, "planted")
    asyncio.run(run_campaign(asked, design, folder, [Fixed(design)], resume=False, watcher=notes or Notes()))
    found: dict[str, list[Trial]] = {name: [] for name in points}
    for trial in read_dataset(folder).trials:
        assert trial.finished or trial.attempt == 1, trial.reason
        if trial.finished:
            found[trial.point].append(trial)
    return found


# Only such as do not depend on who else uses the machine's CPUs: the others are in `python -m bench limiter`.
PLANTED: dict[str, dict[str, Level]] = {
    "link_rate": {"link_rate": 50_000_000},
    "queue": {"link_rate": 300_000_000, "link_queue": 8_000, "link_delay": 6 * MS, "connections": 2},
    "receive_window": {"receive_buffer": 65536, "link_delay": 5 * MS},
    "send_buffer": {"send_buffer": 32768, "link_delay": 5 * MS},
    "pacing": {"pacing_rate": 100_000_000, "connections": 2},
    "client.application": {"think": 5 * MS},
    "server.application": {"reader_think": 5 * MS},
    "client.cpu_quota": {"sender_quota": 10},
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Trial]]:
    return measured(tmp_path_factory.mktemp("planted"), PLANTED)


OF_OTHERS = ("run_queue", "steal", "loss")
"""Limiters that others who use the machine bring about: threads that wait for a CPU, and timers of TCP that then fire early."""
TRIALS_MOST = 3


@pytest.mark.parametrize("limiter", PLANTED)
def test_a_planted_limiter_is_named(limiter: str, planted: dict[str, list[Trial]], tmp_path: Path) -> None:
    """In the first trial on a calm machine. On a busy one evidence for it is there, and for what others bring about."""
    ranked: list[str] = []
    for number in range(TRIALS_MOST):
        trials = planted if number == 0 else measured(tmp_path / str(number), {limiter: PLANTED[limiter]})
        found = of_point([of_trial(trial) for trial in trials[limiter]])
        if found.name == limiter:
            return
        ranked += [suspect.name for suspect in found.ranked]
    assert limiter in ranked, ranked
    assert any(name.rpartition(".")[2] in OF_OTHERS for name in ranked), ranked


TAKES_IN = """
    ip link add ifb0 type ifb; ip link set ifb0 up; tc qdisc replace dev veth0 clsact
    tc filter replace dev veth0 ingress protocol ip pref 1 handle 800::1 u32 match u32 0 0 action mirred egress redirect dev ifb0
    tc qdisc replace dev ifb0 root tbf rate 50mbit burst 64kb limit 200kb
"""
HTB = """
    tc qdisc replace dev veth0 root handle 1: htb default 10
    tc class replace dev veth0 parent 1: classid 1:1 htb rate 900mbit quantum 60000
    tc class replace dev veth0 parent 1:1 classid 1:10 htb rate 113mbit ceil 113mbit quantum 60000
"""


BUCKET = (
    "tc qdisc replace dev veth0 root tbf rate 100mbit burst 30mb limit 1mb peakrate 400mbit minburst 64kb"
)


@pytest.mark.alone
def test_a_bucket_that_runs_empty_is_told_with_what_it_held(tmp_path: Path) -> None:
    for number in range(TRIALS_MOST):
        measured(tmp_path / str(number), {"burst": {"connections": 1}}, _Foreign("client", BUCKET))
        (folder,) = (tmp_path / str(number)).iterdir()
        (warning,) = [
            warning
            for warning in analyse(read_dataset(folder)).warnings
            if warning.code is WarningCode.NOT_STEADY
        ]
        # 30 MB of headers and payload at 400 Mbit/s last for 0.8 s, of which payload is 94 %.
        found = re.search(
            r"from (\d+) Mbit/s to ([\d.]+) Mbit/s after ([\d.]+) s .* of ([\d.]+) MB \[", warning.text
        )
        # A machine that halts for 20 ms in the middle makes more than two levels of it.
        if found:
            break
    assert found, warning.text
    burst, refill, empty_s, held = map(float, found.groups())
    assert 340 < burst < 400 and 85 < refill < 100 and 0.7 < empty_s < 0.95 and 24 < held < 33


@pytest.mark.alone
@pytest.mark.parametrize(
    ("host", "commands", "connections"),
    [("client", HTB, 3), ("server", TAKES_IN, 1), ("server", HTB.replace("113mbit", "500kbit"), 2)],
    ids=["nested on the way out", "on the way in", "of acknowledgements"],
)
def test_a_rate_that_somebody_else_has_set_is_named(
    host: str, commands: str, connections: int, tmp_path: Path
) -> None:
    (trial,) = measured(tmp_path, {"shaped": {"connections": connections}}, _Foreign(host, commands))[
        "shaped"
    ]
    found = of_trial(trial)
    names = [suspect.name for suspect in found.ranked]
    assert found.name == "link_rate" or ("link_rate" in names and names[0].rpartition(".")[2] in OF_OTHERS), (
        found.ranked
    )


class _Once(_Foreign):
    """Sets it before the first trial alone."""

    def on_trial_start(self, planned: PlannedTrial, attempt: int) -> None:
        if not self.manifests:
            super().on_trial_start(planned, attempt)


@pytest.mark.alone
def test_a_rate_that_somebody_else_has_set_is_proved_by_changing_it_and_is_as_before(tmp_path: Path) -> None:
    asked = replace(
        experiment("netns", factors=(Factor("connections", (3,)),), windows=Windows(50 * MS, 300 * MS, 50 * MS, 50 * MS)),
        profile_hz=0, prove="foreign",
    )  # fmt: skip
    notes = _Once("client", HTB)
    outcome = asyncio.run(run(asked, tmp_path, notes=notes))
    (point,) = analyse(read_dataset(outcome.folder)).points
    (proof,) = [proof for proof in point.limiter.proofs if proof.limiter == "link_rate"]
    assert (point.limiter.name, proof.verdict) == ("link_rate", "proved"), proof
    assert proof.elasticity is not None and proof.elasticity.estimate == pytest.approx(1.0, abs=0.2)
    changed = [m for m in notes.manifests if (m["perturbation"] or {}).get("setting") == "client.shaper_rate"]
    assert {m["hosts"]["client"]["tunables"]["shaper_rate"]["obtained"] for m in changed} == {
        90_400_000,
        141_250_000,
    }
    assert {m["hosts"]["client"]["tunables"]["shaper_rate"]["restored"] for m in changed} == {113_000_000}


THROTTLED = Path("/sys/fs/cgroup/blkio")


OTHERS_WRITES = 'while dd if=/dev/zero of="$1" bs=256k count=4 oflag=direct 2>/dev/null; do sleep 0.05; done'
"""Up to 20 MB/s, past the page cache."""


@pytest.mark.alone
def test_a_program_that_goes_from_cpu_to_cpu_is_what_exchanges_wait_for(tmp_path: Path) -> None:
    """Each of the CPUs idles while it is at another; what waits for it is ready."""
    words = ["rr", "--connections", "16", "--seconds", "1", "--json"]
    with spinning((), wander=0.01):
        ran = subprocess.run(
            [sys.executable, "-m", "iodyno", *words],
            capture_output=True, text=True, timeout=HUNG_S, cwd=tmp_path,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    limiter = json.loads(ran.stdout)["points"][0]["limiter"]
    assert limiter["name"].endswith(".run_queue"), limiter


needs_throttle = pytest.mark.skipif(
    not THROTTLED.is_dir(), reason="control groups of version 1 are not there: blkio"
)


@contextlib.contextmanager
def throttled(where: Path) -> Iterator[Path]:
    """A control group of somebody else's, with what it allows of the disk under `where`."""
    number = where.stat().st_dev
    group = THROTTLED / f"iodyno-test-{os.getpid()}"
    group.mkdir()
    try:
        for way in ("read", "write"):
            limit = f"{os.major(number)}:{os.minor(number)} 200"
            (group / f"blkio.throttle.{way}_iops_device").write_text(limit, encoding="ascii")
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
            (THROTTLED / "cgroup.procs").write_text(pid, encoding="ascii")
        group.rmdir()


def disk_within(group: Path, cwd: Path, *options: str) -> Path:
    """The campaign of a load on a disk, with the whole command in a control group."""
    words = ["disk", "--target", str(cwd / "file"), "--size", "16MiB", "--direct", "--queue-depth", "8",
             "--syscalls", "io_uring", *options, "--json"]  # fmt: skip
    ran = subprocess.run(
        ["sh", "-c", f"echo $$ > {group}/cgroup.procs; exec \"$@\"", "sh", sys.executable, "-m", "iodyno", *words],
        capture_output=True, text=True, timeout=HUNG_S, cwd=cwd,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return cwd / str(json.loads(ran.stdout)["campaign"])


@pytest.mark.alone
@needs_throttle
def test_a_disk_that_somebody_else_holds_back_is_named(tmp_path: Path) -> None:
    """What is in flight waits in the control group that the whole command runs in; what others write is not the load's."""
    with throttled(tmp_path) as group:
        other = subprocess.Popen(
            ["sh", "-c", OTHERS_WRITES, "sh", str(tmp_path / "other")], start_new_session=True
        )
        try:
            folder = disk_within(group, tmp_path, "--seconds", "2")
        finally:
            os.killpg(other.pid, signal.SIGKILL)
            other.wait()
    summary = analyse(read_dataset(folder))
    assert summary.points[0].limiter.name.endswith(".disk"), finding_json(summary.points[0].limiter)


@pytest.mark.alone
@needs_throttle
def test_a_throttle_that_somebody_else_has_set_is_proved_by_changing_it_and_is_as_before(
    tmp_path: Path,
) -> None:
    with throttled(tmp_path) as group:
        limits = [group / f"blkio.throttle.{way}_iops_device" for way in ("read", "write")]
        before = [file.read_text(encoding="ascii") for file in limits]
        folder = disk_within(group, tmp_path, "--seconds", "0.4", "--prove-foreign")
        assert [file.read_text(encoding="ascii") for file in limits] == before
    (point,) = analyse(read_dataset(folder)).points
    (proof,) = [proof for proof in point.limiter.proofs if proof.limiter == "client.disk"]
    assert (point.limiter.name, proof.verdict) == ("client.disk", "proved"), proof
    manifests = [
        json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("trials/*/manifest.json")
    ]
    changed = [m for m in manifests if (m["perturbation"] or {}).get("setting") == "client.disk_limit"]
    found = [m["hosts"]["client"]["tunables"]["disk_limit"] for m in changed]
    assert {(each["before"], each["obtained"], each["restored"]) for each in found} == {
        (200, 160, 200),
        (200, 250, 200),
    }


@pytest.mark.alone
def test_of_datagrams_a_full_link_is_named_and_no_offered_load_of_which_most_is_lost(tmp_path: Path) -> None:
    """In a closed loop, whose sender never waits, and in an open one, which begins all that is due."""
    udp: dict[str, Level] = {"transport": "udp", "size": 1400, "link_rate": 50_000_000}
    points = {"closed": udp, "paced": {**udp, "rate": 20_000, "arrivals": "constant"}}
    for levels, (trial,) in zip(points.values(), measured(tmp_path, points).values(), strict=True):
        found = of_trial(trial)
        assert found.name == "link_rate", (levels, found.ranked)
        assert not [text for text in found.unseen if "os error" in text]
        assert not [suspect for suspect in found.ranked if suspect.name == "offered_load" and suspect.held]


def test_a_shaped_path_is_what_was_asked_for_and_is_gone_afterwards(tmp_path: Path) -> None:
    rate, delay_ns = 20_000_000, 10 * MS
    levels = {"link_rate": rate, "link_queue": 30_000, "link_delay": delay_ns}
    (trial,) = measured(tmp_path, {"shaped": levels})["shaped"]
    path = trial.manifest["path"]
    assert path["link_rate"] == {"asked": rate, "obtained": rate}
    assert path["link_queue"] == {"asked": 30_000, "obtained": 30_000}
    # A packet is held no shorter; how much longer depends on who else wants the CPU.
    assert path["link_delay"]["obtained"] >= delay_ns
    assert path["relay"]["packets"] > 0 and path["relay"]["cpu_ns"] > 0
    receiver = trial.end("receive")
    assert receiver is not None
    bits_per_s = receiver.measured_bytes * 8e9 / receiver.measured_ns
    # What lay in the queue at the begin adds 30 kB to 1.2 s: 1 %.
    assert bits_per_s < rate * 1.02, "the payload does not exceed the rate of the frames that carry it"
    sender = trial.end("send")
    assert sender is not None
    least = min(r.values["tcp.min_rtt_ns", "of=min"] for r in sender.measured_readings("tcp_info"))
    assert least >= 2 * delay_ns
    assert not namespaces_of(os.getpid())


def test_a_path_that_cannot_be_shaped_is_one_clear_error_before_the_first_trial(tmp_path: Path) -> None:
    for settings, said in (({"link_rate": 10**8}, "need a path that iodyno makes"),):
        notes = Notes()
        asked = experiment("local", factors=(Factor("size", (65536,)),), **settings)
        with pytest.raises(PreflightError, match=said):
            asyncio.run(run(asked, tmp_path, notes=notes))
        assert not notes.manifests
    asked = experiment("netns", factors=(Factor("size", (65536,)),), link_queue=8000)
    with pytest.raises(PreflightError, match="link_queue is set without link_rate"):
        asyncio.run(run(asked, tmp_path))


PROVED = """
name: proved
question: Is it the receive window?
hosts: {client: {access: netns}, server: {access: netns}}
workload:
  {kind: stream, sender: client, receiver: server, connections: 1, size: 64KiB, receive_buffer: 64KiB, link_delay: 3ms}
factors: {nagle: [on]}
design: {replicates: 1, seed: 1}
windows: {warm_up: 50ms, measured: 200ms, drain: 20ms, interval: 50ms}
limits: {background: 1, background_window: 100ms}
profile: off
"""


def test_the_receive_window_is_proved(tmp_path: Path) -> None:
    """Over a delay, so that the window limits whoever else uses the CPUs."""
    (tmp_path / "proved.yaml").write_text(PROVED, encoding="utf-8")
    words = ["run", "proved.yaml", "--prove", "--into", "campaigns", "--json"]
    ran = subprocess.run(
        [*command_server.iodyno(), *words],
        capture_output=True, text=True, timeout=HUNG_S, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    summary = analyse(read_dataset(tmp_path / json.loads(ran.stdout)["campaign"]))
    found = finding_json(summary.points[0].limiter)
    (suspect,) = [ranked for ranked in found["ranked"] if ranked["name"] == "receive_window"]
    assert suspect["evidence"][0]["signal"] == "client.rwnd_limited_ratio"
    (proof,) = [proof for proof in found["proofs"] if proof["limiter"] == "receive_window"]
    # A busy machine scatters the pairs: then the interval is wide, and the verdict says no more than that.
    elasticity = proof["elasticity"]
    assert elasticity["low"] <= elasticity["estimate"] <= elasticity["high"], found
    assert elasticity["high"] > LEAST, found
    assert proof["verdict"] == ("proved" if elasticity["low"] > LEAST else "undecided"), found
    if [each["limiter"] for each in found["proofs"] if each["verdict"] == "proved"] == ["receive_window"]:
        assert (found["name"], found["verdict"]) == ("receive_window", "proved"), found
