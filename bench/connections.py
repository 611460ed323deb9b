"""Thousands of connections in either driver: all of them carry bytes, and what a connection takes of the agent."""

from __future__ import annotations

from bench.rig import open_rig, trial

CONNECTIONS = (4000, 6000)
ALLOWED_KIB = {"epoll": 64, "threads": 128}
"""Memory of the agent for a connection, beyond socket buffers (which are the kernel's)."""


async def run(pairs: int) -> list[dict[str, object]]:
    """One row a driver and number of connections, for the agent of each host."""
    rows: list[dict[str, object]] = []
    for driver, allowed in ALLOWED_KIB.items():
        for connections in CONNECTIONS:
            # Agents of their own, so that the base is that of an agent that has had no job.
            async with open_rig() as (rig, pair):
                settings = {"size": 8192, "driver": driver, "window": 32768}
                base = await trial(rig, pair, {**settings, "connections": 1}, 0.5, 0.25)
                full = await trial(rig, pair, {**settings, "connections": connections}, 2.0)
                for host, facts in full.account.hosts.items():
                    before = base.account.hosts[host]["result"]["agent_rss_peak_bytes"]
                    result = facts["result"]
                    each = (result["agent_rss_peak_bytes"] - before) / connections / 1024
                    rows.append(
                        {
                            "driver": driver,
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
