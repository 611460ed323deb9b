"""What the instrument itself is capable of: its clocks, its load loop, and how fast the lab can speak with it."""

from __future__ import annotations

import secrets
import time
from functools import partial
from typing import Any

from iodyno.campaign.rig import Rig, together
from iodyno.core.errors import AccessError, TrialError
from iodyno.session.clock import ClockFit
from iodyno.session.sent import SentRecord
from iodyno.session.session import Session

DRIVERS = ("threads", "epoll")
_SPAN_NS = 50_000_000
"""Chosen: a million writes that go nowhere; their mean is then known to a few percent."""
_SLACK_NS = 60_000_000
_TIMEOUT_S = 10.0


async def calibrate(rig: Rig) -> dict[str, Any]:
    """Facts by host: its clocks as it measured them, offset and round trip of the control stream in ns, and the
    agent's own time for one write by driver, in ns. An agent that is lost meanwhile is started anew. Raises AccessError.
    """
    hosts = list(rig.sessions)
    fits: dict[str, ClockFit] = {}
    loops: dict[str, dict[str, float | None]] = {host: {} for host in hosts}
    try:
        for driver in DRIVERS:
            fits, costs = await rig.in_time(partial(_loop_costs, rig, driver))
            for host, cost in costs.items():
                loops[host][driver] = cost
    except TrialError as error:
        # No trial has begun: what is wrong is the host or its agent.
        raise AccessError(error.what, where=error.where, advice=error.advice) from error
    return {
        host: {
            "clock": rig.sessions[host].hello["clock"],
            "control": fits[host].as_json(),
            "write_overhead_ns": loops[host],
        }
        for host in hosts
    }


async def _loop_costs(
    rig: Rig, driver: str, longer: int
) -> tuple[dict[str, ClockFit], dict[str, float | None]]:
    """Clocks and costs by host. The clocks are looked at each time: an agent may be one of a host that was started anew."""
    hosts = list(rig.sessions)
    fits = dict(zip(hosts, await together(rig.sessions[host].probe_clock() for host in hosts), strict=True))

    async def of(host: str, session: Session) -> float | None:
        cpus = () if host in rig.observers else rig.cpus[host]
        return await _loop_cost(session, fits[host], driver, cpus, longer * _SLACK_NS)

    costs = await together(of(host, session) for host, session in rig.sessions.items())
    return fits, dict(zip(rig.sessions, costs, strict=True))


async def _loop_cost(
    session: Session, fit: ClockFit, driver: str, cpus: tuple[int, ...], slack_ns: int
) -> float | None:
    """Mean service time of writes that go nowhere: loop, clock, counters, histogram. None when there were none."""
    job = {
        "trial": f"calibration-{driver}",
        "token": secrets.token_hex(16),
        "role": "send",
        "workload": "stream",
        "transport": "null",
        "driver": driver,
        "connections": 1,
        "message_bytes": 1024,
        "address": None,
        "socket": dict.fromkeys(("send_buffer_bytes", "receive_buffer_bytes", "nagle", "congestion_control")),
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
