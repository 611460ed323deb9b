"""Jain's index of connections, on real traffic of which is known how unequal it must be."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from places import MS, experiment, run

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.goodput import connection_fairness
from iodyno.core.experiment import HostSpec, Limits, Windows, WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.workload import Level

pytestmark = pytest.mark.root


def fairness_of(folder: Path, kind: str, settings: dict[str, Level]) -> float | None:
    """The outcome of one short trial between two namespaces; also where a busy machine makes the trial void."""
    hosts = {name: HostSpec(name, "netns") for name in ("client", "server")}
    asked = replace(
        experiment(
            hosts=hosts,
            factors=(Factor("size", (64,)),),
            windows=Windows(50 * MS, 400 * MS, 50 * MS, 100 * MS),
        ),
        workload=WorkloadSpec(kind, ("client",), ("server",), settings),
        outcomes=("connection_fairness",),
        sensors=("cpu_times",),
        profile_hz=0,
        limits=Limits(background_ns=50 * MS, background_ratio=1.0),
    )
    trial = read_dataset(asyncio.run(run(asked, folder)).folder).trials[-1]
    return connection_fairness(trial).value


def test_flows_that_are_due_the_same_carry_the_same(tmp_path: Path) -> None:
    # Each flow has constant arrivals of its own, so that whoever has the CPU, each carries the same in the end.
    same: dict[str, Level] = {"connections": 8, "engine": "epoll", "rate": 100, "rate_of": "connection"}
    tcp = fairness_of(tmp_path / "tcp", "request_response", {**same, "transport": "tcp"})
    udp = fairness_of(tmp_path / "udp", "request_response", {**same, "transport": "udp"})
    for found in (tcp, udp):
        assert found is not None and 0.9 < found <= 1.0


def test_one_connection_shares_with_nobody(tmp_path: Path) -> None:
    assert fairness_of(tmp_path, "request_response", {"connections": 1, "transport": "tcp"}) is None


def test_few_operations_on_many_connections_are_few_of_all(tmp_path: Path) -> None:
    # At 100 a second in 0.4 s, about 40 of 400 connections carry an operation each: an index of about 0.1.
    few: dict[str, Level] = {"connections": 400, "engine": "epoll", "rate": 100, "transport": "tcp"}
    found = fairness_of(tmp_path, "request_response", few)
    assert found is not None and found < 0.4
