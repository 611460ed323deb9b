"""Goodput and CPU per byte beside iperf3's, between the same two namespaces with the same pinning."""

from __future__ import annotations

import asyncio
import statistics

from bench import iperf3
from bench.meter import Metered, measure
from bench.ratio import paired
from bench.testbed import open_testbed, trial

CASES = ((65536, 1), (65536, 4), (65536, 32), (1024, 32))
"""Message size and connections."""
SECONDS = 2.5


async def _theirs(pair: iperf3.Pair, connections: int, size: int) -> Metered:
    with iperf3.load(pair, connections, size, SECONDS + 0.6, None):
        await asyncio.sleep(0.5)
        return await asyncio.to_thread(measure, pair.server, pair.device, SECONDS * 0.8)


async def run(pairs: int) -> list[dict[str, object]]:
    """One row a case and engine: the ratio of goodput and of CPU seconds per GB, median and range over `pairs`."""
    rows: list[dict[str, object]] = []
    async with open_testbed() as (testbed, pair):
        for size, connections in CASES:
            ours: dict[str, list[Metered]] = {"threads": [], "epoll": []}
            theirs: list[Metered] = []
            for _ in range(pairs):
                for engine, found in ours.items():
                    settings = {"connections": connections, "size": size, "engine": engine}
                    found.append((await trial(testbed, pair, settings, SECONDS)).metered)
                theirs.append(await _theirs(pair, connections, size))
            for engine, found in ours.items():
                rate = paired([m.gbit_per_s for m in found], [m.gbit_per_s for m in theirs])
                cost = paired([m.cpu_s_per_gb for m in found], [m.cpu_s_per_gb for m in theirs])
                rows.append(
                    {
                        "size": size,
                        "connections": connections,
                        "engine": engine,
                        "gbit_per_s": round(statistics.median(m.gbit_per_s for m in found), 2),
                        "iperf3_gbit_per_s": round(statistics.median(m.gbit_per_s for m in theirs), 2),
                        "goodput_ratio": "{:.2f} [{:.2f}, {:.2f}]".format(*rate),
                        "cpu_s_per_gb_ratio": "{:.2f} [{:.2f}, {:.2f}]".format(*cost),
                    }
                )
    return rows
