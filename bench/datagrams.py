"""Datagrams beside sockperf, qperf, iperf3 and nuttcp, between the same two namespaces with the same pinning."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.ratio import paired
from bench.testbed import Pair, Trial, open_testbed, trial

SECONDS = 1.5
PORT = 11_111
FLOWS = (1, 16, 64)
RR = {"transport": "udp", "size": 64, "response_size": 64}
OURS_RR: dict[str, dict[str, Any]] = {
    "threads": {"engine": "threads"},
    "epoll": {"client_engine": "epoll", "server_engine": "recvfrom"},
    "recvmmsg": {"client_engine": "epoll", "server_engine": "recvmmsg", "batch": 64},
    "io_uring": {"engine": "io_uring"},
}
STREAM = {"transport": "udp", "connections": 1, "engine": "threads"}

LEAST_SENT = {"segments": 3.0, "packet_v2": 2.0, "packet_v3": 2.0, "xdp": 2.0}
"""Figures to reach, of the best peer's with plain sockets."""

Peer = Callable[[Pair, int], float]


@contextlib.contextmanager
def _server(pair: Pair, *command: str) -> Iterator[None]:
    """A peer's server in the foreground, on the server's CPU."""
    process = subprocess.Popen(
        [*pair.inside("server"), *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(0.4)
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


def _outputs(pair: Pair, commands: list[list[str]]) -> list[str]:
    """What the peer's clients print, all running at once on the client's CPU."""
    running = [
        subprocess.Popen(
            [*pair.inside("client"), *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]
    return [process.communicate(timeout=SECONDS + 30)[0] for process in running]


def sockperf(pair: Pair, flows: int) -> float:
    """Transactions per second: one client process a flow, as its own feed of several sockets takes turns."""
    client = [
        "sockperf",
        "ping-pong",
        "-i",
        pair.address,
        "-p",
        str(PORT),
        "-m",
        "64",
        "-t",
        str(round(SECONDS)),
    ]
    with _server(pair, "sockperf", "server", "-i", pair.address, "-p", str(PORT)):
        said = _outputs(pair, [client] * flows)
    found = [re.search(r"RunTime=([\d.]+) sec.*ReceivedMessages=(\d+)", text) for text in said]
    return sum(int(one[2]) / float(one[1]) for one in found if one)


def qperf(pair: Pair, flows: int) -> float:
    """Transactions per second of one flow: its latency is half of a transaction."""
    with _server(pair, "qperf"):
        (said,) = _outputs(
            pair, [["qperf", "-t", str(round(SECONDS)), "-m", "64", "-u", pair.address, "udp_lat"]]
        )
    found = re.search(r"latency\s*=\s*([\d.,]+)\s*(\w+)", said)
    if found is None or flows != 1:
        return 0.0
    return 0.5 / (float(found[1].replace(",", "")) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}[found[2]])


def iperf3(pair: Pair, size: int) -> float:
    """Datagrams sent per second."""
    with _server(pair, "iperf3", "-s", "-1", "-p", str(PORT)):
        client = [
            "iperf3",
            "-u",
            "-b",
            "0",
            "-l",
            str(size),
            "-t",
            str(SECONDS),
            "-c",
            pair.address,
            "-p",
            str(PORT),
            "-J",
        ]
        (said,) = _outputs(pair, [client])
    total = json.loads(said)["end"]["sum"]
    return float(total["packets"]) / float(total["seconds"])


def nuttcp(pair: Pair, size: int) -> float:
    """Datagrams sent per second."""
    with _server(pair, "nuttcp", "-S", "--nofork", f"-P{PORT}"):
        client = ["nuttcp", "-u", "-Ru", f"-l{size}", f"-T{SECONDS}", f"-P{PORT}", "-fparse", pair.address]
        (said,) = _outputs(pair, [client])
    found = re.search(r"pkt=(\d+)", said)
    return int(found[1]) / SECONDS if found else 0.0


def _rate(found: Trial, host: str) -> float:
    """Operations per second that a host completed in the measured window."""
    measured = [r for r in found.records[host] if r["window"] == "measured"]
    span_ns = measured[-1]["end_ns"] - measured[0]["begin_ns"]
    return float(sum(r["load"]["operations"] for r in measured)) * 1e9 / span_ns


def _installed(peers: dict[str, Peer]) -> dict[str, Peer]:
    for name in peers:
        if shutil.which(name) is None:
            print(f"{name}: not installed, left out (apt-get install {name})", file=sys.stderr)
    return {name: peer for name, peer in peers.items() if shutil.which(name)}


def _ratio(ours: list[float], theirs: list[float]) -> str:
    return "{:.2f} [{:.2f}, {:.2f}]".format(*paired(ours, theirs)) if all(theirs) else "-"


async def exchange(pairs: int) -> list[dict[str, object]]:
    """UDP requests and answers of 64 bytes beside sockperf and qperf: transactions per second."""
    rows: list[dict[str, object]] = []
    async with open_testbed("request_response") as (testbed, pair):
        for flows in FLOWS:
            peers = _installed(
                {"sockperf": sockperf, "qperf": qperf} if flows == 1 else {"sockperf": sockperf}
            )
            ours: dict[str, list[float]] = {name: [] for name in OURS_RR}
            theirs: dict[str, list[float]] = {name: [] for name in peers}
            for _ in range(pairs):
                for name, settings in OURS_RR.items():
                    made = await trial(testbed, pair, RR | {"connections": flows} | settings, SECONDS)
                    ours[name].append(_rate(made, "client"))
                for name, peer in peers.items():
                    theirs[name].append(peer(pair, flows))
            for name, found in ours.items():
                row: dict[str, object] = {
                    "flows": flows,
                    "ours": name,
                    "per_s": round(statistics.median(found)),
                }
                for peer_name in ("sockperf", "qperf"):
                    known = theirs.get(peer_name)
                    row[f"{peer_name}_per_s"] = round(statistics.median(known)) if known else "-"
                    row[f"{peer_name}_ratio"] = _ratio(found, known) if known else "-"
                rows.append(row)
    return rows


async def sending(pairs: int) -> list[dict[str, object]]:
    """Datagrams of 64 bytes sent per second from one core: of the best peer's, and of our own plain calls'."""
    rows: list[dict[str, object]] = []
    peers = _installed({"iperf3": iperf3, "nuttcp": nuttcp})
    async with open_testbed("stream") as (testbed, pair):
        ways: dict[str, dict[str, Any]] = {
            "read_write": {},
            "batch": {"syscalls": "batch", "batch": 64},
            "segments": {"syscalls": "segments", "batch": 64},
            **{client: {"client": client} for client in ("io_uring", "packet_v2", "packet_v3", "xdp")},
        }
        ours: dict[str, list[float]] = {name: [] for name in ways}
        theirs: dict[str, list[float]] = {name: [] for name in peers}
        for _ in range(pairs):
            for name, settings in ways.items():
                made = await trial(testbed, pair, STREAM | {"size": 64} | settings, SECONDS)
                ours[name].append(_rate(made, "client"))
            for name, peer in peers.items():
                theirs[name].append(peer(pair, 64))
        for name, found in ours.items():
            row: dict[str, object] = {"ours": name, "per_s": round(statistics.median(found))}
            row["plain_ratio"] = _ratio(found, ours["read_write"])
            row["least"] = LEAST_SENT.get(name, 1.0)
            for peer_name, known in theirs.items():
                row[f"{peer_name}_per_s"] = round(statistics.median(known))
                row[f"{peer_name}_ratio"] = _ratio(found, known)
            rows.append(row)
    return rows


async def segments(pairs: int) -> list[dict[str, object]]:
    """Datagrams of 1400 bytes received per second: segmentation and joining beside plain calls (8 times asked)."""
    async with open_testbed("stream") as (testbed, pair):
        found: dict[str, list[float]] = {"read_write": [], "segments": []}
        for _ in range(pairs):
            for syscalls, rates in found.items():
                settings = STREAM | {"size": 1400, "syscalls": syscalls, "batch": 64}
                rates.append(_rate(await trial(testbed, pair, settings, SECONDS), "server"))
    plain, joined = found["read_write"], found["segments"]
    return [
        {
            "size": 1400,
            "plain_per_s": round(statistics.median(plain)),
            "segments_per_s": round(statistics.median(joined)),
            "ratio": _ratio(joined, plain),
            "least": 8.0,
        }
    ]
