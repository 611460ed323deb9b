"""The call stacks of a simulated agent: which functions there are, who calls them, how often they are sampled."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

SEND = ("start_thread", "Transmit::step", "__libc_send", "do_syscall_64", "tcp_sendmsg", "_copy_from_iter")
RECEIVE = ("start_thread", "Receive::step", "__libc_recv", "do_syscall_64", "tcp_recvmsg", "_copy_to_iter")
"""The longest way of the load through the program (the first three) and the kernel; the other functions turn off it."""
SOFTIRQ = {"send": "tcp_ack", "receive": "tcp_v4_rcv"}
"""Stacks of the soft interrupts of a host."""
BACKGROUND = "kworker_idle_work"
"""Stacks of a kernel thread on a host that carries no load of ours."""

_PROGRAM, _KERNEL = "iodyno-agent", "kernel"


def function_costs(
    role: str, *, user: float, softirq: float, per_byte: float, per_call: float, per_connection: float
) -> dict[str, float]:
    """Costs by the function that has them of its own (exclusive): user code, soft interrupts, copying, system calls,
    switches between threads."""
    way = RECEIVE if role == "receive" else SEND
    return {
        way[1]: user,
        SOFTIRQ["receive" if role == "receive" else "send"]: softirq,
        way[5]: per_byte,
        way[3]: per_call,
        "__schedule": per_connection,
    }


def profile(
    role: str,
    hz: int,
    cpus: int,
    window_ns: int,
    load_ns: Mapping[str, float],
    background_ns: float,
    seed: str | None,
) -> dict[str, Any]:
    """The content of a `profile` message but for trial and times.

    `load_ns` is the CPU time of each function of `function_costs` in the window of `window_ns`, `background_ns` that
    of others. With a seed the samples are drawn, as real ones are; without, they are what is to be expected.
    """
    spent = {**load_ns, BACKGROUND: background_ns}
    expected = {name: ns * hz / 1e9 for name, ns in spent.items()}
    counts = {name: round(count) for name, count in expected.items()}
    total = sum(counts.values())
    if seed is not None and total:
        sampled = random.Random(seed).choices(list(expected), weights=list(expected.values()), k=total)
        counts = {name: sampled.count(name) for name in expected}
    ways = _ways(role)
    names = list(dict.fromkeys(frame for name in counts for frame in ways[name][2]))
    stacks = [
        {
            "owner": ways[name][0],
            "mode": ways[name][1],
            "frames": [names.index(f) for f in ways[name][2]],
            "count": count,
        }
        for name, count in sorted(counts.items(), key=lambda entry: -entry[1])
        if count
    ]
    user = {*SEND[:3], *RECEIVE[:3]}
    return {
        "hz": hz,
        "event": "cpu-clock",
        "samples": total,
        "idle_samples": max(0, round(window_ns * cpus * hz / 1e9) - total),
        "lost": 0,
        "functions": [{"name": name, "module": _PROGRAM if name in user else _KERNEL} for name in names],
        "stacks": stacks,
        "cost_ns": total * 500,
        "symbolise_ns": 100_000_000,
        "missing": None,
    }


def _ways(role: str) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Owner, mode and callers (the outermost first) of every function that has samples of its own."""
    way = RECEIVE if role == "receive" else SEND
    softirq = SOFTIRQ["receive" if role == "receive" else "send"]
    return {
        way[1]: ("app", "user", way[:2]),
        way[3]: ("app", "kernel", way[:4]),
        way[5]: ("app", "kernel", way),
        "__schedule": ("app", "kernel", (*way[:5], "schedule", "__schedule")),
        softirq: (
            "idle",
            "kernel",
            ("do_idle", "asm_common_interrupt", "handle_softirqs", "net_rx_action", softirq),
        ),
        BACKGROUND: ("other", "kernel", ("ret_from_fork", "kthread", "worker_thread", BACKGROUND)),
    }
