"""The labelled corpus: trials with a limiter planted on purpose, at several strengths, and healthy ones.

Of loads on storage, strengths with `device_delay` are on a device whose reads take that long, each for itself, those with
`device_rate` on one that has so many bytes per second: a loop device over a file that nbdkit serves with its delay or rate
filter.

Each plant is an ordinary experiment. Its strengths fall into two halves: thresholds may be chosen on the calibration
half; what is printed as right and wrong is the test half, whose strengths are others.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from iodyno.core.design import Design, Point
from iodyno.core.experiment import DesignSpec, Experiment, HostSpec, Limits, Windows, WorkloadSpec
from iodyno.core.script.parameters import kinds_of
from iodyno.core.workload import SCRIPT, Level
from iodyno.designs import order, runs
from iodyno.formats.uperf import parse_profile

Half = Literal["calibration", "test"]
MS = 1_000_000
WINDOWS = Windows(warm_up_ns=300 * MS, measured_ns=1_200 * MS, drain_ns=50 * MS, interval_ns=200 * MS)
HEALTHY = frozenset(
    {"unknown", *(f"{host}.{what}" for host in ("client", "server") for what in ("cpu", "thread", "softirq"))}
)
"""What may be said of a healthy run: that a CPU is full, or nothing."""


@dataclass(frozen=True)
class Plant:
    """A limiter that is planted: the settings that plant it, and the strengths of each half.

    `accepted`: verdicts that are right. `storage`: whether it is of a load on a disk, of one host. `spinners`: processes that
    spin on the CPUs of that host meanwhile. `name`: where another plant of the same label has the same workload. `script`:
    flowops of the workload `script`, and what its transaction has beside its duration.
    """

    label: str
    accepted: frozenset[str]
    settings: Mapping[str, Level]
    calibration: Sequence[Mapping[str, Level]]
    test: Sequence[Mapping[str, Level]]
    workload: str = "stream"
    storage: bool = False
    spinners: Mapping[str, int] = field(default_factory=dict)
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


_BULK = ('<flowop type="write" options="size=$size"/>', "")
_EXCHANGE = (
    '<flowop type="write" options="size=$size"/><flowop type="read" options="size=$size"/>',
    "",
)
_PACED = (
    '<flowop type="write" options="size=$size"/><flowop type="think" options="idle duration=$rest"/>',
    "",
)
_HELD = (_EXCHANGE[0], 'rate="$each"')
_SCRIPT = """<profile name="planted"><group nthreads="$strands">
<transaction><flowop type="connect" options="remotehost=server protocol=tcp wndsz=$buffer"/></transaction>
<transaction duration="1.2s" EXTRA>FLOWOPS</transaction>
<transaction><flowop type="disconnect"/></transaction></group></profile>"""
_SCRIPT_WINDOWS = Windows(warm_up_ns=0, measured_ns=60_000 * MS, drain_ns=0, interval_ns=100 * MS)
"""The trial ends when its script does."""
_WIDE: Mapping[str, Level] = {"strands": 1, "size": 65536, "buffer": 4 << 20}


def _scripted(
    label: str, flowops: tuple[str, str], calibration: object, test: object, **more: object
) -> Plant:
    """A plant whose load is a profile, with its variables as strengths."""
    settings = {**_WIDE, **more.pop("settings", {})}  # type: ignore[dict-item]
    return _plant(label, settings, calibration, test, workload="script", script=flowops, **more)


_DATAGRAMS: Mapping[str, Level] = {"transport": "udp", "size": 1400}
"""Datagrams that the path takes whole."""

PLANTS: tuple[Plant, ...] = (
    _plant(
        "healthy",
        {},
        [
            {"connections": 1},
            {"connections": 4},
            {"connections": 2, "size": 16384},
            {"connections": 32, "size": 8192},
            {"connections": 8, "driver": "epoll"},
        ],
        [
            {"connections": 2},
            {"connections": 8},
            {"connections": 1, "size": 32768},
            {"connections": 16, "size": 4096},
            {"connections": 4, "driver": "epoll"},
            {"connections": 3, "window": 4 << 20},
            {"connections": 6, "size": 131072},
            {"connections": 64, "size": 16384},
            {"connections": 24, "size": 65536, "driver": "epoll"},
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
        {"transport": "udp", "size": 512, "client": "epoll", "server": "packet_v3", "block_packets": 64},
        [{"block_timeout": 4 * MS, "connections": 8}, {"block_timeout": 10 * MS, "connections": 64}],
        [{"block_timeout": 2 * MS, "connections": 4}, {"block_timeout": 20 * MS, "connections": 32}],
        workload="request_response",
    ),
    _plant(
        "client.disk",
        {"interface": "io_uring"},
        [{"device_limit": 400, "depth": 8}, {"device_limit": 1500, "depth": 16}],
        [{"device_limit": 200, "depth": 4}, {"device_limit": 800, "depth": 32}],
        workload="disk",
        storage=True,
    ),
    _plant(
        "offered_load",
        {"interface": "io_uring", "depth": 4, "arrivals": "constant"},
        _levels("rate", 100, 400),
        _levels("rate", 200, 600),
        workload="disk",
        storage=True,
    ),
    _plant(
        "client.disk",
        {"interface": "io_uring"},
        [{"device_delay": 2 * MS, "depth": 32}, {"device_delay": 8 * MS, "depth": 64}],
        [{"device_delay": 4 * MS, "depth": 48}, {"device_delay": MS, "depth": 32}],
        workload="disk",
        storage=True,
        name="client-disk-delayed",
    ),
    _plant(
        "client.disk_bandwidth",
        {"interface": "io_uring"},
        [
            {"device_rate": 100_000_000, "block": 1 << 20, "depth": 8, "pattern": "sequential"},
            {"device_rate": 30_000_000, "block": 256 << 10, "depth": 16},
        ],
        [
            {"device_rate": 60_000_000, "block": 512 << 10, "depth": 8},
            {"device_rate": 20_000_000, "block": 128 << 10, "depth": 32, "pattern": "sequential"},
            {"device_rate": 200_000_000, "block": 1 << 20, "depth": 12},
        ],
        workload="disk",
        storage=True,
    ),
    _plant(
        "concurrency",
        {"interface": "pread", "workers": 1},
        _levels("device_delay", 2 * MS, 10 * MS),
        _levels("device_delay", MS, 5 * MS, 20 * MS),
        workload="disk",
        storage=True,
    ),
    _plant(
        "offered_load",
        {"interface": "io_uring", "depth": 8, "arrivals": "poisson"},
        [{"device_delay": 2 * MS, "rate": 200}, {"device_delay": 8 * MS, "rate": 50}],
        [{"device_delay": 4 * MS, "rate": 100}, {"device_delay": MS, "rate": 400}],
        workload="disk",
        storage=True,
        name="offered-load-delayed",
    ),
    _plant(
        "healthy",
        {"interface": "pread", "cached": "yes", "direct": False, "pattern": "random"},
        [{"workers": 1}, {"workers": 4, "block": 16384}],
        [{"workers": 2}, {"workers": 1, "block": 65536}, {"workers": 8, "block": 8192}],
        accepted=HEALTHY,
        workload="disk",
        storage=True,
    ),
    _plant(
        "client.cpu_quota",
        {"interface": "pread", "cached": "yes", "direct": False},
        _levels("quota", 10, 30),
        _levels("quota", 20, 40),
        workload="disk",
        storage=True,
    ),
    _scripted(
        "healthy",
        _BULK,
        [{"strands": 1}, {"strands": 4, "size": 16384}],
        [{"strands": 2}, {"strands": 8, "size": 32768}, {"strands": 1, "size": 131072}],
        accepted=HEALTHY,
    ),
    _scripted(
        "client.cpu",
        _BULK,
        _levels("size", 512, 1024),
        _levels("size", 256, 768),
        settings={"strands": 8},
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
        [{"link_rate": 100_000_000}, {"link_rate": 800_000_000, "strands": 4}],
        [{"link_rate": 50_000_000}, {"link_rate": 400_000_000, "strands": 2}],
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
)
"""Every plant."""
_OF_STORAGE: Mapping[str, Level] = {
    "target": "/var/tmp/iodyno-corpus.dat",
    "working_set": 64 << 20,
    "direct": True,
}
"""What plants of a load on a disk have in common. The file is laid out once, and stays."""


def experiment(plant: Plant) -> Experiment:
    """The experiment of a plant, without its points."""
    hosts = {name: HostSpec(name, "netns") for name in ("client", "server")}
    workload = WorkloadSpec(plant.workload, "client", "server", plant.settings)
    if plant.workload == SCRIPT.name:
        flowops, extra = plant.script
        text = _SCRIPT.replace("FLOWOPS", flowops).replace("EXTRA", extra)
        script = parse_profile(text).script
        workload = replace(workload, script=script, variables=kinds_of(script.variables()))
    if plant.storage:
        hosts = {"client": HostSpec("client", "local")}
        settings = {**_OF_STORAGE, **plant.settings}
        workload = WorkloadSpec(plant.workload, "client", "client", settings, hosts=("client",))
    return Experiment(
        name=_name(plant),
        question=f"Is {plant.label} found?",
        hosts=hosts,
        workload=workload,
        factors=(),
        windows=_SCRIPT_WINDOWS if plant.workload == SCRIPT.name else WINDOWS,
        limits=Limits(retries=1, background_ns=100 * MS, background_ratio=1.0),
        profile_hz=0,
        text=f"name: corpus-{plant.label}\n",
    )


def _name(plant: Plant) -> str:
    kind = "-storage" if plant.storage else "-script" if plant.workload == SCRIPT.name else ""
    return f"corpus-{plant.name or plant.label.replace('.', '-')}{kind}"


def design(plant: Plant, halves: Sequence[Half], replicates: int, seed: int) -> Design:
    """Every strength of the halves as a point, in random order. Strengths set different things: no factors."""
    points = [
        Point(f"{half}-{number}", strength)
        for half in halves
        for number, strength in enumerate(plant.strengths(half), start=1)
    ]
    spec = DesignSpec(replicates=replicates, seed=seed)
    return Design(spec.kind, seed, tuple(points), order.trials(runs.of_points(points), spec))


_DEVICE_BYTES = 64 << 20
_DEVICE_READY_S = 20.0


@contextlib.contextmanager
def on_devices(plant: Plant) -> Iterator[Plant]:
    """The plant with a target for each device that its strengths name, as long as the context lasts."""
    devices = {device for one in (*plant.calibration, *plant.test) if (device := _device_of(one))}
    with contextlib.ExitStack() as stack:
        targets = {device: stack.enter_context(_served_device(device)) for device in sorted(devices)}

        def placed(strength: Mapping[str, Level]) -> Mapping[str, Level]:
            levels = {name: level for name, level in strength.items() if name not in _DEVICES}
            device = _device_of(strength)
            return {**levels, "target": str(targets[device])} if device else levels

        yield replace(
            plant,
            calibration=[placed(one) for one in plant.calibration],
            test=[placed(one) for one in plant.test],
        )


def _device_of(strength: Mapping[str, Level]) -> tuple[str, ...]:
    """What a strength asks of its device, in the words of nbdkit; nothing: it takes the file as it is."""
    return next((words(int(strength[name])) for name, words in _DEVICES.items() if name in strength), ())


def _delay(delay_ns: int) -> tuple[str, ...]:
    return "--filter=delay", f"rdelay={delay_ns // MS}ms", f"wdelay={delay_ns // MS}ms"


def _rate(bytes_per_s: int) -> tuple[str, ...]:
    # In bits (nbdkit-rate-filter(1)).
    return "--filter=rate", f"rate={8 * bytes_per_s}"


_DEVICES: Mapping[str, Callable[[int], tuple[str, ...]]] = {"device_delay": _delay, "device_rate": _rate}


@contextlib.contextmanager
def _served_device(filtered: Sequence[str]) -> Iterator[Path]:
    """A loop device over what nbdkit serves through a filter, `--filter=...` and its settings; removed at the end."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iodyno-corpus-")))
        socket, file = folder / "socket", folder / "served"
        file.touch()
        filters, settings = filtered[0], filtered[1:]
        serve = ["nbdkit", "-f", "-U", str(socket), filters, "memory", str(_DEVICE_BYTES), *settings]
        stack.enter_context(_running(serve, socket.exists))
        show = [
            *("qemu-storage-daemon", "--blockdev"),
            f"node-name=disk,driver=nbd,server.type=unix,server.path={socket}",
            *("--export", f"type=fuse,id=export,node-name=disk,mountpoint={file},writable=on"),
        ]
        stack.callback(subprocess.run, ["umount", "-l", str(file)], capture_output=True)
        stack.enter_context(_running(show, lambda: file.stat().st_size == _DEVICE_BYTES))
        made = subprocess.run(
            ["losetup", "--find", "--show", "--direct-io=on", str(file)],
            check=True,
            capture_output=True,
            text=True,
        )
        device = made.stdout.strip()
        stack.callback(subprocess.run, ["losetup", "--detach", device], capture_output=True)
        yield Path(device)


@contextlib.contextmanager
def _running(command: Sequence[str], ready: Callable[[], bool]) -> Iterator[None]:
    """A process until the end of the context, from when it is ready on."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + _DEVICE_READY_S
        while not ready():
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"bench limiter: {command[0]} does not serve a device")
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait()


_GROUPS = Path("/sys/fs/cgroup/cpu")
_SPIN = "while True: pass"


@contextlib.contextmanager
def spinning(cpus: Sequence[int]) -> Iterator[None]:
    """Processes that do nothing but spin, one on each of the CPUs named, which may be named more than once."""
    started = [
        subprocess.Popen(
            ["taskset", "-c", str(cpu), sys.executable, "-I", "-S", "-c", _SPIN], start_new_session=True
        )
        for cpu in cpus
    ]
    try:
        for process in started:
            favour(process.pid)
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def favour(pid: int, nice: int = -20) -> None:
    """Puts the session of a process before those of the machine's other users (sched_autogroup, sched(7)), so that
    what is planted is what limits, and not whoever else is there.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def favour_groups() -> None:
    """The same for agents in control groups of their own, which leave their session's group (cgroup-v1 cpu.shares)."""
    for shares in _GROUPS.glob("iodyno*/cpu.shares"):
        with contextlib.suppress(OSError):
            shares.write_text("262144")


def children() -> list[int]:
    """Processes that this one started."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return found


def may_run() -> str | None:
    """Why the corpus cannot run here; None: it can."""
    if os.geteuid() != 0:
        return "it needs root, to make network namespaces and control groups"
    missing = [name for name in ("nbdkit", "qemu-storage-daemon", "losetup") if shutil.which(name) is None]
    return f"{missing[0]} is not there, of which devices are made" if missing else None
