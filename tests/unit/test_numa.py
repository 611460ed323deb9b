"""Shares of memory of other NUMA nodes, of known counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from iodyno.analysis import numa
from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record

SPAN_NS = 10**8
LACKS = "loads from memory: no hardware counters here"


def shares(*readings: dict[tuple[str, str], int]) -> tuple[Measured, Measured]:
    """Of pages and of loads, where these are the growths of each interval."""
    records = [
        Record(n, "measured", n * SPAN_NS, (n + 1) * SPAN_NS, 0, 0, 1, 0) for n in range(len(readings))
    ]
    each = {n: Reading(SPAN_NS, 0, LACKS, values) for n, values in enumerate(readings)}
    host = HostData("client", "alone", (0,), {}, records=records, readings={numa.SENSOR: each})
    trial: Any = SimpleNamespace(hosts={"client": host})
    return numa.remote_pages(trial, "client"), numa.remote_loads(trial, "client")


def test_pages_of_all_nodes_and_loads_of_all_cpus_count_together() -> None:
    pages = {("numa.local_pages", "node=0"): 600, ("numa.remote_pages", "node=0"): 0}
    pages |= {("numa.local_pages", "node=1"): 100, ("numa.remote_pages", "node=1"): 300}
    loads = {("numa.loads", "cpu=0"): 1000, ("numa.remote_loads", "cpu=0"): 50}
    loads |= {("numa.loads", "cpu=1"): 3000, ("numa.remote_loads", "cpu=1"): 150}
    of_pages, of_loads = shares(pages | loads, pages | loads)
    assert of_pages.value == pytest.approx(0.3) and of_loads.value == pytest.approx(0.05)
    assert of_pages.intervals == pytest.approx((0.3, 0.3))


def test_what_is_not_counted_is_missing_with_its_reason() -> None:
    of_pages, of_loads = shares({("numa.local_pages", "node=0"): 3, ("numa.remote_pages", "node=0"): 1})
    assert of_pages.value == pytest.approx(0.25)
    assert of_loads.value is None and of_loads.missing is not None and LACKS in of_loads.missing
