"""iperf3 between two namespaces, client and server each on their own CPU."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """Where a comparison runs: two namespaces, their CPUs, and the server's address and device."""

    client: str
    server: str
    client_cpu: int
    server_cpu: int
    address: str
    device: str


@contextlib.contextmanager
def load(pair: Pair, connections: int, size: int, seconds: float, window: int | None) -> Iterator[None]:
    """iperf3 sends for `seconds`; the block runs while it does."""
    inside = lambda name, cpu: ["ip", "netns", "exec", name, "taskset", "-c", str(cpu), "iperf3"]  # noqa: E731
    server = subprocess.Popen(
        [*inside(pair.server, pair.server_cpu), "-s", "-1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    time.sleep(0.3)
    options = ["-c", pair.address, "-P", str(connections), "-l", str(size), "-t", str(seconds)]
    if window:
        options += ["-w", str(window)]
    client = subprocess.Popen(
        [*inside(pair.client, pair.client_cpu), *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        yield
        client.wait(seconds + 20)
    finally:
        for process in (client, server):
            process.terminate()
            _, said = process.communicate(timeout=10)
            if process is client and process.returncode not in (0, -15):
                raise RuntimeError(f"iperf3 failed: {said.decode()}")
