"""A gVisor sandbox on the lab's machine: a second kernel in user space, with a network stack of its own.

`runsc` runs the agent as the only program of a bundle (OCI runtime specification) whose root file system holds
nothing else. The sandbox takes the addresses of a network namespace over and reads and writes the frames of its device
itself, so that the host's kernel does no protocol work for it. It is made anew for each agent and ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from iodyno import run_folder
from iodyno.core.errors import AccessError
from iodyno.hosts.access import AgentProgram, AgentStreams, Reached, spawn

ADVICE = "put gVisor's runsc into the PATH: https://gvisor.dev has it"
_FLAGS = ("--ignore-cgroups", "--overlay2=none", "--network=sandbox", "--platform=systrap")
_KIND = "sandboxes"


def find_runsc() -> Path | None:
    """The program `runsc`: of the PATH, else the one that `make sandbox` of a checkout built."""
    built = Path.home() / ".cache" / "iodyno" / "runsc"
    if found := shutil.which("runsc"):
        return Path(found)
    return built if os.access(built, os.X_OK) else None


class SandboxAccess:
    """Starts agents in sandboxes on the network namespace `namespace`, whose addresses they take over.

    `give_addresses` is called before each start: the sandbox before took the addresses with it.
    """

    def __init__(
        self,
        name: str,
        namespace: str,
        address: str,
        cpus: Sequence[int],
        runsc: Path,
        give_addresses: Callable[[], Awaitable[None]],
    ) -> None:
        self.name = name
        # The sandbox counts the CPUs that it runs on from 0: which of the host's they are is in `path`.
        self.reached = Reached(address=address)
        self._cpus = tuple(cpus)
        self._namespace = namespace
        self._runsc = runsc
        self._give_addresses = give_addresses
        self._folder: Path | None = None
        self._started = 0

    async def start(self, program: AgentProgram, command: str = "serve") -> AgentStreams:
        """Starts an agent. Raises AccessError."""
        if command != "serve":
            raise AccessError(
                "the tunables of a host in a sandbox cannot be set: it has a kernel of its own, without them",
                where=f"host {self.name}",
                advice="leave the tunables of this host out, or the level `sandbox`",
            )
        if command != "serve":
            raise AccessError(f"an agent in a sandbox does not {command}", where=f"host {self.name}")
        self._remove()
        self._started += 1
        await self._give_addresses()
        try:
            self._folder = Path(
                tempfile.mkdtemp(prefix=f"{run_folder.maker()}-", dir=run_folder.folder(_KIND))
            )
            bundle = _bundle(self._folder, program.path, self._namespace)
            # Ends with the lab, however that ends; the sandbox ends with this process, as runsc arranges it.
            return await spawn(
                [
                    *(
                        "setpriv",
                        "--pdeathsig",
                        "KILL",
                        self._runsc,
                        "--root",
                        self._folder / "state",
                        *_FLAGS,
                    ),
                    *("run", "--bundle", bundle, f"iodyno-{os.getpid()}-{self.name}-{self._started}"),
                ],
                self._cpus,
            )
        except OSError as error:
            raise AccessError(
                f"the sandbox does not start: {error.strerror}",
                where=f"host {self.name}: {error.filename or self._runsc}",
                advice=ADVICE,
            ) from error

    def trouble(self, status: int, said: str) -> AccessError:
        """The error for a sandbox that ended before the agent's first word."""
        last = f": {said.splitlines()[-1]}" if said else ""
        return AccessError(
            f"the sandbox ended with exit status {status}{last}",
            where=f"host {self.name}",
            advice="look whether `runsc --platform=systrap do true` works here, or leave the level out",
        )

    async def close(self) -> None:
        """Removes the bundle."""
        self._remove()

    def _remove(self) -> None:
        if self._folder is not None:
            _remove(self._folder)
            self._folder = None


def remove_leftovers() -> None:
    """Removes the bundles of labs that are gone. Raises AccessError."""
    for folder in run_folder.left(_KIND):
        _remove(folder)


def _bundle(folder: Path, program: Path, namespace: str) -> Path:
    """The bundle, which `folder` notes. It is not in there: programs below /run may not be executed."""
    bundle = Path(tempfile.mkdtemp(prefix="iodyno-sandbox-"))
    (folder / "bundle").write_text(run_folder.identity(bundle), encoding="utf-8")
    for name in ("proc", "sys", "tmp", "dev"):
        (bundle / "rootfs" / name).mkdir(parents=True)
    shutil.copy2(program, bundle / "rootfs" / "iodyno-agent")
    (bundle / "config.json").write_text(json.dumps(_configuration(namespace)), encoding="utf-8")
    return bundle


def _remove(folder: Path) -> None:
    # runsc keeps an empty network namespace mounted there for the sandboxes to come.
    subprocess.run(["umount", "-l", folder / "state" / "null-netns"], capture_output=True, check=False)
    with contextlib.suppress(OSError, IndexError):
        if bundle := run_folder.same((folder / "bundle").read_text(encoding="utf-8")):
            shutil.rmtree(bundle, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def unavailable() -> str | None:
    """Why there is no sandbox on this machine; None: there may be one."""
    runsc = find_runsc()
    if runsc is None:
        return "there is no runsc in the PATH: https://gvisor.dev has it"
    if shutil.which("setpriv") is None:
        return "there is no setpriv (Debian: apt-get install util-linux)"
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        shown = subprocess.run([runsc, "--version"], capture_output=True, timeout=10, check=False)
        if shown.returncode == 0:
            return None
    return f"{runsc} does not run"


def counter_trusted() -> bool:
    """Tell whether this machine's kernel keeps time by the time-stamp counter, which runs at one rate and in sleep.

    A clock reading inside is a call into the sandbox's kernel and takes microseconds; the counter is read as outside.
    """
    try:
        source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text("ascii")
        cpus = Path("/proc/cpuinfo").read_text("ascii", errors="replace")
    except OSError:
        return False
    flags = next((line.split() for line in cpus.splitlines() if line.startswith("flags")), [])
    return source.strip() == "tsc" and {"constant_tsc", "nonstop_tsc"} <= set(flags)


def _configuration(namespace: str) -> dict[str, Any]:
    """`config.json` of the bundle (OCI runtime specification 1.0): the agent on the namespace's devices."""
    capabilities = [
        "CAP_NET_RAW",
        "CAP_NET_ADMIN",
        "CAP_SYS_NICE",
        "CAP_SYS_RESOURCE",
        "CAP_NET_BIND_SERVICE",
    ]
    return {
        "ociVersion": "1.0.0",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["/iodyno-agent", "serve", *(("--trust-counter",) if counter_trusted() else ())],
            "env": ["PATH=/"],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 65_536, "soft": 65_536}],
        },
        "root": {"path": "rootfs", "readonly": False},
        "hostname": "sandbox",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs"},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
        ],
        "linux": {
            "namespaces": [
                *({"type": kind} for kind in ("pid", "ipc", "uts", "mount")),
                {"type": "network", "path": f"/run/netns/{namespace}"},
            ]
        },
    }
