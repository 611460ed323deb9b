"""What a workload can be told: its parameters, with unit and range. Any of them can be a factor.

To add a workload: describe it here (one entry of `WORKLOADS`) and give the agent one file in
`agent/load/src/workload/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from iodyno.core import quantity

Level = int | bool | str
"""A level in its base unit: bytes, nanoseconds, a count, yes or no, or a word."""


@dataclass(frozen=True)
class Parameter:
    """One thing that a workload can be told."""

    name: str
    kind: Literal["size", "duration", "count", "switch", "word"]
    help: str
    low: int = 1
    high: int = 2**62
    words: tuple[str, ...] = ()
    default: Level | None = None

    def parse(self, written: object) -> Level:
        """The level in its base unit. Raises ValueError with what was found and what is allowed."""
        if self.kind == "switch":
            return _switch(written)
        if self.kind == "word":
            if not isinstance(written, str) or (self.words and written not in self.words):
                allowed = ", ".join(self.words) or "a word"
                raise ValueError(f"found {written!r}, allowed: {allowed}")
            return written
        if not isinstance(written, (str, int, float)):
            raise ValueError(f"found {written!r}, allowed: one {self.kind}")
        value = quantity.parse(self.kind, written)
        if not self.low <= value <= self.high:
            low, high = quantity.show(self.kind, self.low), quantity.show(self.kind, self.high)
            raise ValueError(f"found {written!r}, allowed: {low} to {high}")
        return value

    def show(self, level: Level) -> str:
        """The level as people write it."""
        if isinstance(level, bool):
            return "on" if level else "off"
        if isinstance(level, int) and self.kind in ("size", "duration", "count"):
            return quantity.show(self.kind, level)
        return str(level)


@dataclass(frozen=True)
class Workload:
    """A kind of load, with its parameters by name."""

    name: str
    help: str
    parameters: tuple[Parameter, ...]

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name, if there is one."""
        return next((p for p in self.parameters if p.name == name), None)

    def defaults(self) -> Mapping[str, Level]:
        """Levels of the parameters that have one from the start."""
        return {p.name: p.default for p in self.parameters if p.default is not None}


def _switch(written: object) -> bool:
    words = {True: True, False: False, "on": True, "off": False, "yes": True, "no": False}
    if isinstance(written, (bool, str)) and written in words:
        return words[written]
    raise ValueError(f"found {written!r}, allowed: on, off")


_CONNECTIONS = (
    Parameter("transport", "word", "What the bytes travel on.", words=("tcp",), default="tcp"),
    Parameter(
        "driver",
        "word",
        "How operations are submitted: one blocking thread a connection, or pinned workers with epoll.",
        words=("threads", "epoll"),
        default="threads",
    ),
    Parameter("connections", "count", "Connections at a time.", high=60_000, default=1),
)
"""How the load reaches the other end."""

_SOCKETS = (
    Parameter(
        "window", "size", "Socket buffers of both ends (SO_SNDBUF and SO_RCVBUF).", low=1024, high=2**30
    ),
    Parameter("send_buffer", "size", "SO_SNDBUF of the sender.", low=1024, high=2**30),
    Parameter("receive_buffer", "size", "SO_RCVBUF of the receiver.", low=1024, high=2**30),
)
"""Options of the sockets."""

_CONGESTION_CONTROL = Parameter(
    "congestion_control", "word", "TCP congestion control, such as cubic, reno or bbr."
)

_LIMITS = (
    Parameter(
        "compute", "duration", "CPU time of the sender's own code before each write.", low=0, high=10**9
    ),
    Parameter("think", "duration", "Pause of a sending connection after each write.", low=0, high=10**10),
    Parameter(
        "reader_think", "duration", "Pause of a receiving connection after each read.", low=0, high=10**10
    ),
    Parameter("serialised", "switch", "All sending workers take one lock around each write."),
    Parameter("sender_quota", "count", "CPU time of the sending agent, in percent of one CPU.", high=100_000),
    Parameter(
        "receiver_quota", "count", "CPU time of the receiving agent, in percent of one CPU.", high=100_000
    ),
    Parameter("link_rate", "count", "Rate of the path in bit/s, by a token bucket (path veth).", low=10_000),
    Parameter("link_queue", "size", "Bytes that the shaped path queues (path veth).", low=1024, high=2**30),
    Parameter("link_delay", "duration", "Delay added each way by a relay (path veth).", high=10**9),
)
"""What slows it down on purpose: an application that computes, waits or locks, a quota, a path."""

STREAM = Workload(
    name="stream",
    help="Bulk transmit: messages of one size, one after the other, as fast as they are accepted.",
    parameters=(
        *_CONNECTIONS,
        Parameter("size", "size", "Message size: bytes handed over in one write.", high=2**30, default=65536),
        *_SOCKETS,
        Parameter("nagle", "switch", "Nagle's algorithm (TCP_NODELAY off).", default=True),
        _CONGESTION_CONTROL,
        *_LIMITS,
    ),
)

REQUEST_RESPONSE = Workload(
    name="request_response",
    help="Requests of one size, each answered: one outstanding on each connection. Goodput is that of the"
    " requests; a `write` of the outcomes is a request with its whole answer.",
    parameters=(
        *_CONNECTIONS,
        Parameter("size", "size", "Request size: bytes that the sender writes.", high=2**30, default=1),
        Parameter(
            "answer", "size", "Answer size: bytes that the receiver writes back.", high=2**30, default=1
        ),
        *_SOCKETS,
        # Off: with it, the last part of a message waits for an acknowledgement that the other end delays.
        Parameter("nagle", "switch", "Nagle's algorithm (TCP_NODELAY off).", default=False),
        _CONGESTION_CONTROL,
        *_LIMITS,
    ),
)

WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in (STREAM, REQUEST_RESPONSE)}
"""Every workload, by name."""
