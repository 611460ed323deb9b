"""Parameters of workloads, with unit and range. Any of them can be a factor.

What all loads have in common, and the parameters of those on connections; those of other loads are in their folders
(`iodyno.loads`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iodyno.core import distribution
from iodyno.core.parameter import Level as Level
from iodyno.core.parameter import Parameter as Parameter
from iodyno.core.path import PATHS
from iodyno.core.submission import CLIENTS, SERVERS


@dataclass(frozen=True)
class Workload:
    """A kind of load, with its parameters by name. `alone`: its hosts need no other end."""

    name: str
    help: str
    parameters: tuple[Parameter, ...]
    alone: bool = False

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name, if there is one."""
        return next((p for p in self.parameters if p.name == name), None)

    def defaults(self) -> Mapping[str, Level]:
        """Levels of the parameters that have one from the start."""
        return {p.name: p.default for p in self.parameters if p.default is not None}


_CONNECTIONS = (
    Parameter(
        "transport",
        "word",
        "What the bytes travel on.",
        words=("tcp", "udp", "unix", "vsock", "tls"),
        default="tcp",
    ),
    Parameter(
        "engine",
        "word",
        "How operations are submitted: one blocking thread a connection, or pinned workers with epoll, io_uring, or"
        " blocking calls on one connection after the other (round_robin; streams one way).",
        words=("threads", "epoll", "round_robin", "io_uring"),
        default="threads",
    ),
    Parameter(
        "syscalls",
        "word",
        "Which calls move the bytes: send and recv, sendmsg and recvmsg, `batch` messages a call, MSG_ZEROCOPY,"
        " sendfile, splice, or UDP segmentation offload.",
        words=("read_write", "message", "batch", "zero_copy", "sendfile", "splice", "segments"),
        default="read_write",
    ),
    Parameter(
        "client_engine", "word", "How the sender makes its calls, instead of engine.", words=tuple(CLIENTS)
    ),
    Parameter(
        "server_engine", "word", "How the receiver makes its calls, instead of engine.", words=tuple(SERVERS)
    ),
    Parameter("batch", "count", "Messages of one call, where a call takes several.", high=1024, default=64),
    Parameter(
        "tls_cipher",
        "word",
        "Cipher of TLS.",
        words=("aes_128_gcm", "aes_256_gcm", "chacha20"),
        default="aes_128_gcm",
    ),
    Parameter(
        "connections",
        "count",
        "Connections (flows) at a time, between each sender and each receiver.",
        high=1_000_000,
        default=1,
    ),
)
"""Parameters of the connections to the other end."""

_ARRIVALS = (
    Parameter("rate", "rate", "Operations per second that begin, over all connections.", high=10**9),
    Parameter(
        "arrivals",
        "word",
        "When operations begin: when the last one is complete (closed), or by a law at `rate`; trace(file): a time between"
        " arrivals a line.",
        words=("closed", "constant", "poisson", "bursty"),
        form=distribution.checked_arrivals,
        like="trace(file)",
    ),
    Parameter("rate_of", "word", "Whose rate it is.", words=("job", "connection"), default="job"),
    Parameter("burst_on", "duration", "Time with arrivals of bursty ones.", high=10**12, default=10_000_000),
    Parameter("burst_off", "duration", "Time without arrivals of bursty ones.", high=10**12, default=90_000_000),
    Parameter("burst", "count", "Operations one after the other, before a pause or at an arrival.",
              high=10**6, default=1),
)  # fmt: skip
"""Parameters of when operations begin."""

_SIZES = Parameter(
    "sizes",
    "word",
    "Drawn sizes instead of size: uniform(64, 9000), exponential(1KiB, most=64KiB), mix(64B: 7, 1500B: 1), trace(file).",
    form=distribution.checked_sizes,
)
"""Sizes that are not all alike."""

_BLOCKS = (
    Parameter("block_packets", "count", "Packets that a block of a TPACKET_V3 ring holds.", high=4096, default=32),
    Parameter("block_timeout", "duration", "After which a block that is not full is handed over.", low=10**6,
              high=10**9, default=10_000_000),
    Parameter("adaptive", "switch", "The server fits packets per block to the load."),
)  # fmt: skip
"""Rings of blocks, which a server can take datagrams from."""

_DATAGRAMS = (
    Parameter("response_timeout", "duration", "After which a datagram without an answer counts as lost.",
              high=10**10, default=100_000_000),
    Parameter("retries", "count", "How often it is sent again before that.", low=0, high=1000, default=0),
    *_BLOCKS,
    Parameter("busy_wait", "switch", "Poll for requests or answers instead of sleeping (epoll, rings)."),
)  # fmt: skip
"""Requests and answers that may be lost."""

_PATH = Parameter(
    "path",
    "word",
    "What is between the two hosts, made by iodyno; left out: what their access says.",
    words=tuple(PATHS),
)

SOCKET_NUMBERS = (
    Parameter("mss", "size", "Payload of a segment at most (TCP_MAXSEG, tcp and tls).", low=88, high=32_767),
    Parameter("dscp", "count", "Differentiated services code point of what both ends send (RFC 2474).", low=0, high=63),
    Parameter("pacing_rate", "bit_rate", "Most that a socket sends (SO_MAX_PACING_RATE).", low=8000, high=10**12),
    Parameter("quick_ack", "switch", "Acknowledge at once (TCP_QUICKACK, tcp and tls)."),
    Parameter("user_timeout", "duration", "Time without acknowledgement that ends a connection (TCP_USER_TIMEOUT, tcp and tls).",
              low=10**6, high=10**12),
    Parameter("priority", "count", "Priority of what both ends send (SO_PRIORITY).", low=0, high=6),
    Parameter("reuse_port", "switch", "SO_REUSEPORT of both ends."),
    Parameter("incoming_cpu", "count", "SO_INCOMING_CPU of both ends.", low=0, high=4095),
    Parameter("not_sent_low_water", "size", "A writer waits while more is not sent yet (TCP_NOTSENT_LOWAT, tcp and tls).",
              low=1, high=2**30),
)  # fmt: skip
"""Options of sockets that are one number, by the names that the agent gives them (`agent/core/src/socket_options.rs`)."""

_SOCKETS = (
    Parameter(
        "window", "size", "Socket buffers of both ends (SO_SNDBUF and SO_RCVBUF).", low=1024, high=2**30
    ),
    Parameter("send_buffer", "size", "SO_SNDBUF of the sender.", low=1024, high=2**30),
    Parameter("receive_buffer", "size", "SO_RCVBUF of the receiver.", low=1024, high=2**30),
    Parameter("busy_poll", "duration", "SO_BUSY_POLL of both ends.", low=1000, high=10**9),
    *SOCKET_NUMBERS,
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
    Parameter(
        "server_compute",
        "duration",
        "CPU time of the receiver's own code for each answer, or datagram of a stream.",
        low=0,
        high=10**9,
    ),
    Parameter("serialised", "switch", "All sending workers take one lock around each write."),
    Parameter("sender_quota", "count", "CPU time of the sending agent, in percent of one CPU.", high=100_000),
    Parameter(
        "receiver_quota", "count", "CPU time of the receiving agent, in percent of one CPU.", high=100_000
    ),
    Parameter(
        "link_rate",
        "bit_rate",
        "Rate at which the path takes what the sender sends, by a token bucket (not on loopback).",
        low=10_000,
    ),
    Parameter("link_queue", "size", "Bytes that the shaped path queues.", low=1024, high=2**30),
    Parameter("link_frames", "count", "Frames that it queues, instead of link_queue.", high=100_000),
    Parameter(
        "link_burst",
        "size",
        "Bytes that the token bucket lets pass at once.",
        low=64,
        high=2**30,
    ),
    Parameter("link_delay", "duration", "Delay added each way by a program between the hosts.", high=10**9),
)
"""Parameters of what slows it down on purpose: an application that computes, waits or locks, a quota, a path."""

STREAM = Workload(
    name="stream",
    help="Bulk transmit: messages of one size, one after the other, as fast as they are accepted.",
    parameters=(
        *_CONNECTIONS,
        _PATH,
        Parameter("size", "size", "Message size: bytes handed over in one write.", high=2**30, default=65536),
        _SIZES,
        Parameter(
            "direction",
            "word",
            "Which way the payload goes: from the sender, to it, or both ways at once.",
            words=("forward", "reverse", "both"),
            default="forward",
        ),
        Parameter(
            "receive",
            "word",
            "Copy what comes out of the kernel, or drop it there (MSG_TRUNC, tcp).",
            words=("read", "discard"),
        ),
        Parameter("cork", "switch", "Let the kernel join small messages (MSG_MORE)."),
        *_ARRIVALS,
        *_SOCKETS,
        Parameter(
            "receive_low_water",
            "size",
            "Bytes that wake who reads (SO_RCVLOWAT).",
            high=2**30,
        ),
        Parameter("nagle", "switch", "Nagle's algorithm (TCP_NODELAY off).", default=True),
        _CONGESTION_CONTROL,
        *_LIMITS,
        *_BLOCKS,
    ),
)

_EXCHANGE = (
    *_CONNECTIONS,
    _PATH,
    Parameter("size", "size", "Request size: bytes that the sender writes.", high=2**30, default=64),
    _SIZES,
    Parameter(
        "response_size", "size", "Response size: bytes that the receiver writes back.", high=2**30, default=64
    ),
    *_ARRIVALS,
    *_SOCKETS,
    # Off: with it, the last part of a message waits for an acknowledgement that the other end delays.
    Parameter("nagle", "switch", "Nagle's algorithm (TCP_NODELAY off).", default=False),
    _CONGESTION_CONTROL,
    *_LIMITS,
)
"""A request and its answer."""

REQUEST_RESPONSE = Workload(
    name="request_response",
    help="Requests, each answered: `queue_depth` at a time on each connection. Goodput counts requests and"
    " answers; a `write` of the outcomes is a request with its whole answer.",
    parameters=(
        *_EXCHANGE,
        Parameter(
            "queue_depth", "count", "Requests in flight on a connection at a time.", high=65_536, default=1
        ),
        Parameter(
            "multiplexed",
            "switch",
            "Requests have identifiers, and answers come in any order (tcp, unix, vsock).",
            default=False,
        ),
        *_DATAGRAMS,
    ),
)

CONNECT_REQUEST_RESPONSE = Workload(
    name="connect_request_response",
    help="A connection for each request: connect, request, answer, close. One operation is all of it.",
    parameters=(
        *_EXCHANGE,
        Parameter("tls_resumption", "switch", "Take up the TLS session of an earlier connection."),
    ),
)

EXCHANGES = (REQUEST_RESPONSE.name, CONNECT_REQUEST_RESPONSE.name)
"""Kinds that ask and are answered."""

OF_THE_WAY = (
    _PATH,
    *(each for each in _LIMITS if each.name.startswith("link_") or each.name.endswith("_quota")),
)
"""Parameters of the path and of both ends, for a load that says itself what goes over its connections."""
