"""An independent meter: bytes on the receiving device and busy CPU time, read from outside both tools.

Both sides of a comparison are measured by this meter over a span of the same length in the middle of their load, so
that neither tool's idea of a second, a byte or a window matters.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Metered:
    """What moved and what it took, over `span_s` seconds."""

    bytes: int
    busy_s: float
    span_s: float

    @property
    def gbit_per_s(self) -> float:
        """Rate on the receiving device, headers included."""
        return self.bytes * 8 / self.span_s / 1e9

    @property
    def cpu_s_per_gb(self) -> float:
        """Busy seconds of all CPUs, both ends, per 10^9 bytes."""
        return self.busy_s / self.bytes * 1e9 if self.bytes else float("nan")


def received_bytes(namespace: str, device: str) -> int:
    """Bytes that the device of a namespace has received."""
    path = f"/sys/class/net/{device}/statistics/rx_bytes"
    shown = subprocess.run(
        ["ip", "netns", "exec", namespace, "cat", path], capture_output=True, text=True, check=True
    )
    return int(shown.stdout)


def idle_s() -> float:
    """Idle seconds of all CPUs since boot; idle is kept exactly by the kernel, unlike the split of busy time."""
    with open("/proc/stat", encoding="ascii") as stat:  # noqa: PTH123 - one read, no path arithmetic
        fields = stat.readline().split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def measure(namespace: str, device: str, span_s: float) -> Metered:
    """Watches for `span_s` seconds."""
    cpus = os.cpu_count() or 1
    began, idle, moved = time.monotonic(), idle_s(), received_bytes(namespace, device)
    time.sleep(span_s)
    moved = received_bytes(namespace, device) - moved
    idle, took = idle_s() - idle, time.monotonic() - began
    return Metered(bytes=moved, busy_s=took * cpus - idle, span_s=took)
