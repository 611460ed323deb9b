"""A virtual machine on the lab's machine: QEMU, which translates the guest's instructions (TCG), and Debian's kernel.

The guest boots a kernel and an archive in memory that holds the agent and a shell script; the agent's stdin and stdout
are a virtio port. QEMU runs without KVM: nested virtualisation is rare, and one accelerator makes numbers comparable. So
the guest's rates are a bound from below on those of a virtual machine with help from the processor.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iodyno import run_folder
from iodyno.core.errors import AccessError
from iodyno.hosts.access import AgentProgram, AgentStreams, Reached, spawn

QEMU = "qemu-system-x86_64"
FOLDER = Path.home() / ".cache" / "iodyno" / "guest"
MODULES = (
    *("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci"),
    *("failover", "net_failover", "virtio_net", "virtio_console"),
)
"""Modules of Debian's cloud kernel that the guest needs, each after those that it needs itself."""
_CHECKOUT = "a clone of https://github.com/iodyno/iodyno"
ADVICE = f"run `make guest` in {_CHECKOUT}: it installs QEMU and unpacks a kernel into ~/.cache/iodyno/guest"
_MEMORY_MIB = 512
_BOOT_TIMEOUT_S = 90.0
"""Chosen: a guest is up in 5 s on an idle machine, and in ten times that on a busy one."""
_KIND = "guests"


@dataclass(frozen=True)
class GuestLink:
    """Link to the guest: a tap device in a network namespace, the guest's address, CPUs of the host."""

    namespace: str
    device: str
    address: str
    cpus: tuple[int, ...]
    mtu: int | None = None


class GuestAccess:
    """Starts agents in virtual machines; each agent boots its own."""

    def __init__(self, name: str, link: GuestLink) -> None:
        self.name = name
        self.reached = Reached(address=link.address, hello_timeout_s=_BOOT_TIMEOUT_S)
        self._link = link
        self._folder: Path | None = None

    async def start(self, program: AgentProgram, command: str = "serve") -> AgentStreams:
        """Boots a guest with an agent. Raises AccessError."""
        if command != "serve":
            raise AccessError(f"an agent in a guest does not {command}", where=f"host {self.name}")
        self._remove()
        try:
            folder = self._folder = Path(
                tempfile.mkdtemp(prefix=f"{run_folder.maker()}-", dir=run_folder.folder(_KIND))
            )
            (folder / "initrd").write_bytes(archive(program.path, script(self._link)))
            return await spawn(self._command(folder), self._link.cpus)
        except OSError as error:
            raise AccessError(
                f"the guest does not start: {error.strerror}",
                where=f"host {self.name}: {error.filename or QEMU}",
                advice=ADVICE,
            ) from error

    def trouble(self, status: int, said: str) -> AccessError:
        """The error for a guest that ended before the agent's first word."""
        log = self._folder / "console" if self._folder else None
        console = log.read_text(errors="replace") if log and log.exists() else ""
        last = (said or console).strip().splitlines()[-1:] or ["it said nothing"]
        return AccessError(
            f"the virtual machine ended with exit status {status}: {last[0]}",
            where=f"host {self.name}",
            advice="leave the level out, or look why QEMU cannot boot the kernel here",
        )

    async def close(self) -> None:
        """Removes the archive."""
        self._remove()

    def _command(self, folder: Path) -> list[str | Path]:
        link = self._link
        return [
            *("setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", link.namespace),
            *machine(folder, link.cpus),
            *("-netdev", f"tap,id=data,ifname={link.device},script=no,downscript=no,vhost=off"),
            *("-device", f"virtio-net-pci,netdev=data,mac={_mac(link.address)}"),
        ]

    def _remove(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _mac(address: str) -> str:
    """A hardware address of QEMU's own range, other than those of guests with other addresses on one bridge."""
    return "52:54:00:" + ":".join(f"{int(part):02x}" for part in address.split(".")[1:])


def machine(folder: Path, cpus: Sequence[int], memory_mib: int = _MEMORY_MIB) -> list[str | Path]:
    """The command that boots the archive in `folder` with as many processors as `cpus`, its port on stdin and stdout."""
    return [
        *(QEMU, "-accel", "tcg", "-cpu", "max", "-m", str(memory_mib), "-smp", str(max(1, len(cpus)))),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none"),
        *("-serial", f"file:{folder / 'console'}"),
        *("-kernel", FOLDER / "vmlinuz", "-initrd", folder / "initrd"),
        *("-append", "console=ttyS0 quiet panic=-1"),
        *("-chardev", "stdio,id=control,signal=off", "-device", "virtio-serial-pci"),
        *("-device", "virtserialport,chardev=control,name=iodyno"),
    ]


def remove_leftovers() -> None:
    """Removes the archives of labs that are gone. Raises AccessError."""
    for folder in run_folder.left(_KIND):
        shutil.rmtree(folder, ignore_errors=True)


def unavailable(
    folder: Path = FOLDER, modules: Sequence[str] = MODULES, made_by: str = "make guest"
) -> str | None:
    """Why there is no guest on this machine; None: there may be one."""
    if os.uname().machine != "x86_64":
        return f"guests are x86-64, this machine is {os.uname().machine}"
    if shutil.which(QEMU) is None:
        return f"there is no {QEMU}: `{made_by}` in {_CHECKOUT} installs it"
    needed = ["vmlinuz", "busybox", *(f"{name}.ko" for name in modules)]
    if missing := [name for name in needed if not (folder / name).is_file()]:
        return f"there is no {folder / missing[0]}: `{made_by}` in {_CHECKOUT} unpacks it"
    if shutil.which("setpriv") is None:
        return "there is no setpriv (Debian: apt-get install util-linux)"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "there is no /dev/net/tun, or it may not be opened"
    return None


def archive(
    program: Path | None, begins_with: str, modules: Sequence[str] = MODULES, folder: Path = FOLDER
) -> bytes:
    """The guest's files as an archive of the kernel's form `newc` (Documentation/driver-api/early-userspace): the agent,
    modules from `folder`, and the script that it begins with.
    """
    out = io.BytesIO()
    for name in ("bin", "dev", "proc", "sys", "tmp"):
        _entry(out, name, 0o040755, b"")
    for name in ("busybox", *(f"{name}.ko" for name in modules)):
        _entry(out, f"bin/{name}", 0o100755, (folder / name).read_bytes())
    if program:
        _entry(out, "bin/iodyno-agent", 0o100755, program.read_bytes())
    _entry(out, "init", 0o100755, begins_with.encode())
    _entry(out, "TRAILER!!!", 0, b"")
    return out.getvalue()


def script(link: GuestLink) -> str:
    """Return the script of the guest: it serves as a host at the end of the link, until its lab is gone."""
    mtu = f"mtu {link.mtu} " if link.mtu else ""
    return "\n".join(
        [
            *boot(),
            "$b sysctl -w net.core.rmem_max=67108864 net.core.wmem_max=67108864",
            # A CPU quota of the agent is a control group below the top, which hands the controller down.
            "$b mount -t cgroup2 none /sys/fs/cgroup && echo +cpu >/sys/fs/cgroup/cgroup.subtree_control",
            f"$b ip address add {link.address}/30 dev eth0; $b ip link set eth0 {mtu}up",
            # The port's name has the device's number, which is the kernel's choice.
            'tries=0; port=; while [ -z "$port" ] && [ $tries -lt 200 ]; do',
            "  tries=$((tries+1)); for found in /dev/vport*p1; do [ -e $found ] && port=$found; done",
            '  [ -n "$port" ] || $b sleep 0.05; done',
            'if [ -n "$port" ]; then /bin/iodyno-agent serve <>$port >&0 2>/dev/console',
            "else echo 'the guest has no control port'; fi",
            "$b poweroff -f",
            "",
        ]
    )


def boot(modules: Sequence[str] = MODULES) -> list[str]:
    """The first lines of a guest's script."""
    return [
        "#!/bin/busybox sh",
        "b=/bin/busybox",
        "$b mount -t devtmpfs dev /dev; $b mount -t proc proc /proc; $b mount -t sysfs sys /sys",
        *(f"$b insmod /bin/{name}.ko" for name in modules),
        "$b ip link set lo up",
    ]


def _entry(out: io.BytesIO, name: str, mode: int, content: bytes) -> None:
    path = name.encode() + b"\0"
    number = out.tell() + 1
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
    out.write(b"070701" + b"".join(b"%08x" % field for field in fields) + path)
    out.write(bytes(-out.tell() % 4) + content)
    out.write(bytes(-out.tell() % 4))
