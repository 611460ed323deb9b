"""Peers that a comparison starts between two namespaces: client and server each on their own CPU.

Peers from Debian are taken from the path; others by the program that an environment variable names (`IODYNO_NEPER` the
folder of neper's programs).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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


_MOST_STREAMS = 128
"""Streams of one process of iperf3, and of nuttcp. Those of iperf3 are divided between several, each with its port."""
_PORT = 15_201


def _parts(connections: int) -> list[int]:
    """Connections of each process.

    >>> _parts(1000), _parts(4)
    ([125, 125, 125, 125, 125, 125, 125, 125], [4])
    """
    processes = -(-connections // _MOST_STREAMS)
    return [connections * (n + 1) // processes - connections * n // processes for n in range(processes)]


def _read(pair: Pair, *files: str) -> str:
    """Files of the server's namespace, one after the other."""
    command = ["ip", "netns", "exec", pair.server, "cat", *files]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _await(what: str, done: Callable[[], bool]) -> None:
    """Waits until it is so; on a busy machine that takes seconds. Raises RuntimeError where it never is."""
    until = time.monotonic() + _SPARE_S
    while not done():
        if time.monotonic() > until:
            raise RuntimeError(f"{what} within {_SPARE_S:.0f} s")
        time.sleep(0.05)


def _listening(pair: Pair, ports: Iterable[int]) -> bool:
    """Whether somebody in the server's namespace waits at each of these ports, over TCP or UDP (proc_net(5))."""
    lines = _read(pair, *(f"/proc/net/{name}" for name in ("tcp", "tcp6", "udp", "udp6"))).splitlines()
    fields = [line.split() for line in lines]
    # 0A: a TCP socket that listens; 07: one of UDP that is not connected.
    open_ones = {int(f[1].rpartition(":")[2], 16) for f in fields if len(f) > 3 and f[3] in ("0A", "07")}
    return open_ones.issuperset(ports)


def _sockets(pair: Pair) -> int:
    """TCP sockets of the server's namespace."""
    # A peer that listens for both versions of IP has its sockets counted as those of version 6.
    said = _read(pair, "/proc/net/sockstat", "/proc/net/sockstat6")
    return sum(int(count) for count in re.findall(r"^TCP6?: inuse (\d+)", said, re.MULTILINE))


@contextlib.contextmanager
def _served(
    pair: Pair,
    servers: Sequence[Sequence[str]],
    clients: Sequence[Sequence[str]],
    connections: int,
) -> Iterator[None]:
    """Clients send; the block runs once all connections are up, and ends them."""
    with _running(pair, "server", servers):
        _await("no server listened", lambda: _listening(pair, range(_PORT, _PORT + len(servers))))
        with _running(pair, "client", clients) as running:
            _await(
                "not all connections came up",
                lambda: _sockets(pair) >= connections or any(process.poll() for process in running),
            )
            _failed(running)
            yield
            _failed(running)


def _failed(running: Sequence[subprocess.Popen[str]]) -> None:
    """Raises RuntimeError with the words of a program that has ended with a failure."""
    for process in running:
        if process.poll():
            said, _ = process.communicate()
            raise RuntimeError(f"it ended with {process.returncode}: {said[-300:]}")


@contextlib.contextmanager
def nuttcp(pair: Pair, connections: int, size: int, seconds: float) -> Iterator[None]:
    """nuttcp sends for `seconds`: one process, which takes its streams in turn."""
    if connections > _MOST_STREAMS:
        raise RuntimeError(
            f"nuttcp has {_MOST_STREAMS} streams at most, and data ports that no two of it can share"
        )
    server = ["nuttcp", "-S", "--nofork", f"-P{_PORT}"]
    client = ["nuttcp", "-t", f"-P{_PORT}", f"-N{connections}", f"-l{size}", f"-T{seconds:.1f}", pair.address]
    with _served(pair, [server], [client], connections):
        yield


@contextlib.contextmanager
def iperf3_bulk(pair: Pair, connections: int, size: int, seconds: float) -> Iterator[None]:
    """iperf3 as the other comparisons have it: one process for up to 128 streams."""
    servers, clients = [], []
    for number, streams in enumerate(_parts(connections)):
        servers.append(["iperf3", "-s", "-1", "-p", str(_PORT + number)])
        client = [
            "iperf3",
            "-c",
            pair.address,
            "-p",
            str(_PORT + number),
            "-P",
            str(streams),
            "-l",
            str(size),
        ]
        # The first must not be done before the last has begun.
        clients.append([*client, "-t", f"{seconds + 2.0 * len(servers):.1f}"])
    with _served(pair, servers, clients, connections):
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
    found: Callable[[], bool]


def _installed(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


BULK: Mapping[str, BulkPeer] = {
    "iperf3": BulkPeer(iperf3_bulk, _installed("iperf3")),
    "nuttcp": BulkPeer(nuttcp, _installed("nuttcp")),
    "neper": BulkPeer(neper_bulk, lambda: "IODYNO_NEPER" in os.environ),
}
"""Every peer for bulk TCP."""

# Below the ports that the namespaces give to connections (from 1024 on), and each peer has its own: what qperf leaves in
# TIME-WAIT keeps sockperf from listening there.
_RR_PORT, _QPERF_PORT = 400, 600
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0}


def _sums(
    pair: Pair,
    servers: Sequence[Sequence[str]],
    clients: Sequence[Sequence[str]],
    seconds: float,
    rate_of: Callable[[str], float],
    ports: Sequence[int],
) -> float:
    """The sum of what all clients say of themselves, by `rate_of`, once the servers wait at their ports."""
    with _running(pair, "server", servers) as serving:
        _await(
            "no server listened",
            lambda: _listening(pair, ports) or any(process.poll() for process in serving),
        )
        _failed(serving)
        with _running(pair, "client", clients) as running:
            return sum(rate_of(process.communicate(timeout=seconds + _SPARE_S)[0]) for process in running)


def _found(pattern: str, said: str, who: str) -> re.Match[str]:
    found = re.search(pattern, said)
    if found is None:
        raise RuntimeError(f"{who} said: {said[-300:]}")
    return found


def sockperf(pair: Pair, transport: str, flows: int, size: int, seconds: float) -> float:
    """Exchanges a second: a client process a flow, each with a socket of its own at one server with epoll.

    A client of sockperf that is told of several sockets has one exchange in flight over all of them.
    """
    tcp = ["--tcp"] if transport == "tcp" else []

    def rate_of(said: str) -> float:
        pattern = r"Valid Duration\] RunTime=([\d.]+) sec; SentMessages=\d+; ReceivedMessages=(\d+)"
        found = _found(pattern, said, "sockperf")
        return int(found[2]) / float(found[1])

    ports = range(_RR_PORT, _RR_PORT + flows)
    # Its messages have 14 bytes at least.
    common = [
        "sockperf",
        "ping-pong",
        *tcp,
        "-i",
        pair.address,
        "-m",
        str(max(size, 14)),
        "-t",
        f"{seconds:.0f}",
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".feed") as feed:
        feed.writelines(f"{transport[0].upper()}:{pair.address}:{port}\n" for port in ports)
        feed.flush()
        server = ["sockperf", "server", "-f", feed.name, "-F", "epoll"]
        if flows == 1:
            server = ["sockperf", "server", *tcp, "-i", pair.address, "-p", str(_RR_PORT)]
        return _sums(pair, [server], [[*common, "-p", str(port)] for port in ports], seconds, rate_of, ports)


def qperf(pair: Pair, transport: str, flows: int, size: int, seconds: float) -> float:
    """Exchanges a second: a client and a server a flow, as a server serves one client; a latency is half an exchange."""

    def rate_of(said: str) -> float:
        found = _found(r"latency\s*=\s*([\d.,]+) (ns|us|ms|sec)", said, "qperf")
        return 0.5 / (float(found[1].replace(",", "")) * _UNITS[found[2]])

    ports = range(_QPERF_PORT, _QPERF_PORT + flows)
    told = ["-t", f"{seconds:.0f}", "-m", str(size), "-u", "-vv", f"{transport}_lat"]
    clients = [["qperf", pair.address, "-lp", str(port), *told] for port in ports]
    return _sums(pair, [["qperf", "-lp", str(port)] for port in ports], clients, seconds, rate_of, ports)


@dataclass(frozen=True)
class ExchangePeer:
    """A generator of requests and answers, which counts them itself."""

    rate: Callable[[Pair, str, int, int, float], float]
    found: Callable[[], bool]


EXCHANGES: Mapping[str, ExchangePeer] = {
    "sockperf": ExchangePeer(sockperf, _installed("sockperf")),
    "qperf": ExchangePeer(qperf, _installed("qperf")),
}
"""Every peer for requests and answers, over TCP and UDP."""


def iperf3_datagrams(pair: Pair, size: int, seconds: float) -> float:
    """Datagrams sent a second from one socket, as fast as it can."""
    server = ["iperf3", "-s", "-1", "-p", str(_PORT)]
    client = ["iperf3", "-u", "-b", "0", "-l", str(size), "-t", f"{seconds:.1f}", "-c", pair.address, "-J"]

    def rate_of(said: str) -> float:
        try:
            total = json.loads(said)["end"]["sum"]
        except (ValueError, KeyError):
            raise RuntimeError(f"iperf3 said: {said[-300:]}") from None
        return float(total["packets"]) / float(total["seconds"])

    return _sums(pair, [server], [[*client, "-p", str(_PORT)]], seconds, rate_of, [_PORT])


def nuttcp_datagrams(pair: Pair, size: int, seconds: float) -> float:
    """Datagrams sent a second from one socket, as fast as it can."""
    server = ["nuttcp", "-S", "--nofork", f"-P{_PORT}"]
    client = ["nuttcp", "-u", "-Ru", f"-l{size}", f"-T{seconds:.1f}", f"-P{_PORT}", "-fparse", pair.address]

    def rate_of(said: str) -> float:
        return int(_found(r"pkt=(\d+)", said, "nuttcp")[1]) / seconds

    return _sums(pair, [server], [client], seconds, rate_of, [_PORT])


def sockperf_datagrams(pair: Pair, size: int, seconds: float) -> float:
    """Datagrams sent a second from one socket, as fast as it can."""
    server = ["sockperf", "server", "-i", pair.address, "-p", str(_RR_PORT)]
    client = ["sockperf", "throughput", "-i", pair.address, "-p", str(_RR_PORT), "-m", str(size)]

    def rate_of(said: str) -> float:
        return float(_found(r"Message Rate is (\d+)", said, "sockperf")[1])

    return _sums(pair, [server], [[*client, "-t", f"{seconds:.0f}"]], seconds, rate_of, [_RR_PORT])


@dataclass(frozen=True)
class DatagramPeer:
    """A generator of datagrams one way, which counts those that it sent."""

    rate: Callable[[Pair, int, float], float]
    found: Callable[[], bool]


DATAGRAMS: Mapping[str, DatagramPeer] = {
    "iperf3": DatagramPeer(iperf3_datagrams, _installed("iperf3")),
    "nuttcp": DatagramPeer(nuttcp_datagrams, _installed("nuttcp")),
    "sockperf": DatagramPeer(sockperf_datagrams, _installed("sockperf")),
}
"""Every peer for datagrams one way."""
