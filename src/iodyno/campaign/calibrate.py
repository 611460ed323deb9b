"""Measures the instrument itself: its clocks, its load loop, and how fast the lab can speak with it.

The cost of the load loop is measured once for a boot of a host, a build of the agent and a set of CPUs, and kept in a cache.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from iodyno.campaign.testbed import Testbed, probe_clocks, together
from iodyno.core.errors import AccessError, TrialError
from iodyno.session.clock import ClockFit
from iodyno.session.sent import SentRecord
from iodyno.session.session import Session

ENGINES = ("threads", "epoll")
_SPAN_NS = 50_000_000
"""Chosen: a million writes that go nowhere; their mean is then known to a few percent."""
_SLACK_NS = 60_000_000
_TIMEOUT_S = 10.0
_KEPT = 200
"""Calibrations in the cache, of which the oldest go first (chosen: 20 KiB)."""


async def calibrate(testbed: Testbed) -> dict[str, Any]:
    """Return facts by host: its clocks as it measured them, offset and round trip of the control stream in ns, and the
    agent's own time for one write by engine, in ns. An agent that is lost meanwhile is started anew. Raises AccessError.
    """
    cache = _cache_file()
    kept = _read(cache)
    keys = {host: _key(testbed, host) for host in testbed.sessions}
    loops: dict[str, dict[str, float | None]] = {host: kept.get(key, {}) for host, key in keys.items()}
    try:
        if all(loops.values()):
            fits = await _probed(testbed)
        else:
            fits = {}
            loops = {host: {} for host in testbed.sessions}
            for engine in ENGINES:
                fits, costs = await testbed.in_time(partial(_loop_costs, testbed, engine))
                for host, cost in costs.items():
                    loops[host][engine] = cost
            _keep(cache, kept, {keys[host]: costs for host, costs in loops.items()})
    except TrialError as error:
        # No trial has begun: what is wrong is the host or its agent.
        raise AccessError(error.what, where=error.where, advice=error.advice) from error
    return {
        host: {
            "clock": testbed.sessions[host].hello["clock"],
            "control": fits[host].as_json(),
            "write_overhead_ns": loops[host],
        }
        for host in testbed.sessions
    }


def _cache_file() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iodyno" / "calibration.json"


def _key(testbed: Testbed, host: str) -> str:
    """Name what a calibration holds for; empty where the host does not tell its boot, or is simulated."""
    greeting = testbed.sessions[host].hello
    boot = greeting["host"]["boot_id"] if testbed.experiment.hosts[host].access != "simulated" else None
    cpus = ",".join(map(str, testbed.cpus[host]))
    return f"{boot} {greeting['host']['kernel']} {greeting['build_hash']} {cpus}" if boot else ""


def _read(cache: Path) -> dict[str, dict[str, float | None]]:
    """Return the calibrations kept; none where the file is not there or is not what was written."""
    try:
        found = json.loads(cache.read_text(encoding="utf-8"))
        return {
            str(key): {engine: float(costs[engine]) for engine in ENGINES} for key, costs in found.items()
        }
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return {}


def _keep(
    cache: Path, kept: Mapping[str, dict[str, float | None]], found: Mapping[str, dict[str, float | None]]
) -> None:
    """Add what is known whole to the cache; a home that cannot be written is no reason to stop."""
    whole = {key: costs for key, costs in found.items() if key and None not in costs.values()}
    every = {**{key: costs for key, costs in kept.items() if key not in whole}, **whole}
    with contextlib.suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        fresh = cache.with_name(f"{cache.name}.{os.getpid()}")
        fresh.write_text(json.dumps(dict(list(every.items())[-_KEPT:])), encoding="utf-8")
        fresh.replace(cache)


async def _probed(testbed: Testbed) -> dict[str, ClockFit]:
    hosts = list(testbed.sessions)
    return dict(zip(hosts, await probe_clocks(testbed.sessions[host] for host in hosts), strict=True))


async def _loop_costs(
    testbed: Testbed, engine: str, longer: int
) -> tuple[dict[str, ClockFit], dict[str, float | None]]:
    """Clocks and costs by host. The clocks are looked at each time: an agent may be one of a host that was started anew."""
    fits = await _probed(testbed)

    async def of(host: str, session: Session) -> float | None:
        cpus = () if host in testbed.observers else testbed.cpus[host]
        return await _loop_cost(session, fits[host], engine, cpus, longer * _SLACK_NS)

    costs = await together(of(host, session) for host, session in testbed.sessions.items())
    return fits, dict(zip(testbed.sessions, costs, strict=True))


async def _loop_cost(
    session: Session, fit: ClockFit, engine: str, cpus: tuple[int, ...], slack_ns: int
) -> float | None:
    """Mean service time of writes that go nowhere: loop, clock, counters, histogram. None when there were none."""
    job = {
        "trial": f"calibration-{engine}",
        "token": secrets.token_hex(16),
        "load": {
            "network": {
                "role": "send",
                "traffic": {"stream": {}},
                "transport": "null",
                "engine": engine,
                "connections": 1,
                "message_bytes": 1024,
            }
        },
        "windows": {
            "warm_up_ns": _SPAN_NS,
            "measured_ns": _SPAN_NS,
            "drain_ns": 0,
            "interval_ns": _SPAN_NS,
        },
        "cpus": list(cpus),
        "sensors": [],
    }
    times = {"count": 0, "sum_ns": 0}

    def keep(record: SentRecord) -> None:
        if record.progress["window"] == "measured":
            for key in times:
                times[key] += record.taken_apart()["load"]["service_time"][key]

    await session.prepare(job)
    await session.ready(_TIMEOUT_S)
    await session.arm(fit.to_host(time.monotonic_ns() + slack_ns))
    # A busy machine may leave the loop no CPU for so short a time; then its cost is not known.
    await session.result(2 * _SPAN_NS + slack_ns, keep, stalls=False)
    return times["sum_ns"] / times["count"] if times["count"] else None
