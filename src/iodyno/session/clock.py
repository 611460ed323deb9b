"""Offset of the clock of a host from the lab's, by the minimum-round-trip filter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Probe:
    """A question for the time, in ns: asked and answered on the lab's clock, received and replied on the host's."""

    asked_ns: int
    received_ns: int
    replied_ns: int
    answered_ns: int

    @property
    def rtt_ns(self) -> int:
        """Time that question and answer were on the way."""
        return (self.answered_ns - self.asked_ns) - (self.replied_ns - self.received_ns)

    @property
    def offset_ns(self) -> int:
        """Host's clock less the lab's, when both ways took the same time."""
        return ((self.received_ns - self.asked_ns) + (self.replied_ns - self.answered_ns)) // 2


@dataclass(frozen=True)
class ClockFit:
    """Host's monotonic clock less the lab's, at `at_ns` of the lab's; the truth is within `error_ns` of it."""

    offset_ns: int
    error_ns: int
    rtt_min_ns: int
    at_ns: int

    def to_host(self, lab_ns: int) -> int:
        """An instant of the lab's clock on the host's."""
        return lab_ns + self.offset_ns

    def to_lab(self, host_ns: int) -> int:
        """An instant of the host's clock on the lab's."""
        return host_ns - self.offset_ns

    def as_json(self) -> dict[str, int]:
        """As stored."""
        return asdict(self)


def fit(probes: Iterable[Probe]) -> ClockFit:
    """The offset that the probe with the shortest round trip gives (NTP's clock filter, RFC 5905 section 10).

    A queue delays one way and not the other; the fastest probe met the least of it. Half its round trip
    bounds the error whatever the split between the ways was.
    """
    best = min(probes, key=lambda probe: probe.rtt_ns)
    rtt_ns = max(0, best.rtt_ns)
    return ClockFit(best.offset_ns, (rtt_ns + 1) // 2, rtt_ns, best.answered_ns)
