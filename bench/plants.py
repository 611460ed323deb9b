"""The plants of the corpus: limiters that are planted on purpose, at several strengths, and healthy runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from iodyno.core.workload import Level

Half = Literal["calibration", "test"]
MS = 1_000_000
HEALTHY = frozenset(
    {"unknown", *(f"{host}.{what}" for host in ("client", "server") for what in ("cpu", "thread", "softirq"))}
)
"""What may be said of a healthy run: that a CPU is full, or nothing."""


@dataclass(frozen=True)
class Plant:
    """A limiter that is planted: the settings that plant it, and the strengths of each half.

    `accepted`: verdicts that are right. `storage`: whether it is of a load on a disk, of one host. `spinners`: processes that
    spin on the CPUs of that host meanwhile. `wander`: seconds that a process takes of each CPU in turn. `name`: where another
    plant of the same label has the same workload. `script`: flowops of the workload `script`, and what its transaction has
    beside its duration.
    """

    label: str
    accepted: frozenset[str]
    settings: Mapping[str, Level]
    calibration: Sequence[Mapping[str, Level]]
    test: Sequence[Mapping[str, Level]]
    workload: str = "stream"
    storage: bool = False
    spinners: Mapping[str, int] = field(default_factory=dict)
    wander: float = 0.0
    name: str = ""
    script: tuple[str, str] = ("", "")

    def strengths(self, half: Half) -> Sequence[Mapping[str, Level]]:
        """Settings of each strength."""
        return self.calibration if half == "calibration" else self.test


def _levels(name: str, *values: Level) -> list[dict[str, Level]]:
    return [{name: value} for value in values]


def _plant(
    label: str, settings: Mapping[str, Level], calibration: object, test: object, **more: object
) -> Plant:
    accepted = more.pop("accepted", frozenset({label}))
    return Plant(label, accepted, settings, calibration, test, **more)  # type: ignore[arg-type]


_WRITE = '<flowop type="write" options="size=$size"/>'
_BULK = (_WRITE, "")
_EXCHANGE = (f'{_WRITE}<flowop type="read" options="size=$size"/>', "")
_PACED = (f'{_WRITE}<flowop type="think" options="idle duration=$rest"/>', "")
_HELD = (_EXCHANGE[0], 'rate="$each"')
_WIDE: Mapping[str, Level] = {"threads": 1, "size": 65536, "buffer": 4 << 20}


def _scripted(
    label: str, flowops: tuple[str, str], calibration: object, test: object, **more: object
) -> Plant:
    """A plant whose load is a profile, with its variables as strengths."""
    settings = {**_WIDE, **more.pop("settings", {})}  # type: ignore[dict-item]
    return _plant(label, settings, calibration, test, workload="script", script=flowops, **more)


_DATAGRAMS: Mapping[str, Level] = {"transport": "udp", "size": 1400}
"""Datagrams that the path takes whole."""

_EITHER = frozenset({"client.run_queue", "server.run_queue"})
_WANDERING = ((0.003, "request_response", (4, 8, 32, 64)), (0.02, "stream", (1, 4, 8)))
PLANTS: tuple[Plant, ...] = (
    _plant(
        "healthy",
        {},
        [
            {"connections": 1},
            {"connections": 4},
            {"connections": 2, "size": 16384},
            {"connections": 32, "size": 8192},
            {"connections": 8, "engine": "epoll"},
        ],
        [
            {"connections": 2},
            {"connections": 8},
            {"connections": 1, "size": 32768},
            {"connections": 16, "size": 4096},
            {"connections": 4, "engine": "epoll"},
            {"connections": 3, "window": 4 << 20},
            {"connections": 6, "size": 131072},
            {"connections": 64, "size": 16384},
            {"connections": 24, "size": 65536, "engine": "epoll"},
            {"connections": 1, "size": 2048, "nagle": False},
        ],
        accepted=HEALTHY,
    ),
    _plant(
        "client.cpu",
        {"connections": 8},
        _levels("size", 512, 1024),
        _levels("size", 256, 768),
        accepted=frozenset({"client.cpu", "client.thread"}),
    ),
    _plant(
        "receive_window",
        {},
        [
            {"receive_buffer": 8 << 10},
            {"receive_buffer": 16 << 10},
            {"receive_buffer": 64 << 10, "link_delay": 2 * MS},
        ],
        [
            {"receive_buffer": 6 << 10},
            {"receive_buffer": 12 << 10},
            {"receive_buffer": 128 << 10, "link_delay": 4 * MS},
        ],
    ),
    _plant(
        "pacing",
        {},
        [{"pacing_rate": 100_000_000}, {"pacing_rate": 50_000_000, "connections": 8}],
        [{"pacing_rate": 200_000_000, "connections": 2}, {"pacing_rate": 30_000_000, "link_delay": 2 * MS}],
    ),
    _plant(
        "send_buffer",
        {},
        [
            {"send_buffer": 8 << 10},
            {"send_buffer": 32 << 10, "link_delay": 2 * MS},
            {"send_buffer": 128 << 10, "link_delay": 5 * MS},
        ],
        [
            {"send_buffer": 4 << 10},
            {"send_buffer": 64 << 10, "link_delay": 3 * MS},
            {"send_buffer": 16 << 10, "link_delay": MS},
        ],
    ),
    _plant(
        "link_rate",
        {},
        [
            {"link_rate": 100_000_000},
            {"link_rate": 800_000_000, "connections": 4},
            {"link_rate": 200_000_000, "link_delay": 2 * MS},
        ],
        [
            {"link_rate": 50_000_000},
            {"link_rate": 400_000_000, "connections": 2},
            {"link_rate": 1_000_000_000},
            {"link_rate": 150_000_000, "link_delay": MS},
        ],
    ),
    _plant(
        "queue",
        {},
        [
            {"connections": 2, "link_rate": 500_000_000, "link_queue": 8_000, "link_delay": 4 * MS},
            {"connections": 1, "link_rate": 300_000_000, "link_queue": 12_000, "link_delay": 8 * MS},
        ],
        [
            {"connections": 2, "link_rate": 400_000_000, "link_queue": 6_000, "link_delay": 5 * MS},
            {"connections": 1, "link_rate": 600_000_000, "link_queue": 16_000, "link_delay": 6 * MS},
            {"connections": 3, "link_rate": 800_000_000, "link_queue": 10_000, "link_delay": 8 * MS},
        ],
    ),
    # Datagrams are lost where the link is full, and their sender does not learn of it: in a closed loop its CPU is full, in an
    # open one all that was due is begun in time.
    _plant(
        "link_rate",
        _DATAGRAMS,
        [
            {"link_rate": 100_000_000},
            {"link_rate": 30_000_000, "connections": 2},
            {"link_rate": 60_000_000, "link_delay": 2 * MS},
        ],
        [
            {"link_rate": 50_000_000},
            {"link_rate": 150_000_000, "connections": 4},
            {"link_rate": 40_000_000, "link_delay": MS},
        ],
        name="link-rate-udp",
    ),
    _plant(
        "link_rate",
        {**_DATAGRAMS, "arrivals": "constant"},
        [
            {"link_rate": 100_000_000, "rate": 15_000},
            {"link_rate": 30_000_000, "rate": 4_000, "connections": 2},
        ],
        [
            {"link_rate": 50_000_000, "rate": 20_000},
            {"link_rate": 60_000_000, "rate": 6_000, "arrivals": "poisson"},
            {"link_rate": 20_000_000, "rate": 2_500},
        ],
        name="link-rate-udp-paced",
    ),
    _plant(
        "offered_load",
        {**_DATAGRAMS, "arrivals": "constant"},
        [{"link_rate": 100_000_000, "rate": 5_000}, {"link_rate": 30_000_000, "rate": 1_000}],
        [{"link_rate": 50_000_000, "rate": 3_000}, {"link_rate": 60_000_000, "rate": 4_000}],
        name="offered-load-udp",
    ),
    _plant(
        "loss",
        _DATAGRAMS,
        _levels("receive_buffer", 4 << 10, 8 << 10),
        _levels("receive_buffer", 3 << 10, 6 << 10),
        name="loss-udp",
    ),
    _plant("client.application", {}, _levels("think", MS, 200_000), _levels("think", 3 * MS, 400_000)),
    _plant(
        "server.application",
        {},
        _levels("reader_think", MS, 5 * MS),
        _levels("reader_think", 2 * MS, 8 * MS),
    ),
    _plant(
        "client.generator", {}, _levels("compute", 50_000, 500_000), _levels("compute", 100_000, 1_000_000)
    ),
    _plant("client.cpu_quota", {}, _levels("sender_quota", 20, 50), _levels("sender_quota", 10, 35)),
    _plant("server.cpu_quota", {}, _levels("receiver_quota", 5, 15), _levels("receiver_quota", 8, 12)),
    _plant(
        "client.run_queue",
        {"connections": 2},
        _levels("size", 65536, 16384),
        _levels("size", 32768, 8192),
        spinners={"client": 2},
    ),
    _plant(
        "server.run_queue",
        {"connections": 2},
        _levels("size", 65536),
        _levels("size", 32768, 131072),
        spinners={"server": 4},
    ),
    _plant(
        "client.lock",
        {"serialised": True, "link_delay": 2 * MS, "send_buffer": 64 << 10},
        _levels("connections", 4, 8),
        _levels("connections", 3, 6, 12),
    ),
    _plant(
        "concurrency",
        {"connections": 1},
        _levels("link_delay", 2 * MS, 10 * MS),
        _levels("link_delay", MS, 5 * MS, 20 * MS),
        workload="request_response",
    ),
    _plant(
        "block_timeout",
        {
            "transport": "udp",
            "size": 512,
            "client_engine": "epoll",
            "server_engine": "packet_v3",
            "block_packets": 64,
        },
        [{"block_timeout": 4 * MS, "connections": 8}, {"block_timeout": 10 * MS, "connections": 64}],
        [{"block_timeout": 2 * MS, "connections": 4}, {"block_timeout": 20 * MS, "connections": 32}],
        workload="request_response",
    ),
    _plant(
        "client.disk_limit",
        {"syscalls": "io_uring"},
        [{"device_limit": 400, "queue_depth": 8}, {"device_limit": 1500, "queue_depth": 16}],
        [{"device_limit": 200, "queue_depth": 4}, {"device_limit": 800, "queue_depth": 32}],
        workload="disk",
        storage=True,
    ),
    _plant(
        "offered_load",
        {"syscalls": "io_uring", "queue_depth": 4, "arrivals": "constant"},
        _levels("rate", 100, 400),
        _levels("rate", 200, 600),
        workload="disk",
        storage=True,
    ),
    _plant(
        "client.disk",
        {"syscalls": "io_uring"},
        [{"device_delay": 2 * MS, "queue_depth": 32}, {"device_delay": 8 * MS, "queue_depth": 64}],
        [{"device_delay": 4 * MS, "queue_depth": 48}, {"device_delay": MS, "queue_depth": 32}],
        workload="disk",
        storage=True,
        name="client-disk-delayed",
    ),
    _plant(
        "client.disk_bandwidth",
        {"syscalls": "io_uring"},
        [
            {"device_rate": 100_000_000, "block": 1 << 20, "queue_depth": 8, "pattern": "sequential"},
            {"device_rate": 30_000_000, "block": 256 << 10, "queue_depth": 16},
        ],
        [
            {"device_rate": 60_000_000, "block": 512 << 10, "queue_depth": 8},
            {"device_rate": 20_000_000, "block": 128 << 10, "queue_depth": 32, "pattern": "sequential"},
            {"device_rate": 200_000_000, "block": 1 << 20, "queue_depth": 12},
        ],
        workload="disk",
        storage=True,
    ),
    _plant(
        "concurrency",
        {"syscalls": "pread", "workers": 1},
        _levels("device_delay", 2 * MS, 10 * MS),
        _levels("device_delay", MS, 5 * MS, 20 * MS),
        workload="disk",
        storage=True,
    ),
    _plant(
        "concurrency",
        {"syscalls": "pread", "workers": 1, "read": 0, "direct": False, "sync": "fdatasync"},
        _levels("device_delay", 2 * MS, 10 * MS),
        [{"device_delay": MS}, {"device_delay": 5 * MS}, {"device_delay": 20 * MS, "sync": "fsync"}],
        workload="disk",
        storage=True,
        name="concurrency-durable",
    ),
    _plant(
        "client.application",
        {"syscalls": "pread"},
        [{"think": 2 * MS, "workers": 1}, {"think": 10 * MS, "workers": 8}],
        [
            {"think": 5 * MS, "workers": 1},
            {"think": 3 * MS, "workers": 4, "read": 0},
            {"think": 20 * MS, "workers": 16},
            {"device_delay": MS, "think": 8 * MS, "workers": 2},
        ],
        workload="disk",
        storage=True,
    ),
    _plant(
        "client.disk_queue",
        {"syscalls": "io_uring", "client.nr_requests": 4},
        [{"device_delay": 2 * MS, "queue_depth": 16}, {"device_delay": 8 * MS, "queue_depth": 32}],
        [
            {"device_delay": 4 * MS, "queue_depth": 16},
            {"device_delay": MS, "queue_depth": 32},
            {"device_delay": 5 * MS, "queue_depth": 12, "read": 0},
        ],
        workload="disk",
        storage=True,
    ),
    _plant(
        "client.io_scheduler",
        {"syscalls": "pread"},
        [
            {"device_delay": 2 * MS, "workers": 8, "one_at_a_time": True},
            {"device_delay": 8 * MS, "workers": 6, "one_at_a_time": True},
        ],
        [
            {"device_delay": 4 * MS, "workers": 8, "one_at_a_time": True},
            {"device_delay": MS, "workers": 12, "one_at_a_time": True},
            {"device_delay": 5 * MS, "workers": 5, "one_at_a_time": True},
        ],
        workload="disk",
        storage=True,
    ),
    _plant(
        "client.dirty_pages",
        {"syscalls": "pread", "direct": False, "read": 0, "pattern": "sequential"},
        [
            {"client.dirty_bytes": 1 << 20, "block": 64 << 10},
            {"client.dirty_bytes": 16 << 20, "block": 16 << 10, "workers": 4},
        ],
        [
            {"client.dirty_bytes": 4 << 20, "block": 128 << 10},
            {"client.dirty_bytes": 512 << 10, "block": 64 << 10, "workers": 2},
            {"client.dirty_bytes": 32 << 20, "block": 1 << 20},
        ],
        workload="disk",
        storage=True,
    ),
    _plant(
        "healthy",
        {"syscalls": "pread", "direct": False, "read": 0},
        [{"workers": 1, "block": 16384}],
        [{"workers": 2}, {"workers": 4, "block": 65536}, {"workers": 1, "pattern": "sequential"}],
        accepted=HEALTHY,
        workload="disk",
        storage=True,
        name="healthy-buffered-writes",
    ),
    _plant(
        "offered_load",
        {"syscalls": "io_uring", "queue_depth": 8, "arrivals": "poisson"},
        [{"device_delay": 2 * MS, "rate": 200}, {"device_delay": 8 * MS, "rate": 50}],
        [{"device_delay": 4 * MS, "rate": 100}, {"device_delay": MS, "rate": 400}],
        workload="disk",
        storage=True,
        name="offered-load-delayed",
    ),
    _plant(
        "healthy",
        {"syscalls": "pread", "cached": "yes", "direct": False, "pattern": "random"},
        [{"workers": 1}, {"workers": 4, "block": 16384}],
        [{"workers": 2}, {"workers": 1, "block": 65536}, {"workers": 8, "block": 8192}],
        accepted=HEALTHY,
        workload="disk",
        storage=True,
    ),
    _plant(
        "client.cpu_quota",
        {"syscalls": "pread", "cached": "yes", "direct": False},
        _levels("quota", 10, 30),
        _levels("quota", 20, 40),
        workload="disk",
        storage=True,
    ),
    _scripted(
        "healthy",
        _BULK,
        [{"threads": 1}, {"threads": 4, "size": 16384}],
        [{"threads": 2}, {"threads": 8, "size": 32768}, {"threads": 1, "size": 131072}],
        accepted=HEALTHY,
    ),
    _scripted(
        "client.cpu",
        _BULK,
        _levels("size", 512, 1024),
        _levels("size", 256, 768),
        settings={"threads": 8},
        accepted=frozenset({"client.cpu", "client.thread"}),
    ),
    # One size for the buffers of both ends: it is either, or both.
    _scripted(
        "receive_window",
        _BULK,
        _levels("buffer", 8 << 10, 16 << 10),
        _levels("buffer", 6 << 10, 12 << 10),
        accepted=frozenset({"receive_window", "send_buffer"}),
    ),
    _scripted(
        "link_rate",
        _BULK,
        [{"link_rate": 100_000_000}, {"link_rate": 800_000_000, "threads": 4}],
        [{"link_rate": 50_000_000}, {"link_rate": 400_000_000, "threads": 2}],
    ),
    _scripted("client.application", _PACED, _levels("rest", MS, 4 * MS), _levels("rest", 2 * MS, 3 * MS)),
    _scripted(
        "concurrency",
        _EXCHANGE,
        _levels("link_delay", 2 * MS, 10 * MS),
        _levels("link_delay", MS, 5 * MS, 20 * MS),
        settings={"size": 64},
    ),
    _scripted(
        "offered_load", _HELD, _levels("each", 100, 1000), _levels("each", 50, 400), settings={"size": 64}
    ),
    # What somebody else has set, of which the lab is not told.
    _plant(
        "link_rate",
        {},
        [
            {"htb": 113_000_000, "connections": 3},
            {"htb_nested": 400_000_000, "connections": 4},
            {"tbf": 80_000_000},
            {"ingress_tbf": 150_000_000, "connections": 2},
            {"ingress_htb": 60_000_000},
        ],
        [
            {"htb": 20_000_000},
            {"htb": 900_000_000, "connections": 4},
            {"htb_nested": 70_000_000, "connections": 2},
            {"htb_nested": 250_000_000},
            {"tbf": 300_000_000, "connections": 4},
            {"ingress_tbf": 40_000_000},
            {"ingress_htb": 300_000_000, "connections": 4},
        ],
        name="link-rate-foreign",
    ),
    _plant(
        "link_rate",
        {},
        [{"answers_tbf": 500_000, "connections": 2}, {"answers_htb": 1_000_000, "connections": 4}],
        [{"answers_tbf": 800_000, "connections": 4}, {"answers_htb": 400_000}],
        name="link-rate-of-acknowledgements",
    ),
    _plant(
        "link_rate",
        {"size": 64, "response_size": 64 << 10},
        [{"answers_htb": 100_000_000, "connections": 4}, {"answers_tbf": 40_000_000, "connections": 2}],
        [{"answers_htb": 50_000_000, "connections": 8}, {"answers_tbf": 200_000_000, "connections": 4}],
        workload="request_response",
        name="link-rate-of-answers",
    ),
    _plant(
        "healthy",
        {},
        [{"connections": 16}, {"connections": 32, "size": 512}],
        [
            {"connections": 24},
            {"connections": 64},
            {"connections": 128},
            {"connections": 48, "size": 1024},
            {"connections": 64, "engine": "epoll"},
        ],
        accepted=HEALTHY,
        workload="request_response",
        name="healthy-rr",
    ),
    _plant(
        "server.run_queue",
        {"connections": 1},
        _levels("size", 65536),
        _levels("size", 32768, 131072),
        spinners={"server": 1},
        name="server-run-queue-one",
    ),
    _plant(
        "server.run_queue",
        {},
        [{"connections": 1}, {"connections": 16}],
        [{"connections": 4}, {"connections": 2, "size": 1024}, {"connections": 32}],
        workload="request_response",
        spinners={"server": 2},
        name="server-run-queue-rr",
    ),
    _plant(
        "client.run_queue",
        {},
        [{"connections": 1}, {"connections": 16}],
        [{"connections": 4}, {"connections": 32, "size": 512}],
        workload="request_response",
        spinners={"client": 2},
        name="client-run-queue-rr",
    ),
    *(
        _plant(
            "client.run_queue",
            {},
            _levels("connections", 16),
            _levels("connections", *counts),
            workload=workload,
            wander=wander,
            name=f"wander-{workload}",
            accepted=_EITHER,
        )
        for wander, workload, counts in _WANDERING
    ),
    _plant(
        "client.disk_limit",
        {"syscalls": "io_uring"},
        [{"throttle_iops": 770, "queue_depth": 8}, {"throttle_iops": 168, "queue_depth": 4, "read": 0}],
        [
            {"throttle_iops": 300, "queue_depth": 16},
            {"throttle_iops": 100, "queue_depth": 8},
            {"throttle_iops": 1200, "queue_depth": 32, "read": 50},
        ],
        workload="disk",
        storage=True,
        name="client-disk-limit-foreign",
    ),
    _plant(
        "client.disk_limit",
        {"syscalls": "io_uring"},
        [{"throttle_bytes": 20_000_000, "queue_depth": 8, "block": 128 << 10}],
        [
            {"throttle_bytes": 60_000_000, "queue_depth": 8, "block": 1 << 20},
            {"throttle_bytes": 10_000_000, "queue_depth": 16, "block": 64 << 10},
        ],
        workload="disk",
        storage=True,
        name="client-disk-limit-bytes-foreign",
    ),
    _plant(
        "client.disk_limit",
        {"syscalls": "io_uring", "arrivals": "poisson", "queue_depth": 32},
        [{"device_limit": 400, "rate": 600}],
        [{"device_limit": 200, "rate": 500}, {"throttle_iops": 300, "rate": 400}],
        workload="disk",
        storage=True,
        name="overload-disk",
    ),
    _scripted(
        "concurrency",
        _EXCHANGE,
        [{"link_delay": 2 * MS, "threads": 16}],
        [{"link_delay": MS, "threads": 4}, {"link_delay": 5 * MS, "threads": 16}],
        settings={"size": 64, "buffer": 32 << 10},
        name="exchange-small-windows",
    ),
    _scripted(
        "healthy",
        _EXCHANGE,
        [{"threads": 16}],
        [{"threads": 12}, {"threads": 24}],
        settings={"size": 64, "buffer": 32 << 10},
        accepted=HEALTHY,
        name="healthy-exchange",
    ),
)
"""Every plant."""
