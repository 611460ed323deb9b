"""Engines that hosts are had from, made for tests: containers of podman, two nodes of Slurm on one machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

BUSYBOX = Path("/bin/busybox")
_APPLETS = ("sh", "cat", "mkdir", "sha256sum", "chmod", "mv", "rm", "find", "test", "uname", "sleep", "true")
NO_PODMAN = (
    ""
    if shutil.which("podman") and shutil.which("runc") and BUSYBOX.exists()
    else "podman, runc or busybox is missing"
)
NO_SLURM = (
    "" if all(map(shutil.which, ("srun", "slurmctld", "slurmd", "munged"))) else "Slurm or munge is missing"
)
ADVICE = "(make engines)"


def skip_without(missing: str) -> None:
    """Skips the test, and says with what it would run."""
    if missing:
        pytest.skip(f"{missing} {ADVICE}")


def _podman(*words: str | Path, check: bool = True) -> str:
    # crun refuses a machine that has both versions of control groups.
    command = ["podman", "--runtime", "runc", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout.strip()


@contextlib.contextmanager
def containers(folder: Path, count: int, agent: Path | None = None) -> Iterator[tuple[list[str], Path]]:
    """Containers on a network of their own, and the home directory in them.

    With `agent` an image of nothing but that program, as /iodyno-agent; else one with a shell.
    """
    tag = f"iodyno-test-{os.getpid()}-{time.monotonic_ns() % 10**9}"
    home = Path(f"/home-{tag}")
    image = folder / tag
    image.mkdir(parents=True)
    if agent is not None:
        shutil.copy2(agent, image / "iodyno-agent")
        lines, main = "COPY iodyno-agent /iodyno-agent", ["/iodyno-agent", "wait"]
    else:
        (image / "bin").mkdir()
        shutil.copy2(BUSYBOX, image / "bin/busybox")
        for applet in _APPLETS:
            (image / "bin" / applet).symlink_to("busybox")
        (image / "home").mkdir()
        (image / "home/.keep").touch()
        lines, main = f"COPY bin /bin\nCOPY home {home}\nENV HOME={home} PATH=/bin", ["sleep", "3600"]
    (image / "Containerfile").write_text(f"FROM scratch\n{lines}\n")
    names = [f"{tag}-{number}" for number in range(1, count + 1)]
    try:
        _podman("build", "--quiet", "--layers=false", "--tag", tag, image)
        _podman("network", "create", tag)
        for name in names:
            limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
            _podman("run", "--detach", "--name", name, "--network", tag, *limits, tag, *main)
        yield names, home
    finally:
        _podman("rm", "--force", "--time", "0", *names, check=False)
        _podman("network", "rm", "--force", tag, check=False)
        _podman("rmi", "--force", tag, check=False)


@contextlib.contextmanager
def slurm(folder: Path) -> Iterator[list[str]]:
    """Two nodes, for commands with SLURM_CONF in their environment; gives the names of the nodes."""
    folder.mkdir(parents=True)
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    control, *nodes = _free_ports(3)
    config = folder / "slurm.conf"
    config.write_text(
        f"ClusterName=iodyno\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={control}\nSlurmUser=root\n"
        f"AuthInfo=socket={folder}/munge.socket\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/%n\n"
        f"SlurmctldPidFile={folder}/control.pid\nSlurmdPidFile={folder}/%n.pid\nMpiDefault=none\nMailProg=/bin/true\n"
        "ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSlurmdParameters=config_overrides\nReturnToService=2\n"
        + "".join(
            f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8\n"
            for number, port in enumerate(nodes, 1)
        )
        + "PartitionName=all Nodes=n[1-2] Default=YES State=UP OverSubscribe=FORCE:8\n"
    )
    environment = {**os.environ, "SLURM_CONF": str(config)}
    daemons: list[subprocess.Popen[bytes]] = []

    def daemon(*words: str | Path) -> None:
        with (folder / f"out{len(daemons)}").open("wb") as out:
            daemons.append(
                subprocess.Popen(
                    words,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            )

    files = {
        "socket": "munge.socket",
        "key-file": "munge.key",
        "log-file": "log",
        "pid-file": "pid",
        "seed-file": "seed",
    }
    try:
        daemon(
            "munged",
            "--force",
            "--foreground",
            *(f"--{name}={folder / file}" for name, file in files.items()),
        )
        _until((folder / "munge.socket").exists, folder)
        daemon("slurmctld", "-D", "-f", config)
        for number in (1, 2):
            daemon("slurmd", "-D", "-N", f"n{number}", "-f", config)
        ready = ["sinfo", "--noheader", "--states=idle", "--format=%D"]

        def idle() -> bool:
            return (
                subprocess.run(ready, env=environment, capture_output=True, text=True).stdout.strip() == "2"
            )

        _until(idle, folder)
        os.environ["SLURM_CONF"] = str(config)
        yield ["n1", "n2"]
    finally:
        os.environ.pop("SLURM_CONF", None)
        subprocess.run(["scancel", "--user=root"], env=environment, capture_output=True)
        for process in reversed(daemons):
            process.terminate()
        for process in reversed(daemons):
            # The controller waits for steps whose srun was killed.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
            process.kill()
            process.wait()
        for pid in _steps_of(config):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)


def _steps_of(config: Path) -> list[int]:
    """Processes that still hold a step of these nodes."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            # Debian calls it slurmstepd-wlm.
            is_step = entry.name.isdecimal() and (entry / "exe").readlink().name.startswith("slurmstepd")
            if is_step and f"SLURM_CONF={config}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in taken]
    for one in taken:
        one.close()
    return ports


def _until(ready: Callable[[], bool], folder: Path) -> None:
    for _ in range(1200):
        if ready():
            return
        time.sleep(0.05)
    said = "\n".join(file.read_text(errors="replace")[-500:] for file in folder.glob("out*"))
    raise AssertionError(f"Slurm does not come up: {said}")
