"""Two hosts in one virtual machine: agents side by side on a kernel that this machine's is not.

The first agent speaks by the guest's standard port, the second by another one, which QEMU joins to a socket of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iodyno.core.errors import AccessError
from iodyno.hosts import guest
from iodyno.hosts.access import AgentProgram, AgentStreams, Reached, spawn
from iodyno.session.accesses import OpenHosts

VSOCK = ("vsock", "vmw_vsock_virtio_transport_common", "vsock_loopback")
"""What the guest's kernel needs to carry vsock within itself."""
SCTP = ("libcrc32c", "udp_tunnel", "ip6_udp_tunnel", "sctp")
_BOOT_S = 90.0


def unavailable(modules: tuple[str, ...]) -> str | None:
    """Why there is no such guest here; None: there is."""
    lacking = [name for name in modules if not (guest.FOLDER / f"{name}.ko").is_file()]
    return guest.unavailable() or (f"there is no {lacking[0]}.ko (make guest)" if lacking else None)


@dataclass
class _Machine:
    """The guest, as long as its first agent is used."""

    modules: tuple[str, ...]
    folder: Path
    booted: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def socket(self) -> Path:
        return self.folder / "second"

    def script(self) -> str:
        """Serves at both ports, until the lab of the first is gone."""
        serve = (
            "serve() {",
            # The port's name has the device's number, which is the kernel's choice.
            '  while port=$(echo /dev/vport*p$1); [ ! -e "$port" ]; do $b sleep 0.05; done',
            "  /bin/iodyno-agent serve <>$port >&0 2>/dev/console",
            "}",
        )
        boot = guest.boot((*guest.MODULES, *self.modules))
        return "\n".join((*boot, *serve, "serve 2 &", "serve 1", "$b poweroff -f", ""))


class _Agent:
    """One of the two."""

    def __init__(self, name: str, of: _Machine, first: bool) -> None:
        self.name = name
        self.reached = Reached(address="127.0.0.1", hello_timeout_s=_BOOT_S)
        self._machine = of
        self._first = first

    async def start(self, program: AgentProgram, command: str = "serve") -> AgentStreams:
        assert command == "serve"
        of = self._machine
        if self._first:
            modules = (*guest.MODULES, *of.modules)
            (of.folder / "initrd").write_bytes(guest.archive(program.path, of.script(), modules))
            second = ("-chardev", f"socket,id=second,path={of.socket},server=on,wait=off")
            port = ("-device", "virtserialport,chardev=second,name=second")
            streams = await spawn([*guest.machine(of.folder, (0, 1)), *second, *port])
            of.booted.set()
            return streams
        await of.booted.wait()
        return await spawn([sys.executable, "-c", _RELAY, of.socket])

    def trouble(self, status: int, said: str) -> AccessError:
        log = self._machine.folder / "console"
        console = log.read_text(errors="replace") if log.exists() else ""
        return AccessError(f"exit status {status}: {said} {console[-2000:]}", where=self.name)

    async def close(self) -> None:
        pass


_RELAY = """
import os, socket, sys, threading, time
end = time.monotonic() + 20
while True:
    other = socket.socket(socket.AF_UNIX)
    try:
        other.connect(sys.argv[1])
        break
    except OSError:
        if time.monotonic() > end:
            raise
        time.sleep(0.05)
def back():
    while data := other.recv(1 << 16):
        os.write(1, data)
    os._exit(0)
threading.Thread(target=back, daemon=True).start()
while data := os.read(0, 1 << 16):
    other.sendall(data)
"""
"""Between stdin and stdout and the socket of a port."""


def two_hosts(names: Sequence[str], modules: tuple[str, ...], folder: Path) -> OpenHosts:
    """Both hosts, not yet started. `folder` is for the guest's files."""
    of = _Machine(modules, folder)
    return OpenHosts(accesses={name: _Agent(name, of, name == names[0]) for name in names})


def carried_out(
    program: Path, words: Sequence[str], modules: tuple[str, ...], folder: Path, most_s: float, cpus: int = 2
) -> str:
    """What a program without libraries said in a guest of its own with so many CPUs, for which it has `most_s`."""
    stripped = folder / "program"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    script = (
        *guest.boot((*guest.MODULES, *modules)),
        "$b --install -s /bin; export PATH=/bin TMPDIR=/tmp",
        f"/bin/iodyno-agent {' '.join(words)} >/dev/ttyS0 2>&1",
        "$b poweroff -f",
        "",
    )
    content = guest.archive(stripped, "\n".join(script), (*guest.MODULES, *modules))
    (folder / "initrd").write_bytes(content)
    command = [str(word) for word in guest.machine(folder, range(cpus), memory_mib=2048)]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, stdin=subprocess.DEVNULL, timeout=most_s, check=False)
    return (folder / "console").read_text(errors="replace")
