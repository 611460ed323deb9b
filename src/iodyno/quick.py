"""Experiments of one point: what `iodyno tcp`, `rr`, `disk` and `search` measure, as the keys of an experiment file."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from iodyno.core import quantity
from iodyno.core.experiment import SensorLevel
from iodyno.core.outcome import OUTCOMES, TIMES_OF_REQUESTS
from iodyno.core.search import parse_goal
from iodyno.core.workload import CONNECT_REQUEST_RESPONSE, REQUEST_RESPONSE, STREAM
from iodyno.loads.disk.core.load import WORKLOAD
from iodyno.loads.disk.core.parameters import HOST_MARK, NULL_TARGET, is_device, kind_of, paths_of

WARM_UP = "300ms"
"""Chosen: slow start within one machine or one network ends in that time, and nobody waits for it."""

_CLASSES = ("read", "write")
_SIZES = {None: "64KiB", "udp": "1400B"}
"""Size of a message where none is asked for, by transport; a datagram of 1400 bytes is whole at the usual MTU of 1500."""


_OUTCOMES = (
    "operations_per_s",
    "offered_operations_per_s",
    "missed_arrivals_ratio",
    "loss_ratio",
    "connection_fairness",
    "latency_from_schedule_p50_ns",
    "latency_from_schedule_p99_ns",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p99_ns",
    "latency_p999_ns",
)
_OPEN_FLOWS = 64
"""Flows of an open loop where none are asked for. chosen: with one, an arrival waits whenever a request is in flight,
which caps the rate at that of a closed loop; 64 carry 20 000 requests a second with answers of up to 3 ms (Little)."""
_BATCHED_FROM = 16
"""Operations in flight from which on completions are taken several at a time."""
_BATCH_MOST = 16
"""Completions that are waited for at a time, at most. chosen: measured at 64 in flight, 16 have 1.02 of the
writes that 8 have and 0.94 of the reads, so that more gain nothing."""
_REQUEST = "64"
"""Bytes of a request where none are asked for."""
_OPEN_ONLY = {
    "offered_operations_per_s",
    "missed_arrivals_ratio",
    "latency_from_schedule_p50_ns",
    "latency_from_schedule_p99_ns",
}


_LAID_OUT_BYTES = 2**30
"""Of a file that is not there, where no size is asked for. Chosen: more than caches of devices hold, and laid out within
seconds."""

SEARCHED = {"transport": "tcp", "connections": "16", "size": "64", "response_size": "64", "engine": "epoll"}
"""Load of a search where no other is asked for."""
SEARCH_LOADS = (100, 5_000_000)
"""Least and greatest rate that a search tries."""
SEARCH_WIDTH = "5%"
"""How near to each other its bounds are at the end."""
SEARCH_DURATION_S = 75


_TRIALS = 3
"""Trials where no number is asked for. chosen: the least from which their spread gives an interval of use."""


def trials(seconds: float, repeat: int | None) -> tuple[float, int]:
    """Return the measured seconds of a trial, and how many there are. Without `repeat`, `seconds` are those of up to three trials
    together, each of a second or more; with it, of each.

    >>> trials(3, None), trials(10, None)[1], trials(1.5, None), trials(3, 5)
    ((1.0, 3), 3, (1.5, 1), (3, 5))
    """
    if repeat is not None:
        return seconds, repeat
    count = min(_TRIALS, max(1, int(seconds)))
    return seconds / count, count


def windows(measured_s: float, warm_up: str = WARM_UP) -> dict[str, str]:
    """The windows of a trial that measures so long."""
    measured_ms = round(measured_s * 1000)
    return {
        "warm_up": warm_up,
        "measured": f"{measured_ms}ms",
        "drain": "100ms",
        # Ten intervals, so that one trial has an interval of its own; 1 s at most, to see it move.
        "interval": f"{min(1000, max(measured_ms // 10, 10))}ms",
    }


def limits(measured_s: float, background: str | None = None) -> dict[str, str]:
    """Limits of trials that measure so long together: the idle machine is measured for `background`, or else a tenth of that,
    0.1 s to 1 s, before the load and after it.
    """
    tenth_ms = min(1000, max(100, round(measured_s * 100)))
    return {"background_window": background or f"{tenth_ms}ms"}


def is_open(levels: Mapping[str, Any]) -> bool:
    """Tell whether operations are due at times of their own (an open loop): at a rate, or at those of a trace."""
    return "rate" in levels or levels.get("arrivals", "closed") != "closed"


def hosts_of(to: str | None, clients: int = 1) -> dict[str, dict[str, Any]]:
    """The hosts of the experiment: clients of this machine, and a server here or the host that `--to` names. Raises
    ExperimentError.
    """
    from iodyno.formats import ssh_hosts

    count = {"count": clients} if clients > 1 else {}
    if to is None:
        return {"client": {"access": "netns", **count}, "server": {"access": "netns"}}
    return {"client": {"access": "local", **count}, "server": ssh_hosts.named_by(to)}


def engine_of_streams(levels: Mapping[str, Any]) -> str:
    """Return the engine of streams where none is asked for: epoll, or round_robin, which takes less CPU time a KiB for a few
    connections with large messages (measured, of epoll's at 64 KiB x 2, 4, 6: rate 0.95, 1.00, 0.84, CPU time 1.02, 0.89,
    0.93).

    >>> engine_of_streams({"connections": 4, "size": "64KiB"}), engine_of_streams({"connections": 4, "size": "1KiB"})
    ('round_robin', 'epoll')
    >>> engine_of_streams({})
    'epoll'
    >>> engine_of_streams({"transport": "udp"}), engine_of_streams({"receive": "discard"})
    ('threads', 'threads')
    """
    plain = levels.get("syscalls", "read_write") == "read_write" and levels.get("receive", "read") == "read"
    if not plain or levels.get("transport", "tcp") not in ("tcp", "unix"):
        return "threads"
    connections, size = (
        _number(levels, name, other) for name, other in (("connections", 1), ("size", _SIZES[None]))
    )
    return "round_robin" if 2 < connections < 6 and size >= 1 << 16 else "epoll"


_RING_SETUP = 425
"""Number of the system call io_uring_setup(2), the same on every architecture."""
_NOT_BY_RING = {
    *("rate", "arrivals", "busy_poll", "busy_wait", "queue_depth", "multiplexed", "syscalls", "client_engine", "server_engine")
}  # fmt: skip
"""What a request may have that only threads or epoll carry out, or that says the engine itself."""


_IPC_LOCK = 1 << 14
"""Bit of CAP_IPC_LOCK (capabilities(7)): memory that is registered with a ring counts against no limit."""


def ring_is_allowed() -> bool:
    """Tell whether this process may have an io_uring with as much registered memory as it likes: a sysctl or a filter of system
    calls may forbid the one, RLIMIT_MEMLOCK the other.
    """
    libc = ctypes.CDLL(None)
    ring: int = libc.syscall(_RING_SETUP, 2, ctypes.create_string_buffer(120))
    if ring < 0:
        return False
    os.close(ring)
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    unlimited = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    return unlimited or bool(int(status["CapEff"], 16) & _IPC_LOCK)


def engine_of_requests(levels: Mapping[str, Any], *, connect: bool = False, to: str | None = None) -> str:
    """Return the engine of requests where none is asked for: threads for one or two connections, io_uring for six and more where
    both ends are here and the kernel lets it, else epoll (measured, of epoll's rate: threads 1.09 at x 1, 1.13 at x 2;
    io_uring 1.03 at x 6, 1.32 at x 16, 1.64 at x 1000, at 0.93, 0.69, 0.59 of its CPU time).

    >>> engine_of_requests({}), engine_of_requests({"connections": "4"}), engine_of_requests({"rate": "1000/s"})
    ('threads', 'epoll', 'epoll')
    >>> engine_of_requests({"connections": "64"}, to="me@server"), engine_of_requests({"transport": "udp"})
    ('epoll', 'epoll')
    """
    if connect or levels.get("transport", "tcp") != "tcp" or _NOT_BY_RING & levels.keys():
        return "epoll"
    connections = _number(levels, "connections", 1)
    if connections <= 2:
        return "threads"
    return "io_uring" if connections >= 6 and to is None and ring_is_allowed() else "epoll"


def _number(levels: Mapping[str, Any], name: str, other: int | str) -> int:
    """A level in its base unit; 0: it is none, which the experiment's check says."""
    parameter = STREAM.parameter(name)
    assert parameter is not None
    with contextlib.suppress(ValueError):
        return int(parameter.parse(levels.get(name, other)))
    return 0


def tcp(
    levels: Mapping[str, Any],
    *,
    seconds: float,
    to: str | None,
    clients: int = 1,
    repeat: int | None = None,
    prove: str | None = None,
    profile: bool = False,
    sensors: SensorLevel = "light",
    background_window: str | None = None,
) -> dict[str, Any]:
    """Streams of bytes between two hosts."""
    levels = {
        "size": _SIZES.get(levels.get("transport"), _SIZES[None]),
        "engine": engine_of_streams(levels),
        **levels,
    }
    factors = {name: [levels[name]] for name in ("connections", "size")}
    settings = {name: value for name, value in levels.items() if name not in factors}
    each_s, count = trials(seconds, repeat)
    return {
        "name": "tcp",
        "question": "What do these connections carry, and what does it cost?",
        "hosts": hosts_of(to, clients),
        "workload": {"kind": "stream", "sender": "client", "receiver": "server", **settings},
        "factors": factors,
        "design": {"replicates": count},
        **({"prove": prove} if prove else {}),
        "windows": windows(each_s),
        "limits": limits(each_s * count, background_window),
        "outcomes": [
            "goodput_bits_per_s",
            *(("datagrams_per_s", "loss_ratio") if levels.get("transport") == "udp" else ()),
            *(
                f"{host}.{cost}"
                for host in ("client", "server")
                for cost in ("cpu_ns_per_kib", "cycles_per_kib")
            ),
            *outcomes_of_clients(clients),
        ],
        "profile": profile,
        "sensors": sensors,
    }


def rr(
    levels: Mapping[str, Any],
    *,
    seconds: float,
    to: str | None,
    clients: int = 1,
    repeat: int | None = None,
    connect: bool = False,
    prove: str | None = None,
    profile: bool = False,
    sensors: SensorLevel = "light",
    background_window: str | None = None,
) -> dict[str, Any]:
    """Requests and answers between two hosts."""
    size = {} if "sizes" in levels else {"size": _REQUEST}
    engine = engine_of_requests(levels, connect=connect, to=to)
    levels = {"connections": str(_OPEN_FLOWS if is_open(levels) else 1), "engine": engine, **size, **levels}
    workload = CONNECT_REQUEST_RESPONSE if connect else REQUEST_RESPONSE
    factors = {name: [levels[name]] for name in ("connections", "sizes" if "sizes" in levels else "size")}
    settings = {name: value for name, value in levels.items() if name not in factors}
    each_s, count = trials(seconds, repeat)
    return {
        "name": "rr",
        "question": "How many requests do these flows get answered, how fast, and at what cost?",
        "hosts": hosts_of(to, clients),
        "workload": {"kind": workload.name, "sender": "client", "receiver": "server", **settings},
        "factors": factors,
        "design": {"replicates": count},
        **({"prove": prove} if prove else {}),
        "windows": windows(each_s),
        "limits": limits(each_s * count, background_window),
        "outcomes": [
            *outcomes_of_requests(levels),
            *(f"{host}.cpu_ns_per_operation" for host in ("client", "server")),
            *outcomes_of_clients(clients),
        ],
        "profile": profile,
        "sensors": sensors,
    }


def outcomes_of_clients(clients: int) -> tuple[str, ...]:
    """Return the outcomes worth showing of several clients of one server."""
    return ("fairness", "slowest_client_ratio", "fastest_client_ratio") if clients > 1 else ()


def outcomes_of_requests(levels: Mapping[str, Any]) -> list[str]:
    """Return the outcomes worth showing of this load."""
    opened = is_open(levels)
    names = [name for name in _OUTCOMES if name in OUTCOMES and (opened or name not in _OPEN_ONLY)]
    idle = {"loss_ratio"} if levels.get("transport") != "udp" else set()
    idle |= {"connection_fairness"} if levels.get("connections", "1") == "1" else set()
    return [name for name in names if name not in idle]


def disk(
    levels: Mapping[str, Any],
    *,
    seconds: float,
    repeat: int | None = None,
    clients: int = 1,
    to: str | None = None,
    prove: str | None = None,
    profile: bool = False,
    sensors: SensorLevel = "light",
    background_window: str | None = None,
) -> dict[str, Any]:
    """Reads and writes of a target."""
    from iodyno.formats import ssh_hosts

    levels = {**batch_of(levels), **levels}
    factors = {name: [levels[name]] for name in ("queue_depth", "block")}
    settings = {name: value for name, value in levels.items() if name not in factors}
    host: dict[str, Any] = {"access": "local"} if to is None else ssh_hosts.named_by(to, "--on")
    if clients > 1:
        host |= {"count": clients} | ({"access": "netns"} if to is None else {})
    first = clients_named(clients)[0]
    each_s, count = trials(seconds, repeat)
    return {
        "name": "disk",
        "question": "How many operations does this target do, how fast, and at what cost?",
        "hosts": {"client": host},
        "workload": {"kind": WORKLOAD.name, "hosts": "client", **settings},
        "factors": factors,
        "design": {"replicates": count},
        **({"prove": prove} if prove else {}),
        "windows": windows(each_s),
        "limits": limits(each_s * count, background_window),
        "outcomes": [
            *outcomes_of_target(levels, clients),
            f"{first}.cpu_us_per_io",
            *([f"{first}.device_busy_ratio"] if levels.get("target") != NULL_TARGET else []),
            *([f"{first}.load_from_cache_ratio"] if may_be_cached(levels) else []),
        ],
        "profile": profile,
        "sensors": sensors,
    }


def absolute(target: str) -> str:
    """The paths of a target from the root: an agent has a folder of its own.

    >>> absolute("null"), absolute("/dev/loop3, /srv/work.dat")
    ('null', '/dev/loop3, /srv/work.dat')
    """
    return ", ".join(
        path if path == NULL_TARGET or is_device(path) else str(Path(path).absolute())
        for path in paths_of(target, HOST_MARK)
    )


def unasked_of_target(levels: Mapping[str, Any], *, to: str | None, clients: int = 1) -> dict[str, str]:
    """Return the working set of a file, which is as large as the file is, and the calls of a queue, where none are asked for.

    >>> unasked_of_target({"target": "null", "queue_depth": "8"}, to=None)
    {'syscalls': 'io_uring'}
    >>> unasked_of_target({"target": "/srv/work.dat", "queue_depth": "1"}, to="root@filer")
    {'working_set': '1GiB'}
    """
    found = {}
    if kind_of(str(levels["target"])) == "file" and "working_set" not in levels:
        paths = paths_of(str(levels["target"]), clients_named(clients)[0])
        found["working_set"] = quantity.show("size", _bytes_of(paths if to is None else ()))
    depth = WORKLOAD.parameter("queue_depth")
    assert depth is not None
    with contextlib.suppress(ValueError):
        if int(depth.parse(levels["queue_depth"])) > 1 and "syscalls" not in levels:
            found["syscalls"] = "io_uring"
    return found


def _bytes_of(paths: Sequence[str]) -> int:
    """Return the size that files of this machine have for a load; of files that are not there, that of what is laid out."""
    from iodyno.targets.stamp import content_bytes

    found = [content_bytes(Path(path)) for path in paths]
    return min((size for size in found if size is not None), default=_LAID_OUT_BYTES)


def batch_of(levels: Mapping[str, Any]) -> dict[str, str]:
    """Return for how many completions a worker waits at a time where none is asked for: in a closed loop of direct operations
    with 16 in flight and more for a quarter of them.

    Measured at 32: 8 have 1.24 of the writes a second that 4 have, at 0.89 of the CPU time of each, and 1.02 of the reads, at
    0.91; at 16, 8 have 0.94 of the reads that 4 have; of the page cache, whose operations are complete when they are submitted, 8
    have 0.87 of the writes that 1 has.

    >>> ring = {"syscalls": "io_uring", "direct": True}
    >>> batch_of({"queue_depth": "32", **ring}), batch_of({"queue_depth": "8", **ring})
    ({'batch': '8'}, {})
    """
    batched = (
        bool(levels.get("direct"))
        and str(levels.get("syscalls")) in ("io_uring", "aio")
        and not is_open(levels)
    )
    depth = WORKLOAD.parameter("queue_depth")
    assert depth is not None
    with contextlib.suppress(ValueError):
        in_flight = int(depth.parse(levels["queue_depth"]))
        if batched and in_flight >= _BATCHED_FROM:
            return {"batch": str(min(in_flight // 4, _BATCH_MOST))}
    return {}


def outcomes_of_target(levels: Mapping[str, Any], clients: int = 1) -> list[str]:
    """Return the outcomes worth showing of this load."""
    share = WORKLOAD.parameter("read")
    assert share is not None
    read = 10**6
    with contextlib.suppress(ValueError):  # what it is instead the experiment's check says
        read = int(share.parse(levels.get("read", "100%")))
    kinds = [kind for kind, there in zip(_CLASSES, (read > 0, read < 10**6), strict=True) if there]
    names = ["iops", *(f"{kind}_bytes_per_s" for kind in kinds)]
    if is_open(levels):
        names += [
            "offered_operations_per_s",
            "missed_arrivals_ratio",
            "response_time_p50_ns",
            "response_time_p99_ns",
        ]
    for kind in kinds:
        names += [f"{kind}_service_time_{name}_ns" for name in ("mean", "p50", "p99")]
    if str(levels.get("sync", "none")) in ("fsync", "fdatasync"):
        names += ["fsync_service_time_p50_ns", "fsync_service_time_p99_ns"]
    return [*names, *(("fairness", "slowest_client_ratio") if clients > 1 else ())]


def may_be_cached(levels: Mapping[str, Any]) -> bool:
    """Tell whether reads of this load may come from the page cache, and say nothing of the device then.

    >>> may_be_cached({"target": "work.dat"}), may_be_cached({"target": "work.dat", "direct": True})
    (True, False)
    >>> may_be_cached({"target": "work.dat", "read": "0%"}), may_be_cached({"target": "null"})
    (False, False)
    """
    reads = any(name.startswith("read_") for name in outcomes_of_target(levels))
    return reads and not levels.get("direct") and levels.get("target") != NULL_TARGET


def clients_named(clients: int) -> list[str]:
    """Return the names of the hosts, for which {host} in a target stands."""
    return ["client"] if clients == 1 else [f"client-{number}" for number in range(1, clients + 1)]


def search(
    levels: Mapping[str, Any],
    *,
    search_for: Mapping[str, Any],
    seconds: float,
    to: str | None,
    profile: bool,
    sensors: SensorLevel = "light",
    background_window: str | None = None,
) -> dict[str, Any]:
    """The largest rate that meets each goal: messages one way, or requests."""
    one_way = parse_goal(search_for["goals"][0]).outcome == "loss_ratio"
    law = "constant" if one_way else "poisson"
    settings = {"arrivals": law, **levels}
    if one_way:
        settings.pop("response_size", None)
    outcomes = outcomes_of_requests({**levels, "rate": ""})
    if one_way:
        as_written = {of_request: name for name, of_request in TIMES_OF_REQUESTS.items()}
        outcomes = [as_written.get(name, name) for name in outcomes]
    return {
        "name": "search",
        "question": f"Which is the largest rate with {' and with '.join(search_for['goals'])}?",
        "hosts": hosts_of(to),
        "workload": {
            "kind": "stream" if one_way else "request_response",
            "sender": "client",
            "receiver": "server",
            **settings,
        },
        "search": dict(search_for),
        # A trial counts as a whole, and to read the sensors meanwhile keeps requests waiting.
        "windows": windows(seconds, warm_up="200ms") | {"interval": f"{round(seconds * 1000)}ms"},
        "limits": limits(seconds, background_window),
        "outcomes": list(outcomes),
        "profile": profile,
        "sensors": sensors,
    }
