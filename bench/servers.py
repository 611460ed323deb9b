"""One server thread for 64 flows of UDP, by the way it takes datagrams, beside plain recvfrom and sendto."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from bench.ratio import paired
from bench.testbed import open_testbed
from iodyno.campaign.account import Account
from iodyno.campaign.trial import carry_out
from iodyno.core.experiment import Windows
from iodyno.core.workload import Level
from iodyno.session.sent import SentRecord

LEAST = {"recvfrom": 1.0, "recvmmsg": 1.0, "io_uring": 1.0, "packet_v2": 1.2, "packet_v3": 1.3, "xdp": 2.0}
"""Figures to reach, of the plain server's (prototype: 1.46, 1.67 and 2.4)."""
SECONDS = 2.0
BLOCK_PACKETS = 25
"""Of packet_v3: as the prototype had it."""


_OWN = ("exact.app_ns", "exact.hardirq_ns", "exact.softirq_ns")


@dataclass
class Served:
    """What the server did in the measured windows of a trial."""

    answered: int = 0
    span_ns: int = 0
    busy_ns: int = 0

    def take(self, host: str, sent: SentRecord) -> None:
        """Counts a record."""
        if host != "server" or sent.progress["window"] != "measured":
            return
        record = sent.taken_apart()
        self.answered += record["load"]["operations"]
        self.span_ns += record["end_ns"] - record["begin_ns"]
        exact = (reading for reading in record["sensors"] if reading["sensor"] == "cpu_exact")
        self.busy_ns += sum(
            value for reading in exact for name, _, value in reading["values"] if name in _OWN
        )


async def run(pairs: int) -> list[dict[str, object]]:
    """Requests answered per second, and per CPU second of the server, over those of recvfrom, measured by turns.

    512 bytes asked, 1024 answered. The client is a program in the kernel, so that the server is the limit. A CPU second
    is one of the server's own tasks and of interrupts, by the kernel's switches: what others take of a busy machine
    changes the rate, and that hardly.
    """
    windows = Windows(300_000_000, int(SECONDS * 1e9), 100_000_000, 500_000_000)
    fixed: dict[str, Level] = {
        "transport": "udp",
        "client_engine": "reflector",
        "connections": 64,
        "size": 512,
    }
    found: dict[str, list[Served]] = {server: [] for server in LEAST}
    async with open_testbed("request_response") as (testbed, _):
        for number in range(pairs):
            for server, trials in found.items():
                own: dict[str, Level] = {
                    "response_size": 1024,
                    "server_engine": server,
                    "block_packets": BLOCK_PACKETS,
                }
                trials.append(Served())
                name = f"bench-{server}-{number}"
                settings = testbed.experiment.settings(fixed | own)
                await carry_out(testbed, name, settings, windows, Account(), trials[-1].take)
    rates = {server: [one.answered * 1e9 / one.span_ns for one in trials] for server, trials in found.items()}
    per_cpu = {
        server: [one.answered * 1e9 / (one.busy_ns or math.nan) for one in trials]
        for server, trials in found.items()
    }
    return [
        {
            "server": server,
            "answers_per_s": round(statistics.median(rates[server])),
            "rate_ratio": "{:.2f} [{:.2f}, {:.2f}]".format(*paired(rates[server], rates["recvfrom"])),
            "per_cpu_ratio": "{:.2f} [{:.2f}, {:.2f}]".format(*paired(per_cpu[server], per_cpu["recvfrom"])),
            "least": least,
        }
        for server, least in LEAST.items()
    ]
