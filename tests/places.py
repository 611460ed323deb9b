"""Places to measure at, made for tests: small experiments, ssh servers in namespaces, and looks at what is left."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import hashlib
import os
import shlex
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import command_server

from iodyno import designs, strategies
from iodyno.campaign.account import Account
from iodyno.campaign.folder import new_folder
from iodyno.campaign.runner import CampaignOutcome, run_campaign
from iodyno.campaign.strategy import Answer, Strategy
from iodyno.campaign.testbed import Testbed
from iodyno.campaign.trial import carry_out
from iodyno.core.decision import Standing
from iodyno.core.errors import TrialError
from iodyno.core.experiment import DesignSpec, Experiment, HostSpec, Limits, Windows, WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.warnings import Warning
from iodyno.hosts.access import AgentProgram
from iodyno.session.locate import find_agent
from iodyno.session.sent import SentRecord

PROFILE_HZ = Experiment.profile_hz
"""Of an experiment that says nothing of it."""
MS = 1_000_000
SOON_S = 9.0
"""Within which an agent is gone whose lab is: less than the 10 s after which it would give up a lab that is silent."""
HUNG_S = 600
"""What takes longer hangs; no statement about how long it should take, which depends on who else uses the machine."""
PROGRAM = AgentProgram(Path("/nowhere"), "0" * 64, "0123456789abcdef")
"""For simulated hosts, which start no agent."""


QUIET: Mapping[str, Any] = {"think": MS}
"""A load that leaves the CPUs to other tests, for those that are of something else than how much it moves."""


def experiment(
    access: str = "simulated",
    *,
    factors: tuple[Factor, ...] = (Factor("connections", (1, 2)),),
    hosts: Mapping[str, HostSpec] | None = None,
    windows: Windows | None = None,
    profile_hz: int = 0,
    **settings: Any,
) -> Experiment:
    """Two hosts, short windows, one replicate, no retry. A profile makes each agent read all symbols of the kernel."""
    return Experiment(
        name="test",
        question="",
        hosts=hosts or {name: HostSpec(name, access) for name in ("client", "server")},
        workload=WorkloadSpec("stream", ("client",), ("server",), settings),
        factors=factors,
        design=DesignSpec(replicates=1),
        windows=windows or Windows(100 * MS, 300 * MS, 50 * MS, 100 * MS),
        limits=Limits(retries=0, background_ns=100 * MS, background_ratio=1.0),
        profile_hz=profile_hz,
        text="name: test\n",
    )


class Notes:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.warnings: list[Warning] = []
        self.manifests: list[dict[str, Any]] = []
        self.records = 0
        self.left_ns: list[int] = []
        self.looks: list[Standing] = []

    def on_stage(self, text: str) -> None:
        self.stages.append(text)

    def on_trial_start(self, planned: object, attempt: int) -> None:
        pass

    def on_progress(self, host: str, progress: object) -> None:
        self.records += 1

    def on_trial_end(self, planned: object, manifest: Mapping[str, Any]) -> None:
        self.manifests.append(dict(manifest))

    def on_warning(self, warning: Warning) -> None:
        self.warnings.append(warning)

    def on_time_left(self, time_left_ns: int) -> None:
        self.left_ns.append(time_left_ns)

    def on_answer(self, answer: Answer, time_left_ns: int) -> None:
        if isinstance(answer.shown, Standing):
            self.looks.append(answer.shown)


class Meanwhile(Notes):
    """Does something once, when the first trial is under way: at its first record."""

    def __init__(self, do: Callable[[], None]) -> None:
        super().__init__()
        self._do: Callable[[], None] | None = do

    def on_progress(self, host: str, progress: object) -> None:
        super().on_progress(host, progress)
        # One that a busy machine armed too late has no records, and is made again.
        do, self._do = self._do, None
        if do:
            do()


class Stopped(Notes):
    """Stops its campaign at the record of that number, as a signal would."""

    def __init__(self, at_record: int) -> None:
        super().__init__()
        self._at_record = at_record

    def on_progress(self, host: str, progress: object) -> None:
        super().on_progress(host, progress)
        if self.records == self._at_record:
            task = asyncio.current_task()
            assert task is not None
            for running in asyncio.all_tasks():
                if running is not task:
                    running.cancel()


async def run(
    asked: Experiment,
    into: Path,
    *,
    resume: Path | None = None,
    notes: Notes | None = None,
    program: Any = None,
    proof: Strategy | None = None,
    remove_targets: bool = False,
) -> CampaignOutcome:
    """Runs the experiment into a new folder below `into`, or goes on with `resume`; `proof` in place of its own proof."""
    folder = resume or new_folder(into, asked.name)
    design = designs.plan(asked)
    own = strategies.of_experiment(replace(asked, prove=False) if proof else asked, design, folder)
    return await run_campaign(
        asked,
        design,
        folder,
        [*own, proof] if proof else own,
        resume=resume is not None,
        watcher=notes or Notes(),
        program=program,
        remove_targets=remove_targets,
    )


async def carried_out(
    testbed: Testbed,
    settings: Mapping[str, Any],
    windows: Windows,
    on_record: Callable[[str, Any], None],
    account: Account | None = None,
) -> None:
    """One trial, whose records are taken apart as they come.

    As in a campaign, one whose start a busy machine armed too late is tried again, armed further ahead.
    """

    def take(host: str, record: SentRecord) -> None:
        on_record(host, record.taken_apart())

    for _ in range(3):
        try:
            return await carry_out(testbed, "t", settings, windows, account or Account(), take)
        except TrialError as error:
            if error.code != "late":
                raise
            await testbed.recover(error)
    return await carry_out(testbed, "t", settings, windows, account or Account(), take)


def saved(shown: str) -> str:
    """The folder that the answer of a quick command names."""
    (line,) = [line for line in shown.splitlines() if line.startswith("  Saved ")]
    return line.split()[1]


def iodyno(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command, in a folder of the test's."""
    command = [*command_server.iodyno(), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S, cwd=cwd)


UNSET = """
    for device in second ifb0; do ip link delete $device; done 2>/dev/null || true
    for where in root clsact; do tc qdisc delete dev veth0 $where; done 2>/dev/null || true
"""
"""Commands in a namespace that take away what a test set there before a trial. It is told of the start again where that came
too late, and what it set is there still.
"""


def done_or_void(ran: subprocess.CompletedProcess[str]) -> bool:
    """Whether the command was done, or a busy machine kept its generator from a CPU: then the trial counts as failed."""
    return ran.returncode == 0 or (ran.returncode == 5 and "the generator fell behind" in ran.stderr)


def own_agent(folder: Path) -> AgentProgram:
    """The agent at a path of its own, so that its processes can be told from all others."""
    copy = folder / "iodyno-agent"
    shutil.copy2(find_agent().path, copy)
    shown = subprocess.run([copy, "--version"], capture_output=True, text=True, check=True).stdout
    build = shown.split()[-1]
    # For a lab that is told of this agent alone, as where no other was built.
    digest = hashlib.sha256(copy.read_bytes()).hexdigest()
    (folder / "BUILD").write_text(f"{build}\n{digest}  {copy.name}\n")
    return AgentProgram(copy, digest, build)


def processes_of(*programs: Path | str) -> list[int]:
    """Processes that run one of these program files."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if str((entry / "exe").readlink()) in map(str, programs):
                    found.append(int(entry.name))
    return found


def bpf_programs_of(pid: int) -> set[int]:
    """Ids of the programs in the kernel that a process holds, by the descriptions of its descriptors."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):
                lines = entry.read_text().splitlines()
                found |= {int(line.split()[1]) for line in lines if line.startswith("prog_id:")}
    return found


def unloaded_within(seconds: float, programs: set[int]) -> bool:
    """Whether the kernel has none of these programs any more, at the latest after that time; it takes a moment to free them. One
    that a process holds is left out: agents of a machine share their programs, until the last of them has ended.
    """
    end = time.monotonic() + seconds
    while any(_is_loaded(program) for program in programs - _held_programs()):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _held_programs() -> set[int]:
    return set().union(*(bpf_programs_of(int(p.name)) for p in Path("/proc").iterdir() if p.name.isdecimal()))


def _is_loaded(program: int) -> bool:
    """Asks bpf(2), BPF_PROG_GET_FD_BY_ID, as no file tells it."""
    number = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    attributes = ctypes.create_string_buffer(struct.pack("III", program, 0, 0), 128)
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(number, 13, attributes, 128)
    if descriptor >= 0:
        os.close(descriptor)
        return True
    error = ctypes.get_errno()
    if error != errno.ENOENT:
        raise OSError(error, os.strerror(error))
    return False


def gone_within(seconds: float, *programs: Path | str) -> bool:
    """Whether no process runs one of these programs any more, at the latest after that time."""
    end = time.monotonic() + seconds
    while processes_of(*programs):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def namespaces_of(pid: int) -> list[str]:
    """Network namespaces that the lab with this process id has made."""
    folder = Path("/run/netns")
    return (
        [entry.name for entry in folder.iterdir() if entry.name.startswith(f"iodyno-{pid}-")]
        if folder.is_dir()
        else []
    )


@dataclass
class SshPlace:
    """An ssh server in a namespace, with a home, keys and configuration of its own."""

    namespace: str
    address: str
    home: Path
    options: dict[str, Any]
    device: str

    def cut(self) -> None:
        """Cuts the link to it."""
        subprocess.run(["ip", "link", "set", self.device, "down"], check=True)


@contextlib.contextmanager
def ssh_place(
    folder: Path, number: int, rc: str = "", *, shell: str = "/bin/sh", name: str = "home", more: str = ""
) -> Iterator[SshPlace]:
    """Place `number` of this test process. `rc`: what the account's shell does at every login; `shell`: which one that is;
    `name`: of its home directory; `more`: of the server's configuration.
    """
    tag = f"{os.getpid() % 100_000:05d}{number}"
    namespace, device = f"iodyno-test-{tag}", f"iod{tag}"
    octet = number * 4
    lab, address = f"198.19.{os.getpid() % 250}.{octet + 1}", f"198.19.{os.getpid() % 250}.{octet + 2}"
    folder.mkdir(parents=True)
    home = folder / name
    home.mkdir()
    keys = {name: folder / name for name in ("host_key", "user_key")}
    for key in keys.values():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (folder / "known_hosts").write_text(f"{address} {(folder / 'host_key.pub').read_text()}")
    login = folder / "login"
    login.write_text(
        f'#!/bin/sh\nexport HOME={shlex.quote(str(home))}\n{rc}\ncd "$HOME"\nexec {shell} -c "$SSH_ORIGINAL_COMMAND"\n'
    )
    login.chmod(0o755)
    config = folder / "sshd_config"
    config.write_text(
        f"ListenAddress {address}\nHostKey {keys['host_key']}\nAuthorizedKeysFile {keys['user_key']}.pub\n"
        f"PidFile {folder}/sshd.pid\nForceCommand {login}\nStrictModes no\nUsePAM no\n"
        f"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
        # As of a shell in a shell: bash reads no start-up file of this machine's account, which costs as much as the login.
        f"SetEnv SHLVL=1\n{more}\n"
    )
    # As Debian makes it at each boot for its own server. It stays: another test process may have a server that needs it.
    Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
    server = None
    try:
        for command in (
            f"netns add {namespace}",
            f"link add {device} type veth peer name eth0 netns {namespace}",
            f"address add {lab}/30 dev {device}",
            f"link set {device} up",
            f"-n {namespace} address add {address}/30 dev eth0",
            f"-n {namespace} link set eth0 up",
            f"-n {namespace} link set lo up",
        ):
            subprocess.run(["ip", *command.split()], check=True)
        server = subprocess.Popen(
            [
                "ip",
                "netns",
                "exec",
                namespace,
                "/usr/sbin/sshd",
                "-D",
                "-E",
                folder / "sshd.log",
                "-f",
                config,
            ],
            start_new_session=True,
        )
        _wait_for_port(server, namespace, address)
        options = {
            "to": f"root@{address}",
            "identity_file": str(keys["user_key"]),
            "known_hosts_file": str(folder / "known_hosts"),
            "config_file": "/dev/null",
        }
        yield SshPlace(namespace, address, home, options, device)
    finally:
        if server:
            server.kill()
            server.wait()
        for left in _inside(namespace):
            with contextlib.suppress(ProcessLookupError):
                os.kill(left, 9)
        subprocess.run(["ip", "link", "delete", device], capture_output=True)
        subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)


@contextlib.contextmanager
def data_link(first: SshPlace, second: SshPlace) -> Iterator[tuple[str, str]]:
    """A direct link between two places; gives the address of each on it."""
    addresses = ("198.18.7.1", "198.18.7.2")
    pair = (first.namespace, second.namespace)
    subprocess.run(
        [
            "ip",
            "-n",
            pair[0],
            "link",
            "add",
            "data",
            "type",
            "veth",
            "peer",
            "name",
            "data",
            "netns",
            pair[1],
        ],
        check=True,
    )
    for namespace, address in zip(pair, addresses, strict=True):
        subprocess.run(["ip", "-n", namespace, "address", "add", f"{address}/30", "dev", "data"], check=True)
        subprocess.run(["ip", "-n", namespace, "link", "set", "data", "up"], check=True)
    yield addresses


def _wait_for_port(server: subprocess.Popen[bytes], namespace: str, address: str) -> None:
    for _ in range(600):
        assert server.poll() is None, f"the ssh server at {address} has ended with {server.returncode}"
        listed = subprocess.run(
            ["ip", "netns", "exec", namespace, "cat", "/proc/net/tcp"], capture_output=True, text=True
        )
        if ":0016 00000000:0000 0A" in listed.stdout:
            return
        time.sleep(0.05)
    raise AssertionError(f"the ssh server at {address} does not listen")


def _inside(namespace: str) -> list[int]:
    listed = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True)
    return [int(pid) for pid in listed.stdout.split()]
