"""Bad hosts and accidents in the middle of a trial: one clear error, nothing left behind, nothing finished lost."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import (
    HUNG_S,
    MS,
    QUIET,
    SOON_S,
    Meanwhile,
    Notes,
    bpf_programs_of,
    experiment,
    gone_within,
    namespaces_of,
    processes_of,
    run,
    unloaded_within,
)

from iodyno.campaign.ledger import Ledger, manifests
from iodyno.core.errors import PreflightError, StoreError
from iodyno.core.experiment import HostSpec, Windows
from iodyno.core.factor import Factor
from iodyno.core.warnings import WarningCode
from iodyno.hosts.access import AgentProgram
from iodyno.session.session import Session

SECOND = Windows(100 * MS, 1000 * MS, 50 * MS, 250 * MS)


async def once_moving(notes: Notes, task: asyncio.Task[Any], records: int) -> None:
    """Waits until that many records have come."""
    while notes.records < records and not task.done():
        await asyncio.sleep(0.02)


# ---- accidents in the middle of a trial ----


@pytest.mark.parametrize(
    ("host", "transport"), [("client", "tcp"), ("server", "tcp"), ("client", "udp"), ("server", "udp")]
)
def test_an_agent_killed_mid_trial_costs_one_attempt(
    host: str, transport: str, program: AgentProgram, tmp_path: Path
) -> None:
    asked = experiment(
        "local",
        factors=(Factor("connections", (4,)),),
        windows=SECOND,
        transport=transport,
        size=1000,
        rate=2000,
    )
    asked = replace(asked, limits=replace(asked.limits, retries=1))

    held: set[int] = set()

    def kill() -> None:
        for pid in processes_of(program.path):
            cpus = os.sched_getaffinity(pid)
            others = os.sched_getaffinity(0)
            mine = cpus == {min(others)} if host == "client" else cpus == {max(others)}
            if mine or len(others) == 1:
                held.update(bpf_programs_of(pid))
                os.kill(pid, signal.SIGKILL)
                break

    running = run(asked, tmp_path / "campaigns", notes=Meanwhile(kill), program=program)
    failed, finished = manifests(asyncio.run(running).folder)
    assert unloaded_within(SOON_S, held), "programs of the agent are still in the kernel"
    assert failed["status"] == "failed" and failed["trial"] == "00000-1"
    assert failed["reason"]["code"] == "agent_lost"
    assert "killed by signal 9" in failed["reason"]["what"]
    if len(os.sched_getaffinity(0)) > 1:
        assert failed["reason"]["where"] == f"host {host}"
    assert failed["parts"]["records.parquet"]["rows"] > 0, "what had arrived is kept"
    assert finished["status"] == "finished" and finished["trial"] == "00000-2"
    # On a busy machine the hosts may start apart.
    codes = [warning["code"] for warning in finished["warnings"]]
    assert [code for code in codes if code != WarningCode.START_SKEW] == [WarningCode.RETRIED]


@pytest.mark.root
@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_link_cut_mid_trial_fails_it_and_leaves_nothing(
    transport: str, program: AgentProgram, tmp_path: Path
) -> None:
    asked = experiment(
        "netns",
        factors=(Factor("connections", (4,)),),
        windows=replace(SECOND, measured_ns=60_000 * MS),
        transport=transport,
        size=1000,
        rate=2000,
    )
    notes = Notes()

    async def scenario() -> Any:
        task = asyncio.create_task(run(asked, tmp_path / "campaigns", notes=notes, program=program))
        await once_moving(notes, task, 8)
        (server,) = [name for name in namespaces_of(os.getpid()) if name.endswith("-server")]
        subprocess.run(["ip", "-n", server, "link", "set", "veth0", "down"], check=True)
        began = time.monotonic()
        outcome = await task
        assert time.monotonic() - began < 50, "not at the end of the load"
        return outcome

    outcome = asyncio.run(scenario())
    assert outcome.finished == 0
    (failed,) = outcome.failed
    assert failed.reason is not None and failed.reason.startswith("stalled: no byte moved for")
    assert not namespaces_of(os.getpid())


def test_a_foreign_connection_is_turned_away_and_told(
    program: AgentProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strangers: list[socket.socket] = []
    listening = Session.listening

    async def with_stranger(session: Session) -> int:
        port = await listening(session)
        for words in (b"GET / HTTP/1.0\r\n\r\n" + bytes(64), b""):
            stranger = socket.create_connection(("127.0.0.1", port))
            stranger.sendall(words)
            strangers.append(stranger)
        return port

    monkeypatch.setattr(Session, "listening", with_stranger)
    notes = Notes()
    asked = experiment("local", factors=(Factor("connections", (4,)),), **QUIET)
    outcome = asyncio.run(run(asked, tmp_path / "campaigns", notes=notes, program=program))
    for stranger in strangers:
        stranger.close()
    assert outcome.finished == 1, outcome
    (manifest,) = notes.manifests
    warnings = [
        warning for warning in manifest["warnings"] if warning["code"] == WarningCode.FOREIGN_CONNECTION
    ]
    assert warnings and "did not show the trial's token" in warnings[0]["text"]


# ---- hosts that cannot carry it ----


def test_a_taken_port_is_named(program: AgentProgram, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        hosts = {"client": HostSpec("client", "local"), "server": HostSpec("server", "local", data_port=port)}
        with pytest.raises(PreflightError) as refused:
            asyncio.run(run(experiment(hosts=hosts), tmp_path / "campaigns", program=program))
    assert f"127.0.0.1:{port}" in refused.value.where
    assert "host server" in refused.value.where
    assert refused.value.exit_code == 4


def test_memory_threads_and_descriptors_that_are_short_are_told_at_once(
    program: AgentProgram, tmp_path: Path
) -> None:
    factors = (Factor("connections", (60_000,), {"window": (1 << 30,)}),)
    with pytest.raises(PreflightError) as refused:
        asyncio.run(run(experiment("local", factors=factors), tmp_path / "campaigns", program=program))
    text = str(refused.value)
    assert "60000 connections need 60064 descriptors" in text
    assert "need 60032 threads" in text
    assert "buffers and threads may take" in text
    assert "use engine: epoll" in text


def test_an_unknown_congestion_control_is_told(program: AgentProgram, tmp_path: Path) -> None:
    factors = (Factor("congestion_control", ("cubic", "warp")),)
    asked = experiment("local", factors=factors, connections=1)
    with pytest.raises(PreflightError, match=r"`congestion_control` asks for cubic, warp, it has .*cubic"):
        asyncio.run(run(asked, tmp_path / "campaigns", program=program))


@pytest.mark.root
def test_a_full_disk_stops_the_campaign_and_loses_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    try:
        asked = experiment(factors=(Factor("connections", tuple(range(1, 41))),))
        with pytest.raises(StoreError, match=r"No space left on device|disk is full"):
            asyncio.run(run(asked, disk))
        (folder,) = disk.iterdir()
        finished = {path.name: _digest(path) for path in (folder / "trials").glob("0*")}
        assert finished, "some trials fitted"
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        outcome = asyncio.run(run(asked, disk, resume=folder))
        assert outcome.finished == 40 and not outcome.failed
        assert {name: _digest(folder / "trials" / name) for name in finished} == finished
        assert not list(folder.glob("**/.partial-*"))
    finally:
        gc.collect()  # a file that could not be written to its end is closed when its last owner is gone
        subprocess.run(["umount", disk], check=True)


# ---- the command itself is stopped, killed, or lacks rights ----

FILE = """
name: stopped
hosts: {client: {access: ACCESS}, server: {access: ACCESS}}
workload: {kind: stream, sender: client, receiver: server, think: 1ms}
factors: {connections: [1, 2, 3, 4]}
design: {replicates: 1, seed: 3}
windows: {warm_up: 0s, measured: 500ms, drain: 50ms, interval: 200ms}
limits: {background_window: 100ms}
outcomes: [goodput_bits_per_s]
"""


def write_experiment(folder: Path, access: str, text: str = FILE) -> Path:
    path = folder / "stopped.yaml"
    path.write_text(text.replace("ACCESS", access))
    return path


def iodyno(*arguments: Any, program: AgentProgram, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        # What runs in the background of a shell starts with Ctrl-C ignored, and a lab leaves it at that.
        [
            "env",
            "--default-signal=INT,TERM,HUP",
            *prefix,
            sys.executable,
            "-c",
            "from iodyno.__main__ import main; main()",
            *map(str, arguments),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"IODYNO_AGENT": str(program.path)},
    )


def finished_trials(into: Path, at_least: int) -> dict[str, str]:
    """Digest of every finished trial, once there are that many."""
    for _ in range(12_000):
        found = {path.parent.name: _digest(path.parent) for path in into.glob("*/trials/0*/manifest.json")}
        if len(found) >= at_least:
            return found
        time.sleep(0.05)
    raise AssertionError(f"no {at_least} trials after 10 minutes")


def one_under_load(program: Path) -> int:
    """Process of the program that takes 0.1 s of CPU time from now on: between trials none takes as much."""
    began: dict[int, int] = {}
    for _ in range(int(HUNG_S * 100)):
        for pid in processes_of(program):
            with contextlib.suppress(OSError):
                ticks = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
                if ticks - began.setdefault(pid, ticks) >= os.sysconf("SC_CLK_TCK") // 10:
                    return pid
        time.sleep(0.01)
    raise AssertionError("no process was under load")


def finish(experiment_file: Path, folder: Path, program: AgentProgram) -> None:
    """Resumes the campaign and sees it through."""
    command = iodyno("run", experiment_file, "--resume", folder, "--json", program=program)
    said, complaint = command.communicate(timeout=HUNG_S)
    assert command.returncode == 0, complaint
    told = json.loads(said)
    assert told["finished"] is True and told["finished_trials"] == 4
    assert json.loads((folder / "campaign.json").read_text())["finished"] is True


@pytest.mark.root
def test_a_lab_killed_mid_trial_leaves_what_the_next_start_removes(
    program: AgentProgram, tmp_path: Path
) -> None:
    file, into = write_experiment(tmp_path, "netns"), tmp_path / "campaigns"
    lab = iodyno("run", file, "--into", into, "--json", program=program)
    before = finished_trials(into, 1)
    time.sleep(0.3)
    assert namespaces_of(lab.pid)
    lab.kill()
    lab.communicate()
    # From here on each start of iodyno, of other tests beside this one, too, removes what the lab left.
    assert gone_within(SOON_S, program.path), "agents end with their lab"
    (folder,) = into.iterdir()
    finish(file, folder, program)
    assert not namespaces_of(lab.pid)
    after = finished_trials(into, 4)
    assert before.items() <= after.items(), "finished trials are as they were"
    assert sorted(int(name.partition("-")[0]) for name in after) == [0, 1, 2, 3], "nothing is repeated"


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_cleanly_and_says_how_to_go_on(
    number: signal.Signals, program: AgentProgram, tmp_path: Path
) -> None:
    file, into = write_experiment(tmp_path, "netns"), tmp_path / "campaigns"
    lab = iodyno("run", file, "--into", into, "--json", program=program)
    before = finished_trials(into, 1)
    time.sleep(0.3)
    lab.send_signal(number)
    if number == signal.SIGINT:
        # Pressed twice, the second one while what the first one stopped is cleared away.
        time.sleep(0.1)
        lab.send_signal(number)
    _, complaint = lab.communicate(timeout=HUNG_S)
    (folder,) = into.iterdir()
    assert lab.returncode == 130
    assert complaint.splitlines()[-1].strip() == f"try: iodyno run {file} --resume {folder}"
    assert "Traceback" not in complaint
    assert gone_within(SOON_S, program.path)
    assert not namespaces_of(lab.pid)
    assert not list(folder.glob("trials/.partial-*"))
    ledger = Ledger(folder)
    states = {entry.status for entry in ledger.entries().values()}
    ledger.close()
    assert states == {"finished", "planned"}, "it did not wait for the others"
    if number == signal.SIGINT:
        finish(file, folder, program)
        assert before.items() <= finished_trials(into, 4).items()


@pytest.mark.root
def test_without_the_right_to_make_namespaces_the_loopback_is_taken_and_told(
    program: AgentProgram, tmp_path: Path
) -> None:
    drop = "-sys_admin,-net_admin"
    prefix = ("setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}")
    if shutil.which("setpriv") is None or subprocess.run([*prefix, "true"]).returncode:
        pytest.skip("needs setpriv to drop rights")
    into = tmp_path / "campaigns"
    lab = iodyno("tcp", "--seconds", "0.5", "-v", "--into", into, program=program, prefix=prefix)
    said, complaint = lab.communicate(timeout=HUNG_S)
    assert lab.returncode == 0, complaint
    # What one end costs alone cannot be told there.
    assert "over the loopback of this machine" in said and "namespaces of this machine" not in said
    assert "  Both ends" in said and "  Sender" not in said
    (folder,) = into.iterdir()
    campaign = json.loads((folder / "campaign.json").read_text())
    texts = {warning["code"]: warning["text"] for warning in campaign["warnings"]}
    assert "does not run as root" in texts[WarningCode.LOOPBACK_FALLBACK]
    assert "runs on the sender's CPU" in texts[WarningCode.LOOPBACK_FALLBACK]
    assert "does not run as root" in said
    assert campaign["hosts"]["server"]["path"]["kind"] == "loopback"


@pytest.mark.root
@pytest.mark.parametrize(
    ("settings", "more", "said"),
    [
        (
            "",
            "tunables: {all: {mtu: 4000}}\n",
            "tunables are set in namespaces of the hosts, and there are none",
        ),
        (
            ", transport: udp, server_engine: packet_v2, size: 1000",
            "",
            "rings take frames of a device between hosts",
        ),
    ],
)
def test_what_the_loopback_cannot_stand_in_for_needs_root(
    settings: str, more: str, said: str, program: AgentProgram, tmp_path: Path
) -> None:
    drop = "-sys_admin,-net_admin"
    prefix = ("setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}")
    if shutil.which("setpriv") is None or subprocess.run([*prefix, "true"]).returncode:
        pytest.skip("needs setpriv to drop rights")
    before = Path("/sys/class/net/lo/mtu").read_text()
    text = FILE.replace("receiver: server, think: 1ms", f"receiver: server{settings}") + more
    file = write_experiment(tmp_path, "netns", text)
    lab = iodyno("run", file, "--into", tmp_path / "campaigns", program=program, prefix=prefix)
    _, complaint = lab.communicate(timeout=HUNG_S)
    assert lab.returncode == 4, complaint
    assert said in complaint and "does not run as root" in complaint
    assert "try: run as root" in complaint
    assert Path("/sys/class/net/lo/mtu").read_text() == before


@pytest.mark.root
def test_root_of_a_user_namespace_has_the_loopback(program: AgentProgram, tmp_path: Path) -> None:
    prefix = ("unshare", "--user", "--map-root-user")
    if subprocess.run([*prefix, "true"]).returncode:
        pytest.skip("this kernel lets nobody make a user namespace")
    file = write_experiment(tmp_path, "netns", FILE.replace("[1, 2, 3, 4]", "[1]"))
    lab = iodyno("run", file, "--into", tmp_path / "campaigns", "--json", program=program, prefix=prefix)
    said, complaint = lab.communicate(timeout=HUNG_S)
    assert lab.returncode == 0, complaint
    campaign = json.loads((Path(json.loads(said)["campaign"]) / "campaign.json").read_text())
    assert campaign["hosts"]["server"]["path"]["kind"] == "loopback"


def test_a_low_descriptor_limit_ends_with_need_and_have(program: AgentProgram, tmp_path: Path) -> None:
    file = write_experiment(tmp_path, "local", FILE.replace("[1, 2, 3, 4]", "[1, 1000]"))
    prefix = ("prlimit", "--nofile=256:256")
    lab = iodyno("run", file, "--into", tmp_path / "campaigns", "--json", program=program, prefix=prefix)
    _, complaint = lab.communicate(timeout=HUNG_S)
    assert lab.returncode == 4, complaint
    assert "host client: 1000 connections need 1064 descriptors, it may have 256" in complaint
    assert "ulimit -Hn" in complaint


def test_trials_that_fail_for_good_are_exit_5(program: AgentProgram, tmp_path: Path) -> None:
    # A busy machine may wake this up seconds late: three trials of two seconds are left then.
    text = FILE.replace("limits: {", "limits: {retries: 0, ").replace("500ms", "2s")
    file, into = write_experiment(tmp_path, "local", text), tmp_path / "campaigns"
    lab = iodyno("run", file, "--into", into, "--json", program=program)
    finished_trials(into, 1)
    os.kill(one_under_load(program.path), signal.SIGKILL)
    said, complaint = lab.communicate(timeout=HUNG_S)
    assert lab.returncode == 5, complaint
    outcome = json.loads(said)
    (failed,) = outcome["failed"]
    assert (
        outcome["finished"] is False
        and outcome["finished_trials"] == 3
        and failed["reason"].startswith("agent_lost: ")
    )
    assert "1 of 4 trials failed, the first of them: agent_lost" in complaint
    # A resume tries that one again, and nothing else.
    before = finished_trials(into, 4)
    finish(file, Path(outcome["campaign"]), program)
    assert before.items() < finished_trials(into, 5).items()


def _digest(trial: Path) -> str:
    manifest = json.loads((trial / "manifest.json").read_text())
    return json.dumps(manifest["parts"], sort_keys=True) + manifest["started_wall"]
