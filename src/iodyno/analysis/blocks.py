"""The exact law of a server on a ring of blocks (TPACKET_V3), which its trials are held against.

A block that holds B packets is handed to the server when packet B + 1 comes, or when the timeout T is up. In a closed
loop with N requests in flight and N <= B that packet never comes: every T, all N requests are answered at once, and the
rate is X = N / T to the last digit, whatever the machine can do. With N > B blocks fill by themselves and the timeout is a
safety net only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iodyno.analysis.arrivals import operations
from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing
from iodyno.analysis.trial import Trial
from iodyno.core.warnings import Warning, WarningCode

_DATAGRAMS = "datagram"
TOLERANCE = 0.01
"""Chosen: the law was within 0.1 % on a quiet machine; the rest is for a timer or a client that came late for want of a
CPU, which makes a round of the loop longer and never shorter."""


@dataclass(frozen=True)
class Blocks:
    """Parameters of a trial that the law needs."""

    in_flight: int
    packets: int
    timeout_ns: int

    @property
    def never_full(self) -> bool:
        """True where only the timeout hands blocks over."""
        return self.in_flight <= self.packets

    @property
    def rate_per_s(self) -> float:
        """X = N / T."""
        return self.in_flight * 1e9 / self.timeout_ns


def of(trial: Trial) -> Blocks | None:
    """None: no closed loop into blocks of a fixed size."""
    sender, receiver = trial.end("send"), trial.end("receive")
    if sender is None or receiver is None:
        return None
    asks, serves = sender.job, receiver.job
    ring = serves.get("ring") or {}
    if ring.get("version") != 3 or ring.get("adaptive") or serves.get("busy_wait") or asks.get("arrivals"):
        return None
    # Answers that wait for a block of the client's make rounds of their own.
    if (asks.get("ring") or {}).get("version") == 3:
        return None
    if asks.get("think_ns") or asks.get("compute_ns"):
        return None
    return Blocks(
        int(asks["connections"]) * int(asks.get("queue_depth") or 1),
        int(ring["block_packets"]),
        int(ring["block_timeout_ns"]),
    )


def law_ratio(trial: Trial) -> Measured:
    """Rate over that of the law; 1: as the law demands."""
    blocks = of(trial)
    if blocks is None:
        return missing("the server has no ring of blocks of a fixed size in a closed loop")
    if not blocks.never_full:
        return missing(
            f"{blocks.in_flight} requests in flight fill blocks of {blocks.packets} packets before the timeout"
        )
    rate = operations(trial)
    if rate.value is None:
        return rate
    law = blocks.rate_per_s
    return Measured(
        rate.value / law,
        tuple(value / law for value in rate.intervals),
        note=rate.note,
        resolution=rate.resolution / law,
    )


def check(trial: Trial) -> Iterator[Warning]:
    """A warning where the law does not hold, or holds for a while where it should not."""
    blocks, sender = of(trial), trial.end("send")
    if blocks is None or sender is None or not sender.measured_ns:
        return
    yield from _off(trial, blocks, sender) if blocks.never_full else _starved(trial, blocks, sender)


def _off(trial: Trial, blocks: Blocks, sender: HostData) -> Iterator[Warning]:
    """A part of a round that the measured window cuts off is allowed for."""
    found = law_ratio(trial)
    if found.value is None or abs(found.value - 1) <= TOLERANCE + blocks.timeout_ns / sender.measured_ns:
        return
    text = (
        f"{blocks.in_flight} requests in flight never fill a block of {blocks.packets} packets: with a timeout of "
        f"{blocks.timeout_ns / 1e6:g} ms the rate is {blocks.rate_per_s:,.0f}/s by law, and {found.value:.1%} of that was"
        " measured; requests were lost, or the client or the kernel's timer came late (before Linux 6.18 it counts in"
        " ticks)"
    )
    yield Warning(WarningCode.PHYSICS, text, trial.name)


def _starved(trial: Trial, blocks: Blocks, sender: HostData) -> Iterator[Warning]:
    """Requests without an answer leave too few in flight to fill a block, until they are given up or sent again."""
    metrics = ("datagram.lost", "datagram.retries")
    unanswered = sum(sender.growth(_DATAGRAMS, metric) or 0 for metric in metrics)
    # As many as a block holds answered each timeout, and one round that was begun before.
    slow_per_ns, round_ = blocks.packets / blocks.timeout_ns, blocks.in_flight
    slow = [r for r in sender.measured if r.operations <= slow_per_ns * r.span_ns + round_]
    others = [r for r in sender.measured if r not in slow]
    if not unanswered or not slow or not others:
        return
    which = "a request had" if unanswered == 1 else f"{unanswered} requests had"
    text = (
        f"in {len(slow)} of {len(sender.measured)} intervals the load nearly stood still: {which} no answer, and while no more"
        f" than {blocks.packets} are in flight a block of {blocks.packets} packets comes by its timeout of"
        f" {blocks.timeout_ns / 1e6:g} ms; try smaller blocks, adaptive: on or a shorter `response_timeout`"
    )
    yield Warning(WarningCode.DATAGRAMS_LOST, text, trial.name)
