"""Times of a simulated host's CPUs by exact class, as sensor `cpu_exact` does."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

_SPLIT_HZ = 997
_EVENT_NS = 80


def of_cpu(
    cpu: int, classes: Mapping[str, float], span_ns: int, own: random.Random | None
) -> Iterator[list[Any]]:
    """One CPU by class; the line between user and system by samples that `own` draws, or exact without it."""
    label = f"cpu={cpu}"
    app_ns = round(classes["usr"] + classes["sys"])
    irq_ns, other_ns = round(classes["irq"]), round(classes["other"])
    vectors = {"NET_RX": round(0.9 * classes["softirq"]), "TIMER": round(0.1 * classes["softirq"])}
    idle_ns = max(0, span_ns - app_ns - irq_ns - other_ns - sum(vectors.values()))
    samples = 0 if own is None else int(_SPLIT_HZ * app_ns / 1e9)
    share = classes["usr"] / app_ns if app_ns else 0.0
    if own is not None and samples:
        share = sum(own.random() < share for _ in range(samples)) / samples
        yield ["exact.split_samples", label, samples]
    if samples or own is None:
        yield ["exact.app_user_ns", label, round(app_ns * share)]
    for metric, time_ns in (("app", app_ns), ("other", other_ns), ("idle", idle_ns), ("hardirq", irq_ns)):
        yield [f"exact.{metric}_ns", label, time_ns]
    for vector, time_ns in vectors.items():
        yield ["exact.softirq_ns", f"{label},vector={vector}", time_ns]
        yield ["exact.softirq_count", f"{label},vector={vector}", 1 + time_ns // 5000]
    events = 2 * sum(1 + time_ns // 5000 for time_ns in vectors.values())
    yield ["exact.events", label, events]
    yield ["exact.observer_ns", label, events * _EVENT_NS]
