"""Rates of a script are over the time in which it worked: neither what is closed after it nor a missing gap is in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iodyno.analysis import arrivals, cost, goodput
from iodyno.analysis.dataset import Dataset
from iodyno.analysis.host_data import HostData
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial
from iodyno.core.warnings import WarningCode
from iodyno.loads.script.analysis import results as script
from iodyno.loads.script.report.section import script_json, script_sentences, script_tables

MS = 1_000_000
START_NS = 5_000 * MS
"""Of the first record, on the clock of the host."""
NO_TIMES = {"count": 0, "sum_ns": 0, "buckets": [], "counts": []}


def operation(
    call: str, count: int, moved: int, begin_ms: float, end_ms: float, **more: int
) -> dict[str, Any]:
    return {
        "call": call,
        "label": call,
        "operations": count,
        "bytes": moved,
        "begin_ns": START_NS + int(begin_ms * MS),
        "end_ns": START_NS + int(end_ms * MS),
        "time": NO_TIMES,
        "failures": 0,
        "timeouts": 0,
        "lost": 0,
        "late": 0,
        "duplicates": 0,
        **more,
    }


def transaction(operations: list[dict[str, Any]], iterations: int, **more: Any) -> dict[str, Any]:
    return {
        "begin_ns": operations[0]["begin_ns"],
        "end_ns": max(one["end_ns"] for one in operations),
        "iterations": iterations,
        "missed_iterations": 0,
        "service_time": NO_TIMES,
        "operations": operations,
        **more,
    }


def host(
    name: str,
    role: str,
    transactions: list[dict[str, Any]],
    records: list[tuple[int, int, int]],
    threads: int = 1,
) -> HostData:
    """`records`: length in ms, bytes and operations of each."""
    account = {"groups": [{"name": "group 1", "threads": threads, "transactions": transactions}]}
    found = HostData(name, role, (0,), {"job": {}, "result": {"script": account}})
    at_ns = START_NS
    for index, (length_ms, moved, operations) in enumerate(records):
        after_ns = at_ns + length_ms * MS
        found.records.append(Record(index, "measured", at_ns, after_ns, moved, operations, 1, 0))
        at_ns = after_ns
    return found


def trial(client: HostData, server: HostData) -> Trial:
    return Trial(
        "00000-1",
        0,
        1,
        0,
        0,
        "p01",
        {},
        {},
        "finished",
        None,
        "",
        {},
        hosts={"client": client, "server": server},
    )


def test_goodput_is_over_the_time_from_the_first_to_the_last_transfer() -> None:
    """10 ms to connect, 1 MB in the 100 ms after that, then 40 ms until all is closed."""
    sent = [
        transaction([operation("connect", 1, 0, 0, 10)], 1),
        transaction([operation("write", 100, 1_000_000, 10, 110)], 100),
    ]
    got = [
        transaction([operation("accept", 1, 0, 0, 10)], 1),
        transaction([operation("read", 100, 1_000_000, 10, 110)], 100),
    ]
    made = trial(
        host("client", "send", sent, [(100, 900_000, 91), (50, 100_000, 10)]),
        host("server", "receive", got, [(100, 900_000, 91), (50, 100_000, 10)]),
    )
    carried = goodput.goodput(made)
    assert carried.value == pytest.approx(8 * 1_000_000 / 0.1)
    assert carried.intervals == pytest.approx((8 * 900_000 / 0.09, 8 * 100_000 / 0.01))
    # Connecting is an operation, too.
    assert arrivals.operations(made).value == pytest.approx(101 / 0.11)


def lossy(client_took: int, server_took: int) -> Trial:
    """Both ends send 100 kB in 100 ms, interval by interval as much, and get of it what is given."""
    ends = [
        [transaction([operation(call, 1, moved, 0, 100) for call, moved in calls], 1)]
        for calls in (
            (("read", client_took), ("write", 100_000)),
            (("write", 100_000), ("read", server_took)),
        )
    ]
    records = [[(50, (100_000 + took) // 2, 1)] * 2 for took in (client_took, server_took)]
    return trial(host("client", "send", ends[0], records[0]), host("server", "receive", ends[1], records[1]))


def test_goodput_is_what_came_at_both_ends_and_not_what_was_sent() -> None:
    carried = goodput.goodput(lossy(20_000, 40_000))
    assert carried.value == pytest.approx(8 * 60_000 / 0.1)
    assert carried.intervals == pytest.approx((8 * 30_000 / 0.05,) * 2)


def test_where_the_end_that_asks_reads_what_was_lost_is_not_delivered() -> None:
    """Its records say when it got what, and what a KiB costs goes by that."""
    mine = [transaction([operation("read", 10, 10_000, 0, 100, lost=90)], 10)]
    theirs = [transaction([operation("write", 100, 100_000, 0, 100)], 100)]
    made = trial(
        host("client", "send", mine, [(50, 8_000, 8), (50, 2_000, 2)]),
        host("server", "receive", theirs, [(50, 50_000, 50), (50, 50_000, 50)]),
    )
    assert goodput.goodput(made).intervals == pytest.approx((8 * 8_000 / 0.05, 8 * 2_000 / 0.05))
    for host_of_it in made.hosts.values():
        rate = cost._rate(made, host_of_it, "KiB", {})
        assert not isinstance(rate, str) and rate.per_ns == pytest.approx(10_000 / 1024 / (100 * MS))


def test_of_several_receiving_hosts_each_has_what_passed_between_it_and_the_sender() -> None:
    """The sender reads from one, and writes to the other."""
    mine = [transaction([operation("read", 10, 10_000, 0, 100), operation("write", 50, 50_000, 0, 100)], 10)]
    ends = {
        "one": [operation("write", 30, 30_000, 0, 100), operation("nop", 0, 0, 0, 100)],
        "two": [operation("nop", 0, 0, 0, 100), operation("read", 20, 20_000, 0, 100)],
    }
    made = trial(
        host("client", "send", mine, [(100, 60_000, 60)]),
        host("one", "receive", [transaction(ends["one"], 10)], [(100, 30_000, 30)]),
    )
    two = host("two", "receive", [transaction(ends["two"], 10)], [(100, 20_000, 20)])
    made.hosts = {"client": made.hosts["client"], "one": made.hosts["server"], "two": two}
    assert [made.with_what_came(name).measured_bytes for name in made.hosts] == [60_000, 10_000, 20_000]
    assert goodput.goodput(made).value == pytest.approx(8 * 30_000 / 0.1)


def test_goodput_at_a_rate_is_no_more_than_that_and_thinking_is_time_too() -> None:
    """Ten messages at 10/s, of which the last begins after 0.9 s; one message, and 0.3 s of thinking after it."""
    times = {"count": 10, "sum_ns": 0, "buckets": [0], "counts": [10]}
    paced = {"service_time": times, "response_time": times, "lateness": times}
    ends = [[transaction([operation(call, 10, 10_000, 0, 900)], 10)] for call in ("write", "read")]
    ends[0][0] |= paced
    records = [(900, 9_000, 9), (10, 1_000, 1)]
    made = trial(host("client", "send", ends[0], records), host("server", "receive", ends[1], records))
    assert goodput.goodput(made).value == pytest.approx(8 * 10_000)
    (found,) = script.scripts_of(dataset(made))
    assert found.groups[0].bits_per_s == pytest.approx(8 * 10_000)

    ends = [
        [transaction([operation(call, 1, 100, 0, 1), operation("think", 1, 0, 1, 300)], 1)]
        for call in ("write", "read")
    ]
    made = trial(
        *(
            host(*end, [(310, 100, 1)])
            for end in (("client", "send", ends[0]), ("server", "receive", ends[1]))
        )
    )
    (found,) = script.scripts_of(dataset(made))
    row = found.groups[0].transactions[0].operations[0].mine
    assert (
        goodput.goodput(made).value
        == found.groups[0].bits_per_s
        == row.bits_per_s
        == pytest.approx(800 / 0.3)
    )


def test_without_a_script_the_whole_windows_count() -> None:
    plain = [
        HostData(name, role, (0,), {}, [Record(0, "measured", 0, 100 * MS, 1000, 10, 1, 0)])
        for name, role in (("client", "send"), ("server", "receive"))
    ]
    assert goodput.goodput(trial(*plain)).value == pytest.approx(8 * 1000 / 0.1)


@pytest.mark.parametrize(("threads", "iterations", "asked"), [(1, 5, 5.0), (1, 101, 100.0), (2, 10, 10.0)])
def test_a_rate_that_is_held_is_shown_as_asked(threads: int, iterations: int, asked: float) -> None:
    """Five iterations at 5/s take four gaps of 0.2 s: from the first begin to the last end, 0.8 s and the last one's time."""
    gap_ms = 1000 * threads / asked
    each_ms = 10.0
    end_ms = (iterations / threads - 1) * gap_ms + each_ms
    times = {
        "count": iterations, "sum_ns": int(iterations * each_ms * MS), "buckets": [0], "counts": [iterations],
    }  # fmt: skip
    paced = {"service_time": times, "response_time": times, "lateness": times}
    sent = [transaction([operation("write", iterations, 64 * iterations, 0, end_ms)], iterations, **paced)]
    got = [transaction([operation("read", iterations, 64 * iterations, 0, end_ms)], iterations)]
    records = [(int(end_ms) + 20, 64 * iterations, iterations)]
    made = trial(
        host("client", "send", sent, records, threads), host("server", "receive", got, records, threads)
    )
    (found,) = script.scripts_of(dataset(made))
    (shown,) = found.groups[0].transactions
    assert shown.rate_per_s == pytest.approx(asked)
    assert shown.operations[0].mine.rate_per_s == pytest.approx(asked)
    assert shown.operations[0].theirs is not None
    assert shown.operations[0].theirs.bits_per_s == pytest.approx(asked * 64 * 8)


def dataset(made: Trial) -> Dataset:
    return Dataset(Path(), {"points": [], "factors": []}, "", [made], {})


def test_what_the_table_shows_is_in_json_and_a_group_says_what_both_ends_sent() -> None:
    """A group that only reads: the other end sends, and some of it does not come."""
    mine = [transaction([operation("read", 90, 90_000, 0, 100, failures=10, timeouts=10, lost=10)], 100)]
    theirs = [transaction([operation("write", 100, 100_000, 0, 100)], 100)]
    records = [(100, 90_000, 90)]
    made = trial(host("client", "send", mine, records), host("server", "receive", theirs, records))
    (found,) = script.scripts_of(dataset(made))
    told = json.loads(json.dumps(script_json(found), allow_nan=False))
    (group,) = told["groups"]
    assert (group["name"], group["sent_bytes"], group["taken_bytes"]) == ("group 1", 100_000, 90_000)
    (flowop,) = group["transactions"][0]["flowops"]
    assert (flowop["lost"], flowop["loss_ratio"]) == (10, pytest.approx(0.1))
    reads, writes = flowop["ends"]["client"], flowop["ends"]["server"]
    assert (reads["call"], reads["operations"], reads["bytes"], reads["failures"]) == ("read", 90, 90_000, 10)
    assert (writes["call"], writes["operations"], writes["bytes"]) == ("write", 100, 100_000)
    assert writes["rate_per_s"] == pytest.approx(1000) and writes["bits_per_s"] == pytest.approx(8e6)
    assert set(writes["time"]) == {"count", "mean_ns", "p50_ns", "p99_ns", "max_ns"}
    # What both ends sent stands in the columns of neither.
    (table,) = script_tables((found,))
    assert [cell.text for cell in table.rows[0] if cell.text] == ["group 1, 1 thread"]
    assert len(table.rows[0]) == len(table.rows[1]) == len(table.columns)
    assert "group 1: both ends together sent 97.7 KiB and got 87.9 KiB, 7.20 Mbit/s." in script_sentences(
        (found,)
    )


def test_a_rate_that_is_out_of_reach_is_said() -> None:
    sent = [transaction([operation("write", 20, 1280, 0, 1000)], 20, missed_iterations=480)]
    got = [transaction([operation("read", 20, 1280, 0, 1000)], 20)]
    records = [(1000, 1280, 20)]
    made = trial(host("client", "send", sent, records), host("server", "receive", got, records))
    (warning,) = script.check(made)
    assert warning.code is WarningCode.RESPONSE_CENSORED
    assert "480 of 500 iterations that were due had not begun" in warning.text
    sent[0]["missed_iterations"] = 0
    assert not list(script.check(made))


@pytest.mark.parametrize(("lasted_ms", "is_said"), [(1050, False), (105, True)])
def test_a_duration_that_was_exceeded_is_said(lasted_ms: int, is_said: bool) -> None:
    """Its last iteration is completed."""
    ends = [[transaction([operation(call, 20, 1280, 0, lasted_ms)], 20)] for call in ("write", "read")]
    records = [(lasted_ms, 1280, 20)]
    made = trial(host("client", "send", ends[0], records), host("server", "receive", ends[1], records))
    until = {"kind": "duration", "duration_ns": 1000 * MS if lasted_ms > 1000 else 90 * MS}
    asked = [{"until": until, "operations": [{"call": "write"}]}]
    made.hosts["client"].manifest["job"]["script"] = {"groups": [{"transactions": asked}]}
    said = "".join(script_sentences(script.scripts_of(dataset(made))))
    assert ("group 1, transaction 1 took 105 ms instead of 90.0 ms" in said) == is_said


def test_thinking_that_was_cut_is_said() -> None:
    """Of three iterations with two thinks each the last think was cut."""
    mine = [transaction([operation("write", 3, 300, 0, 100), operation("think", 5, 0, 0, 100)], 3)]
    theirs = [transaction([operation("read", 3, 300, 0, 100), operation("think", 5, 0, 0, 100)], 3)]
    records = [(100, 300, 3)]
    made = trial(host("client", "send", mine, records), host("server", "receive", theirs, records))
    until = {"kind": "duration", "duration_ns": 100 * MS}
    asked = [{"until": until, "operations": [{"call": "write"}, {"call": "think", "count": 2}]}]
    made.hosts["client"].manifest["job"]["script"] = {"groups": [{"transactions": asked}]}
    said = script_sentences(script.scripts_of(dataset(made)))
    assert [text for text in said if "the time of the transaction was over within 1 of think" in text]


def test_datagrams_that_came_twice_or_late_are_told_of_the_end_that_read_them() -> None:
    sent = [transaction([operation("write", 20, 1280, 0, 1000)], 20)]
    got = [transaction([operation("read", 17, 1088, 0, 1000) | {"lost": 3, "late": 2, "duplicates": 5}], 17)]
    records = [(1000, 1280, 20)]
    made = trial(host("client", "send", sent, records), host("server", "receive", got, records))
    said = script_sentences(script.scripts_of(dataset(made)))
    told = "5 datagrams came twice and 2 datagrams came after they had been given up"
    assert [text for text in said if f"read on server: {told}" in text]
    # A campaign of before they were counted.
    del got[0]["operations"][0]["duplicates"]
    assert "came twice" not in "".join(script_sentences(script.scripts_of(dataset(made))))
