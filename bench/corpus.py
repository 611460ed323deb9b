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
from dataclasses import replace
from pathlib import Path

from bench import foreign
from bench.plants import MS, Half, Plant
from iodyno.core.design import Design, Point
from iodyno.core.experiment import DesignSpec, Experiment, HostSpec, Limits, Windows, WorkloadSpec
from iodyno.core.workload import Level
from iodyno.designs import order, runs
from iodyno.loads.script.core.parameters import WORKLOAD, kinds_of
from iodyno.loads.script.uperf import parse_profile

WINDOWS = Windows(warm_up_ns=300 * MS, measured_ns=1_200 * MS, drain_ns=50 * MS, interval_ns=200 * MS)
_SCRIPT = """<profile name="planted"><group nthreads="$threads">
<transaction><flowop type="connect" options="remotehost=server protocol=tcp wndsz=$buffer"/></transaction>
<transaction duration="1.2s" EXTRA>FLOWOPS</transaction>
<transaction><flowop type="disconnect"/></transaction></group></profile>"""
_SCRIPT_WINDOWS = Windows(warm_up_ns=0, measured_ns=60_000 * MS, drain_ns=0, interval_ns=100 * MS)
"""The trial ends when its script does."""

_OF_STORAGE: Mapping[str, Level] = {
    "target": "/var/tmp/iodyno-corpus.dat",
    "working_set": 64 << 20,
    "direct": True,
}
"""What plants of a load on a disk have in common. The file is laid out once, and stays."""


def experiment(plant: Plant) -> Experiment:
    """The experiment of a plant, without its points."""
    hosts = {name: HostSpec(name, "netns") for name in ("client", "server")}
    workload = WorkloadSpec(plant.workload, ("client",), ("server",), plant.settings)
    if plant.workload == WORKLOAD.name:
        flowops, extra = plant.script
        text = _SCRIPT.replace("FLOWOPS", flowops).replace("EXTRA", extra)
        script = parse_profile(text).script
        workload = replace(workload, script=script, variables=kinds_of(script.variables()))
    if plant.storage:
        hosts = {"client": HostSpec("client", "local")}
        settings = {**_OF_STORAGE, **plant.settings}
        workload = WorkloadSpec(plant.workload, settings=settings, hosts=("client",))
    return Experiment(
        name=_name(plant),
        question=f"Is {plant.label} found?",
        hosts=hosts,
        workload=workload,
        factors=(),
        windows=_SCRIPT_WINDOWS if plant.workload == WORKLOAD.name else WINDOWS,
        limits=Limits(retries=1, background_ns=100 * MS, background_ratio=1.0),
        profile_hz=0,
        text=f"name: corpus-{plant.label}\n",
    )


def _name(plant: Plant) -> str:
    kind = "-storage" if plant.storage else "-script" if plant.workload == WORKLOAD.name else ""
    return f"corpus-{plant.name or plant.label.replace('.', '-')}{kind}"


def strengths(plant: Plant, halves: Sequence[Half]) -> dict[str, Mapping[str, Level]]:
    """The strengths of the halves by the names of their points."""
    return {
        f"{half}-{number}": strength
        for half in halves
        for number, strength in enumerate(plant.strengths(half), start=1)
    }


def design(plant: Plant, halves: Sequence[Half], replicates: int, seed: int) -> Design:
    """Every strength of the halves as a point, in random order. Strengths set different things: no factors."""
    points = [Point(name, strength) for name, strength in strengths(plant, halves).items()]
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
            levels = {
                name: level for name, level in strength.items() if name not in _DEVICES.keys() | foreign.NAMES
            }
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
_WANDER = """import os, sys, time
cpus = os.sched_getaffinity(0)
while True:
    for cpu in cpus:
        os.sched_setaffinity(0, {cpu})
        end = time.monotonic() + float(sys.argv[1])
        while time.monotonic() < end: pass"""


@contextlib.contextmanager
def spinning(cpus: Sequence[int], wander: float = 0.0) -> Iterator[frozenset[int]]:
    """Processes that do nothing but spin, one on each of the CPUs named, which may be named more than once; with `wander`, one
    that does so for that many seconds on each CPU in turn. Gives their ids.
    """
    python = [sys.executable, "-I", "-S", "-c"]
    commands = [["taskset", "-c", str(cpu), *python, _SPIN] for cpu in cpus]
    commands += [[*python, _WANDER, str(wander)]] if wander else []
    started = [subprocess.Popen(command, start_new_session=True) for command in commands]
    try:
        for process in started:
            favour(process.pid)
        yield frozenset(process.pid for process in started)
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
