"""The mechanisms behind a cost, from counters with known values; and the sentences that name them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from made_calls import cost, receiver, sender
from made_campaign import Truth, changed, make_campaign

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.function_change import FunctionChange, ProfileChange
from iodyno.analysis.function_study import study_functions
from iodyno.analysis.functions import PointProfile
from iodyno.analysis.host_data import HostData
from iodyno.analysis.mechanisms import Mechanism, mechanism_changes, mechanisms
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record
from iodyno.analysis.stacks import Function
from iodyno.analysis.summary import analyse
from iodyno.analysis.trial import Trial
from iodyno.core.outcome import Estimate
from iodyno.report.function_section import contrast_sentences
from iodyno.report.function_sentences import why

SECOND = 10**9
MIB = 2**20


def trial(scale: float = 1.0, **values: dict[tuple[str, str], int]) -> Trial:
    """One second at 100 MiB/s from `client`, on CPU 0, to `server`; CPU 1 is not the client's."""
    record = Record(1, "measured", 0, SECOND, 100 * MIB, int(1600 * scale), 4, 0)
    warm_up = replace(record, index=0, window="warm_up", begin_ns=-SECOND, end_ns=0)
    sensors = {
        sensor: {1: Reading(SECOND, 1000, None, {key: int(value * scale) for key, value in read.items()})}
        for sensor, read in values.items()
    }
    hosts = {
        "client": HostData("client", "send", (0,), {}, [warm_up, record], {}, sensors),
        "server": HostData("server", "receive", (1,), {}, [warm_up, record], {}, {}),
    }
    return Trial("t", 0, 1, 0, 0, "p01", {}, {}, "finished", None, "", {}, (), hosts)


COUNTS: dict[str, Any] = {
    "cpu_exact": {
        ("napi.polls", "cpu=0"): 500,
        ("napi.packets", "cpu=0"): 2000,
        ("napi.packets", "cpu=1"): 9999,
        ("napi.full_polls", "cpu=0"): 50,
        ("exact.softirq_count", "cpu=0,vector=NET_RX"): 300,
        ("exact.softirq_count", "cpu=0,vector=TIMER"): 7777,
        ("sched.wakeups", "cpu=0"): 200,
        ("lock.contended_ns", "cpu=0"): 1024 * 1000,
        ("syscalls.rate_per_s", ""): 1700,
    },
    "softirqs": {("softirqs.count", "cpu=0,vector=NET_RX"): 1},
    "interrupts": {
        ("interrupts.count", "cpu=0,irq=LOC"): 250,
        ("interrupts.count", "cpu=0,irq=38:eth0"): 150,
    },
    "context_switches": {("sched.context_switches", ""): 900},
    "process": {("process.voluntary_switches", ""): 80, ("process.involuntary_switches", ""): 20},
}
EXPECTED = {
    "packets_per_poll": 4,
    "full_polls_ratio": 0.1,
    "net_rx_runs_per_mib": 3,
    "wakeups_per_mib": 2,
    "lock_wait_ns_per_kib": 10,
    "system_calls_per_mib": 17,
    "interrupts_per_mib": 4,
    "context_switches_per_mib": 9,
    "agent_switches_per_mib": 1,
    "bytes_per_write": 100 * MIB / 1600,
}


def by_name(found: list[Mechanism], host: str) -> dict[str, Mechanism]:
    return {each.kind.name: each for each in found if each.host == host}


def test_each_is_the_ratio_of_its_counts() -> None:
    found = by_name(mechanisms([trial(**COUNTS)], ["client", "server"]), "client")
    assert {name: found[name].value.estimate for name in EXPECTED} == pytest.approx(EXPECTED)


def test_a_reading_that_covers_several_records_is_set_against_all_of_them() -> None:
    """Where a sensor is too costly to be read each time, it is read at the ends of windows only."""
    whole = trial(**COUNTS)
    client, server = whole.hosts["client"], whole.hosts["server"]
    for host in (client, server):
        # The first quarter at 40 MiB/s, the rest at 120.
        host.records[:] = [
            Record(0, "measured", 0, SECOND // 4, 10 * MIB, 1, 4, 0),
            Record(1, "measured", SECOND // 4, SECOND, 90 * MIB, 1, 4, 0),
        ]
    found = by_name(mechanisms([whole], ["client", "server"]), "client")
    assert found["agent_switches_per_mib"].value.estimate == pytest.approx(1)
    assert [[record.index for record in records] for _, records in client.covered("process")] == [[0, 1]]
    client.readings["process"] |= {0: Reading(SECOND // 4, 1, None, {}), 1: Reading(SECOND, 1, None, {})}
    assert [[record.index for record in records] for _, records in client.covered("process")] == [[0], [1]]


def test_what_is_counted_in_the_warm_up_only_is_taken_from_there() -> None:
    exact = {
        ("napi.polls_per_s", "cpu=0"): 500,
        ("napi.packets_per_s", "cpu=0"): 2000,
        ("napi.packets_per_s", "cpu=1"): 9999,
        ("napi.full_polls_per_s", "cpu=0"): 50,
        ("sched.wakeups_per_s", "cpu=0"): 200,
        ("lock.contended_ns_per_s", "cpu=0"): 1024 * 1000,
    }
    found = by_name(mechanisms([trial(**COUNTS | {"cpu_exact": exact})], ["client", "server"]), "client")
    names = ("packets_per_poll", "full_polls_ratio", "wakeups_per_mib", "lock_wait_ns_per_kib")
    assert {name: found[name].value.estimate for name in names} == pytest.approx(
        {name: EXPECTED[name] for name in names}
    )
    assert "slice" in " ".join(found["packets_per_poll"].value.assumptions)


def small_messages(rate_in_slice: int, warm_up_messages: int) -> Trial:
    """Messages of 1 KiB at 100 MiB/s, and at another rate in the warm-up of 0.2 s, where system calls are counted."""
    made = trial(cpu_exact={("syscalls.rate_per_s", ""): rate_in_slice})
    for host in made.hosts.values():
        job = {"workload": "stream", "engine": "threads", "syscalls": "read_write"}
        host.manifest = {"job": job}
        host.records[:] = [
            Record(0, "warm_up", -SECOND // 5, 0, warm_up_messages * 1024, warm_up_messages, 4, 0),
            Record(1, "measured", 0, SECOND, 100 * MIB, 102_400, 4, 0),
        ]
    return made


def calls_per_mib(*trials: Trial) -> Estimate:
    return by_name(mechanisms(trials, ["client"]), "client")["system_calls_per_mib"].value


def test_system_calls_are_set_against_what_was_done_while_they_were_counted() -> None:
    """The warm-up ran at a third of the window's rate: a rate of calls from there over that of bytes here would be 370."""
    found = calls_per_mib(small_messages(37_500, 6_827))
    assert found.estimate == pytest.approx(1024 * 37_500 / 5 / 6_827)
    # One slice says nothing of how far slices vary, however many intervals the window has.
    assert (found.low, found.high) == (None, None)


def test_there_are_no_fewer_system_calls_than_the_load_made_itself() -> None:
    """A slice in which the load hardly ran is known to be wrong by what it lacks, and no interval is narrower than that."""
    found = calls_per_mib(*(small_messages(20_000, 6_827) for _ in range(3)))
    raw = 1024 * 20_000 / 5 / 6_827
    assert found.estimate == found.low == pytest.approx(1024)
    assert found.high is not None and found.high - 1024 >= 1024 - raw
    # One call may take several of them, so that calls may be fewer than messages.
    several = small_messages(20_000, 6_827)
    several.hosts["client"].manifest["job"]["syscalls"] = "batch"
    assert calls_per_mib(several).estimate == pytest.approx(raw)


def test_slices_of_a_warm_up_in_which_nothing_was_done_tell_nothing() -> None:
    found = calls_per_mib(small_messages(20_000, 0))
    assert found.estimate is None and "not known" in found.missing


def test_what_was_not_measured_has_a_reason() -> None:
    found = mechanisms([trial(**COUNTS)], ["client", "server"])
    on_server = by_name(found, "server")
    assert on_server["packets_per_poll"].value.estimate is None
    assert on_server["packets_per_poll"].value.missing == "sensor cpu_exact was not read on server"
    # Those of the other end are not asked of it.
    assert "bytes_per_write" not in on_server and "bytes_per_read" in on_server
    fewer = {key: value for key, value in COUNTS.items() if key != "cpu_exact"}
    assert (
        by_name(mechanisms([trial(**fewer)], ["client"]), "client")["net_rx_runs_per_mib"].value.estimate
        == 0.01
    )


@pytest.mark.parametrize(("with_payload", "told"), [(0, 2.0), (5, 2.0), (500, None), (6000, None)])
def test_segments_that_bring_answers_are_no_acknowledgements(with_payload: int, told: float | None) -> None:
    """Who gets six data segments for each request gets no acknowledgement with them."""
    counts = {
        ("tcp.data_segments_out", ""): 2000,
        ("tcp.segments_in", ""): max(1000, with_payload),
        ("tcp.data_segments_in", ""): with_payload,
    }
    found = by_name(mechanisms([trial(tcp_info=counts)], ["client"]), "client")["segments_per_ack"].value
    assert found.estimate == told
    assert told or "payload came back" in (found.missing or "")


def test_ratios_of_two_points() -> None:
    first, second = ([trial(scale * wobble, **COUNTS) for wobble in (0.98, 1, 1.02)] for scale in (1, 3))
    changes = mechanism_changes(mechanisms(first, ["client"]), mechanisms(second, ["client"]))
    named = {each.kind.name: each for each in changes}
    assert named["interrupts_per_mib"].changes
    assert named["interrupts_per_mib"].ratio.estimate == pytest.approx(3, rel=0.01)
    assert not named["packets_per_poll"].changes


def test_sentences_name_causes_and_nothing_else(tmp_path: Path) -> None:
    points = [
        (
            {"connections": connections, "size": size},
            changed(
                Truth(background=0.0),
                cost_ns_per_kib={"client": cost(calls), "server": cost(receiver())},
                calls={"client": calls, "server": receiver()},
            ),
        )
        for connections in (1, 100)
        for size in (65536, 1024)
        for calls in [sender(calls=60.0 if size == 1024 else 10.0, ack=20.0 + 0.5 * connections)]
    ]
    factors = [
        {"name": "connections", "levels": [1, 100], "together": {}},
        {"name": "size", "levels": [65536, 1024], "together": {}},
    ]
    dataset = read_dataset(make_campaign(tmp_path / "c", points, factors=factors))
    study = study_functions(dataset)
    summary = analyse(dataset)
    texts = [sentence.text for sentence in contrast_sentences(study, summary)]
    sizes = next(text for text in texts if "from 64KiB messages to 1KiB messages at" in text)
    loads = next(text for text in texts if "from 1 connection to 100 connections at" in text)
    assert "do_syscall_64" in sizes and "explain" in sizes
    assert "tcp_ack" not in sizes.split("Unchanged")[0]
    assert "tcp_ack" in loads.split("Unchanged")[0] and "do_syscall_64" not in loads.split("Unchanged")[0]
    assert "_copy_from_iter" in loads.split("Unchanged")[1]
    # The size of the writes is what differs; segments per acknowledgement do not. A write is a step of the path: 145 and 170 ns
    # per KiB in tcp_sendmsg are 9.3 us for one of 64 KiB, and 170 ns for one of 1 KiB.
    behind = next(text for text in texts if text.startswith(("Step by step", "With it")))
    assert ("as many writes" in behind and "in tcp_sendmsg" in behind) or "bytes per write go from" in behind
    assert not any("per acknowledgement" in text for text in texts)
    # Where CPU time was stolen nothing is claimed of a cost, and so no reason is given for it.
    costliest = study.contrasts[0].change.second
    fewer = [
        sentence.text for sentence in contrast_sentences(study, summary, void={(costliest.point, "client")})
    ]
    assert fewer and len(fewer) < len(texts) and set(fewer) < set(texts)
    # The receiver does the same work everywhere.
    server = [sentence.text for sentence in contrast_sentences(study, summary, "server")]
    assert all("explain" not in text for text in server if text.startswith("On server"))


def _changed_function(name: str, ns: tuple[float, float], within: tuple[float, float]) -> FunctionChange:
    def near(value: float) -> Estimate:
        return Estimate(value, value * 0.9, value * 1.1, 3, "ns", "made")

    whole = ns[1] - ns[0]
    return FunctionChange(
        function=Function(name, "kernel"),
        samples=(100, 100),
        exclusive=(near(ns[0]), near(ns[1])),
        inclusive=(near(within[0]), near(within[1])),
        ratio=near(ns[1] / ns[0]),
        inclusive_ratio=near(within[1] / within[0]),
        difference=near(whole),
        explains=near(whole / 1000),
        verdict="rises",
        certain=True,
        inclusive_verdict="rises",
        inclusive_certain=True,
    )


def _profiles(event: str, *functions: FunctionChange) -> ProfileChange:
    """A change of 1000 ns of two profiles that an event made."""
    point = SimpleNamespace(
        labels={"size": "64KiB"},
        host="client",
        cost=Estimate(500.0, 450.0, 550.0, 3, "ns", "made"),
        sampling=SimpleNamespace(event=event),
        reach="all",
        with_programs=False,
        per="KiB",
        lacks=(),
    )
    costlier = Estimate(1500.0, 1400.0, 1600.0, 3, "ns", "made")
    other = SimpleNamespace(**{**vars(point), "labels": {"size": "1KiB"}, "cost": costlier})
    return ProfileChange(
        first=cast(PointProfile, point),
        second=cast(PointProfile, other),
        total=Estimate(1000.0, 900.0, 1100.0, 3, "ns", "made"),
        total_ratio=Estimate(3.0, 2.5, 3.5, 3, "ns", "made"),
        functions=functions,
        rest=0.0,
        too_few=0,
    )


def test_functions_of_one_call_chain_are_named_once() -> None:
    chain = (
        _changed_function("asm_sysvec_timer", (1.0, 2.0), (58.0, 1450.0)),
        _changed_function("sysvec_timer", (1.0, 2.0), (55.0, 1390.0)),
        _changed_function("tcp_write_xmit", (4.0, 100.0), (180.0, 4400.0)),
    )
    text = why(_profiles("cycles", *chain), [], ["size"])[0].text
    assert text.count("sysvec_timer") == 1 and "tcp_write_xmit" in text


@pytest.mark.parametrize(("event", "said"), [("cpu-clock", True), ("cycles", False)])
def test_where_a_timer_samples_functions_that_stand_for_others_are_said(event: str, said: bool) -> None:
    functions = (
        _changed_function("handle_softirqs", (100.0, 700.0), (300.0, 900.0)),
        _changed_function("tcp_ack", (10.0, 110.0), (20.0, 220.0)),
    )
    text = why(_profiles(event, *functions), [], ["size"])[0].text
    assert ("What stands at handle_softirqs is also the time of code before it" in text) is said


def _cost(ns: float) -> Estimate:
    return Estimate(ns, ns - 10, ns + 10, 3, "ns/KiB", "made")


@pytest.mark.parametrize(
    ("costs", "verb", "said"),
    [
        ((100.0, 400.0), "grows", ""),
        ((400.0, 100.0), "goes", "from 400 [390, 410] ns/KiB to 100 [90, 110] ns/KiB, the other way"),
        ((100.0, 105.0), "goes", "to 105 [95, 115] ns/KiB: the same way, but by its intervals, which overlap,"),
    ],
)  # fmt: skip
def test_no_verdict_stands_against_that_of_the_tables(
    costs: tuple[float, float], verb: str, said: str
) -> None:
    first = why(_profiles("cycles"), [], ["size"], costs=(_cost(costs[0]), _cost(costs[1])))[0].text
    assert (
        f"a KiB takes, background included and other programs left out, {verb} from 500 to 1500 ns" in first
    )
    assert said in first and ("that the tables have" in first) is bool(said)
