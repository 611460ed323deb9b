"""The law of a server on blocks, on trials with known counts."""

from __future__ import annotations

from typing import Any

import pytest

from iodyno.analysis import blocks
from iodyno.analysis.closed_loop import round_trip_mean
from iodyno.analysis.host_data import HostData
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial

SECOND = 10**9
RING = {"version": 3, "block_packets": 64, "block_timeout_ns": 10_000_000}


def trial(operations: int, asks: dict[str, Any] | None = None, **ring: Any) -> Trial:
    """One second of 64 flows."""
    record = Record(1, "measured", 0, SECOND, operations * 512, operations, 64, 0)
    job = {"workload": "request_response", "connections": 64, "queue_depth": 1, "arrivals": None}
    manifests = {
        "client": {"job": job | (asks or {})},
        "server": {"job": job | (asks or {}) | {"ring": RING | ring}},
    }
    hosts = {
        "client": HostData("client", "send", (0,), manifests["client"], [record]),
        "server": HostData("server", "receive", (1,), manifests["server"], [record]),
    }
    return Trial("t", 0, 1, 0, 0, "p01", {}, {}, "finished", None, "", {}, (), hosts)


@pytest.mark.parametrize(("operations", "broken"), [(6400, False), (6300, False), (5000, True), (7000, True)])
def test_blocks_that_never_get_full_are_held_against_their_law(operations: int, broken: bool) -> None:
    found = trial(operations)
    assert blocks.law_ratio(found).value == pytest.approx(operations / 6400)
    warnings = list(blocks.check(found))
    assert bool(warnings) is broken
    assert all("6,400/s by law" in warning.text for warning in warnings)


@pytest.mark.parametrize(
    ("asks", "ring"),
    [
        ({}, {"block_packets": 63}),
        ({"queue_depth": 2}, {}),
        ({}, {"version": 2}),
        ({}, {"adaptive": True}),
        ({"arrivals": {"law": "poisson"}}, {}),
        ({"think_ns": 1000}, {}),
        ({"busy_wait": True}, {}),
    ],
)
def test_where_blocks_get_full_or_the_loop_is_open_there_is_no_law(asks: Any, ring: Any) -> None:
    found = trial(300_000, asks, **ring)
    ratio = blocks.law_ratio(found)
    assert ratio.value is None and ratio.missing
    assert not list(blocks.check(found))


@pytest.mark.parametrize(
    ("operations", "unanswered", "told"),
    [
        ([30_000, 630, 30_000], 1, True),
        ([30_000, 630, 30_000], 0, False),
        ([30_000, 9_000, 30_000], 1, False),
    ],
)
def test_a_load_that_stands_still_because_blocks_do_not_fill_is_told_with_the_reason(
    operations: list[int], unanswered: int, told: bool
) -> None:
    """64 in flight and blocks of 63 packets: with one request lost, 63 are answered every 10 ms."""
    made = trial(0, block_packets=63)
    tenth = SECOND // 10
    records = [
        Record(n, "measured", n * tenth, (n + 1) * tenth, 512 * count, count, 64, 0)
        for n, count in enumerate(operations)
    ]
    made.hosts["client"].records[:] = records
    reading = Reading(tenth, 0, None, {("datagram.lost", ""): 0, ("datagram.retries", ""): unanswered})
    made.hosts["client"].readings["datagram"] = {1: reading}
    warnings = list(blocks.check(made))
    assert bool(warnings) is told
    assert all(
        "in 1 of 3 intervals the load nearly stood still: a request had no answer" in d.text for d in warnings
    )


def test_the_mean_round_trip_is_that_of_littles_law() -> None:
    assert round_trip_mean(trial(6400)).value == pytest.approx(10_000_000)
    assert round_trip_mean(trial(6400, {"queue_depth": 4})).value == pytest.approx(40_000_000)
    assert round_trip_mean(trial(0)).missing
    assert round_trip_mean(trial(6400, {"arrivals": {"law": "poisson"}})).value is None


@pytest.mark.parametrize(("lost", "told"), [(0, True), (6, True), (7, False), (200, False)])
def test_no_round_trip_is_told_where_lost_requests_wait_to_be_given_up(lost: int, told: bool) -> None:
    """Of 64 places in one second, each loss stops one for 100 ms: 6.4 of them are 1 %."""
    made = trial(6400, {"response_timeout_ns": 100_000_000, "retries": 0})
    reading = Reading(SECOND, 0, None, {("datagram.lost", ""): lost, ("datagram.received", ""): 6400})
    made.hosts["client"].readings["datagram"] = {1: reading}
    found = round_trip_mean(made)
    assert (found.value is not None) is told
    assert told or "`response_timeout` (100 ms)" in (found.missing or "")
    # Where a request is sent again before it is given up, it waits as many times longer.
    again = trial(6400, {"response_timeout_ns": 100_000_000, "retries": 5})
    again.hosts["client"].readings["datagram"] = {1: reading}
    assert (round_trip_mean(again).value is not None) is (lost == 0)
