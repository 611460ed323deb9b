"""The exact law of a server on a ring of blocks (TPACKET_V3), which its trials are held against.

A block that holds B packets is handed to the server when packet B + 1 comes, or when the timeout T is up. In a closed
loop with N requests under way and N <= B that packet never comes: every T, all N requests are answered at once, and the
rate is X = N / T to the last digit, whatever the machine can do. With N > B blocks fill by themselves and the timeout is a
safety net only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iodyno.analysis.arrivals import operations
from iodyno.analysis.dataset import Trial
from iodyno.analysis.measured import Measured, missing
from iodyno.core.warnings import Doubt, WarningCode

TOLERANCE = 0.01
"""Chosen: the law was within 0.1 % on a quiet machine; the rest is for a timer or a client that came late for want of a
CPU, which makes a round of the loop longer and never shorter."""


@dataclass(frozen=True)
class Blocks:
    """What the law needs to know of a trial."""

    under_way: int
    packets: int
    timeout_ns: int

    @property
    def never_full(self) -> bool:
        """Whether only the timeout hands blocks over."""
        return self.under_way <= self.packets

    @property
    def rate_per_s(self) -> float:
        """X = N / T."""
        return self.under_way * 1e9 / self.timeout_ns


def of(trial: Trial) -> Blocks | None:
    """None: no closed loop into blocks of a fixed size."""
    sender, receiver = trial.end("send"), trial.end("receive")
    if sender is None or receiver is None:
        return None
    asks, serves = sender.manifest.get("job") or {}, receiver.manifest.get("job") or {}
    ring = serves.get("ring") or {}
    if ring.get("version") != 3 or ring.get("adaptive") or serves.get("spins") or asks.get("arrivals"):
        return None
    # Answers that wait for a block of the client's make rounds of their own.
    if (asks.get("ring") or {}).get("version") == 3:
        return None
    if asks.get("think_ns") or asks.get("compute_ns"):
        return None
    return Blocks(
        int(asks["connections"]) * int(asks.get("outstanding") or 1),
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
            f"{blocks.under_way} requests under way fill blocks of {blocks.packets} packets before the timeout"
        )
    rate = operations(trial)
    if rate.value is None:
        return rate
    law = blocks.rate_per_s
    return Measured(rate.value / law, tuple(value / law for value in rate.intervals), note=rate.note)


def check(trial: Trial) -> Iterator[Doubt]:
    """A doubt where the law does not hold; a part of a round that the measured window cuts off is allowed for."""
    blocks, found = of(trial), law_ratio(trial)
    sender = trial.end("send")
    if blocks is None or found.value is None or sender is None or not sender.measured_ns:
        return
    if abs(found.value - 1) <= TOLERANCE + blocks.timeout_ns / sender.measured_ns:
        return
    text = (
        f"{blocks.under_way} requests under way never fill a block of {blocks.packets} packets: with a timeout of "
        f"{blocks.timeout_ns / 1e6:g} ms the rate is {blocks.rate_per_s:,.0f}/s by law, and {found.value:.1%} of that was"
        " measured; requests were lost, or the client or the kernel's timer came late (before Linux 6.18 it counts in"
        " ticks)"
    )
    yield Doubt(WarningCode.PHYSICS, text, trial.name)
