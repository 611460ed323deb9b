"""Every flowop and every option that a script can have: what it means here, and what it meant to uperf.

These tables are what the reader accepts, what `docs/guides/uperf.md` shows, and how the other end is made
(`iodyno.loads.script.core.mirror`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from iodyno.loads.script.core.values import OptionKind

Meaning = Literal["same", "other", "ignored", "unsupported"]
"""Against uperf: the same; something else; nothing at all; or a trial that asks for it fails with the reason."""


@dataclass(frozen=True)
class FlowopKind:
    """An operation: what the other end does meanwhile, the options that have a meaning for it."""

    name: str
    mirror: str
    options: tuple[str, ...]
    help: str
    meaning: Meaning = "same"
    note: str = ""


@dataclass(frozen=True)
class Option:
    """An option: what it holds. `note` says what is not as in uperf; it is shown where a profile has it."""

    name: str
    kind: OptionKind
    help: str
    meaning: Meaning = "same"
    note: str = ""
    low: int = 1
    high: int = 2**31 - 1


_ONE_PORT = "a trial's connections go to one port, which the host chooses, or its `data_port`"

_CONNECTION = (
    "protocol",
    "remotehost",
    "wndsz",
    "tcp_nodelay",
    "cc",
    "conn",
    "timeout",
    "canfail",
    "port",
    "localhost",
    "stack",
    "bblog",
    "encaps",
    "engine",
    "cipher",
    "method",
)
_SCTP = (
    "rto_min", "rto_max", "rto_initial", "sack_delay", "sack_frequency", "max_burst_size", "max_fragment_size",
    "hb_interval", "path_mtu", "in_streams", "out_streams", "stream_id",
)  # fmt: skip
_SCTP_NAMES = (
    "sctp_unordered",
    "sctp_nodelay",
    "sctp_pr_policy",
    "sctp_pr_value",
    "batch_size",
    *(f"sctp_{name}" for name in _SCTP),
)
_CONNECTING = (*_CONNECTION, *_SCTP_NAMES)
_MOVING = (
    "size",
    "rsize",
    "count",
    "repeat",
    "conn",
    "timeout",
    "duration",
    "canfail",
    "non_blocking",
    *_SCTP_NAMES,
)
_FILES = (
    "dir",
    "nfiles",
    "size",
    "count",
    "repeat",
    "conn",
    "timeout",
    "duration",
    "canfail",
    "non_blocking",
)

FLOWOPS: Mapping[str, FlowopKind] = {
    flowop.name: flowop
    for flowop in (
        FlowopKind("connect", "accept", _CONNECTING, "Opens a connection to the other end."),
        FlowopKind("accept", "connect", _CONNECTING, "Takes a connection that the other end opens."),
        FlowopKind("disconnect", "disconnect", ("conn", "canfail"), "Closes the connection."),
        FlowopKind("write", "read", _MOVING, "Writes one message."),
        FlowopKind(
            "read",
            "write",
            _MOVING,
            "Reads one whole message. Drawn sizes are alike at both ends.",
        ),
        FlowopKind("send", "recv", _MOVING, "Writes one message with send(2)."),
        FlowopKind("recv", "send", _MOVING, "Reads one message with recv(2)."),
        FlowopKind("sendto", "recvfrom", _MOVING, "Writes one message with sendto(2)."),
        FlowopKind("recvfrom", "sendto", _MOVING, "Reads one message with recvfrom(2)."),
        FlowopKind(
            "sendfile",
            "read",
            _FILES,
            "Sends the next file in and below `dir` with sendfile(2), `size` bytes of it or all, then after 8 uncounted bytes"
            " with its length.",
            meaning="other",
            note="files go in the order of their names, the first 1024 of them; uperf draws the file and sends all of it, while"
            " its other end reads `size` bytes",
        ),
        FlowopKind(
            "sendfilev",
            "read",
            _FILES,
            "Sends the first `nfiles` files of `dir`, or `size` bytes, an equal part of each.",
            meaning="other",
            note="each file has a sendfile(2) of its own, all timed together",
        ),
        FlowopKind(
            "think",
            "think",
            ("duration", "idle", "busy", "count", "repeat"),
            "Sleeps (`idle`, the default) or computes (`busy`).",
        ),
        FlowopKind("nop", "nop", (), "Nothing."),
    )
}
"""Every flowop, by name."""

OPTIONS: Mapping[str, Option] = {
    option.name: option
    for option in (
        Option("remotehost", "host", "The other end.", meaning="other",
               note="a host that receives; names that are none stand, in their order, for those that receive"),
        Option("protocol", "protocol", "What the connection travels on."),
        Option("wndsz", "size", "Socket buffers (SO_SNDBUF and SO_RCVBUF).", low=0, high=2**30),
        Option("tcp_nodelay", "flag", "No Nagle's algorithm (TCP_NODELAY)."),
        Option("cc", "word", "TCP congestion control."),
        Option("conn", "count", "Name of the connection within its thread, a number from 1.", high=65_535),
        Option("size", "size", "Bytes of a message; `rand(LOW,HIGH)`: drawn for each, each as likely.", high=2**30),
        Option("rsize", "size", "Bytes that the other end moves with one call.", meaning="other", high=2**30,
               note="a message has `size` bytes at both ends; uperf gives that end messages of `rsize`"),
        Option("count", "count", "How often the flowop is made.", meaning="other",
               note="each operation is counted and timed by itself, too"),
        Option("repeat", "count", "How often the flowop is made, within `count`.", meaning="other",
               note="each operation as of `count`"),
        Option("timeout", "duration", "How long to wait for the operation.", high=3600 * 10**9),
        Option("duration", "duration", "How long the flowop thinks; nothing on others.",
               high=7 * 24 * 3600 * 10**9),
        Option("idle", "flag", "Think by sleeping."),
        Option("busy", "flag", "Think by computing."),
        Option("canfail", "flag", "A failure is counted, and the thread goes on."),
        Option("non_blocking", "flag", "The socket does not block (O_NONBLOCK)."),
        Option("dir", "text", "Folder whose files are sent."),
        Option("nfiles", "count", "How many files one `sendfilev` sends, 1024 at most.", high=1024),
        Option("port", "count", "Port of the other end.", meaning="ignored", note=_ONE_PORT, high=65_535),
        Option("localhost", "text", "Address to connect from.", meaning="ignored",
               note="the path between the hosts decides it"),
        Option("stack", "text", "TCP stack.", meaning="ignored", note="only FreeBSD has several"),
        Option("bblog", "text", "Log of the TCP stack.", meaning="ignored", note="only FreeBSD has it"),
        Option("encaps", "count", "UDP port that SCTP travels in.", meaning="unsupported",
               note="SCTP travels in IP", low=0, high=65_535),
        Option("engine", "text", "TLS engine.", meaning="ignored", note="TLS is that of the agent"),
        Option("cipher", "text", "TLS ciphers.", meaning="ignored", note="the two ends agree on one of TLS 1.3"),
        Option("method", "text", "TLS version.", meaning="ignored", note="it is TLS 1.3"),
        Option("batch_size", "count", "Messages of one call, over SCTP.", meaning="other",
               note="each message of a batch has a call of its own", high=65_536),
        Option("sctp_unordered", "flag", "SCTP: messages may overtake each other."),
        Option("sctp_nodelay", "flag", "SCTP: no waiting for more."),
        Option("sctp_pr_policy", "word", "SCTP: policy of partial reliability.", meaning="unsupported",
               note="the other end would wait for what is given up"),
        Option("sctp_pr_value", "count", "SCTP: when a message is given up.", meaning="unsupported",
               note="as its policy", low=0),
        *(Option(f"sctp_{name}", "count", f"SCTP: {name.replace('_', ' ')}.", low=0,
                 high=65_535 if "stream" in name else 2**31 - 1) for name in _SCTP),
    )
}  # fmt: skip
"""Every option, by name."""

ALIASES: Mapping[str, str] = {"poll_timeout": "timeout"}
"""Names that uperf's manual has for options, and those that its parser knows."""


OPENING = ("connect", "accept")
"""Flowops that bring a connection up."""

FROM_FILES = tuple(name for name, flowop in FLOWOPS.items() if "dir" in flowop.options)
"""Flowops that send files."""


def takes_messages(kind: str) -> bool:
    """Tell whether the flowop sends or takes messages."""
    return "size" in FLOWOPS[kind].options
