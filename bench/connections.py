"""Thousands of connections in either engine: all of them carry bytes, and what a connection takes of the agent.

100 000 need more descriptors than one process may have in many places: then several agents share them, each pair in two
namespaces of its own, all under load at once; and one pair holds as many as it may have.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from pathlib import Path
from typing import Any

from bench.testbed import open_testbed, trial
from iodyno.campaign.account import Account
from iodyno.campaign.testbed import Testbed, together
from iodyno.campaign.trial import carry_out
from iodyno.core.errors import IodynoError
from iodyno.core.experiment import Experiment, HostSpec, Windows, WorkloadSpec
from iodyno.session.locate import find_agent

CONNECTIONS = (4000, 6000)
ALLOWED_KIB = {"epoll": 64, "threads": 128}
"""Memory of the agent for a connection, beyond socket buffers (which are the kernel's)."""
MOST = 100_000
MOST_MIB = 2048
"""Figure to reach: so many connections open and carrying requests, in so much memory of all agents together."""
SPARE_DESCRIPTORS = 2_000
"""Of an agent, beside connections. chosen: sensors, programs in the kernel and epoll take some hundreds."""
ENGINES = ("epoll", "io_uring")
PORTS = 60_000
"""Connections of one address. chosen: a namespace of ours has 64 512 ports for them."""
_LOOK_S = 0.5
_WINDOWS = Windows(2_000_000_000, 10_000_000_000, 5_000_000_000, 1_000_000_000)


async def run(pairs: int) -> list[dict[str, object]]:
    """One row an engine and number of connections, for the agent of each host."""
    rows: list[dict[str, object]] = []
    for engine, allowed in ALLOWED_KIB.items():
        for connections in CONNECTIONS:
            # Agents of their own, so that the base is that of an agent that has had no job.
            async with open_testbed() as (testbed, pair):
                settings = {"size": 8192, "engine": engine, "window": 32768}
                base = await trial(testbed, pair, {**settings, "connections": 1}, 0.5, 0.25)
                full = await trial(testbed, pair, {**settings, "connections": connections}, 2.0)
                for host, facts in full.account.hosts.items():
                    before = base.account.hosts[host]["result"]["agent_rss_peak_bytes"]
                    result = facts["result"]
                    each = (result["agent_rss_peak_bytes"] - before) / connections / 1024
                    rows.append(
                        {
                            "engine": engine,
                            "connections": connections,
                            "host": host,
                            "carrying": result["connections_carrying"],
                            "lost": result["connections_lost"],
                            "kib_per_connection": round(each, 1),
                            "allowed_kib": allowed,
                            "setup_ms": round(facts["ready"]["setup_ns"] / 1e6),
                        }
                    )
    return rows


async def most(pairs: int, wanted: int = MOST) -> list[dict[str, object]]:
    """Requests over 100 000 connections at once: agents that they take, and the memory of all (2 GiB asked)."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    each = wanted if limit == resource.RLIM_INFINITY else max(1, limit - SPARE_DESCRIPTORS)
    rows = [await _most(engine, wanted, each) for engine in ENGINES]
    return rows if each >= wanted else [*rows, await _most(ENGINES[0], each, each)]


async def _most(engine: str, wanted: int, each: int) -> dict[str, object]:
    """As many as can be had: half of the agents where all of them fail, and so on."""
    agents, stopped = -(-wanted // each), "nothing"
    while agents:
        shares = [min(wanted, agents * each) * (n + 1) // agents for n in range(agents)]
        shares = [share - before for share, before in zip(shares, [0, *shares], strict=False)]
        slab, most = _slab_kib(), [0]
        watching = asyncio.create_task(_watch_slab(most))
        try:
            results = await _at_once(engine, shares)
        except IodynoError as problem:
            stopped = f"{sum(shares)} connections: {' '.join(str(problem).split())}"[:200]
            agents //= 2
            continue
        finally:
            watching.cancel()
        memory = sum(result["agent_rss_peak_bytes"] for result in results) / 1024
        carrying = sum(result["connections_carrying"] for result in results[::2])
        # In proportion, so with the memory that an agent takes without any: no less than so many take.
        of_most = memory / sum(shares) * MOST / 1024
        met = carrying >= wanted and of_most <= MOST_MIB
        return {
            "engine": engine,
            "asked": wanted,
            "open": sum(shares),
            "carrying": carrying,
            "lost": sum(result["connections_lost"] for result in results[::2]),
            "agents_an_end": agents,
            "descriptors_a_process": each + SPARE_DESCRIPTORS,
            "mib_of_all_agents": round(memory / 1024),
            "agent_kib_per_end": round(memory / sum(shares) / 2, 2),
            "kernel_kib_per_end": round((most[0] - slab) / sum(shares) / 2, 2),
            f"mib_for_{MOST}": round(of_most),
            "allowed_mib": MOST_MIB,
            "stopped_by": stopped,
            "verdict": "met" if met else "missed",
        }
    return {"engine": engine, "asked": wanted, "open": 0, "stopped_by": stopped, "verdict": "missed"}


def _slab_kib() -> int:
    """Kernel objects of the machine: sockets, files, and whatever else."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Slab:")))


async def _watch_slab(most: list[int]) -> None:
    while True:
        most[0] = max(most[0], _slab_kib())
        await asyncio.sleep(_LOOK_S)


async def _at_once(engine: str, shares: list[int]) -> list[dict[str, Any]]:
    """What all agents say of one trial each at the same time: of every share the client, then the server."""
    async with contextlib.AsyncExitStack() as stack:
        testbeds, accounts = [], [Account() for _ in shares]
        for number in range(len(shares)):
            # Names of their own, which those of the namespaces are made of.
            ends = (f"client{number}", f"server{number}")
            addresses = -(-max(shares) // PORTS)
            hosts = {name: HostSpec(name, "netns", {"addresses": addresses}) for name in ends}
            # None of them reads the machine: each would read the same, with tens of thousands of sockets.
            asked = Experiment(
                "bench", "", hosts, WorkloadSpec("request_response", ends[:1], ends[1:]), (), sensors="off"
            )
            testbeds.append(await stack.enter_async_context(Testbed(asked, find_agent())))

        async def one(number: int) -> None:
            settings = testbeds[number].experiment.settings(
                {
                    "connections": shares[number],
                    "size": 64,
                    "response_size": 64,
                    "engine": engine,
                    "nagle": False,
                }
            )
            name = f"bench-most-{engine}-{number}"
            await carry_out(testbeds[number], name, settings, _WINDOWS, accounts[number], lambda *_: None)

        await together(one(number) for number in range(len(shares)))
        await asyncio.sleep(0)
    return [facts["result"] for account in accounts for facts in account.hosts.values()]
