"""The ways in which one end of a workload can make its calls, by the word that an experiment names them with.

`engine` and `syscalls` say it for both ends. `server_engine` and `client_engine` say it for one end alone, so that the way
can be a factor while the other end stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Submission:
    """A way to make calls, in the agent's words (`agent/core/src/engine.rs`).

    `transport` is what this end travels on instead of the other's; None: the same. `ring` is the version of the
    packet ring; 0: `AF_XDP`; None: there is none.
    """

    help: str
    engine: str
    syscalls: str = "read_write"
    transport: str | None = None
    ring: int | None = None

    def takes_several(self, transport: str) -> bool:
        """Tell whether a call moves `batch` messages, over the transport of the load."""
        return self.syscalls in ("batch", "segments") or (self.engine == "io_uring" and transport == "udp")


SERVERS: Mapping[str, Submission] = {
    "recvfrom": Submission("recvfrom and sendto, poll when there is nothing.", "threads"),
    "recvmsg": Submission("recvmsg and sendmsg, poll when there is nothing.", "threads", "message"),
    "recvmmsg": Submission("recvmmsg and sendmmsg, `batch` datagrams a call.", "threads", "batch"),
    "segments": Submission("UDP segmentation and receive offload.", "threads", "segments"),
    "epoll": Submission("epoll and calls that do not block.", "epoll"),
    "io_uring": Submission("io_uring, multishot receive.", "io_uring"),
    "io_uring_zero_copy": Submission(
        "io_uring, sends without a copy from registered memory.", "io_uring", "zero_copy"
    ),
    "packet_v2": Submission(
        "Packet socket with a shared ring, TPACKET_V2.", "rings", transport="packet", ring=2
    ),
    "packet_v3": Submission(
        "Packet socket with a shared ring of blocks, TPACKET_V3.", "rings", transport="packet", ring=3
    ),
    "xdp": Submission("AF_XDP.", "rings", transport="xdp", ring=0),
}
"""Ways of making calls at the end that answers or receives."""

CLIENTS: Mapping[str, Submission] = {
    "threads": Submission("One blocking thread a connection.", "threads"),
    "epoll": Submission("epoll and calls that do not block.", "epoll"),
    "recvmmsg": Submission("epoll, recvmmsg and sendmmsg.", "epoll", "batch"),
    "segments": Submission("epoll, UDP segmentation and receive offload.", "epoll", "segments"),
    "io_uring": Submission("io_uring, multishot receive.", "io_uring"),
    "io_uring_zero_copy": Submission(
        "io_uring, sends without a copy from registered memory.", "io_uring", "zero_copy"
    ),
    "packet_v2": Submission(
        "Packet socket with shared rings, TPACKET_V2.", "rings", transport="packet", ring=2
    ),
    "packet_v3": Submission(
        "Packet socket with shared rings, TPACKET_V3.", "rings", transport="packet", ring=3
    ),
    "xdp": Submission("AF_XDP.", "rings", transport="xdp", ring=0),
    "reflector": Submission("A program in the kernel that turns answers into requests.", "reflector"),
}
"""Ways of making calls at the end that asks or sends."""


def submission(role: str, settings: Mapping[str, object]) -> Submission:
    """Return how the end with this role makes its calls: by its own word (`client_engine`, ...), else by that of both."""
    ways, word = {"send": (CLIENTS, "client_engine"), "receive": (SERVERS, "server_engine")}.get(
        role, ({}, "")
    )
    named = settings.get(word)
    if named is not None:
        return ways[str(named)]
    return Submission("", str(settings.get("engine", "threads")), str(settings.get("syscalls", "read_write")))
