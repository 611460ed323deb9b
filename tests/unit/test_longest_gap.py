"""How long a load stood still within its window, and when that is a warning."""

from __future__ import annotations

from typing import Any

import pytest

from iodyno.analysis import stalls
from iodyno.analysis.cost import CostBasis
from iodyno.analysis.histogram import Histogram, bucket_of
from iodyno.analysis.host_data import HostData
from iodyno.analysis.outcomes import measure_named
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Part, Record
from iodyno.analysis.trial import Trial

MS = 1_000_000
SOME, NONE = (1000, 1), (0, 0)
WINDOW = 50
STOOD_STILL = [SOME] * 15 + [NONE] * 20 + [SOME] * 15


def host(name: str, role: str, moved: list[tuple[int, int]], span_ns: int = 40 * MS, **job: Any) -> HostData:
    """A host whose measured window is one record with a part for each pair of bytes and operations."""
    return of_parts(name, role, [Part(*amounts, span_ns) for amounts in moved], **job)


def of_parts(name: str, role: str, parts: list[Part], **job: Any) -> HostData:
    found = HostData(name, role, (0,), {"job": {"workload": "stream", **job}})
    whole = [sum(amounts) for amounts in zip(*parts, strict=True)]
    found.records.append(Record(0, "measured", 0, whole[2], whole[0], whole[1], 1, 0, tuple(parts)))
    return found


def trial(*hosts: HostData, **settings: Any) -> Trial:
    named = {host.name: host for host in hosts}
    clients = {name: host for name, host in named.items() if host.role == "alone"}
    return Trial(
        "00000-1", 0, 1, 0, 0, "p01", {}, settings, "finished", None, "", {}, hosts=named, clients=clients
    )


def pair(moved: list[tuple[int, int]], **job: Any) -> Trial:
    """A sender that always goes on, and a receiver that gets this."""
    return trial(host("client", "send", [SOME] * len(moved), **job), host("server", "receive", moved))


def gap_ms(made: Trial) -> float | None:
    value = measure_named(made, "longest_gap_ns", CostBasis()).value
    return None if value is None else value / MS


def said(made: Trial) -> list[str]:
    return [warning.text for warning in stalls.check(made)]


def test_a_gap_is_the_longest_run_of_parts_without_anything() -> None:
    assert gap_ms(pair([SOME] * WINDOW)) == 0
    assert gap_ms(pair([SOME, NONE, NONE, SOME, NONE, SOME])) == 80
    assert gap_ms(pair([SOME, SOME, NONE, NONE, NONE])) == 120
    # Of a message that is long bytes come before it is complete; an operation may have no bytes.
    assert gap_ms(pair([(10, 0), (0, 1)] * 5)) == 0


def test_of_a_stream_it_is_the_end_that_receives_and_of_requests_the_one_that_asks() -> None:
    still, busy = STOOD_STILL, [SOME] * WINDOW
    for kind, sends, receives, expected in (
        ("stream", still, busy, 0),
        ("stream", busy, still, 800),
        ("request_response", still, busy, 800),
        ("request_response", busy, still, 0),
    ):
        made = trial(host("client", "send", sends, workload=kind), host("server", "receive", receives))
        assert gap_ms(made) == expected, (kind, expected)
    both = trial(host("client", "send", still), host("server", "receive", busy), direction="both")
    assert gap_ms(both) == 800
    back = trial(host("client", "send", still), host("server", "receive", busy), direction="reverse")
    assert gap_ms(back) == 800


def test_a_frozen_host_counts_what_it_did_before_and_after_in_one_long_part() -> None:
    """It is not asleep where a busy machine woke it late, and the load went on meanwhile."""
    parts = [Part(1000, 10, 40 * MS)] * 25
    frozen = trial(
        host("client", "send", [SOME]), of_parts("server", "receive", [*parts, Part(500, 5, 1000 * MS)])
    )
    gap = gap_ms(frozen)
    assert gap is not None and 900 < gap < 1000
    late = trial(
        host("client", "send", [SOME]), of_parts("server", "receive", [*parts, Part(24_000, 240, 1000 * MS)])
    )
    assert gap_ms(late) == 0


def test_of_several_clients_it_is_that_of_one_and_so_is_its_share_of_the_rate() -> None:
    made = trial(
        host("one", "alone", [SOME] * WINDOW, workload="disk"),
        host("two", "alone", STOOD_STILL, workload="disk"),
    )
    assert gap_ms(made) == 800
    # 30 parts of 80 that are its own would have been 50.
    assert said(made) == [
        "two: no byte and no operation for 0.80 s of the 2.00 s measured: the rate without that would be 25% higher"
    ]


def test_a_script_has_none() -> None:
    made = pair(STOOD_STILL)
    operation = {"call": "write", "bytes": 1, "operations": 1}
    account = {"groups": [{"name": "g", "threads": 1, "transactions": [{"operations": [operation]}]}]}
    for end in made.hosts.values():
        end.manifest = {**end.manifest, "result": {"script": account}}
    assert gap_ms(made) is None and not said(made)


def test_a_load_that_stood_still_is_told_with_what_it_lost() -> None:
    assert said(pair(STOOD_STILL)) == [
        "server: no byte and no operation for 0.80 s of the 2.00 s measured: the rate without that would be 67% higher"
    ]


@pytest.mark.parametrize(
    ("parts", "span_ns", "warns"),
    [(2, 40 * MS, False), (3, 40 * MS, True), (2, 400 * MS, False), (3, 400 * MS, True)],
)
def test_it_is_told_from_100_ms_and_a_twentieth_of_the_window_on(
    parts: int, span_ns: int, warns: bool
) -> None:
    moved = [SOME] * 20 + [NONE] * parts + [SOME] * (WINDOW - 20 - parts)
    made = trial(host("client", "send", [SOME]), host("server", "receive", moved, span_ns))
    assert bool(said(made)) is warns


@pytest.mark.parametrize(
    "job",
    [
        {"think_ns": 700 * MS},
        {"compute_ns": 700 * MS},
        {"disk": {"think_ns": 700 * MS}},
        {"files": {"processes": [{"threads": [{"flowops": [{"name": "a", "call": "delay"}]}]}]}},
    ],
)
def test_pauses_that_were_asked_for_are_no_stalls(job: dict[str, Any]) -> None:
    assert not said(pair(STOOD_STILL, **job))
    # A pause that is much shorter is not what it was.
    short = {key: 10_000 for key in job if key.endswith("_ns")}
    assert not short or said(pair(STOOD_STILL, **short))


@pytest.mark.parametrize(("wait_ms", "warns"), [(1, True), (500, False)])
def test_what_a_path_or_a_device_always_takes_is_no_stall(wait_ms: int, warns: bool) -> None:
    wait_ns = wait_ms * MS
    slow = host("client", "alone", STOOD_STILL, workload="disk")
    slow.histograms[0] = Histogram(3, 3 * wait_ns, (bucket_of(wait_ns),), (3,))
    assert bool(said(trial(slow))) is warns
    far = pair(STOOD_STILL)
    trip = Reading(2000 * MS, 0, None, {("tcp.min_rtt_ns", "of=max"): wait_ns})
    far.hosts["client"].readings["tcp_info"] = {0: trip}
    assert bool(said(far)) is warns


def test_a_load_of_many_pauses_is_one_that_pauses() -> None:
    assert not said(pair([SOME, SOME, *[NONE] * 8] * 5))
    # Twice is no habit.
    assert said(pair([SOME] * 12 + [NONE] * 8 + [SOME] * 12 + [NONE] * 8 + [SOME] * 10))


@pytest.mark.parametrize(
    ("response_ms", "waits_ms", "warns"), [(790, 0, True), (1, 0, False), (1, 800, True)]
)
def test_where_nothing_was_due_an_open_loop_does_not_stand_still(
    response_ms: int, waits_ms: int, warns: bool
) -> None:
    """Bursts with time between them, or a rate that is low: what was due did not wait."""
    asks = host("client", "send", STOOD_STILL, workload="request_response", arrivals={"law": {}})
    asks.readings["arrivals"] = {
        0: Reading(
            2000 * MS, 0, None, {("arrivals.due", ""): 30, ("arrivals.oldest_wait_ns", ""): waits_ms * MS}
        )
    }
    longest = response_ms * MS
    asks.more_histograms["response_time"] = {0: Histogram(1, longest, (bucket_of(longest),), (1,))}
    made = trial(asks, host("server", "receive", [SOME]))
    assert bool(said(made)) is warns
    assert gap_ms(made) == 800
