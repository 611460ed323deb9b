"""Two namespaces with an agent in each, and one trial at a time between them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.meter import Metered, measure
from iodyno.campaign.account import Account
from iodyno.campaign.testbed import Testbed
from iodyno.campaign.trial import carry_out
from iodyno.core.experiment import Experiment, HostSpec, Windows, WorkloadSpec
from iodyno.core.workload import Level
from iodyno.session.locate import find_agent
from iodyno.session.sent import SentRecord

DEVICE = "veth0"


@dataclass(frozen=True)
class Pair:
    """Where a comparison runs: two namespaces, their CPUs, and the server's address and device."""

    client: str
    server: str
    client_cpus: tuple[int, ...]
    server_cpus: tuple[int, ...]
    address: str
    device: str

    def inside(self, end: str) -> list[str]:
        """Return the words before a command that runs at an end, on the CPUs of that end."""
        name, cpus = (self.client, self.client_cpus) if end == "client" else (self.server, self.server_cpus)
        return ["ip", "netns", "exec", name, "taskset", "-c", ",".join(map(str, cpus))]


@dataclass
class Trial:
    """What a trial of ours gave: the agents' accounts, the records, and what the independent meter saw."""

    account: Account
    metered: Metered
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


@contextlib.asynccontextmanager
async def open_testbed(workload: str = "stream") -> AsyncIterator[tuple[Testbed, Pair]]:
    """Opens the namespaces and agents for a kind of workload; everything is gone afterwards."""
    if os.geteuid() != 0:
        raise SystemExit("bench: needs root, to make network namespaces")
    hosts = {name: HostSpec(name, "netns") for name in ("client", "server")}
    experiment = Experiment("bench", "", hosts, WorkloadSpec(workload, ("client",), ("server",)), ())
    async with Testbed(experiment, find_agent()) as testbed:
        reached = {name: access.reached for name, access in testbed.hosts.accesses.items()}
        yield (
            testbed,
            Pair(
                client=reached["client"].path["namespace"],
                server=reached["server"].path["namespace"],
                client_cpus=tuple(testbed.cpus["client"]),
                server_cpus=tuple(testbed.cpus["server"]),
                address=reached["server"].address or "",
                device=DEVICE,
            ),
        )


async def trial(
    testbed: Testbed, pair: Pair, settings: Mapping[str, Level], measured_s: float, interval_s: float = 1.0
) -> Trial:
    """Runs one trial; the meter watches the middle of its measured window."""
    windows = Windows(
        warm_up_ns=500_000_000,
        measured_ns=int(measured_s * 1e9),
        drain_ns=100_000_000,
        interval_ns=int(interval_s * 1e9),
    )
    account = Account()
    sent: dict[str, list[SentRecord]] = {"client": [], "server": []}
    begun = asyncio.Event()

    def on_record(host: str, record: SentRecord) -> None:
        sent[host].append(record)
        begun.set()

    complete: dict[str, Level] = {"transport": "tcp", "engine": "threads", "nagle": True, **settings}
    name = f"bench-{id(account)}"
    running = asyncio.create_task(carry_out(testbed, name, complete, windows, account, on_record))
    waiting = asyncio.create_task(begun.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    metered = await asyncio.to_thread(measure, pair.server, pair.device, measured_s * 0.8)
    await running
    records = {host: [record.taken_apart() for record in found] for host, found in sent.items()}
    return Trial(account, metered, records)


class Quiet:
    """A watcher that says nothing."""

    def __getattr__(self, name: str) -> object:
        return lambda *words: None
