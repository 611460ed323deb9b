"""What the settings of the workload `files` mean for the agent of one host (`agent/core/src/file_program.rs`)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from iodyno.core.disk_parameters import target_of
from iodyno.core.experiment import WorkloadSpec
from iodyno.core.knob import named
from iodyno.core.personality.binding import bound
from iodyno.core.personality.bound import Bound
from iodyno.core.personality.parameters import RESERVED
from iodyno.core.personality.wire import program
from iodyno.core.workload import FILES, Level

READY_TIMEOUT_S = 3600.0
"""Longest time for the files to be made. Chosen: a million files, or some hundred gigabytes."""


def bound_of(workload: WorkloadSpec, settings: Mapping[str, Level]) -> Bound:
    """What runs with these settings. Raises ExperimentError."""
    assert workload.program is not None
    given = {name: level for name, level in settings.items() if name not in RESERVED and not named(name)}
    return bound(workload.program, given)


def load_settings(workload: WorkloadSpec, settings: Mapping[str, Level]) -> dict[str, Level]:
    """The settings in the words of a load over connections; the personality's variables are in the program already."""
    own = {parameter.name for parameter in FILES.parameters}
    kept = {name: level for name, level in settings.items() if name in own or named(name)}
    bound = bound_of(workload, settings)
    memory = sum(p.instances * t.instances * t.memory_bytes for p in bound.processes for t in p.threads)
    return {
        **kept,
        "connections": max(1, bound.threads()),
        "memory_bytes": memory,
        "size": 1,
        "transport": "null",
    }


def files_of(workload: WorkloadSpec, host: str, settings: Mapping[str, Level], seed: int) -> dict[str, Any]:
    """The part of the job that is about files. Each host has a seed of its own. Raises ExperimentError."""
    target = settings.get("target")
    where = None if target is None else target_of(str(target), host)
    seeded = zlib.crc32(host.encode(), seed)
    remove = bool(settings.get("remove", False))
    return {"files": program(bound_of(workload, settings), target=where, seed=seeded, remove_after=remove)}
