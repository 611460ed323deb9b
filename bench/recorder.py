"""What a recorder takes of a CPU beside a load of 10 000 operations a second: its programs in the kernel, its agent, its lab.

The load is on a loop device over memory, so that the rate does not hang on a disk. The programs' time is the kernel's own count
(BPF run statistics), which holds what the kernel takes to measure each run; that of processes is the scheduler's. What
`--syscalls` adds to a call is the CPU time of a program that does nothing else, with the recorder and without.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

RATE = 10_000
ALLOWED = 0.5
"""Per cent of a CPU that all of it may take."""
_STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
_IODYNO = Path(sys.executable).with_name("iodyno")
_SEGMENT_S, _USUAL_SEGMENT_S = 20, 600
_CALLS = 1_000_000
_CALLERS = {
    "getppid, not counted": f"import os\nfor _ in range({_CALLS}): os.getppid()",
    "pread of a byte": f"import os\nfile = os.open('/dev/zero', 0)\nfor _ in range({_CALLS}): os.pread(file, 1, 0)",
}
"""Programs that do so many calls."""
_LOOK_S = 14.0
"""Length of a look in which no segment ends; one that ends falls into the next."""


@dataclass(frozen=True)
class _Look:
    """CPU time in ns at an instant."""

    at_ns: int
    programs: int
    agent: int
    lab: int
    operations: int


def _look(lab: int, device: str) -> _Look:
    (agent,) = Path(f"/proc/{lab}/task/{lab}/children").read_text().split()[:1]
    programs = 0
    for info in Path(f"/proc/{agent}/fdinfo").iterdir():
        said = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
        programs += int(said.get("run_time_ns", 0))
    columns = Path(f"/sys/class/block/{device}/stat").read_text().split()
    done = int(columns[0]) + int(columns[4])
    return _Look(time.monotonic_ns(), programs, _cpu_ns(int(agent)), _cpu_ns(lab), done)


def _cpu_ns(process: int) -> int:
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def _measure(folder: Path) -> dict[str, float]:
    disk = Path("/dev/shm", f"iodyno-recorder-{os.getpid()}")
    disk.write_bytes(bytes(64 << 20))
    show: list[str | Path] = ["losetup", "--find", "--show", disk]
    device = subprocess.run(show, capture_output=True, text=True, check=True).stdout.strip()
    words = [
        "--target",
        device,
        "--size",
        "64MiB",
        "--queue-depth",
        "4",
        "--direct",
        "--syscalls",
        "io_uring",
    ]
    words += ["--rate", f"{RATE}/s", "--seconds", str(3 * _SEGMENT_S), "--repeat", "1", "--sensors", "off"]
    said = subprocess.DEVNULL
    begun: list[subprocess.Popen[bytes]] = []
    before = _STATISTICS.read_text()
    try:
        _STATISTICS.write_text("1")
        begun.append(subprocess.Popen([_IODYNO, "disk", *words, "--into", folder], stdout=said, stderr=said))
        time.sleep(3)
        record: list[str | Path] = [
            _IODYNO,
            "record",
            "--into",
            folder / "recording",
            "--segment",
            f"{_SEGMENT_S}s",
        ]
        begun.append(subprocess.Popen(record, stdout=said, stderr=said))
        lab = begun[-1].pid
        while not list(folder.glob("recording/trials/.partial-*/records.jsonl")):
            time.sleep(0.1)
        time.sleep(1)
        first = _look(lab, Path(device).name)
        time.sleep(_LOOK_S)
        second = _look(lab, Path(device).name)
        time.sleep(_LOOK_S)
        third = _look(lab, Path(device).name)
    finally:
        for process in reversed(begun):
            process.send_signal(signal.SIGTERM)
            process.wait()
        _STATISTICS.write_text(before)
        subprocess.run(["losetup", "--detach", device], check=False)
        disk.unlink()
    span_ns = second.at_ns - first.at_ns
    per_cent = {
        name: 100 * (getattr(second, name) - getattr(first, name)) / span_ns
        for name in ("programs", "agent", "lab")
    }
    seal_ns = third.lab - second.lab - per_cent["lab"] / 100 * (third.at_ns - second.at_ns)
    per_cent["segments"] = 100 * max(0.0, seal_ns) / (_USUAL_SEGMENT_S * 1e9)
    operations = second.operations - first.operations
    found = {f"{name}_%": value for name, value in per_cent.items()}
    found["all_%"] = sum(per_cent.values())
    found["operation_ns"] = (second.programs - first.programs) / max(1, operations)
    found["iops"] = operations * 1e9 / span_ns
    return found


async def run(pairs: int) -> list[dict[str, object]]:
    """Per cent of a CPU that a recorder takes at 10 000 operations a second (0.5 at most), by part; its segments as if of ten
    minutes.
    """
    found = []
    for _ in range(pairs):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            found.append(await asyncio.to_thread(_measure, Path(folder)))
    row: dict[str, object] = {
        name: f"{statistics.median(one[name] for one in found):.3g}" for name in found[0]
    }
    return [{**row, "allowed_%": ALLOWED}]


def _call_ns() -> dict[str, float]:
    """CPU time of a call of each program."""
    found = {}
    for name, program in _CALLERS.items():
        with subprocess.Popen([sys.executable, "-c", program]) as caller:
            _, status, used = os.wait4(caller.pid, 0)
            caller.returncode = os.waitstatus_to_exitcode(status)
        found[name] = (used.ru_utime + used.ru_stime) * 1e9 / _CALLS
    return found


def _with_calls_recorded(folder: Path) -> dict[str, float]:
    words: list[str | Path] = [_IODYNO, "record", "--into", folder / "recording", "--syscalls"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as lab:
        try:
            while not list(folder.glob("recording/trials/.partial-*/records.jsonl")):
                time.sleep(0.1)
            return _call_ns()
        finally:
            lab.send_signal(signal.SIGTERM)


async def calls(pairs: int) -> list[dict[str, object]]:
    """CPU nanoseconds of a system call without a recorder, and what `iodyno record --syscalls` adds: median, least, most."""
    added: dict[str, list[float]] = {name: [] for name in _CALLERS}
    alone: dict[str, list[float]] = {name: [] for name in _CALLERS}
    for _ in range(pairs):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            without = await asyncio.to_thread(_call_ns)
            recorded = await asyncio.to_thread(_with_calls_recorded, Path(folder))
        for name in _CALLERS:
            alone[name].append(without[name])
            added[name].append(recorded[name] - without[name])
    return [
        {
            "call": name,
            "without_ns": f"{statistics.median(alone[name]):.0f}",
            "added_ns": f"{statistics.median(each):.0f} [{min(each):.0f}, {max(each):.0f}]",
        }
        for name, each in added.items()
    ]
