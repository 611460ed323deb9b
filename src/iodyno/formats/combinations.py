"""Levels that no host can have together: known before a host is opened, and told with the key that is to blame.

What depends on a host, its kernel or its path is for the preflight and for the agents.

>>> list(together((1, 2), ("udp",), None))
[(1, 'udp'), (2, 'udp')]
>>> list(together((1, 2), ("udp", "tcp"), "one factor"))
[(1, 'udp'), (2, 'tcp')]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING

from iodyno.core.experiment import WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.quantity import show
from iodyno.core.workload import CONNECT_REQUEST_RESPONSE, STREAM, Level
from iodyno.formats.mistakes import Path

if TYPE_CHECKING:
    from iodyno.formats.experiment_sections import Reading

DATAGRAM_BYTES = range(24, 65_507 + 1)
"""Allowed bytes of a datagram: from the trial's token and its number to what UDP over IPv4 takes (`agent/core/src/job.rs`)."""
_OFF_THE_PATH = ("unix", "vsock")
_SHAPED = ("link_rate", "link_queue", "link_frames", "link_burst", "link_delay")
_CONNECTIONS_ONLY = {
    "think": "a pause of a flow is not there for datagrams",
    "reader_think": "a pause of the reader is not there for datagrams",
    "serialised": "whoever waits for the lock would wait for an answer that may never come",
    "cork": "the sender's kernel joins no datagrams",
    "congestion_control": "UDP has no congestion control",
}
"""Parameters that need a connection, with the reason (`agent/load/src/datagram/mod.rs`)."""


def check(
    reading: Reading, workload: WorkloadSpec, factors: Mapping[str, Factor], section: Path = ("workload",)
) -> None:
    """Notes every parameter whose levels meet a transport that cannot have them. `section`: where the load stands."""
    levels = _Levels(workload, factors, section)
    for name, text in _mistakes(workload.kind, levels):
        reading.note(levels.place(name), text)


def _mistakes(kind: str, levels: _Levels) -> Iterator[tuple[str, str]]:
    for name in _SHAPED:
        for level, transport in levels.pairs(name):
            if level and transport in _OFF_THE_PATH:
                yield (
                    name,
                    f"data by {transport} does not go by the path that is shaped, allowed: a transport that does",
                )
                break
    for name in ("mss", "quick_ack", "user_timeout"):
        for level, transport in levels.pairs(name):
            if level is not None and transport not in (None, "tcp", "tls"):
                yield name, f"sockets of TCP alone have it, allowed: tcp or tls, and not {transport}"
                break
    if kind == CONNECT_REQUEST_RESPONSE.name:
        return
    for name in ("size",) if kind == STREAM.name else ("size", "response_size"):
        for level, transport in levels.pairs(name):
            if transport == "udp" and isinstance(level, int) and level not in DATAGRAM_BYTES:
                allowed = f"{DATAGRAM_BYTES.start} to {DATAGRAM_BYTES.stop - 1} bytes over udp"
                yield (
                    name,
                    f"found {show('size', level)}, allowed: {allowed}: a datagram shows the trial's token and its number",
                )
                break
    if any(level not in (None, 1) and transport == "udp" for level, transport in levels.pairs("burst")):
        yield (
            "burst",
            "cannot be had over udp: arrivals are of one datagram each; allowed: 1, or another transport",
        )
    for name, why in _CONNECTIONS_ONLY.items():
        if any(level and transport == "udp" for level, transport in levels.pairs(name)):
            yield name, f"cannot be had over udp: {why}; allowed: leave it out, or another transport"


class _Levels:
    """Levels of each parameter at the points of an experiment."""

    def __init__(self, workload: WorkloadSpec, factors: Mapping[str, Factor], section: Path) -> None:
        self._section = section
        self._settings = workload.settings
        self._otherwise = {p.name: p.default for p in workload.workload.parameters}
        self._varied = {
            name: (factor.name, values)
            for factor in factors.values()
            for name, values in ((factor.name, factor.levels), *factor.together.items())
        }

    def of(self, name: str) -> tuple[Level | None, ...]:
        """All of its levels; None: it is not set."""
        if name in self._varied:
            return self._varied[name][1]
        return (self._settings.get(name, self._otherwise.get(name)),)

    def pairs(self, name: str) -> Iterator[tuple[Level | None, Level | None]]:
        """Its levels with the transports that it meets."""
        factor, of_transport = (self._varied.get(each, ("", ()))[0] for each in (name, "transport"))
        same = factor if factor and factor == of_transport else None
        if name == "size" and self.of("sizes") != (None,):
            return iter(())  # They are drawn.
        return together(self.of(name), self.of("transport"), same)

    def place(self, name: str) -> Path:
        """Return the place of the parameter in the file; of what is left out, the place of the transport."""
        if name in self._varied:
            factor = self._varied[name][0]
            return ("factors", factor) if factor == name else ("factors", factor, "together", name)
        if name in self._settings or "transport" not in self._varied:
            return (*self._section, name)
        return ("factors", self._varied["transport"][0])


def together(
    ours: tuple[Level | None, ...], theirs: tuple[Level | None, ...], factor: str | None
) -> Iterator[tuple[Level | None, Level | None]]:
    """The pairs of levels of two parameters: by place where one factor sets both, else each with each."""
    return iter(zip(ours, theirs, strict=False)) if factor else product(ours, theirs)
