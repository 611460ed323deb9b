"""One storage job of an agent on this machine, and the same of fio: what both cost, measured in one way."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


def by_agent(disk: Mapping[str, Any], seconds: float, arrivals: Mapping[str, Any] | None = None) -> Done:
    """Carries a storage job out. Raises RuntimeError with the agent's error."""
    job: dict[str, Any] = {
        "trial": "bench",
        "token": "0f" * 16,
        "role": "alone",
        "workload": "disk",
        "transport": "tcp",
        "driver": "threads",
        "connections": 1,
        "message_bytes": 1,
        "disk": disk,
        "arrivals": arrivals,
        "sensors": ["arrivals"] if arrivals else [],
        "windows": {
            "warm_up_ns": int(_WARM_UP_S * 1e9),
            "measured_ns": int(seconds * 1e9),
            # The load is still on when its CPU time is read: an ended thread has taken its account with it.
            "drain_ns": 300_000_000,
            "interval_ns": int(seconds * 1e9),
        },
    }
    process = subprocess.Popen(
        [str(program_path()), "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    try:
        return _talk(process, job, seconds)
    finally:
        process.kill()
        process.wait()


def _talk(process: subprocess.Popen[bytes], job: Mapping[str, Any], seconds: float) -> Done:
    assert process.stdin is not None
    sequence = iter(range(1_000))

    def send(**message: Any) -> None:
        assert process.stdin is not None
        process.stdin.write(wire.encode(next(sequence), message))

    send(type="prepare", job=job)
    measured: dict[str, Any] = {}
    begun = cpu = 0.0
    for message in _messages(process):
        if message["type"] == "error":
            raise RuntimeError(f"{message['where']}: {message['what']}; {message['try']}")
        if message["type"] == "ready":
            send(type="arm", start_ns=time.monotonic_ns() + _LEAD_NS)
        elif message["type"] == "heartbeat":
            send(type="heartbeat")
        elif message["type"] == "record" and message["window"] == "warm_up":
            begun = _cpu_s(process.pid)
        elif message["type"] == "record" and message["window"] == "measured":
            cpu, measured = _cpu_s(process.pid) - begun, message
        elif message["type"] == "result":
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
                cpu,
                message["disk"],
                load["lateness"],
                values.get("arrivals.due", 0),
                values.get("arrivals.begun", 0),
            )
    raise RuntimeError("the agent ended without a result")


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
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or done.stdout[-500:])
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    sides = [job["read"], job["write"]]
    span_s = max(side["runtime"] for side in sides) / 1e3
    cpu_s = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3
    return Done(
        sum(side["total_ios"] for side in sides), sum(side["io_bytes"] for side in sides), span_s, cpu_s, job
    )
