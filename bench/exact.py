"""What exact CPU accounting costs: at one soft interrupt beside bpftrace, and in trials with many events."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.ratio import paired
from bench.testbed import Trial, open_testbed, trial
from bench.tracer import bpftrace
from iodyno.session.locate import find_agent

_SENDS = 100_000
"""Sends of one measurement: some 0.3 s."""

_SEND_WHERE_BOUND_WAS_SET_NS = 1237
"""A datagram over loopback on the machine where the bound of one soft interrupt's cost was set."""

_BPFTRACE = (
    "tracepoint:irq:softirq_entry { @begin[cpu] = nsecs; @vector[cpu] = args->vec; } "
    "tracepoint:irq:softirq_exit /@begin[cpu]/ { @ns[cpu, args->vec] = sum(nsecs - @begin[cpu]); }"
)


async def pair(pairs: int) -> list[dict[str, object]]:
    """CPU time that one soft interrupt takes longer under observation (at most 110 ns), beside bpftrace.

    The bound was set where the datagram that raised it took 1237 ns. `of_a_send` compares machines: the bound there is
    8.9 % of the datagram.
    """
    ours: dict[str, list[float]] = {"empty": [], "least": [], "accounting": [], "counters": []}
    inside: dict[str, list[float]] = {"least": [], "accounting": []}
    sends: list[float] = []
    theirs: list[float] = []
    for _ in range(pairs):
        agent = find_agent().path
        shown = subprocess.run([agent, "calibrate", "--json"], capture_output=True, text=True, check=True)
        run = json.loads(shown.stdout)
        if run["soft_interrupt_send_ns"] is None:
            raise SystemExit("bench: exact accounting is not available here; see `iodyno-agent facts`")
        sends.append(run["soft_interrupt_send_ns"])
        for name, found in ours.items():
            found.append(run[f"soft_interrupt_{name}_ns"])
        for name, found in inside.items():
            found.append(run[f"soft_interrupt_{name}_in_programs_ns"])
        theirs.append(_added_by_bpftrace())
    rows = [
        _pair_row("empty programs", ours["empty"], sends, [0.0], None),
        _pair_row(
            "programs that read the clock and do nothing else", ours["least"], sends, inside["least"], None
        ),
        _pair_row("cpu_exact, accounting alone", ours["accounting"], sends, inside["accounting"], 110),
        _pair_row("cpu_exact, with counters", ours["counters"], sends, [], None),
        _pair_row("bpftrace, the same tracepoints", theirs, sends, [], None),
    ]
    added = [*ours.values(), theirs]
    return [
        row | {"over_bpftrace": "{:.2f} [{:.2f}, {:.2f}]".format(*paired(one, theirs))}
        for row, one in zip(rows, added, strict=True)
    ]


def _pair_row(
    name: str, added: list[float], sends: list[float], inside: list[float], allowed_ns: int | None
) -> dict[str, object]:
    """A row; `inside`: time in the programs by the kernel's statistics, less that of empty ones."""
    share = statistics.median(added) / statistics.median(sends)
    return {
        "observer": name,
        "added_ns": round(statistics.median(added)),
        "least_ns": round(min(added)),
        "most_ns": round(max(added)),
        "of_a_send": f"{share:.1%}",
        "allowed_of_a_send": f"{allowed_ns / _SEND_WHERE_BOUND_WAS_SET_NS:.1%}" if allowed_ns else "",
        "in_programs_ns": round(statistics.median(inside)) if inside else "",
        "allowed_ns": allowed_ns or "",
    }


def _added_by_bpftrace() -> float:
    """CPU time of a send over loopback while bpftrace observes, less the mean of before and after."""
    with _loopback_sender() as send_ns:
        before = send_ns()
        with bpftrace(_BPFTRACE):
            during = send_ns()
        return during - (before + send_ns()) / 2


@contextlib.contextmanager
def _loopback_sender() -> Iterator[Callable[[], float]]:
    """A function that sends datagrams to nobody, on one CPU; CPU nanoseconds of one."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            receiver.bind(("127.0.0.1", 0))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.connect(receiver.getsockname())

                def send_ns() -> float:
                    send, before = sender.send, time.thread_time_ns()
                    for _ in range(_SENDS):
                        send(b"x")
                    return (time.thread_time_ns() - before) / _SENDS

                yield send_ns
    finally:
        os.sched_setaffinity(0, allowed)


async def observer(pairs: int) -> list[dict[str, object]]:
    """Share of a CPU that the accounting takes in trials with few and many events (at most 2 %)."""
    rows: list[dict[str, object]] = []
    async with open_testbed() as (testbed, pair):
        for size, connections in ((65536, 32), (8192, 32), (1024, 32), (128, 1)):
            settings = {"connections": connections, "size": size}
            found = [
                _observed(await trial(testbed, pair, settings, 2.0), host)
                for _ in range(pairs)
                for host in ("client", "server")
            ]
            known = [share for _, share, _ in found if share is not None]
            rows.append(
                {
                    "size": size,
                    "connections": connections,
                    "events_per_s": round(statistics.median(rate for rate, _, _ in found)),
                    "cpu_share": f"{statistics.median(known):.2%}" if known else "",
                    "most": f"{max(known):.2%}" if known else "",
                    "missing": "; ".join(sorted({why for _, _, why in found if why})),
                }
            )
    return rows


def _observed(result: Trial, host: str) -> tuple[float, float | None, str]:
    """Events per second, share of a CPU, and what was missing, in the measured window of one host."""
    events = spent = span = 0
    cpus: set[str] = set()
    missing = ""
    for record in result.records[host]:
        reading = _reading(record)
        if record["window"] != "measured" or reading is None:
            continue
        missing = reading["missing"] or missing
        span += reading["span_ns"]
        for metric, label, value in reading["values"]:
            if metric == "exact.events":
                events += value
                cpus.add(label)
            spent += value if metric == "exact.observer_ns" else 0
    if not events:
        return 0.0, None, missing
    whole = span * max(1, len(cpus))
    return events * 1e9 / whole, spent / whole, missing


def _reading(record: dict[str, Any]) -> dict[str, Any] | None:
    found = (reading for reading in record["sensors"] if reading["sensor"] == "cpu_exact")
    return next(found, None)
