"""The table of peers: which tools load a path as iodyno does, and their command lines, as those who know them set them.

A peer is taken from the path; one that is not there is left out, and said. All have the same CPUs and the same two network
namespaces, one process where one can do it, and the lines that are run are printed. Left out are ways that are no plain
writes of a buffer of the user's (`iperf3 -Z`, `tcp_stream --enable-tcp-zerocopy`), as iodyno has them by option, too. neper
joins small writes (MSG_MORE) unless it is told not to; both are there.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

EXCHANGE_BYTES = 64
"""Of a request, and of its answer."""
BLOCK_BYTES = 4096
WORKING_SET_BYTES = 256 << 20
MOST_STREAMS = 128
"""Streams of one process of iperf3, and of nuttcp. Those of iperf3 are divided between several, each with its port."""
# Below the ports that the namespaces give to connections (from 1024 on); nuttcp takes no such one.
PORT, NUTTCP_PORT = 400, 15_201

Command = Sequence[str]


@dataclass(frozen=True)
class Asked:
    """What is asked of every tool alike. `kind`: bulk, rr or disk; `count`: connections, or operations in flight; `size`: bytes
    of a message or block; `address`: of the server; `cpus`: at each end; `folder`: for files of the tool; `target`: of a disk.
    """

    kind: str
    count: int
    seconds: float
    size: int = 0
    address: str = ""
    cpus: int = 1
    folder: Path = Path()
    target: Path = Path()
    reads: bool = True
    direct: bool = False


@dataclass(frozen=True)
class Lines:
    """The command lines of a tool: servers, which wait at `ports` (none: that is not known), and clients."""

    clients: Sequence[Command]
    servers: Sequence[Command] = ()
    ports: Sequence[int] = ()


@dataclass(frozen=True)
class Peer:
    """A tool: how it is called for what is asked, and what each of its clients says of its rate, where nobody else counts."""

    kind: str
    program: str
    lines: Callable[[Asked], Lines]
    rate: Callable[[str], float] = field(default=lambda said: 0.0)

    @property
    def found(self) -> bool:
        """Whether the tool is on this machine."""
        return shutil.which(self.program) is not None


def parts(connections: int, most: int = MOST_STREAMS) -> list[int]:
    """Connections of each process.

    >>> parts(1000), parts(4)
    ([125, 125, 125, 125, 125, 125, 125, 125], [4])
    """
    processes = -(-connections // most)
    return [connections * (n + 1) // processes - connections * n // processes for n in range(processes)]


def _lasting(asked: Asked) -> str:
    """Seconds for a tool with a process a connection: the first is not to be done before the last has begun.

    chosen: fifty processes begin a second, as they do on two busy CPUs. What each says of its own time then adds up to more than
    all did at once, in the tool's favour.
    """
    return f"{asked.seconds + math.ceil((asked.count - 1) / 50):.0f}"


def number_in(pattern: str, said: str) -> float:
    """The number that a tool says. Raises RuntimeError where it does not."""
    found = re.findall(pattern, said, re.MULTILINE)
    if not found:
        raise RuntimeError(f"it said: {said[-300:]}")
    return float(found[-1])


def _bare(asked: Asked) -> Lines:
    if asked.count > 1:
        raise RuntimeError("a bare loop has one connection")
    program = str(asked.folder / "bare")
    subprocess.run(["cc", "-O2", "-o", program, Path(__file__).with_name("bare.c")], check=True)
    client = [program, str(PORT), asked.address, str(asked.size), f"{asked.seconds:.0f}"]
    return Lines([client], [[program, str(PORT)]], [PORT])


def _iperf3(asked: Asked) -> Lines:
    each = parts(asked.count)
    ports = range(PORT, PORT + len(each))
    # The first must not be done before the last has begun.
    lasts = f"{asked.seconds + 1.0 * (len(each) - 1):g}"
    return Lines(
        [["iperf3", "-c", asked.address, "-p", str(port), "-P", str(streams), "-l", str(asked.size), "-t", lasts]
         for port, streams in zip(ports, each, strict=True)],
        [["iperf3", "-s", "-1", "-p", str(port)] for port in ports],
        ports,
    )  # fmt: skip


def _nuttcp(asked: Asked) -> Lines:
    if asked.count > MOST_STREAMS:
        raise RuntimeError(
            f"nuttcp has {MOST_STREAMS} streams at most, and data ports that no two of it can share"
        )
    streams, size = f"-N{asked.count}", f"-l{asked.size}"
    client = [
        "nuttcp",
        "-t",
        f"-P{NUTTCP_PORT}",
        "-p10000",
        streams,
        size,
        f"-T{asked.seconds:g}",
        asked.address,
    ]
    return Lines([client], [["nuttcp", "-S", "--nofork", f"-P{NUTTCP_PORT}"]], [NUTTCP_PORT])


def _neper(program: str, *more: str) -> Callable[[Asked], Lines]:
    def lines(asked: Asked) -> Lines:
        sizes = (
            [f"-B{asked.size}"] if program == "tcp_stream" else [f"-Q{EXCHANGE_BYTES}", f"-R{EXCHANGE_BYTES}"]
        )
        common = [
            program,
            f"-F{asked.count}",
            f"-T{min(asked.cpus, asked.count)}",
            *sizes,
            f"-l{asked.seconds:.0f}",
            *more,
        ]
        return Lines([[*common, "-c", "-H", asked.address]], [common], [12866])

    return lines


def _netperf(asked: Asked) -> Lines:
    test = ["-t", "TCP_STREAM", "--", "-m", str(asked.size)]
    if asked.kind == "rr":
        test = ["-t", "TCP_RR", "--", "-D", "-r", f"{EXCHANGE_BYTES},{EXCHANGE_BYTES}"]
    client = [
        "netperf",
        "-H",
        asked.address,
        "-p",
        str(PORT),
        "-l",
        _lasting(asked),
        "-P",
        "0",
        "-v",
        "0",
        *test,
    ]
    return Lines([client] * asked.count, [["netserver", "-D", "-4", "-p", str(PORT)]], [PORT])


def _uperf(asked: Asked) -> Lines:
    profile = asked.folder / "profile.xml"
    flowops = [f'<flowop type="write" options="size={asked.size or EXCHANGE_BYTES}"/>']
    if asked.kind == "rr":
        flowops += [f'<flowop type="read" options="size={EXCHANGE_BYTES}"/>']
    to = f"remotehost={asked.address} protocol=tcp{' tcp_nodelay' if asked.kind == 'rr' else ''}"
    profile.write_text(
        "\n".join([
            '<?xml version="1.0"?>', '<profile name="peer">', f'<group nthreads="{asked.count}">',
            '<transaction iterations="1">', f'<flowop type="connect" options="{to}"/>', "</transaction>",
            f'<transaction duration="{asked.seconds:.0f}s">', *flowops, "</transaction>",
            '<transaction iterations="1">', '<flowop type="disconnect"/>', "</transaction>", "</group>", "</profile>", "",
        ])
    )  # fmt: skip
    return Lines([["uperf", "-m", str(profile), "-P", str(PORT)]], [["uperf", "-s", "-P", str(PORT)]], [PORT])


def _sockperf(asked: Asked) -> Lines:
    """A client process a flow, each with a socket of its own at one server with epoll: a client that is told of several sockets
    has one exchange in flight over all of them.
    """
    ports = range(PORT, PORT + asked.count)
    to = ["-i", asked.address]
    client = ["sockperf", "ping-pong", "--tcp", *to, "-m", str(EXCHANGE_BYTES), "-t", _lasting(asked)]
    server = ["sockperf", "server", "--tcp", *to, "-p", str(PORT)]
    if asked.count > 1:
        feed = asked.folder / "sockperf.feed"
        feed.write_text("".join(f"T:{asked.address}:{port}\n" for port in ports))
        server = ["sockperf", "server", "-f", str(feed), "-F", "epoll"]
    return Lines([[*client, "-p", str(port)] for port in ports], [server], ports)


def _fio(engine: str, gtod_reduce: int) -> Callable[[Asked], Lines]:
    """As its HOWTO has it for the least time an operation: buffers aligned to pages, no map of what was read, registered buffers
    and files, several operations a call where several are in flight; what it reads from the page cache stays there (not
    for writes, which are slower then); with and without its own clock readings.
    """

    def lines(asked: Asked) -> Lines:
        if engine == "psync" and asked.count > 1:
            raise RuntimeError("psync has one operation in flight")
        options = {
            "name": "peer", "filename": asked.target, "rw": "randread" if asked.reads else "randwrite", "bs": BLOCK_BYTES,
            "size": WORKING_SET_BYTES, "direct": int(asked.direct), "time_based": 1, "runtime": f"{asked.seconds:g}s",
            "ioengine": engine, "iodepth": asked.count, "thread": 1, "norandommap": 1, "randrepeat": 0, "iomem_align": "4k",
            "gtod_reduce": gtod_reduce, "output-format": "json", "invalidate": int(asked.direct or not asked.reads),
        }  # fmt: skip
        if engine == "io_uring":
            options |= {"fixedbufs": 1, "registerfiles": 1}
        if asked.count > 1:
            options |= {
                "iodepth_batch_submit": asked.count // 2,
                "iodepth_batch_complete_max": asked.count // 2,
            }
        return Lines([["fio", *(f"--{name}={value}" for name, value in options.items())]])

    return lines


def _rate_of_fio(said: str) -> float:
    (job,) = json.loads(said[said.index("{") :])["jobs"]
    return float(job["read"]["iops"] + job["write"]["iops"])


_UPERF = r"^Txn2\s.*?\s(\d+)op/s"

BARE = "bare loop"
"""No tool: what one connection moves with a call a message and nothing else (`bare.c`). Ours is held against it, too."""

PEERS: Mapping[str, Peer] = {
    BARE: Peer("bulk", "cc", _bare),
    "iperf3": Peer("bulk", "iperf3", _iperf3),
    "nuttcp": Peer("bulk", "nuttcp", _nuttcp),
    "neper": Peer("bulk", "tcp_stream", _neper("tcp_stream")),
    "neper --no-cork": Peer("bulk", "tcp_stream", _neper("tcp_stream", "--no-cork")),
    "netperf": Peer("bulk", "netperf", _netperf),
    "uperf": Peer("bulk", "uperf", _uperf),
    "neper tcp_rr": Peer(
        "rr", "tcp_rr", _neper("tcp_rr"), lambda said: number_in(r"^throughput=([\d.]+)", said)
    ),
    "netperf TCP_RR": Peer("rr", "netperf", _netperf, lambda said: number_in(r"^\s*([\d.]+)\s*$", said)),
    "sockperf": Peer(
        "rr",
        "sockperf",
        _sockperf,
        lambda said: (
            number_in(r"Valid Duration\] RunTime=[\d.]+ sec; SentMessages=\d+; ReceivedMessages=(\d+)", said)
            / number_in(r"Valid Duration\] RunTime=([\d.]+) sec", said)
        ),
    ),
    # An exchange is a write and a read.
    "uperf exchanges": Peer("rr", "uperf", _uperf, lambda said: number_in(_UPERF, said) / 2),
    **{
        f"fio {engine}, gtod_reduce={reduce}": Peer("disk", "fio", _fio(engine, reduce), _rate_of_fio)
        for engine in ("psync", "io_uring")
        for reduce in (0, 1)
    },
}
"""Every peer, by name."""
