"""Evidence is that of the whole measured window of all trials, and what could not be looked at is said once and is true."""

from __future__ import annotations

import pytest
from made_limits import FULL, INTERVALS, SPAN, trial

from iodyno.analysis.host_data import HostData
from iodyno.analysis.limiter import verdict
from iodyno.analysis.readings import Reading
from iodyno.analysis.trial import Trial
from iodyno.core.limiter import UNKNOWN, Evidence, Suspect, Verdict

BUSY, WINDOW = ("tcp.busy_ns", ""), ("tcp.rwnd_limited_ns", "")
REQUESTS = {"job": {"workload": "request_response"}}


def flows_busy_in(made: Trial, intervals: int) -> Trial:
    """The same, with flows that are busy in the first intervals alone, and wait for a full window then."""
    for index, reading in made.hosts["client"].readings["tcp_info"].items():
        reading.values[BUSY] = SPAN if index < intervals else 0
        reading.values[WINDOW] = SPAN if index < intervals else 0
    return made


def test_flows_whose_busy_time_did_not_grow_were_looked_at() -> None:
    """Exchanges that are over within a tick of the kernel's clock: nothing held them up, and that was seen."""
    found = verdict.of_trial(flows_busy_in(trial(sender=FULL, sending=REQUESTS), 0))
    assert found.name == "client.cpu"
    assert not [text for text in found.unseen if "tcp_info" in text]


@pytest.mark.parametrize(("intervals", "expected"), [(2, UNKNOWN), (7, UNKNOWN), (8, "receive_window")])
def test_few_busy_intervals_do_not_stand_for_the_measured_window(intervals: int, expected: str) -> None:
    found = verdict.of_trial(flows_busy_in(trial(), intervals))
    assert found.name == expected
    (window,) = (one for one in (*found.ranked, *found.faint) if one.name == "receive_window")
    assert [(evidence.over, evidence.windows) for evidence in window.evidence] == [(intervals, INTERVALS)]


def test_an_interval_of_which_a_sensor_says_nothing_does_not_speak_for_a_limiter() -> None:
    for without, expected in ((2, "client.cpu"), (3, UNKNOWN)):
        made = trial(sender=FULL)
        for index in range(INTERVALS - without, INTERVALS):
            del made.hosts["client"].readings["cpu_exact"][index]
        assert verdict.of_trial(made).name == expected


def test_an_offered_load_is_reached_where_nothing_is_due_for_a_while() -> None:
    for begun, expected in ((1, "offered_load"), (0, UNKNOWN)):
        made = trial()
        made.hosts["client"].readings["arrivals"] = {
            index: Reading(
                SPAN, 0, None, {("arrivals.due", ""): index % 2, ("arrivals.begun", ""): begun * (index % 2)}
            )
            for index in range(INTERVALS)
        }
        assert verdict.of_trial(made).name == expected


def test_a_sensor_that_was_read_is_not_said_to_have_been_left_out() -> None:
    host = trial().hosts["client"]
    assert host.why_missing("disks") == "sensor disks was not read on client"
    assert "was read on client, and saw nothing" in host.why_missing("threads")
    host.readings["threads"][0].missing = "one went away"
    assert host.why_missing("threads") == "one went away"
    assert "was not read" in HostData("client", "send", (), {}).why_missing("threads")


def evidence_of(found: Verdict, suspect: str) -> dict[str, Evidence]:
    (mine,) = (one for one in found.ranked if one.name == suspect)
    return {one.signal: one for one in mine.evidence}


def test_evidence_of_a_point_is_that_of_all_its_trials() -> None:
    """Also of those in which little spoke for the suspect."""
    trials = [trial(flow={"rwnd": 0.9}), trial(flow={"rwnd": 0.9}), trial(sender=FULL, flow={"rwnd": 0.01})]
    found = verdict.of_point([verdict.of_trial(one) for one in trials])
    window = evidence_of(found, "receive_window")["client.rwnd_limited_ratio"]
    assert (window.over, window.windows) == (2 * INTERVALS, 3 * INTERVALS)
    cpu = evidence_of(found, "client.cpu")
    assert {one.windows for one in cpu.values()} == {3 * INTERVALS}
    assert cpu["client.idle_ratio_of_busiest_cpu"].over == INTERVALS
    assert cpu["client.rwnd_limited_ratio"].value == window.value, "one signal, one value"
    scores = {suspect.name: suspect.score for suspect in found.ranked}
    assert scores["receive_window"] == pytest.approx(2 / 3)
    assert scores["client.cpu"] == pytest.approx(1 / 3)


def test_of_rules_for_one_limiter_those_that_spoke_for_it_give_the_evidence() -> None:
    def said(signal: str, score: float) -> Suspect:
        over = round(score * 10)
        return Suspect(
            "cpu_quota", score, score, (Evidence(signal, score, "1", 0.5, True, over, 10, "s", "c"),)
        )

    first = Verdict("cpu_quota", (said("a", 1.0),), faint=(said("b", 0.0),))
    second = Verdict("cpu_quota", (said("a", 0.8),), faint=(said("b", 0.7),))
    found = verdict.of_point([first, second])
    assert {name: (one.over, one.windows) for name, one in evidence_of(found, "cpu_quota").items()} == {
        "a": (18, 20)
    }
    third = Verdict("cpu_quota", (said("b", 1.0),), faint=(said("a", 0.1),))
    found = verdict.of_point([first, third])
    assert found.ranked[0].score == 1.0
    assert {name: (one.over, one.windows) for name, one in evidence_of(found, "cpu_quota").items()} == {
        "a": (11, 20),
        "b": (10, 20),
    }


def test_what_could_not_be_looked_at_is_said_once_for_each_limiter() -> None:
    """In whatever numbers the reasons of its trials, or of its rules, differ."""
    lines = [
        ("client.lock: the accounting takes 3.5 % of CPU 0", "queue: the path has no known rate"),
        ("client.lock: the accounting takes 2.9 % of CPU 0", "queue: the path has no known rate"),
        ("client.lock: not to be had", "server.lock: the accounting takes 2.9 % of CPU 1"),
    ]
    found = verdict.of_point([Verdict(UNKNOWN, unseen=one) for one in lines])
    assert found.unseen == (
        "client.lock: the accounting takes 3.5 % of CPU 0; not to be had",
        "queue: the path has no known rate",
        "server.lock: the accounting takes 2.9 % of CPU 1",
    )
    blind = verdict.of_trial(trial(without=("tcp_info",)))
    names = [text.partition(":")[0] for text in blind.unseen]
    assert len(names) == len(set(names)) and "send_buffer" in names
    one_end = verdict.of_point([Verdict(UNKNOWN, unseen=("the trial has not two ends with records",))] * 2)
    assert one_end.unseen == ("the trial has not two ends with records",)
