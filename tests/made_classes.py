"""Readings of sensor `cpu_exact`, made from a known truth for `made_campaign`.

The load's time is split by `ExactTruth.load`, the background's by `ExactTruth.idle_machine`; what is left of a CPU is
idle. The line between user and system is drawn by counting samples, as the agent does.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ExactTruth:
    """Shares of the load's and of the background's busy time by class; `hz` 0 makes the user split exact.

    `sum` other than 1 breaks the sum to wall time; `idle_off` moves idle time, as a share of a CPU, to other tasks.
    `user_known` false: the agent cannot tell user from system. `wander`: relative standard deviation of the share
    of each class between intervals.
    """

    load: Mapping[str, float] = field(
        default_factory=lambda: {"usr": 0.08, "sys": 0.55, "irq": 0.02, "softirq": 0.35}
    )
    idle_machine: Mapping[str, float] = field(
        default_factory=lambda: {"other": 0.7, "irq": 0.1, "softirq": 0.2}
    )
    hz: float = 997.0
    sum: float = 1.0
    idle_off: float = 0.0
    user_known: bool = True
    observer_ns: int = 2_000_000
    wander: float = 0.0


def exact_values(
    truth: ExactTruth,
    cpus: Sequence[int],
    work_ns: float,
    background_ns: float,
    span_ns: int,
    own: random.Random,
) -> list[list[Any]]:
    """What the sensor says of one interval in which the load took `work_ns` of all `cpus` together."""
    shares = {kind: share * max(0.0, own.gauss(1, truth.wander)) for kind, share in truth.load.items()}
    whole = sum(shares.values())
    values: list[list[Any]] = []
    for cpu in cpus:
        times = {
            kind: (
                work_ns * shares.get(kind, 0.0) / whole + background_ns * truth.idle_machine.get(kind, 0.0)
            )
            / len(cpus)
            for kind in ("usr", "sys", "irq", "softirq", "other")
        }
        idle = span_ns - sum(times.values()) - truth.idle_off * span_ns
        app = times["usr"] + times["sys"]
        label = f"cpu={cpu}"
        for metric, ns in (
            ("app", app * truth.sum),
            ("other", times["other"] + truth.idle_off * span_ns),
            ("idle", idle),
            ("hardirq", times["irq"]),
        ):
            values.append([f"exact.{metric}_ns", label, round(ns)])
        for vector, share in (("NET_RX", 0.9), ("TIMER", 0.1)):
            name = f"{label},vector={vector}"
            values.append(["exact.softirq_ns", name, round(times["softirq"] * share)])
            values.append(["exact.softirq_count", name, 1000])
        values.append(["exact.events", label, 20_000])
        values.append(["exact.observer_ns", label, truth.observer_ns])
        if not truth.user_known:
            continue
        samples = int(truth.hz * app / 1e9)
        if truth.hz and samples:
            hits = sum(own.random() < times["usr"] / app for _ in range(samples)) if app else 0
            values.append(["exact.app_user_ns", label, round(app * hits / samples)])
            values.append(["exact.split_samples", label, samples])
        elif not truth.hz:
            values.append(["exact.app_user_ns", label, round(times["usr"])])
    return values
