"""Experiments made in memory, to plan designs of, and their trials on the coded scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from iodyno.core.design import Design
from iodyno.core.experiment import DesignSpec, Experiment, HostSpec, WorkloadSpec
from iodyno.core.factor import Factor

NUMBERS = ("size", "send_buffer", "receive_buffer", "connections", "batch", "backlog", "burst", "records")
WORDS = (Factor("nagle", (True, False)), Factor("congestion_control", ("cubic", "reno")))


def experiment(factors: list[Factor], **options: Any) -> Experiment:
    options.setdefault("replicates", 1)
    return Experiment(
        name="made",
        question="",
        hosts={name: HostSpec(name, "local") for name in ("a", "b")},
        workload=WorkloadSpec("stream", ("a",), ("b",)),
        factors=tuple(factors),
        design=DesignSpec(**options),
    )


def numbers(count: int, low: int = 1000, high: int = 9000) -> list[Factor]:
    return [
        Factor(f"client.tunable{index}" if index >= 3 else NUMBERS[index], (low, high))
        for index in range(count)
    ]


def coded(design: Design) -> np.ndarray[Any, Any]:
    """The trials' levels on the coded scale."""
    return np.array(
        [[c.coded(trial.point.levels[name]) for name, c in design.coding.items()] for trial in design.trials]
    )
