"""Two network namespaces joined by a pair of virtual Ethernet devices, each receiving on its own CPUs.

On such a pair the kernel would do the receiver's work on the sender's CPU: it hands a frame over by queueing it to
the CPU that it is on. Receive packet steering (`rps_cpus`, Documentation/networking/scaling.rst) moves that work
to the CPUs of the host that receives, as the interrupt of its network adapter would.

Names tell who made them: `iodyno-<pid>-<start of that process in clock ticks>-<role>`. A namespace whose maker
is gone, or whose number belongs to another process by now, is a leftover and is removed by the next lab.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from iodyno import run_folder
from iodyno.core.errors import AccessError
from iodyno.paths.command import answer_of

ADDRESSES = ("198.18.0.1", "198.18.0.2")
"""Inside the namespaces, where nothing else is; of the block kept for benchmarks (RFC 2544, RFC 6890)."""

_MORE_ADDRESSES = ("198.18", "198.19")
"""Further addresses of the two ends, from x.16.1 on: of the same block, a half each."""

_NAMES = re.compile(r"iodyno-(\d+-\d+-[A-Za-z0-9_.-]+)")
_FOLDER = Path("/run/netns")
_NS_GET_USERNS = 0xB701
DEVICE = "veth0"
"""Name of the device in each of the two namespaces."""
_BUFFER_MAX = 64 << 20
"""Chosen: more than any window that a study asks for. A socket still gets what it asks for, not more."""

# What a new namespace needs so that asked windows and thousands of connections are possible. `+` before a
# number keeps what is there when it is more; `=` keeps a field.
SYSCTLS: Mapping[str, str] = {
    "net.core.wmem_max": f"+{_BUFFER_MAX}",
    "net.core.rmem_max": f"+{_BUFFER_MAX}",
    # Defaults of a kernel on a machine with enough memory (Documentation/networking/ip-sysctl.rst); Linux 6.16 and later
    # have 32 MiB for receive buffers, which are kept.
    "net.ipv4.tcp_wmem": "= = +4194304",
    "net.ipv4.tcp_rmem": "= = +6291456",
    "net.ipv4.ip_local_port_range": "1024 65535",
    "net.core.somaxconn": "+65535",
    "net.ipv4.tcp_max_syn_backlog": "+65535",
}


@dataclass
class VethEnd:
    """One namespace: its name, its address, and every setting of it as asked and as obtained."""

    namespace: str
    address: str
    cpus: tuple[int, ...]
    settings: dict[str, dict[str, str | None]] = field(default_factory=dict)
    device: str = DEVICE
    kind: str = "veth"
    addresses: tuple[str, ...] = ()

    @property
    def steered(self) -> bool:
        """True where the packets that this end receives are worked on by its own CPUs."""
        found = self.settings.get(steering(self.device))
        return bool(self.cpus) and found is not None and found["obtained"] == found["asked"]

    def facts(self) -> dict[str, Any]:
        """Return the facts of it to be recorded."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "address": self.address,
            "addresses": list(self.addresses),
            "receive_processing": "its own CPUs" if self.steered else "the sender's CPU",
            "settings": self.settings,
        }


class NamespacePath:
    """Namespaces of the lab with what joins them, by host."""

    def __init__(self, ends: Mapping[str, VethEnd]) -> None:
        self.ends = ends

    def remove(self) -> None:
        """Removes all; the devices go with them. May be called twice, and while the lab is being stopped."""
        for end in self.ends.values():
            _remove(end.namespace)

    async def ended(self) -> None:
        """Waits, after `remove`, for what takes its time to end."""

    async def set_link(self, role: str, *, up: bool) -> None:
        """Cuts or mends the link at one end."""
        end = self.ends[role]
        await ip("-n", end.namespace, "link", "set", end.device, "up" if up else "down")

    def gone(self) -> str | None:
        """Return what of it is not there any more; None: all is there."""
        for role, end in self.ends.items():
            shown = subprocess.run(
                ["ip", "-n", end.namespace, "link", "show", "dev", end.device],
                capture_output=True,
                check=False,
                start_new_session=True,
            )
            if shown.returncode != 0:
                return f"the device {end.device} of host {role} is gone"
        return None


class VethPath(NamespacePath):
    """Two namespaces and the pair of devices between them, from `make` to `remove`."""

    @classmethod
    async def make(
        cls, cpus: Mapping[str, Sequence[int]], mtu: int | None = None, *, tag: str = "", addresses: int = 1
    ) -> VethPath:
        """Makes both; `cpus` names the two hosts, each with its CPUs. Raises AccessError.

        `tag` tells several paths of one lab apart. With `addresses`, each end has that many, the first of them
        as without.
        """
        path = cls(ends_of(cpus, tag, addresses=addresses))
        names = [end.namespace for end in path.ends.values()]
        try:
            await ip_batch(
                *(f"netns add {name}" for name in names),
                f"link add {DEVICE} netns {names[0]} type veth peer name {DEVICE} netns {names[1]}",
            )
            await asyncio.gather(*(bring_up(end, mtu) for end in path.ends.values()))
        except BaseException:
            path.remove()
            raise
        return path


def ends_of(
    cpus: Mapping[str, Sequence[int]],
    tag: str = "",
    device: str = DEVICE,
    kind: str = "veth",
    addresses: int = 1,
) -> dict[str, VethEnd]:
    """The two ends of a path that is to be made: namespaces of this lab's name, and addresses."""
    ends = {}
    for (role, own), address, block in zip(cpus.items(), ADDRESSES, _MORE_ADDRESSES, strict=True):
        more = (f"{block}.{16 + number // 250}.{number % 250 + 1}" for number in range(addresses - 1))
        ends[role] = VethEnd(
            namespace_name(f"{tag}{plain(role)}"), address, tuple(own), {}, device, kind, (address, *more)
        )
    return ends


def namespace_prefix() -> str:
    """Return the prefix of the names of this lab's namespaces."""
    return f"iodyno-{run_folder.maker()}"


def namespace_name(own: str) -> str:
    """Return a name for a namespace of this lab that is to be made; where there is one of that name, with a number."""
    name = f"{namespace_prefix()}-{own}"
    numbered = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(each for each in numbered if not (_FOLDER / each).exists())


async def bring_up(end: VethEnd, mtu: int | None = None) -> None:
    """Gives the device of an end its addresses and its settings, and switches it on. Raises AccessError."""
    # All addresses of a path are of one network, so that each end reaches the other's without a route.
    length = 15 if len(end.addresses) > 1 else 30
    addresses = dict.fromkeys((end.address, *end.addresses))
    await ip_batch(
        *(f"address replace {address}/{length} dev {end.device}" for address in addresses),
        "link set lo up",
        *([f"link set {end.device} mtu {mtu}"] if mtu else []),
        f"link set {end.device} up",
        namespace=end.namespace,
    )
    await settle(end)


def may_make_namespaces() -> str | None:
    """Why this process may not make network namespaces; None: it may."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        # CAP_SYS_ADMIN (21) for the namespace and its mount, CAP_NET_ADMIN (12) for what is in it.
        if line.startswith("CapEff:") and (~int(line.split()[1], 16) & (1 << 21 | 1 << 12)):
            return "iodyno does not run as root (it lacks CAP_SYS_ADMIN or CAP_NET_ADMIN)"
    try:
        subprocess.run(["ip", "-V"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "there is no `ip` command (Debian: apt-get install iproute2)"
    if not _own_mounts():
        return "iodyno runs as root of a user namespace only, whose mounts are another one's (unshare -m has its own)"
    if _FOLDER.is_dir() and not os.access(_FOLDER, os.W_OK):
        return f"{_FOLDER} cannot be written"
    return None


def _own_mounts() -> bool:
    """Tell whether this process' rights hold for its mounts, where the names of namespaces are: as root of a user namespace
    they do not for the mounts of another one (ioctl_nsfs(2), NS_GET_USERNS).
    """
    try:
        with Path("/proc/self/ns/mnt").open("rb") as mounts:
            os.close(fcntl.ioctl(mounts, _NS_GET_USERNS))
    except PermissionError:
        return False
    except OSError:
        pass  # a kernel that cannot tell
    return True


def leftovers() -> list[str]:
    """Names of the namespaces of labs that are gone."""
    named = [entry.name for entry in sorted(_FOLDER.iterdir())] if _FOLDER.is_dir() else []
    matches = filter(None, map(_NAMES.fullmatch, named))
    return [match[0] for match in matches if run_folder.is_gone(match[1])]


def remove_leftovers() -> list[str]:
    """Removes the namespaces of labs that are gone; returns the names of those that are gone now, too."""
    found = leftovers()
    for name in found:
        _remove(name)
    return [name for name in found if not (_FOLDER / name).exists()]


def steering(device: str = DEVICE) -> str:
    """The file that says which CPUs work on what the device receives."""
    return f"/sys/class/net/{device}/queues/rx-0/rps_cpus"


async def receive_on(end: VethEnd, device: str) -> bool:
    """Has what another device of this end receives worked on by its own CPUs; whether the kernel took that."""
    asked, file = _mask(end.cpus), steering(device)
    found = await _inside(end.namespace, f"echo '{asked}' > {file} 2>/dev/null; {_read_back(file)}")
    return found.get(file, "").replace("00000000,", "").lstrip("0,") == asked


def plain(role: str) -> str:
    """The name of a host as a part of the name of a namespace."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", role)[:40]


def _mask(cpus: Sequence[int]) -> str:
    """A CPU mask as sysfs writes it: hexadecimal words of 32 bits, the highest first."""
    bits = sum(1 << cpu for cpu in set(cpus))
    words = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(bits.bit_length(), 1), 32)]
    return ",".join(reversed(words)).lstrip("0,") or "0"


async def settle(end: VethEnd) -> None:
    """Asks for every setting inside the namespace, reads all of them back."""
    files = {f"/proc/sys/{key.replace('.', '/')}": key for key in SYSCTLS}
    found = await _inside(end.namespace, "\n".join(_read_back(path) for path in files))
    asked = {path: _asked(SYSCTLS[key], found.get(path)) for path, key in files.items()}
    asked[steering(end.device)] = _mask(end.cpus)
    script = "\n".join(
        f"echo '{value}' > {path} 2>/dev/null; {_read_back(path)}" for path, value in asked.items() if value
    )
    obtained = await _inside(end.namespace, script)
    for path, value in asked.items():
        got = obtained.get(path)
        if path == steering(end.device) and got is not None:
            got = got.replace("00000000,", "").lstrip("0,") or "0"
        end.settings[files.get(path, path)] = {"asked": value, "obtained": got}


def _asked(rule: str, found: str | None) -> str | None:
    """A value for a setting that now holds `found`; None: this kernel does not have it in a namespace."""
    if found is None:
        return None
    fields = []
    for want, have in zip(rule.split(), found.split(), strict=False):
        if want.startswith("+"):
            fields.append(str(max(int(want), int(have))))
        else:
            fields.append(have if want == "=" else want)
    return " ".join(fields)


def _read_back(path: str) -> str:
    return f"[ -r {path} ] && echo {path} $(cat {path})"


async def _inside(namespace: str, script: str) -> dict[str, str]:
    said = await ip("netns", "exec", namespace, "sh", "-c", script + "\ntrue")
    return {line.split()[0]: " ".join(line.split()[1:]) for line in said.splitlines() if line.strip()}


async def ip(*arguments: str, said: bytes = b"") -> str:
    """Return the output of `ip`, told `said` on its stdin. Raises AccessError when it refuses."""
    process = await asyncio.create_subprocess_exec(
        "ip",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    answer, complaint = await answer_of(process, ("ip", *arguments), said)
    if process.returncode != 0:
        raise AccessError(
            f"the kernel refused: {complaint.decode(errors='replace').strip() or process.returncode}",
            where=f"`ip {' '.join(arguments[:8])}`",
            advice="run as root of a machine that may make network namespaces, or use access: local",
        )
    return answer.decode(errors="replace")


async def ip_batch(*lines: str, namespace: str = "") -> None:
    """Has one `ip` carry out all lines, in `namespace` or where the lab is. Raises AccessError at the first that it refuses."""
    await ip(*(("-n", namespace) if namespace else ()), "-batch", "-", said="\n".join(lines).encode())


async def is_gone(end: VethEnd) -> bool:
    """Tell whether somebody has removed the end's device. The namespace's loopback device cannot be."""
    try:
        await ip("-n", end.namespace, "link", "show", "dev", end.device)
    except AccessError as error:
        return "does not exist" in error.what
    return False


def _remove(namespace: str) -> None:
    # Synchronous on purpose: this also runs while the event loop is being stopped by a signal.
    subprocess.run(
        ["ip", "netns", "delete", namespace], capture_output=True, check=False, start_new_session=True
    )
