"""What the instrument costs: its loop, its sensors, its interval records, and the time between windows."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace

from bench.ratio import middle, paired
from bench.testbed import Trial, open_testbed, trial
from iodyno.core.experiment import SENSOR_LEVELS, HostSpec, SensorLevel
from iodyno.core.workload import Level
from iodyno.session import accesses
from iodyno.session.locate import find_agent
from iodyno.session.session import Session


async def loop(pairs: int) -> list[dict[str, object]]:
    """The agent's own time for one write on the null transport (at most 100 ns), median over `pairs` runs."""
    runs = [
        json.loads(
            subprocess.run(
                [find_agent().path, "calibrate", "--json"], capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(pairs)
    ]
    keys = (
        *("write_overhead_threads_ns", "write_overhead_epoll_ns"),
        *("arrival_overhead_threads_ns", "arrival_overhead_epoll_ns"),
        *("clock_read_ns", "histogram_record_ns"),
    )
    return [
        {"figure": key, "median_ns": round(statistics.median(run[key] for run in runs), 1), "allowed_ns": 100}
        for key in keys
    ]


async def records(pairs: int) -> list[dict[str, object]]:
    """Goodput with a record every second against one record in all, alternating."""
    rows: list[dict[str, object]] = []
    async with open_testbed() as (testbed, pair):
        settings = {"connections": 32, "size": 65536}
        often, once = [], []
        for _ in range(pairs):
            often.append((await trial(testbed, pair, settings, 3.0, 1.0)).metered.gbit_per_s)
            once.append((await trial(testbed, pair, settings, 3.0, 10.0)).metered.gbit_per_s)
        again = paired(once[1:], once[:-1])
        rows.append(
            {
                "a_over_b": "records of 1 s / one record",
                "goodput_ratio": "{:.3f} [{:.3f}, {:.3f}]".format(*paired(often, once)),
            }
        )
        rows.append(
            {
                "a_over_b": "one record / the same before",
                "goodput_ratio": "{:.3f} [{:.3f}, {:.3f}]".format(*again),
            }
        )
    return rows


CONGESTION_CONTROLS: tuple[dict[str, Level], ...] = ({}, {"congestion_control": "cubic"})
"""As the system has it (None set), and one that is not paced: bbr rates the path by what came through, so that a little more
CPU time of a segment may slow its pace by more.
"""


async def levels(pairs: int) -> list[dict[str, object]]:
    """Goodput and CPU time for a GB with light and with full sensors over those with none, by turns (light: at least 0.99)."""
    rows: list[dict[str, object]] = []
    async with open_testbed() as (testbed, pair):
        # Call stacks are an option of their own; intervals are those of a quick command of a second.
        plain = replace(testbed.experiment, profile_hz=0)
        for congestion in CONGESTION_CONTROLS:
            found: dict[SensorLevel, list[Trial]] = {level: [] for level in SENSOR_LEVELS}
            settings = {"connections": 8, "size": 65536, "engine": "round_robin", **congestion}
            for number in range(pairs):
                # Turned round in every other round, so that a drift is on either side.
                for level in SENSOR_LEVELS if number % 2 else reversed(SENSOR_LEVELS):
                    testbed.experiment = replace(plain, sensors=level)
                    found[level].append(await trial(testbed, pair, settings, 2.0, 0.1))
            rates = {level: [one.metered.gbit_per_s for one in trials] for level, trials in found.items()}
            costs = {level: [one.metered.cpu_s_per_gb for one in trials] for level, trials in found.items()}
            rows += [
                {
                    "congestion_control": congestion.get("congestion_control", "the system's"),
                    "sensors": level,
                    "gbit_per_s": round(statistics.median(rates[level]), 2),
                    "goodput_over_off": "{:.3f} [{:.3f}, {:.3f}]".format(*middle(rates[level], rates["off"])),
                    "cpu_s_per_gb_over_off": "{:.3f} [{:.3f}, {:.3f}]".format(
                        *middle(costs[level], costs["off"])
                    ),
                    **{part: f"{ratio:.2%} of a CPU" for part, ratio in _taken(found[level]).items()},
                }
                for level in SENSOR_LEVELS
            ]
    return rows


def _taken(trials: Sequence[Trial]) -> dict[str, float]:
    """CPU time of the costlier end's readings and of its programs in the kernel, of one CPU, median over the trials."""
    each: dict[str, list[float]] = {"readings": [], "exact accounting": []}
    for one in trials:
        of_hosts: dict[str, list[float]] = {part: [] for part in each}
        for records in one.records.values():
            measured = [record for record in records if record["window"] == "measured"]
            span_ns = measured[-1]["end_ns"] - measured[0]["begin_ns"]
            readings = [reading for record in measured for reading in record["sensors"]]
            of_hosts["readings"].append(sum(reading["cost_ns"] for reading in readings) / span_ns)
            values = (value for reading in readings for value in reading["values"])
            programs = sum(value for metric, _, value in values if metric == "exact.observer_ns")
            of_hosts["exact accounting"].append(programs / span_ns)
        for part, found in of_hosts.items():
            each[part].append(max(found))
    return {part: statistics.median(found) for part, found in each.items()}


async def each_sensor(pairs: int) -> list[dict[str, object]]:
    """CPU time of a reading of each default sensor under a load, costliest first; of a CPU, read once a second."""
    rows: list[dict[str, object]] = []
    async with open_testbed() as (testbed, pair):
        for connections in (32, 1000):
            settings = {"connections": connections, "size": 65536, "engine": "epoll"}
            costs: dict[str, list[int]] = {}
            for _ in range(pairs):
                found = await trial(testbed, pair, settings, 2.0, 0.25)
                for record in (record for records in found.records.values() for record in records):
                    for reading in record["sensors"]:
                        costs.setdefault(reading["sensor"], []).append(reading["cost_ns"])
            typical = {sensor: statistics.median(found) for sensor, found in costs.items()}
            typical["all"] = sum(typical.values())
            rows += [
                {
                    "connections": connections,
                    "sensor": sensor,
                    "us_a_reading": round(cost_ns / 1e3, 1),
                    "of_a_cpu": f"{cost_ns / 1e9:.3%}",
                }
                for sensor, cost_ns in sorted(typical.items(), key=lambda item: -item[1])
            ]
    return rows


async def first_record(pairs: int) -> list[dict[str, object]]:
    """Time from the start of an agent to its first record, all sensors on (at most 100 ms on an idle machine)."""
    hosts = await accesses.open_hosts({"client": HostSpec("client", "local")})
    steps: dict[str, list[float]] = {"hello": [], "ready": [], "first_record": []}
    try:
        for _ in range(pairs * 3):
            began = time.monotonic()
            session = await Session.start(hosts.accesses["client"], find_agent())
            try:
                steps["hello"].append(time.monotonic() - began)
                await session.prepare(_idle_job())
                await session.ready(5.0)
                steps["ready"].append(time.monotonic() - began)
                # One machine, one clock; the agent asks for 20 ms of slack.
                await session.arm(time.monotonic_ns() + 22_000_000)
                came: list[float] = []
                await session.result(
                    1_000_000_000, lambda _record, came=came: came.append(time.monotonic()), stalls=False
                )
                steps["first_record"].append(came[0] - began)
            finally:
                await session.close()
    finally:
        await hosts.close()
    return [
        {
            "until": step,
            "median_ms": round(statistics.median(found) * 1e3, 1),
            "least_ms": round(min(found) * 1e3, 1),
            "most_ms": round(max(found) * 1e3, 1),
            "allowed_ms": 100 if step == "first_record" else "",
        }
        for step, found in steps.items()
    ]


def _idle_job() -> dict[str, object]:
    windows = {"warm_up_ns": 0, "measured_ns": 50_000_000, "drain_ns": 0, "interval_ns": 10_000_000}
    return {
        "trial": "first-record",
        "token": "0" * 32,
        "load": {"idle": {}},
        "windows": windows,
        "profile_hz": 0,
    }


async def overhead(pairs: int) -> list[dict[str, object]]:
    """Time of a trial outside its windows at 100 connections (at most 1.5 s)."""
    async with open_testbed() as (testbed, pair):
        spent = [
            (await trial(testbed, pair, {"connections": 100, "size": 65536}, 0.5, 0.25)).account.overhead_ns
            or 0
            for _ in range(pairs)
        ]
    return [
        {
            "connections": 100,
            "median_s": round(statistics.median(spent) / 1e9, 3),
            "most_s": round(max(spent) / 1e9, 3),
            "allowed_s": 1.5,
        }
    ]
