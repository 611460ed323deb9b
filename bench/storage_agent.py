"""One storage job of an agent on this machine, and the same of fio: what both cost, measured in one way."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iodyno.session import wire
from iodyno.session.locate import program_path

_LEAD_NS = 60_000_000
_WARM_UP_S = 0.3


@dataclass(frozen=True)
class Done:
    """What a load did in its measured window."""

    operations: int
    bytes: int
    span_s: float
    cpu_s: float
    """CPU time of the threads that make the load; for fio, of its job's thread."""
    account: Mapping[str, Any]
    lateness: Mapping[str, Any] | None = None
    due: int = 0
    begun: int = 0
    pid: int = 0
    """Of the process that made the load."""

    @property
    def per_s(self) -> float:
        """Operations a second."""
        return self.operations / self.span_s

    @property
    def cpu_us_per_operation(self) -> float:
        """Own CPU time of an operation."""
        return self.cpu_s * 1e6 / max(1, self.operations)

    @property
    def cpu_s_per_gb(self) -> float:
        """Own CPU time of 10^9 bytes."""
        return self.cpu_s * 1e9 / max(1, self.bytes)


_ALONE: Mapping[str, Any] = {
    "trial": "bench",
    "token": "0f" * 16,
    "sensors": [],
}
"""A job of an agent that has no other end."""


def by_agent(disk: Mapping[str, Any], seconds: float, arrivals: Mapping[str, Any] | None = None) -> Done:
    """Carries a storage job out. Raises RuntimeError with the agent's error."""
    windows = {
        "warm_up_ns": int(_WARM_UP_S * 1e9),
        "measured_ns": int(seconds * 1e9),
        # The load is still on when its CPU time is read: an ended thread has taken its account with it.
        "drain_ns": 300_000_000,
        "interval_ns": int(seconds * 1e9),
    }
    sensors = ["arrivals"] if arrivals else []
    load = {"disk": {**disk, "arrivals": arrivals}}
    job = {"load": load, "sensors": sensors, "windows": windows}
    measured: dict[str, Any] = {}
    begun = cpu = 0.0
    with closing(_conversation(job)) as conversation:
        for pid, message in conversation:
            if message["type"] == "record" and message["window"] == "warm_up":
                begun = _cpu_s(pid)
            elif message["type"] == "record" and message["window"] == "measured":
                cpu, measured = _cpu_s(pid) - begun, message
            elif message["type"] == "result":
                return replace(_done(measured, message, cpu), pid=pid)
    raise RuntimeError("the agent ended without a result")


def carried_out(load: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Carries out a load without another end, measured from its start; its result. Raises RuntimeError with the agent's
    error.
    """
    span_ns = int(seconds * 1e9)
    windows = {"warm_up_ns": 0, "measured_ns": span_ns, "drain_ns": 0, "interval_ns": span_ns}
    with closing(_conversation({"load": load, "windows": windows})) as conversation:
        for _, message in conversation:
            if message["type"] == "result":
                return message
    raise RuntimeError("the agent ended without a result")


def _conversation(job: Mapping[str, Any]) -> Generator[tuple[int, dict[str, Any]]]:
    """What an agent says while it carries the job out, with its process. Raises RuntimeError with its error."""
    process = subprocess.Popen(
        [str(program_path()), "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert process.stdin is not None
    try:
        sequence = iter(range(10_000))
        process.stdin.write(wire.encode(next(sequence), {"type": "prepare", "job": {**_ALONE, **job}}))
        for message in _messages(process):
            if message["type"] == "error":
                raise RuntimeError(f"{message['where']}: {message['what']}; {message['try']}")
            answer: dict[str, Any] | None = None
            if message["type"] == "ready":
                answer = {"type": "arm", "start_ns": time.monotonic_ns() + _LEAD_NS}
            elif message["type"] == "heartbeat":
                answer = {"type": "heartbeat"}
            if answer:
                process.stdin.write(wire.encode(next(sequence), answer))
            yield process.pid, message
    finally:
        process.kill()
        process.wait()


def _done(measured: Mapping[str, Any], result: Mapping[str, Any], cpu_s: float) -> Done:
    load = measured["load"]
    values = {
        name: value
        for reading in measured["sensors"]
        if reading["sensor"] == "arrivals"
        for name, _, value in reading["values"]
    }
    return Done(
        load["operations"],
        load["bytes"],
        (measured["end_ns"] - measured["begin_ns"]) / 1e9,
        cpu_s,
        result["disk"],
        load["lateness"],
        values.get("arrivals.due", 0),
        values.get("arrivals.begun", 0),
    )


def _messages(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    decoder = wire.Decoder()
    assert process.stdout is not None
    while chunk := process.stdout.read(1 << 16):
        for payload in decoder.feed(chunk):
            yield json.loads(payload)


def _cpu_s(pid: int) -> float:
    """CPU time of an agent's loading threads, from the scheduler's own account (not sampled at ticks)."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            if (task / "comm").read_text(encoding="ascii").strip() == "load":
                total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
        except OSError:
            continue
    return total / 1e9


def by_fio(options: Mapping[str, object], seconds: float) -> Done:
    """Carries a job of fio out: one thread, as long, after as long a warm-up. Raises RuntimeError where fio failed."""
    words = {
        "name": "bench",
        "thread": 1,
        "time_based": 1,
        "runtime": f"{seconds}s",
        "ramp_time": f"{_WARM_UP_S}s",
        "group_reporting": 1,
        "randrepeat": 0,
        "norandommap": 1,
        "invalidate": 0,
        **options,
    }
    command = ["fio", "--output-format=json", *(f"--{key}={value}" for key, value in words.items())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said, wrong = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(wrong.strip() or said[-500:])
    job = json.loads(said[said.index("{") :])["jobs"][0]
    sides = [job["read"], job["write"]]
    span_s = max(side["runtime"] for side in sides) / 1e3
    cpu_s = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3
    return Done(
        sum(side["total_ios"] for side in sides),
        sum(side["io_bytes"] for side in sides),
        span_s,
        cpu_s,
        job,
        pid=process.pid,
    )
