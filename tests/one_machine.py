"""A machine of several CPUs on two NUMA nodes, with adapters and disks that have many queues: QEMU and Debian's full kernel.

Its programs are this machine's, whose file system it sees; what it writes is in its memory. It is reached over a device of its
own, so that those that tests change may go away.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from iodyno.core.errors import AccessError
from iodyno.hosts import guest
from iodyno.hosts.access import AgentProgram, AgentStreams, Reached, spawn
from iodyno.paths.veth import namespace_prefix

FOLDER = guest.FOLDER.parent / "machine"
NEAR, FAR = "10.0.1.2", "10.0.2.2"
"""Addresses of its devices of several queues (node 1) and the device by which it is reached (node 0)."""
VMXNET3, E1000E = "10.0.3.1", "10.0.3.2"
"""Addresses of two adapters that are joined with each other; the second is in the machine's namespace `other`."""
BOOT_S = 240.0
"""Chosen: some ten times what it takes on an idle machine."""
_MEMORY_MIB = 1024
_DISK_MIB = 64
_CONTROL_PORT = 7000
_MAC = "52:54:00:00:00"
_NAMED = {"01": "data", "02": "control", "03": "vmxnet3", "04": "e1000e"}
"""Devices of it, by the last part of their hardware addresses."""
_FIRST = (
    *("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci"),
    *("9pnet", "9pnet_virtio", "netfs", "fscache", "9p"),
)
"""Modules by which it sees this machine's files, with all others among them."""


def unavailable() -> str | None:
    """Why there is no such machine here; None: there may be one."""
    return guest.unavailable(FOLDER, _FIRST, "make machine")


class Machine:
    """One that is up. `namespace`: where its taps are on this machine."""

    def __init__(self, namespace: str, process: subprocess.Popen[bytes], console: Path) -> None:
        self.namespace = namespace
        self._process = process
        self._console = console

    def access(self, name: str, address: str, inside: str = "") -> MachineAccess:
        """A host on it, in a network namespace of its where `inside` names one."""
        return MachineAccess(self, name, address, inside)

    def said(self, script: str) -> str:
        """What a script says there."""
        relay = self.relay(f"{{ {script}\n}} 2>&1")
        return subprocess.run(
            relay, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        ).stdout

    def relay(self, script: str) -> list[str]:
        """The command that runs a script there, with its own stdin and stdout."""
        words = (sys.executable, "-c", _RELAY, FAR, str(_CONTROL_PORT), script)
        return ["ip", "netns", "exec", self.namespace, *words]

    @property
    def console(self) -> str:
        """What its kernel has said."""
        return self._console.read_text(errors="replace")

    def wait(self) -> None:
        """Waits until it answers."""
        end = time.monotonic() + BOOT_S
        while self._process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(subprocess.CalledProcessError):
                if self.said("echo up") == "up\n":
                    return
            time.sleep(0.2)
        raise AssertionError(f"the machine does not answer: {self.console[-4000:]}")


class MachineAccess:
    """Starts agents there."""

    def __init__(self, machine: Machine, name: str, address: str, inside: str) -> None:
        self.name = name
        self.reached = Reached(address=address, hello_timeout_s=90.0)
        self._machine = machine
        self._inside = f"ip netns exec {inside} " if inside else ""

    async def start(self, program: AgentProgram, command: str = "serve") -> AgentStreams:
        script = f"exec {self._inside}/host{program.path} {command} 2>/dev/console"
        return await spawn(self._machine.relay(script))

    def trouble(self, status: int, said: str) -> AccessError:
        return AccessError(f"exit status {status}: {said} {self._machine.console[-2000:]}", where=self.name)

    async def close(self) -> None:
        pass


_RELAY = """
import os, socket, sys, threading
other = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30)
other.settimeout(None)
other.sendall(sys.argv[3].encode().replace(b"\\n", b"\\r") + b"\\n")
def there():
    while data := os.read(0, 1 << 16):
        other.sendall(data)
    other.shutdown(socket.SHUT_WR)
threading.Thread(target=there, daemon=True).start()
while data := other.recv(1 << 16):
    while data:
        data = data[os.write(1, data):]
"""
"""Between stdin and stdout and a program there: the first line says which."""


@contextlib.contextmanager
def booted(folder: Path) -> Iterator[Machine]:
    """One that is up, from its boot to its end. `folder` is for its files."""
    namespace = f"{namespace_prefix()}-machine"
    (folder / "initrd").write_bytes(guest.archive(None, _script(), _FIRST, FOLDER))
    for disk in ("nvme", "virtio"):
        with (folder / disk).open("wb") as file:
            file.truncate(_DISK_MIB << 20)
    inside = ("ip", "netns", "exec", namespace)
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        taps = (
            "ip tuntap add dev data mode tap vnet_hdr multi_queue; ip tuntap add dev control mode tap vnet_hdr",
            "ip address add 10.0.1.1/24 dev data; ip address add 10.0.2.1/24 dev control",
            "ip link set lo up; ip link set data up; ip link set control up",
        )
        subprocess.run([*inside, "sh", "-ec", "\n".join(taps)], check=True)
        command = ["setpriv", "--pdeathsig", "KILL", *inside, *map(str, _machine(folder))]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                machine = Machine(namespace, process, folder / "console")
                machine.wait()
                yield machine
            finally:
                process.kill()
    finally:
        subprocess.run(["ip", "netns", "delete", namespace], check=True)


def _machine(folder: Path) -> list[str | Path]:
    """QEMU's command line. A bus of its own tells the kernel which node a device is attached to."""
    half = f"{_MEMORY_MIB // 2}M"
    # One thread translates for all: several hang where one changes an instruction that another carries out, as the kernel does
    # when programs are attached to tracepoints.
    words: list[str | Path] = [
        guest.QEMU,
        "-accel",
        "tcg,thread=single,tb-size=192",
        "-cpu",
        "max",
        "-machine",
        "q35",
    ]
    words += ["-m", f"{_MEMORY_MIB}M", "-smp", "4,sockets=2,cores=2"]
    for node, cpus in enumerate(("0-1", "2-3")):
        words += ["-object", f"memory-backend-ram,id=memory{node},size={half}"]
        words += ["-numa", f"node,nodeid={node},memdev=memory{node},cpus={cpus}"]
    words += ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none"]
    words += [
        "-serial",
        f"file:{folder / 'console'}",
        "-kernel",
        FOLDER / "vmlinuz",
        "-initrd",
        folder / "initrd",
    ]
    words += ["-append", "console=ttyS0 quiet panic=-1 net.ifnames=0"]
    for node in range(2):
        words += ["-device", f"pxb-pcie,id=bus{node},bus_nr={64 * node + 64},numa_node={node},bus=pcie.0"]
    taps = {"data": "queues=4", "control": "queues=1"}
    for name, queues in taps.items():
        words += ["-netdev", f"tap,id={name},ifname={name},{queues},script=no,downscript=no,vhost=off"]
    for port in range(2):
        words += ["-netdev", f"hubport,id=hub{port},hubid=0"]
    for kind in ("nvme", "virtio"):
        words += ["-drive", f"file={folder / kind},format=raw,if=none,id={kind}"]
    words += ["-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"]
    devices = (
        (1, f"virtio-net-pci,netdev=data,mq=on,rss=on,hash=on,vectors=10,mac={_MAC}:01"),
        (0, f"virtio-net-pci,netdev=control,mac={_MAC}:02"),
        (0, f"vmxnet3,netdev=hub0,mac={_MAC}:03"),
        (1, f"e1000e,netdev=hub1,mac={_MAC}:04"),
        (1, "nvme,drive=nvme,serial=nvme,max_ioqpairs=4"),
        (0, "virtio-blk-pci,drive=virtio,num-queues=4"),
        (0, "virtio-9p-pci,fsdev=host,mount_tag=host"),
    )
    for number, (node, device) in enumerate(devices):
        words += ["-device", f"pcie-root-port,id=port{number},bus=bus{node},chassis={number},port={number}"]
        words += ["-device", f"{device},bus=port{number}"]
    return words


def _script() -> str:
    """Takes this machine's programs for its own, loads what its devices need, names them, and serves until it is ended."""
    first = (
        *guest.boot(_FIRST),
        "$b mkdir -p /host /run /etc /root /lib /var/tmp; $b chmod 1777 /tmp /var/tmp",
        "$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /host",
        f"$b ln -s /host{FOLDER}/lib/modules /host/usr/lib/x86_64-linux-gnu /lib",
        "$b ln -s /host/usr /host/usr/lib64 /host/usr/sbin /; $b ln -s /host/etc/ld.so.cache /etc",
        "$b mount -t cgroup2 none /sys/fs/cgroup && echo +cpu >/sys/fs/cgroup/cgroup.subtree_control",
        "for name in virtio_net virtio_blk vmxnet3 e1000e; do $b modprobe $name; done; $b modprobe nvme poll_queues=1",
        # A shell of its own: this one takes the commands that it has in itself for those of iproute2.
        "$b ln -s /usr/bin/dash /bin/sh; $b cat >/later <<'later'",
    )
    later = (
        "export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
        # Adapters have no names of their own before there is udev.
        "named() { for at in /sys/class/net/*; do [ $(cat $at/address) = $1 ] && ip link set ${at##*/} name $2; done; }",
        *(f"named {_MAC}:{number} {name}" for number, name in _NAMED.items()),
        f"ip address add {FAR}/24 dev control; ip link set control up",
        f"ip address add {NEAR}/24 dev data; ip link set data up",
        f"ip address add {VMXNET3}/24 dev vmxnet3; ip link set vmxnet3 up",
        "ip netns add other; ip link set e1000e netns other",
        f"ip -n other link set lo up; ip -n other address add {E1000E}/24 dev e1000e; ip -n other link set e1000e up",
        "until ip -n other link show e1000e | grep -q LOWER_UP; do sleep 0.1; done",
        'echo \'read -r line; eval "$(echo "$line" | tr "\\r" "\\n")"\' >/serve',
        f"/bin/busybox nc -ll -p {_CONTROL_PORT} -e /bin/sh /serve",
    )
    return "\n".join((*first, *later, "later", "exec /bin/sh /later", ""))
