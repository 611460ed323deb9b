"""Tunables on a real device: set, read back, restored, whatever happens to the lab, the guard or the link."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from places import (
    HUNG_S,
    MS,
    QUIET,
    Meanwhile,
    experiment,
    gone_within,
    own_agent,
    processes_of,
    run,
    ssh_place,
)

from iodyno import run_folder
from iodyno.campaign.ledger import manifests
from iodyno.core.errors import AccessError, PreflightError
from iodyno.core.experiment import Experiment, Windows
from iodyno.core.factor import Factor
from iodyno.core.tunable import TUNABLES
from iodyno.core.workload import Level
from iodyno.hosts import guard as guards
from iodyno.hosts.access import AgentProgram, AgentStreams, spawn
from iodyno.hosts.guard import Guard, GuardLostError, RefusedError
from iodyno.hosts.local import LocalAccess
from iodyno.hosts.netns import NamespaceAccess
from iodyno.hosts.ssh import SshAccess
from iodyno.hosts.tunables import TURNED
from iodyno.hosts.tunables.host import HostTunables
from iodyno.paths import veth
from iodyno.paths.veth import VethEnd, VethPath

pytestmark = pytest.mark.root

OTHER: dict[str, Level] = {
    "mtu": 9000,
    "queues": 2,
    "transmit_queues": 2,
    "sg": False,
    "tx_checksum": False,
    "tso": False,
    "gso": False,
    "gro": True,
    "gso_max_size": 4096,
    "gso_max_segs": 8,
    "rps": "off",
    "xps": "spread",
    "threaded": True,
    "blanking": 50_000,
    "qdisc": "pfifo-20",
    "tcp_rmem_max": 262_144,
    "tcp_wmem_max": 65_536,
    "tcp_notsent_lowat": 16_384,
    "tcp_limit_output": 65_536,
    "tcp_autocorking": False,
    "tcp_sack": False,
    "tcp_timestamps": False,
    "tcp_ecn": 1,
    "tcp_congestion_control": "reno",
}
"""A level of each tunable that a veth has, other than what it is at there from the start."""

_NEEDS: dict[str, dict[str, Level]] = {
    "threaded": {"gro": True},
    "blanking": {"gro": True},
    "xps": {"queues": 2},
}


@pytest.fixture
def program(tmp_path: Path) -> Iterator[AgentProgram]:
    made = own_agent(tmp_path)
    yield made
    assert gone_within(60, made.path), "guards are left"


@contextlib.asynccontextmanager
async def veth_end() -> AsyncIterator[VethEnd]:
    path = await VethPath.make({"client": [0], "server": [max(os.sched_getaffinity(0))]})
    try:
        yield path.ends["server"]
    finally:
        path.remove()


@contextlib.asynccontextmanager
async def turning(end: VethEnd, program: AgentProgram) -> AsyncIterator[HostTunables]:
    guard = await Guard.start(_access(end), program)
    try:
        await guard.claim("a test")
        yield HostTunables(guard, cpus=end.cpus, peer=veth.ADDRESSES[0])
    finally:
        await guard.close()


def _access(end: VethEnd) -> NamespaceAccess:
    return NamespaceAccess("server", end.namespace, end.address, end.cpus)


def everything(namespace: str, device: str = "veth0") -> list[str]:
    """All that is set there, as tools other than the tunables' own show it."""
    script = f"""
      ip -d link show dev {device}; ethtool -k {device}; ethtool -l {device}; tc qdisc show dev {device}
      cd /sys/class/net/{device}; grep -H . mtu tx_queue_len gro_flush_timeout napi_defer_hard_irqs threaded
      grep -rH . queues/*/rps_cpus queues/*/xps_cpus
      grep -rH . /proc/sys/net/ipv4 /proc/sys/net/core 2>/dev/null
    """
    shown = subprocess.run(
        ["ip", "netns", "exec", namespace, "sh", "-c", script], capture_output=True, text=True
    ).stdout.splitlines()
    # A qdisc that the kernel chooses shows its handle only; counters and seeds move by themselves.
    return [line for line in shown if not any(word in line for word in ("fastopen_key", "_hash_seed"))]


def mtu_of(namespace: str, device: str = "veth0") -> int:
    shown = subprocess.run(
        ["ip", "-n", namespace, "-j", "link", "show", "dev", device], capture_output=True, text=True
    ).stdout
    return int(json.loads(shown)[0]["mtu"]) if shown.strip() else 0


def wait_for(what: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


# ---- each tunable, and any sequence of them ----


def test_every_tunable_is_set_read_back_and_restored_or_says_why_not(program: AgentProgram) -> None:
    async def scenario() -> None:
        async with veth_end() as end, turning(end, program) as tunables:
            before = everything(end.namespace)
            states = await tunables.read(TURNED)
            assert set(states) == set(TUNABLES)
            for name, state in states.items():
                if TURNED[name].scope in ("disk", "mount") or name.startswith(("dirty_", "swappiness")):
                    continue  # in `test_disk_tunables`, `test_mount_options`
                if name not in OTHER:
                    assert state.level is None and state.unsupported, name
                    continue
                asked = {**_NEEDS.get(name, {}), name: OTHER[name]}
                assert state.level != OTHER[name], f"{name}: choose another level for the test"
                settings = await tunables.set(asked)
                assert {n: s.obtained for n, s in settings.items()} == asked, settings[name].why
                assert everything(end.namespace) != before, name
                restored, wrong = await tunables.restore()
                assert not wrong and restored[name].restored == state.level
                assert everything(end.namespace) == before, name

    asyncio.run(scenario())


def test_after_any_sequence_with_failures_the_host_is_as_it_was(program: AgentProgram) -> None:
    """Random sets, levels that the kernel refuses, and guards that are killed at any moment."""
    chance = random.Random(4)
    wrong_levels: dict[str, Level] = {
        "tcp_congestion_control": "no_such",
        "qdisc": "nonsense",
        "queues": 4096,
        "threaded": True,
        "ring_receive": 256,
        "busy_poll": 1000,
    }

    async def scenario() -> None:
        async with veth_end() as end:
            before = everything(end.namespace)
            for _ in range(12):
                names = chance.sample(sorted(OTHER), chance.randint(1, 8))
                asked = {name: OTHER[name] for name in names}
                asked |= dict(chance.sample(sorted(wrong_levels.items()), chance.randint(0, 2)))
                async with turning(end, program) as tunables:
                    with contextlib.suppress(GuardLostError):
                        kill_after_s = chance.choice([None, None, 0.0, 0.01, 0.03, 0.1])
                        task = asyncio.create_task(tunables.set(asked))
                        if kill_after_s is not None:
                            await asyncio.sleep(kill_after_s)
                            for pid in processes_of(program.path):
                                os.kill(pid, signal.SIGKILL)
                        settings = await task
                        for name, setting in settings.items():
                            assert setting.differs == (setting.obtained != asked[name])
                            assert not (setting.why and setting.obtained == asked[name])
                # The next guard restores what a killed one left; one that was closed has done so itself.
                async with turning(end, program):
                    assert everything(end.namespace) == before, asked

    asyncio.run(scenario())


# ---- who may set, and where nothing can be set ----


def test_two_labs_do_not_undo_each_other(program: AgentProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "HELD_FOR_S", 0.3)

    async def scenario() -> None:
        async with veth_end() as end, turning(end, program) as first:
            await first.set({"mtu": 9000})
            second = await Guard.start(_access(end), program)
            with pytest.raises(AccessError, match="held by a test"):
                await second.claim("another")
            await second.close()
            assert mtu_of(end.namespace) == 9000
            await first.restore()
            assert mtu_of(end.namespace) == 1500

    asyncio.run(scenario())


class _Elsewhere(NamespaceAccess):
    """Guards that keep their journal in a folder of the test."""

    def __init__(self, end: VethEnd, folder: Path) -> None:
        super().__init__("server", end.namespace, end.address, end.cpus)
        self._folder = folder

    async def start(self, program: AgentProgram, command: str = "serve") -> AgentStreams:
        return await spawn([*self._prefix, program.path, command, "--journal", self._folder])


def test_without_a_journal_nothing_is_set(program: AgentProgram, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", disk], check=True)

    async def scenario() -> None:
        async with veth_end() as end:
            before = everything(end.namespace)
            guard = await Guard.start(_Elsewhere(end, disk), program)
            await guard.claim("a test")
            with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
                while True:
                    filler.write(b"x" * 1024)
            tunables = HostTunables(guard, cpus=end.cpus, peer=veth.ADDRESSES[0])
            # The page that the journal's file has already is filled with ways back to nowhere.
            for words in (["true", "x" * 500], ["true"]):
                with pytest.raises(RefusedError, match="No space left"):
                    for _ in range(1000):
                        await guard.set("nothing", None, [{"run": words}], [])
            settings = await tunables.set({"mtu": 9000, "tcp_sack": False, "rps": "off"})
            assert all("No space left" in (setting.why or "") for setting in settings.values())
            assert everything(end.namespace) == before
            await tunables.restore()
            assert everything(end.namespace) == before
            await guard.close()

    try:
        asyncio.run(scenario())
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_journal_that_others_may_write_to_is_not_used(program: AgentProgram, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)

    async def scenario() -> None:
        async with veth_end() as end:
            guard = await Guard.start(_Elsewhere(end, folder), program)
            with pytest.raises(AccessError, match="others may write there"):
                await guard.claim("a test")
            await guard.close()

    asyncio.run(scenario())


def test_a_read_only_sysfs_is_named_and_changes_nothing(program: AgentProgram) -> None:
    async def scenario() -> None:
        async with veth_end() as end:
            before = everything(end.namespace)
            shut = (
                "ip",
                "netns",
                "exec",
                end.namespace,
                "sh",
                "-c",
                'mount -o remount,ro /sys; exec "$@"',
                "sh",
            )
            guard = await Guard.start(LocalAccess("server", end.cpus, prefix=shut), program)
            await guard.claim("a test")
            tunables = HostTunables(guard, cpus=end.cpus, peer=veth.ADDRESSES[0])
            settings = await tunables.set({"rps": "off", "mtu": 9000})
            assert "Read-only file system" in (settings["rps"].why or "")
            assert settings["rps"].obtained == "own" and settings["mtu"].obtained == 9000
            _, wrong = await tunables.restore()
            # Its mask is as it was, so that nothing is to be taken back, and nothing fails to be.
            assert wrong == []
            await guard.close()
            async with turning(end, program):  # where sysfs can be written, it is restored
                assert everything(end.namespace) == before

    asyncio.run(scenario())


def test_what_was_refused_leaves_nothing_to_restore(program: AgentProgram) -> None:
    """Without the right to set anything: the next restore would be refused like the setting was, for ever."""

    async def scenario() -> None:
        async with veth_end() as end:
            before = everything(end.namespace)
            inside = ("ip", "netns", "exec", end.namespace)
            powerless = ("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin")
            guard = await Guard.start(LocalAccess("server", end.cpus, prefix=(*inside, *powerless)), program)
            await guard.claim("a test")
            tunables = HostTunables(guard, cpus=end.cpus, peer=veth.ADDRESSES[0])
            settings = await tunables.set({"mtu": 9000})
            assert "not permitted" in (settings["mtu"].why or "")
            assert settings["mtu"].obtained == settings["mtu"].before
            await guard.close()
            next_one = await Guard.start(_access(end), program)
            assert await next_one.claim("another test") == {"done": [], "failed": []}
            await next_one.close()
            assert everything(end.namespace) == before

    asyncio.run(scenario())


# ---- in a campaign ----


def _asked(*factors: Factor, retries: int = 0, **tunables: Level) -> Experiment:
    asked = experiment(
        "netns", factors=factors, windows=Windows(100 * MS, 2000 * MS, 50 * MS, 250 * MS), **QUIET
    )
    named = {f"all.{name}": level for name, level in tunables.items()}
    return replace(asked, tunables=named, limits=replace(asked.limits, retries=retries))


def test_tunables_are_factors_of_a_campaign_and_stand_in_the_manifest(
    program: AgentProgram, tmp_path: Path
) -> None:
    asked = _asked(Factor("all.mtu", (1500, 9000)), Factor("server.gro", (False, True)), tcp_sack=False)
    asked = replace(asked, windows=Windows(100 * MS, 300 * MS, 50 * MS, 100 * MS))
    outcome = asyncio.run(run(asked, tmp_path / "campaigns", program=program))
    found = list(manifests(outcome.folder))
    assert outcome.finished == 4 and len(found) == 4
    for manifest in found:
        client, server = (manifest["hosts"][name]["tunables"] for name in ("client", "server"))
        assert client["mtu"]["asked"] == client["mtu"]["obtained"] == manifest["levels"]["all.mtu"]
        assert server["gro"]["obtained"] == manifest["levels"]["server.gro"]
        assert "gro" not in client and server["tcp_sack"]["obtained"] is False
        for tunable in (*client.values(), *server.values()):
            assert tunable["restored"] == tunable["before"]
        assert not [d for d in manifest["warnings"] if d["code"].startswith("tunable")]


def test_what_a_host_cannot_do_is_said_before_the_first_trial(program: AgentProgram, tmp_path: Path) -> None:
    asked = _asked(Factor("server.ring_receive", (256,)), blanking=50_000, busy_poll=50_000)
    with pytest.raises(PreflightError) as refused:
        asyncio.run(run(asked, tmp_path / "campaigns", program=program))
    for reason in ("ring_receive: asked for 256", "only while gro is on", "one value for the whole machine"):
        assert reason in refused.value.what


def kill_guards(program: AgentProgram) -> None:
    for pid in processes_of(program.path):
        if b"guard" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            os.kill(pid, signal.SIGKILL)


def test_a_killed_guard_costs_one_attempt(program: AgentProgram, tmp_path: Path) -> None:
    asked = _asked(Factor("all.mtu", (9000,)), retries=1)

    notes = Meanwhile(lambda: kill_guards(program))
    running = run(asked, tmp_path / "campaigns", notes=notes, program=program)
    folder = asyncio.run(running).folder
    first, second = sorted(manifests(folder), key=lambda m: m["attempt"])
    assert first["status"] == "failed" and first["reason"]["code"] == "tunables_lost"
    assert second["status"] == "finished"
    for host in second["hosts"].values():
        assert host["tunables"]["mtu"] | {"why": None, "device": None} == {
            **{"asked": 9000, "obtained": 9000, "before": 1500, "restored": 1500},
            **{"why": None, "device": None},
        }


_EXPERIMENT = """
name: killed
hosts: {client: {access: netns}, server: {access: netns}}
workload: {kind: stream, sender: client, receiver: server, think: 1ms}
tunables: {all: {mtu: 9000, tso: off}}
windows: {warm_up: 100ms, measured: 60s}
"""


@pytest.mark.alone  # Any other lab that begins removes the namespaces of a lab that is gone.
def test_a_killed_lab_leaves_nothing_set(program: AgentProgram, tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(_EXPERIMENT)
    lab = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from iodyno.cli.main import main; main()",
            "run",
            file,
            "--into",
            tmp_path / "campaigns",
        ],
        env=os.environ | {"IODYNO_AGENT": str(program.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    spaces = [f"iodyno-{lab.pid}-{run_folder.start_ticks(lab.pid)}-{role}" for role in ("client", "server")]
    try:
        assert wait_for(lambda: bool(list(tmp_path.glob("campaigns/*/trials/.*"))), HUNG_S), "no trial began"
        assert wait_for(lambda: [mtu_of(space) for space in spaces] == [9000, 9000], 60)
        lab.kill()
        lab.wait()
        # The guards see the end of the lab at once, and need no other lab for it.
        assert wait_for(lambda: [mtu_of(space) for space in spaces] == [1500, 1500], 60)
        for space in spaces:
            assert "tcp-segmentation-offload: on" in everything(space)
    finally:
        lab.kill()
        lab.wait()
        veth.remove_leftovers()


@pytest.mark.parametrize("stopped", [False, True])
def test_a_guard_that_is_killed_alone_leaves_nothing_set_when_its_run_ends(
    stopped: bool, program: AgentProgram, tmp_path: Path
) -> None:
    """The lab's own namespace, which outlives it."""
    file = tmp_path / "experiment.yaml"
    file.write_text(
        "name: lost\nhosts: {client: {access: local}, server: {access: local}}\n"
        "workload: {kind: stream, sender: client, receiver: server, think: 1ms}\ntunables: {all: {tcp_sack: off}}\n"
        "windows: {warm_up: 0s, measured: 2s, interval: 100ms}\nprofile: off\nlimits: {retries: 0}\n"
    )
    namespace = f"iodyno-test-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    inside = ("ip", "netns", "exec", namespace)

    def sack() -> str:
        command = [*inside, "cat", "/proc/sys/net/ipv4/tcp_sack"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    main = "from iodyno.cli.main import main; main()"
    lab = None
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        assert sack() == "1"
        lab = subprocess.Popen(
            [*inside, sys.executable, "-c", main, "run", file, "--into", tmp_path / "campaigns"],
            env=os.environ | {"IODYNO_AGENT": str(program.path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert wait_for(lambda: bool(list(tmp_path.glob("campaigns/*/trials/.*"))), HUNG_S), "no trial began"
        assert wait_for(lambda: sack() == "0", 60)
        kill_guards(program)
        if stopped:
            lab.send_signal(signal.SIGINT)
        _, said = lab.communicate(timeout=HUNG_S)
        assert sack() == "1", said.decode()
        assert lab.returncode == (130 if stopped else 5), said.decode()
        assert stopped or b"the guard of its settings was lost" in said
    finally:
        if lab:
            lab.kill()
            lab.wait()
        subprocess.run(["ip", "netns", "delete", namespace], check=True)


class _Impatient(SshAccess):
    """Guards that give a silent lab up after four beats, not ten."""

    async def start(self, program: AgentProgram, command: str = "serve") -> AgentStreams:
        return await super().start(program, f"{command} --lab-timeout 4")


def test_a_cut_link_leaves_nothing_set(program: AgentProgram, tmp_path: Path) -> None:
    with ssh_place(tmp_path / "far", 1) as place:

        async def scenario() -> None:
            access = _Impatient("far", place.options)
            agent = await access.start(program)
            agent.process.kill()
            await agent.process.wait()
            guard = await Guard.start(access, program)
            await guard.claim("a test")
            subprocess.run(
                ["ip", "-n", place.namespace, "link", "add", "data", "type", "veth", "peer", "other"],
                check=True,
            )
            tunables = HostTunables(guard, device="data")
            assert (await tunables.set({"mtu": 1400}))["mtu"].obtained == 1400
            place.cut()
            # Nothing tells either end that the link is cut: each gives the other one up after some seconds of silence.
            asked = asyncio.create_task(tunables.restore())
            assert await asyncio.to_thread(wait_for, lambda: mtu_of(place.namespace, "data") == 1500, HUNG_S)
            with pytest.raises(GuardLostError):
                await asked
            await guard.close()

        asyncio.run(scenario())


def test_a_journal_of_an_earlier_boot_hides_nothing_that_this_one_left(
    program: AgentProgram, tmp_path: Path
) -> None:
    """A folder for journals may outlive the kernel, as in a container that is started again."""
    folder = tmp_path / "tunables"
    folder.mkdir(mode=0o700)

    async def scenario() -> None:
        async with veth_end() as end:
            first = await Guard.start(_Elsewhere(end, folder), program)
            _, _, name = first.namespace.partition("/")
            # The first namespace has the same number in each boot.
            inode = (Path("/run/netns") / end.namespace).stat().st_ino
            owner = {"owner": "an earlier lab", "boot": "an earlier boot", "namespace_inode": inode}
            undo = [{"write": {"file": str(tmp_path / "never"), "text": "1"}}]
            entry = {"tunable": "earlier", "device": None, "index": None, "undo": undo}
            lines = ({"owner": owner}, {"entry": entry})
            (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
            assert await first.claim("a test") == {"done": [], "failed": []}
            await HostTunables(first, peer=veth.ADDRESSES[0]).set({"mtu": 9000})
            for pid in processes_of(program.path):
                os.kill(pid, signal.SIGKILL)
            await first.close()
            assert mtu_of(end.namespace) == 9000
            second = await Guard.start(_Elsewhere(end, folder), program)
            assert await second.claim("another test") == {"done": ["mtu of veth0"], "failed": []}
            assert mtu_of(end.namespace) == 1500
            await second.close()

    asyncio.run(scenario())


def test_any_agent_that_starts_there_restores_what_a_crash_left(program: AgentProgram) -> None:
    async def scenario() -> None:
        async with veth_end() as end:
            guard = await Guard.start(_access(end), program)
            await guard.claim("a test")
            await HostTunables(guard, peer=veth.ADDRESSES[0]).set({"mtu": 9000})
            for pid in processes_of(program.path):
                os.kill(pid, signal.SIGKILL)
            await guard.close()
            assert mtu_of(end.namespace) == 9000
            agent = await _access(end).start(program)
            assert await asyncio.to_thread(wait_for, lambda: mtu_of(end.namespace) == 1500, HUNG_S)
            agent.process.kill()
            await agent.process.wait()

    asyncio.run(scenario())
