"""Peers that a comparison starts between two namespaces: client and server each on their own CPU.

Peers from Debian are taken from the path; others by the program that an environment variable names (`IODYNO_NEPER` the
folder of neper's programs).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import iperf3
from bench.iperf3 import Pair

_START_S = 0.4
"""How long a server has to listen before its clients come. chosen: ten times what the slowest takes on an idle CPU."""
_SPARE_S = 30.0
"""How much longer than told a client may take before the comparison fails."""


def _inside(pair: Pair, end: str) -> list[str]:
    name, cpu = (pair.client, pair.client_cpu) if end == "client" else (pair.server, pair.server_cpu)
    return ["ip", "netns", "exec", name, "taskset", "-c", str(cpu)]


@contextlib.contextmanager
def _running(
    pair: Pair, end: str, commands: Sequence[Sequence[str]]
) -> Iterator[list[subprocess.Popen[str]]]:
    """Programs at one end; those that are left when the block ends are ended."""
    started: list[subprocess.Popen[str]] = []
    try:
        for command in commands:
            started.append(
                subprocess.Popen(
                    [*_inside(pair, end), *command],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        yield started
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.communicate(timeout=10)


@contextlib.contextmanager
def nuttcp(pair: Pair, connections: int, size: int, seconds: float) -> Iterator[None]:
    """nuttcp sends for `seconds`: one process, which takes its streams in turn."""
    client = ["nuttcp", "-t", f"-N{connections}", f"-l{size}", f"-T{seconds:.1f}", pair.address]
    with _running(pair, "server", [["nuttcp", "-S", "--nofork"]]):
        time.sleep(_START_S)
        with _running(pair, "client", [client]) as clients:
            yield
            clients[0].wait(seconds + _SPARE_S)


@contextlib.contextmanager
def iperf3_bulk(pair: Pair, connections: int, size: int, seconds: float) -> Iterator[None]:
    """iperf3 as the other comparisons have it."""
    with iperf3.load(pair, connections, size, seconds, None):
        yield


@contextlib.contextmanager
def neper_bulk(pair: Pair, connections: int, size: int, seconds: float) -> Iterator[None]:
    """neper's tcp_stream with one thread, without MSG_MORE, as the others send."""
    program = str(Path(os.environ["IODYNO_NEPER"]) / "tcp_stream")
    common = [program, f"-F{connections}", "-T1", f"-B{size}", f"-l{seconds:.0f}"]
    with _running(pair, "server", [common]):
        time.sleep(_START_S)
        with _running(pair, "client", [[*common, "-c", "-H", pair.address]]) as clients:
            yield
            clients[0].wait(seconds + _SPARE_S)


Bulk = Callable[[Pair, int, int, float], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True)
class BulkPeer:
    """A generator of bulk TCP."""

    load: Bulk
    most_connections: int
    found: Callable[[], bool]


def _installed(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


BULK: Mapping[str, BulkPeer] = {
    # iperf3 has a fixed limit of 128 streams.
    "iperf3": BulkPeer(iperf3_bulk, 128, _installed("iperf3")),
    # nuttcp has one of 128, too, and holds all streams in one process.
    "nuttcp": BulkPeer(nuttcp, 128, _installed("nuttcp")),
    "neper": BulkPeer(neper_bulk, 10_000, lambda: "IODYNO_NEPER" in os.environ),
}
"""Every peer for bulk TCP."""


def sockperf(pair: Pair, flows: int, size: int, seconds: float) -> float:
    """Exchanges a second over TCP: one client process a flow, one server with epoll."""
    server = ["sockperf", "server", "--tcp", "-i", pair.address, "-p", "11111"]
    client = ["sockperf", "ping-pong", "--tcp", "-i", pair.address, "-p", "11111", "-m", str(max(size, 14))]
    total = 0.0
    with _running(pair, "server", [server]):
        time.sleep(_START_S)
        with _running(pair, "client", [[*client, "-t", f"{seconds:.0f}"]] * flows) as clients:
            for process in clients:
                said, _ = process.communicate(timeout=seconds + _SPARE_S)
                found = re.search(
                    r"Valid Duration\] RunTime=([\d.]+) sec; SentMessages=\d+; ReceivedMessages=(\d+)", said
                )
                if found is None:
                    raise RuntimeError(f"sockperf said: {said[-400:]}")
                total += int(found[2]) / float(found[1])
    return total


def qperf(pair: Pair, flows: int, size: int, seconds: float) -> float:
    """Exchanges a second over TCP: one client process a flow; its latency is half an exchange."""
    client = ["qperf", pair.address, "-t", f"{seconds:.0f}", "-m", str(size), "-u", "-vv", "tcp_lat"]
    total = 0.0
    with _running(pair, "server", [["qperf"]]):
        time.sleep(_START_S)
        with _running(pair, "client", [client] * flows) as clients:
            for process in clients:
                said, _ = process.communicate(timeout=seconds + _SPARE_S)
                found = re.search(r"latency\s*=\s*([\d.]+) (ns|us|ms)", said)
                if found is None:
                    raise RuntimeError(f"qperf said: {said[-400:]}")
                total += 0.5 / (float(found[1]) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[found[2]])
    return total


@dataclass(frozen=True)
class ExchangePeer:
    """A generator of requests and answers, which counts them itself."""

    rate: Callable[[Pair, int, int, float], float]
    most_flows: int
    found: Callable[[], bool]


EXCHANGES: Mapping[str, ExchangePeer] = {
    "sockperf": ExchangePeer(sockperf, 64, _installed("sockperf")),
    # Its server serves one client at a time.
    "qperf": ExchangePeer(qperf, 1, _installed("qperf")),
}
"""Every peer for requests and answers over TCP."""
