"""What a recorder takes of a CPU beside a load of 10 000 operations a second: its programs in the kernel, its agent, its lab.

The load is on a loop device over memory, so that the rate does not hang on a disk. The programs' time is the kernel's own count
(BPF run statistics), which reads a clock before and after each run: empty programs in the same places, under the same load
right before, show what that takes where nobody counts, and are subtracted. That of processes is the scheduler's. What
`--syscalls` adds to a call is the CPU time of a program that does nothing else, with the recorder and without.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import platform
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

RATE = 10_000
ALLOWED = 0.5
"""Per cent of a CPU that all of it may take."""
_IODYNO = Path(sys.executable).with_name("iodyno")
_SEGMENT_S, _USUAL_SEGMENT_S = 20, 600
_CALLS = 1_000_000
_CALLERS = {
    "getppid, not counted": f"import os\nfor _ in range({_CALLS}): os.getppid()",
    "pread of a byte": f"import os\nfile = os.open('/dev/zero', 0)\nfor _ in range({_CALLS}): os.pread(file, 1, 0)",
}
"""Programs that do so many calls."""
_PROG_LOAD, _RAW_TRACEPOINT_OPEN, _ENABLE_STATS = 5, 17, 32
_RAW_TRACEPOINT = 17
"""Commands of `enum bpf_cmd`, and a type of `enum bpf_prog_type` (linux/bpf.h)."""
_BPF_CALL = {"x86_64": 321, "aarch64": 280}
_RETURN_0 = struct.pack("<QQ", 0xB7, 0x95)
_PLACES = (b"block_rq_issue", b"block_rq_complete")
"""Where the sensor's programs run for an operation."""
_EMPTY_S = 5.0
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
    programs, now_ns = _in_programs_ns(Path(f"/proc/{agent}/fdinfo")), time.monotonic_ns()
    return _Look(now_ns, programs, _cpu_ns(int(agent)), _cpu_ns(lab), _done(device))


def _in_programs_ns(descriptors: Path) -> int:
    """Time in the programs that a process holds."""
    total = 0
    for info in descriptors.iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the folder itself
            said = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
            total += int(said.get("run_time_ns", 0))
    return total


def _done(device: str) -> int:
    """Operations that the device has done."""
    columns = Path(f"/sys/class/block/{device}/stat").read_text().split()
    return int(columns[0]) + int(columns[4])


def _empty_ns(device: str) -> float:
    """Time of empty programs an operation, as the kernel counts it, under the load that is on."""
    opened = []
    try:
        for place in _PLACES:
            licence, code = ctypes.create_string_buffer(b"GPL"), ctypes.create_string_buffer(_RETURN_0)
            asked = struct.pack(
                "<IIQQ", _RAW_TRACEPOINT, 2, ctypes.addressof(code), ctypes.addressof(licence)
            )
            opened.append(_bpf(_PROG_LOAD, asked.ljust(72, b"\0")))
            name = ctypes.create_string_buffer(place)
            opened.append(_bpf(_RAW_TRACEPOINT_OPEN, struct.pack("<QQ", ctypes.addressof(name), opened[-1])))
        own = Path("/proc/self/fdinfo")
        ns, done = _in_programs_ns(own), _done(device)
        time.sleep(_EMPTY_S)
        return (_in_programs_ns(own) - ns) / max(1, _done(device) - done)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _bpf(command: int, attributes: bytes) -> int:
    """Calls bpf(2). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = libc.syscall(_BPF_CALL[platform.machine()], command, attributes, len(attributes))
    if found < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return int(found)


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
    words += ["--rate", f"{RATE}/s", "--seconds", str(4 * _SEGMENT_S), "--repeat", "1", "--sensors", "off"]
    said = subprocess.DEVNULL
    begun: list[subprocess.Popen[bytes]] = []
    # On as long as this is open: what they cost every program of the machine ends with this process, however it does.
    statistics_on = _bpf(_ENABLE_STATS, bytes(4))
    try:
        begun.append(subprocess.Popen([_IODYNO, "disk", *words, "--into", folder], stdout=said, stderr=said))
        time.sleep(3)
        empty_ns = _empty_ns(Path(device).name)
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
        os.close(statistics_on)
        subprocess.run(["losetup", "--detach", device], check=False)
        disk.unlink()
    span_ns = second.at_ns - first.at_ns
    operations = second.operations - first.operations
    per_cent = {
        name: 100 * (getattr(second, name) - getattr(first, name)) / span_ns
        for name in ("programs", "agent", "lab")
    }
    counting = 100 * empty_ns * operations / span_ns
    per_cent["programs"] -= counting
    seal_ns = third.lab - second.lab - per_cent["lab"] / 100 * (third.at_ns - second.at_ns)
    per_cent["segments"] = 100 * max(0.0, seal_ns) / (_USUAL_SEGMENT_S * 1e9)
    found = {f"{name}_%": value for name, value in per_cent.items()}
    found["all_%"] = sum(per_cent.values())
    found["counting_%"] = counting
    found["operation_ns"] = per_cent["programs"] / 100 * span_ns / max(1, operations)
    found["iops"] = operations * 1e9 / span_ns
    return found


async def run(pairs: int) -> list[dict[str, object]]:
    """Per cent of a CPU that a recorder takes at 10 000 operations a second (0.5 at most), by part, its segments as if of ten
    minutes; and `counting_%`, what the kernel takes to count the programs' time here, which is in none of them.
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
