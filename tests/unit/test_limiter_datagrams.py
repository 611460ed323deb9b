"""What limits a load of datagrams, whose sender does not learn what became of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_limits import FULL, INTERVALS, SPAN, of_datagrams, trial

from iodyno.analysis.limiter import verdict
from iodyno.core.limiter import UNKNOWN, Finding
from iodyno.report.limiter import sentence

# A link of 50 Mbit/s carries 1083 datagrams in an interval of 250 ms.
FITS = 1083
SPINS = {**FULL, "user": 0.6}
"""A sender that looks at the clock, to begin what is due in time."""
UNSHAPED: dict[str, Any] = {"link_rate": None}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "closed loop over a full link": ("link_rate", {"sent": 100_000, "carried": FITS, "sender": FULL}),
    "paced beyond a full link": ("link_rate", {"sent": 5_000, "carried": FITS, "due": 5_000, "sender": SPINS}),
    "paced a little beyond a full link": (
        "link_rate",
        {"sent": 1_120, "carried": FITS, "due": 1_120, "sender": SPINS},
    ),
    "pauses beyond a full link": (
        "link_rate",
        {"sent": 5_000, "carried": FITS, "sender": {"app": 0.1, "run": 0.1, "in_call": 0.1}},
    ),
    "a full link that nobody counts but the device": (
        "link_rate",
        {"sent": 100_000, "carried": FITS, "sender": FULL, "without": ("qdisc",)},
    ),
    "a queue too short for bursts": ("queue", {"sent": 1_000, "carried": 600, "sender": FULL}),
    "paced below the link": ("offered_load", {"sent": 900, "carried": 900, "due": 900, "sender": SPINS}),
    "paced to just what the link carries": (
        "offered_load",
        {"sent": FITS, "carried": FITS, "due": FITS, "sender": SPINS},
    ),
    "behind what was due": (
        "client.generator",
        {"sent": 700, "carried": 700, "due": 900, "sender": SPINS},
    ),
    "a sender whose CPU is full": ("client.cpu", {"sent": 900, "carried": 900, "sender": FULL}),
    "a sender whose CPU is full, and some are lost": (
        "client.cpu",
        {"sent": 900, "carried": 900, "taken": 870, "sender": FULL, **UNSHAPED},
    ),
    "a receiver's CPU, which loses the rest": (
        "server.cpu",
        {"sent": 9_000, "carried": 9_000, "taken": 900, "sender": FULL, "receiver": FULL, **UNSHAPED},
    ),
    "a socket's buffer that is too small": (
        "loss",
        {"sent": 9_000, "carried": 9_000, "taken": 4_000, "sender": FULL, **UNSHAPED},
    ),
    "paced, and a socket's buffer that is too small": (
        "loss",
        {"sent": 900, "carried": 900, "taken": 800, "due": 900, "sender": SPINS, **UNSHAPED},
    ),
    "nothing arrives": ("loss", {"sent": 900, "carried": 900, "taken": 0, "due": 900, "sender": SPINS}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_limiter_of_datagrams_is_named(case: str) -> None:
    expected, made = CASES[case]
    found = verdict.of_trial(of_datagrams(**made))
    assert found.name == expected, [(s.name, s.held, s.evidence) for s in found.ranked]


@pytest.mark.parametrize("lost", [30, 60, 200, 3_000])
def test_an_offered_load_of_which_a_part_never_arrives_is_none(lost: int) -> None:
    """Wherever it is lost, and whether the sender has time or none."""
    for shaped in (True, False):
        for sender in (SPINS, {"app": 0.1, "run": 0.1, "in_call": 0.2}):
            made = of_datagrams(
                sent=FITS + lost,
                carried=FITS if shaped else FITS + lost,
                taken=FITS,
                due=FITS + lost,
                link_rate=50_000_000 if shaped else None,
                sender=sender,
            )
            name = verdict.of_trial(made).name
            assert name == ("link_rate" if shaped else "loss"), (shaped, sender)


def test_an_interval_in_which_nothing_came_is_as_all_of_them() -> None:
    """A stream is known to have lost something when the next of it comes."""
    made = of_datagrams(sent=9_000, carried=9_000, taken=4_000, sender=FULL, link_rate=None)
    for index in range(3):
        for what in ("received", "lost"):
            made.hosts["server"].readings["datagram"][index].values[f"datagram.{what}", ""] = 0
    found = verdict.of_trial(made)
    assert found.name == "loss" and found.suspect is not None
    assert found.suspect.evidence[0].windows == INTERVALS


def test_what_nobody_counted_is_not_said_to_be_lost() -> None:
    made = of_datagrams(sent=900, carried=900, sender=FULL, without=("datagram",))
    assert verdict.of_trial(made).name == "client.cpu"


def test_no_window_and_no_number_of_an_error_stand_in_what_is_said_of_datagrams() -> None:
    """A transport has no evidence of what it cannot have, and what was not seen is said in words."""
    for made in (of_datagrams(sent=900, carried=900, sender=FULL), of_datagrams(sent=900, carried=600)):
        found = verdict.of_trial(made)
        shown = [evidence.signal for suspect in found.ranked for evidence in suspect.evidence]
        assert not [name for name in shown if "rwnd" in name or "unsent" in name or "retransmit" in name]
        assert "rwnd" not in sentence(Finding(found))
        assert not [text for text in found.unseen if "os error" in text]
        assert {text.partition(":")[0] for text in found.unseen if "over UDP" in text} == {
            "send_buffer",
            "congestion_window",
        }
    assert found.name != UNKNOWN


def test_a_link_is_as_full_as_its_shaper_counts() -> None:
    """Frames that are cut where the bucket is leave the device's count without their headers."""
    made = of_datagrams(sent=9_000, carried=FITS, sender=FULL)
    for reading in made.hosts["client"].readings["net_devices"].values():
        reading.values["net.tx_bytes", "dev=veth0"] //= 2
    used = verdict.signals_of(made)
    assert used is not None
    expected = FITS * 1442 * 8e9 / SPAN / 50e6
    assert list(used["client.link_used_ratio"].values.values()) == pytest.approx([expected] * INTERVALS)
    assert used["client.queue_drops_per_segment"].values[0] == pytest.approx(1 - FITS / 9_000)


@pytest.mark.parametrize(("link_rate", "expected"), [(50_000_000, "link_rate"), (None, "loss")])
def test_who_waits_for_an_answer_that_is_lost_does_not_pause(link_rate: int | None, expected: str) -> None:
    """Eight ask over a link that takes 2 % less; each waits 100 ms for what is lost: half of the time, all together."""
    lost = 8 * SPAN // 2 // 100_000_000
    sleeps = {"app": 0.1, "run": 0.1, "in_call": 0.4}
    made = of_datagrams(
        sent=FITS + lost, carried=FITS if link_rate else FITS + lost, sender=sleeps, link_rate=link_rate
    )
    made.settings["connections"] = 8  # type: ignore[index]
    asks, answers = made.hosts["client"], made.hosts["server"]
    for index in range(INTERVALS):
        times = asks.histograms[index]
        asks.histograms[index] = replace(times, sum_ns=8 * times.sum_ns)
        values = asks.readings["datagram"][index].values
        values["datagram.received", ""] = 400
        values["datagram.lost", ""] = lost
    for host in (asks, answers):
        host.manifest["job"] |= {"workload": "request_response", "response_timeout_ns": 100_000_000}
    found = verdict.of_trial(made)
    assert found.name == expected, [(s.name, s.held, s.evidence) for s in found.ranked]
    assert not [suspect for suspect in found.ranked if suspect.name == "client.application" and suspect.held]


def of_blocks(rate: float, *, packets: int = 64) -> Any:
    """Requests of 64 flows to a ring whose blocks are handed over after 10 ms, at a part of the 6400/s that make the law."""
    asks = {"workload": "request_response", "connections": 64, "queue_depth": 1, "arrivals": None}
    ring = {"version": 3, "block_packets": packets, "block_timeout_ns": 10_000_000}
    made = trial(
        sending={"job": asks},
        receiving={"job": {**asks, "ring": ring}},
        connections=64,
        sender={"in_call": 0.95},
    )
    records = made.hosts["client"].records
    done = round(rate * 6400 * SPAN / 1e9)
    records[:] = [replace(record, operations=done) for record in records]
    return made


@pytest.mark.parametrize("rate", [0.995, 0.84])
def test_a_ring_whose_blocks_never_get_full_limits_by_its_timeout(rate: float) -> None:
    found = verdict.of_trial(of_blocks(rate))
    assert found.name == "block_timeout"
    assert found.suspect is not None
    (evidence,) = found.suspect.evidence
    assert evidence.signal == "client.block_law_ratio" and evidence.value == pytest.approx(rate, abs=0.001)


def test_a_ring_that_is_slower_than_its_law_or_full_is_limited_by_something_else() -> None:
    assert verdict.of_trial(of_blocks(0.7)).name == "concurrency"
    full = verdict.of_trial(of_blocks(0.995, packets=32))
    assert full.name == "concurrency"
    assert not [text for text in full.unseen if "block" in text]
