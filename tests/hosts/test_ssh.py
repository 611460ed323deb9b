"""What only ssh has: the copy of the agent, output of start-up files, and logins that fail, against a real server."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import SOON_S, Meanwhile, SshPlace, _inside, gone_within, own_agent, run, ssh_place

from iodyno.analysis.dataset import read_dataset
from iodyno.core.errors import AccessError, IodynoError
from iodyno.core.warnings import WarningCode
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.hosts.access import AgentProgram
from iodyno.hosts.ssh import SshAccess
from iodyno.loads.files.analysis.flowops import accounts_of
from iodyno.session.locate import find_agent
from iodyno.session.session import Session

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not Path("/usr/sbin/sshd").exists(), reason="needs sshd (Debian: openssh-server)"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshPlace]:
    with ssh_place(tmp_path_factory.mktemp("ssh") / "place", 1) as made:
        yield made


@pytest.fixture
def program(tmp_path: Path) -> AgentProgram:
    return own_agent(tmp_path)


async def greet(access: SshAccess, program: AgentProgram) -> Session:
    session = await Session.start(access, program)
    await session.close()
    return session


def logins(place: SshPlace) -> int:
    return (place.home.parent / "sshd.log").read_text().count("Accepted publickey")


def test_a_host_costs_one_login_and_the_agent_is_copied_once_and_again_when_damaged(
    place: SshPlace, program: AgentProgram
) -> None:
    shutil.rmtree(place.home / ".cache", ignore_errors=True)
    cached = place.home / f".cache/iodyno/agent-{program.sha256[:16]}"
    before = logins(place)

    def reach(note: str) -> None:
        access = SshAccess("far", place.options)
        session = asyncio.run(greet(access, program))
        assert session.hello["program_sha256"] == program.sha256
        assert access.reached.notes == [f"{note} {cached}"]
        assert access.reached.address == place.address, "data goes where ssh went"

    reach("agent copied to")
    made = cached.stat().st_ino
    reach("agent found at")
    assert cached.stat().st_ino == made, "it was not sent again"
    cached.write_bytes(cached.read_bytes()[:-1] + b"!")
    reach("agent copied to")
    assert logins(place) == before + 3
    assert (cached.parent.stat().st_mode & 0o777, cached.stat().st_mode & 0o777) == (0o700, 0o700)
    assert [entry.name for entry in cached.parent.iterdir()] == [cached.name], "no half-written file is left"
    assert gone_within(SOON_S, cached)


WAITS_FOR_MORE = """mkdir "$HOME/bin" && printf '#!/bin/sh\nexec /usr/bin/head -c 1000000000\n' > "$HOME/bin/head"
chmod 755 "$HOME/bin/head"; PATH="$HOME/bin:$PATH"
"""


def test_a_copy_that_is_cut_off_says_so_and_leaves_nothing(tmp_path: Path, program: AgentProgram) -> None:
    with ssh_place(tmp_path / "place", 2, WAITS_FOR_MORE) as place:
        access = SshAccess("far", {**place.options, "command_timeout": 8_000_000_000})
        with pytest.raises(AccessError, match=r"copying the agent \(\d+ MB\) took longer than 8 s") as cut:
            asyncio.run(greet(access, program))
        assert (
            "command_timeout" in cut.value.advice
            and f"-i {place.options['identity_file']}" in cut.value.advice
        )
        end = time.monotonic() + SOON_S
        while halves := list((place.home / ".cache/iodyno").iterdir()):
            assert time.monotonic() < end, halves
            time.sleep(0.05)


def test_a_copy_removes_halves_of_others_that_nobody_goes_on_with(
    place: SshPlace, program: AgentProgram
) -> None:
    folder = place.home / ".cache/iodyno"
    folder.mkdir(parents=True, exist_ok=True)
    stale, fresh = folder / "agent-0123456789abcdef.4711", folder / "agent-0123456789abcdef.4712"
    for half in (stale, fresh):
        half.write_text("half of one")
    os.utime(stale, (time.time() - 7200,) * 2)
    other = replace(program, sha256="fedcba9876543210" * 4)
    with pytest.raises(AccessError, match="the agent that runs is not the one that was sent"):
        asyncio.run(greet(SshAccess("far", place.options), other))
    assert not stale.exists() and fresh.exists()
    for made in (fresh, folder / "agent-fedcba9876543210"):
        made.unlink()


def test_output_of_a_start_up_file_is_reported_and_does_no_harm(
    tmp_path: Path, program: AgentProgram
) -> None:
    with ssh_place(tmp_path / "noisy", 2, rc="echo 'Welcome to the machine!'; echo IODYNO") as place:
        session = asyncio.run(greet(SshAccess("far", place.options), program))
    (warning,) = session.warnings
    assert warning.code is WarningCode.FOREIGN_OUTPUT
    assert "Welcome to the machine!" in warning.text
    assert "host far" in warning.where


def test_every_way_to_fail_is_one_error_that_says_what_to_try(place: SshPlace, program: AgentProgram) -> None:
    folder = place.home.parent
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "other_key"], check=True)
    (folder / "changed").write_text(f"{place.address} {(folder / 'other_key.pub').read_text()}")
    (folder / "empty").write_text("")
    (folder / "open_key").write_text((folder / "user_key").read_text())
    (folder / "open_key").chmod(0o644)
    (folder / "quiet").write_text("Host *\nLogLevel QUIET\n")
    (folder / "wrong").write_text("Host *\nPots 22\n")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"port": 23}, "port 23: Connection refused"),
        ({"port": 23, "config_file": str(folder / "quiet")}, "port 23: Connection refused"),
        ({"config_file": str(folder / "wrong")}, "line 2: Bad configuration option"),
        ({"identity_file": str(folder / "no_key")}, "no_key not accessible: No such file"),
        ({"identity_file": str(folder / "open_key")}, 'open_key": bad permissions'),
        ({"known_hosts_file": str(folder / "empty")}, "Host key verification failed"),
        ({"known_hosts_file": str(folder / "changed")}, "has changed"),
        ({"identity_file": str(folder / "other_key")}, "Permission denied (publickey)"),
        ({"to": "nobody.invalid"}, "Could not resolve hostname nobody.invalid"),
    ]
    for options, what in cases:
        with pytest.raises(AccessError) as refused:
            asyncio.run(greet(SshAccess("far", {**place.options, **options}), program))
        assert "cannot be reached by ssh: " in refused.value.what and what in refused.value.what, (
            refused.value
        )
        assert (
            "-o BatchMode=yes" in refused.value.advice
            and str(options.get("port", "")) in refused.value.advice
        )
        assert "host far (ssh " in refused.value.where
    assert gone_within(0, program.path)


def test_nobody_is_asked_for_a_passphrase(
    place: SshPlace, program: AgentProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be nobody to answer: a campaign in the night would stand still."""
    locked, ask = tmp_path / "locked_key", tmp_path / "ask"
    shutil.copy2(place.options["identity_file"], locked)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", locked], check=True)
    ask.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexit 1\n")
    ask.chmod(0o755)
    monkeypatch.setenv("SSH_ASKPASS", str(ask))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    with pytest.raises(AccessError, match="Permission denied"):
        asyncio.run(greet(SshAccess("far", {**place.options, "identity_file": str(locked)}), program))
    assert not (tmp_path / "asked").exists()


def test_a_home_that_cannot_hold_or_execute_the_agent(place: SshPlace, program: AgentProgram) -> None:
    cache = place.home / ".cache"
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir()
    # The server has a mount namespace of its own, which `ip netns exec` made.
    inside = ["nsenter", "-t", (place.home.parent / "sshd.pid").read_text().strip(), "-m"]
    for options, what in (
        ("noexec,size=64m", "cannot be executed in ~/.cache: .*Permission denied"),
        ("size=64k", "no room"),
        ("ro", "cannot be stored in ~/.cache: .*Read-only file system"),
    ):
        subprocess.run([*inside, "mount", "-t", "tmpfs", "-o", options, "tmpfs", cache], check=True)
        try:
            with pytest.raises(AccessError, match=what):
                asyncio.run(greet(SshAccess("far", place.options), program))
        finally:
            subprocess.run([*inside, "umount", cache], check=True)


OTHER_UNAME = """mkdir "$HOME/bin" && cat > "$HOME/bin/uname" <<'END'
#!/bin/sh
echo %s riscv64
END
chmod 755 "$HOME/bin/uname"; PATH="$HOME/bin:$PATH"
"""


@pytest.mark.parametrize(
    ("rc", "said"),
    [
        (
            OTHER_UNAME % "Linux",
            f"the host is a riscv64, the agent at hand is made for {os.uname().machine}",
        ),
        (OTHER_UNAME % "FreeBSD", "the host runs FreeBSD, the agent is made for Linux"),
        ('rmdir "$HOME"', "the home directory of the account, .*/home, is not there"),
        ("echo not available; exit 1", "no shell that runs commands .exit status 1: not available"),
        ("exit 255", "cannot be reached by ssh: exit status 255, without a word"),
    ],
)
def test_an_account_that_cannot_have_the_agent_says_why_and_gets_nothing(
    rc: str, said: str, tmp_path: Path, program: AgentProgram
) -> None:
    # A server may show a text to everybody: its words are not those of an error. Where neither client nor account says a word,
    # its last line stands for theirs.
    (tmp_path / "banner").write_text("Permission denied to all others. Connection refused?\n")
    banner = "" if rc == "exit 255" else f"Banner {tmp_path}/banner"
    with ssh_place(tmp_path / "place", 4, rc, more=banner) as place:
        with pytest.raises(AccessError, match=said) as refused:
            asyncio.run(greet(SshAccess("far", place.options), program))
        assert refused.value.advice
        assert not (place.home / ".cache").exists()


def test_a_host_of_another_architecture_gets_the_agent_that_is_made_for_it(
    tmp_path: Path, program: AgentProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IODYNO_AGENT", str(program.path))
    made_for_it = tmp_path / "iodyno-agent-riscv64"
    with ssh_place(tmp_path / "place", 4, OTHER_UNAME % "Linux") as place:
        with pytest.raises(AccessError, match="the agent at hand is made for") as refused:
            asyncio.run(greet(SshAccess("far", place.options), find_agent()))
        assert str(made_for_it) in refused.value.what and "IODYNO_ARCHITECTURES=" in refused.value.advice
        assert not (place.home / ".cache").exists()
        # It runs here as well; what is behind the end of the program makes it another file.
        made_for_it.write_bytes(program.path.read_bytes() + b"\0")
        made_for_it.chmod(0o755)
        access = SshAccess("far", place.options)
        session = asyncio.run(greet(access, find_agent()))
        (copy,) = (place.home / ".cache/iodyno").iterdir()
        assert copy.read_bytes() == made_for_it.read_bytes()
        assert (
            session.hello["program_sha256"] == hashlib.sha256(copy.read_bytes()).hexdigest() != program.sha256
        )
        assert access.reached.notes == [f"agent copied to {copy}"]


@pytest.mark.parametrize("shell", ["bash", "csh", "dash", "fish", "ksh", "tcsh", "zsh"])
def test_the_login_shell_may_be_any_and_the_home_may_have_any_name(
    shell: str, tmp_path: Path, program: AgentProgram
) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    name = """it's "a" $HOME; of \\n me!"""
    with ssh_place(tmp_path / "place", 7, shell=found, name=name) as place:
        for note in ("agent copied to", "agent found at"):
            access = SshAccess("far", place.options)
            session = asyncio.run(greet(access, program))
            assert session.hello["program_sha256"] == program.sha256
            cached = place.home / f".cache/iodyno/agent-{program.sha256[:16]}"
            assert access.reached.notes == [f"{note} {cached}"] and not session.warnings
        assert [entry.name for entry in cached.parent.iterdir()] == [cached.name]


def test_the_configuration_of_the_client_holds_as_far_as_it_does_no_harm(
    tmp_path: Path, program: AgentProgram
) -> None:
    # A socket's path has room for 107 bytes, of which the client takes 57: too few for a folder of pytest's.
    with tempfile.TemporaryDirectory(prefix="ssh-") as sockets:
        _holds_as_far_as_it_does_no_harm(tmp_path, program, Path(sockets))


def _holds_as_far_as_it_does_no_harm(tmp_path: Path, program: AgentProgram, sockets: Path) -> None:
    """Aliases, files that are included, a host on the way; but no connection of ours is shared, and no other command is run."""
    with ssh_place(tmp_path / "place", 8) as place:
        config, included = tmp_path / "config", tmp_path / "included"
        same = (
            f"  HostName {place.address}\n  User root\n  IdentityFile {place.options['identity_file']}\n"
            f"  UserKnownHostsFile {place.options['known_hosts_file']}\n"
        )
        included.write_text(f"Host far gate\n{same}")
        config.write_text(
            f"Include {included}\nMatch originalhost far\n  ControlMaster auto\n  ControlPath {sockets}/c-%C\n"
            "  ControlPersist 60\n  RemoteCommand echo nothing else\n  LogLevel DEBUG3\n"
            f"Host behind\n  ProxyJump gate\n{same}"
        )
        # The client starts itself for the host on the way, and looks for that in no other configuration than this.
        for to in ("far", "behind"):
            session = asyncio.run(greet(SshAccess("one", {"to": to, "config_file": str(config)}), program))
            assert session.hello["program_sha256"] == program.sha256 and not session.warnings
        assert not list(sockets.glob("c-*")), "a shared connection was left"


def test_a_host_that_cannot_be_reached(
    tmp_path: Path, program: AgentProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing answers: how long it is waited for makes no difference.
    monkeypatch.setattr("iodyno.hosts.ssh._CONNECT_TIMEOUT_S", 2)
    with ssh_place(tmp_path / "far", 3) as place:
        place.cut()
        with pytest.raises(AccessError, match="cannot be reached"):
            asyncio.run(greet(SshAccess("far", place.options), program))


TREE = """
define fileset name=tree,path=/tree,entries=12,size=8k,prealloc,reuse
define process name=p { thread name=t,memsize=1m {
  flowop openfile name=open,filesetname=tree,fd=1
  flowop readwholefile name=read,fd=1
  flowop closefile name=close,fd=1
} }
"""


def test_files_of_a_personality_are_made_used_again_checked_and_removed_over_ssh(tmp_path: Path) -> None:
    with ssh_place(tmp_path / "place", 5) as place:
        there = place.home / "data"
        there.mkdir()

        def accounts(**more: Any) -> list[dict[str, Any]]:
            experiment = parse_experiment(
                experiment_text(
                    {
                        "name": "tree",
                        "hosts": {"client": {"access": "ssh", **place.options}},
                        "workload": {
                            **{"kind": "files", "hosts": "client", "target": str(there)},
                            **{"program": TREE, **more},
                        },
                        "design": {"replicates": 1 if more else 2},
                        "windows": {"warm_up": "0s", "measured": "300ms", "interval": "100ms"},
                        "limits": {"retries": 0, "background_window": "100ms", "background": 1.0},
                        "profile": "off",
                    }
                ),
                environment={},
            )
            outcome = asyncio.run(run(experiment, tmp_path))
            trials = sorted(read_dataset(outcome.folder).trials, key=lambda trial: trial.order)
            assert all(trial.finished for trial in trials), [trial.reason for trial in trials]
            found = [next(iter(accounts_of(trial).values())) for trial in trials]
            return [account["filesets"][0] for account in found]

        made, again = accounts()
        # Where a busy machine missed its start, files are there already when the first trial is prepared anew.
        assert (made["existing"], again["existing"], again["reused"], again["repaired"]) == (12, 12, True, 0)
        files = sorted(path for path in there.rglob("*") if path.stat().st_size == 8192)
        assert len(files) == 12
        # What somebody has changed since is not overwritten; what is gone is made again, and all of it goes on request.
        os.truncate(files[1], 100)
        with pytest.raises(IodynoError, match="was changed after the last run"):
            accounts(remove="on")
        assert files[1].stat().st_size == 100
        for file in files[:2]:
            file.unlink()
        (mended,) = accounts(remove="on")
        assert mended["existing"] == 12
        assert not [path for path in there.rglob("*") if path.is_file()]


def test_a_server_that_is_restarted_in_the_middle_of_a_trial_costs_an_attempt(tmp_path: Path) -> None:
    with ssh_place(tmp_path / "place", 6) as place:
        folder = place.home.parent
        server = ["ip", "netns", "exec", place.namespace, "/usr/sbin/sshd", "-E", str(folder / "sshd.log")]
        later: list[threading.Timer] = []

        def stop() -> None:
            # The agent goes with the connection that held it.
            for pid in _inside(place.namespace):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            again = [*server, "-f", str(folder / "sshd_config")]
            later.append(threading.Timer(2.0, lambda: subprocess.run(again, check=True)))
            later[0].start()

        keys = {
            "name": "restarted",
            "hosts": {"client": {"access": "ssh", **place.options}},
            "workload": {"kind": "disk", "hosts": "client", "target": "null"},
            "design": {"replicates": 1},
            "windows": {"warm_up": "0s", "measured": "1s", "interval": "100ms"},
            "limits": {"retries": 1, "background_window": "100ms", "background": 1.0},
            "profile": "off",
        }
        notes = Meanwhile(stop)
        outcome = asyncio.run(
            run(parse_experiment(experiment_text(keys), environment={}), tmp_path, notes=notes)
        )
        later[0].join()
    assert outcome.finished == 1 and not outcome.failed
    assert [manifest["status"] for manifest in notes.manifests] == ["failed", "finished"]
    assert notes.manifests[0]["reason"]["code"] == "agent_lost"
    assert any("trying to reach it for up to 120 s" in stage for stage in notes.stages), notes.stages
