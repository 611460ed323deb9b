"""A delay between two network namespaces: a program that holds every packet for a fixed time, both ways.

It has a tunnel device in each namespace (Documentation/networking/tuntap.rst). Segments stay as large as the sender made
them (the devices take segmentation offload), so that a few thousand packets a second carry gigabits. The program lives
as long as its stdin is open, and tells on stdout, when it ends, how many packets it held, for how long, and at what cost.

Run as a program it takes: the delay in ns, the two namespaces.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import fcntl
import json
import os
import select
import struct
import sys
import time
from pathlib import Path
from typing import Any

DEVICE = "delay0"
_TUN = "/dev/net/tun"
_NAMESPACES = Path("/run/netns")

# linux/if_tun.h, linux/virtio_net.h, sched.h
_TUNSETIFF, _TUNSETOFFLOAD, _TUNSETVNETHDRSZ = 0x400454CA, 0x400454D0, 0x400454D8
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_OFFLOAD_CHECKSUM, _OFFLOAD_TSO4, _OFFLOAD_TSO6 = 0x01, 0x02, 0x04
_HEADER_BYTES = 10
_CLONE_NEWNET = 0x40000000
_PACKET_BYTES = 65_536 + 256
_BATCH = 64
_HELD_MAX_BYTES = 256 << 20
"""Chosen: 2 Gbit/s for a second. What is more is dropped, and counted."""


def unavailable() -> str | None:
    """Why this machine has no tunnel devices; None: it has."""
    if not Path(_TUN).exists():
        return f"there is no {_TUN} (modprobe tun)"
    return None if os.access(_TUN, os.R_OK | os.W_OK) else f"{_TUN} may not be opened"


class Delay:
    """Packets on their way from one device to the other, in the order in which they came."""

    def __init__(self, source: int, sink: int, delay_ns: int) -> None:
        self.source, self.sink, self._delay_ns = source, sink, delay_ns
        self._held: collections.deque[tuple[int, bytes]] = collections.deque()
        self._held_bytes = 0
        self.packets = self.bytes = self.dropped = self.held_ns = self.late_most_ns = 0

    @property
    def due_ns(self) -> int | None:
        """Time at which the first of them is to be let go; None: there is none."""
        return self._held[0][0] if self._held else None

    def take(self) -> None:
        """Takes in what is there, a batch at most."""
        for _ in range(_BATCH):
            try:
                packet = os.read(self.source, _PACKET_BYTES)
            except BlockingIOError:
                return
            if self._held_bytes + len(packet) > _HELD_MAX_BYTES:
                self.dropped += 1
                continue
            self._held.append((time.monotonic_ns() + self._delay_ns, packet))
            self._held_bytes += len(packet)

    def let_go(self) -> None:
        """Hands on what was held long enough."""
        now_ns = time.monotonic_ns()
        while self._held and self._held[0][0] <= now_ns:
            due_ns, packet = self._held.popleft()
            self._held_bytes -= len(packet)
            try:
                os.write(self.sink, packet)
            except OSError:
                # The device is going down, or has no room: a packet may be lost on any path.
                self.dropped += 1
                continue
            late_ns = now_ns - due_ns
            self.packets += 1
            self.bytes += len(packet) - _HEADER_BYTES
            self.held_ns += self._delay_ns + late_ns
            self.late_most_ns = max(self.late_most_ns, late_ns)


def hold(devices: tuple[int, int], delay_ns: int) -> dict[str, Any]:
    """Relays until stdin ends; gives counts, times in ns, and the CPU time that it took."""
    ways = (Delay(devices[0], devices[1], delay_ns), Delay(devices[1], devices[0], delay_ns))
    stdin = sys.stdin.fileno()
    began_ns = time.monotonic_ns()
    while True:
        due = [way.due_ns for way in ways if way.due_ns is not None]
        wait_s = max(0, min(due) - time.monotonic_ns()) / 1e9 if due else None
        readable, _, _ = select.select([stdin, *devices], [], [], wait_s)
        if stdin in readable and not os.read(stdin, 1):
            break
        for way in ways:
            if way.source in readable:
                way.take()
            way.let_go()
    packets = sum(way.packets for way in ways)
    return {
        "packets": packets,
        "bytes": sum(way.bytes for way in ways),
        "dropped": sum(way.dropped for way in ways),
        "held_mean_ns": sum(way.held_ns for way in ways) // packets if packets else None,
        "late_most_ns": max(way.late_most_ns for way in ways),
        "cpu_ns": time.process_time_ns(),
        "wall_ns": time.monotonic_ns() - began_ns,
        "cpus": sorted(os.sched_getaffinity(0)),
        "realtime": os.sched_getscheduler(0) == os.SCHED_FIFO,
    }


def open_device(namespace: str) -> int:
    """A tunnel device in the namespace, that takes and gives segments of any size. Enters the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with (_NAMESPACES / namespace).open("rb") as entry:
        if libc.setns(entry.fileno(), _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), namespace)
    device = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
    flags = _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), flags))
    fcntl.ioctl(device, _TUNSETVNETHDRSZ, struct.pack("i", _HEADER_BYTES))
    fcntl.ioctl(device, _TUNSETOFFLOAD, _OFFLOAD_CHECKSUM | _OFFLOAD_TSO4 | _OFFLOAD_TSO6)
    return device


def main() -> None:
    """The program."""
    delay_ns, first, second = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    devices = (open_device(first), open_device(second))
    with contextlib.suppress(PermissionError):
        # A late delay line is another delay line. It rests but for microseconds, and so takes nobody's CPU for long.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdout.write(json.dumps(hold(devices, delay_ns)) + "\n")


if __name__ == "__main__":
    main()
