"""Job of one host's agent from the settings of the workload `files` (`agent/core/src/file_program.rs`)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from iodyno.core.experiment import WorkloadSpec
from iodyno.core.tunable import named
from iodyno.core.volume import CREATE_FILES
from iodyno.core.workload import Level
from iodyno.loads.disk.campaign.jobs import block_of
from iodyno.loads.disk.core.parameters import target_of
from iodyno.loads.files.core.binding import bound
from iodyno.loads.files.core.bound import Bound
from iodyno.loads.files.core.parameters import RESERVED, WORKLOAD, kinds_of
from iodyno.loads.files.core.wire import program
from iodyno.loads.files.wml import parse_personality

READY_TIMEOUT_S = 3600.0
"""Longest time for the files to be made. Chosen: a million files, or some hundred gigabytes."""


def bound_of(workload: WorkloadSpec, settings: Mapping[str, Level]) -> Bound:
    """Return the program with these settings. Raises ExperimentError."""
    assert workload.program is not None
    given = {name: level for name, level in settings.items() if name not in RESERVED and not named(name)}
    return bound(workload.program, given)


def load_settings(workload: WorkloadSpec, settings: Mapping[str, Level]) -> dict[str, Level]:
    """The settings in the words of a load over connections; the personality's variables are in the program already."""
    own = {parameter.name for parameter in WORKLOAD.parameters}
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


def creation(workload: WorkloadSpec, settings: Mapping[str, Level]) -> tuple[WorkloadSpec, dict[str, Level]]:
    """Creation of files as a load (`work: create_files` of the workload `disk`), and its settings: each worker makes a
    file, writes a block of it, closes it and removes one, so that a file system of any size lasts for any time.
    """
    program = parse_personality(_CREATION, file=CREATE_FILES)
    own: dict[str, Level] = {
        "target": settings["target"],
        "nthreads": settings.get("workers", 1),
        "blocksize": block_of(settings)[0],
    }
    return replace(workload, kind=WORKLOAD.name, program=program, variables=kinds_of(program)), own


_CREATION = """
set $nthreads=1
set $blocksize=4k
set $nfiles=$nthreads * 100
define fileset name=made,path=/files,entries=$nfiles,dirwidth=1000,size=$blocksize
define process name=creation {
  thread name=worker,instances=$nthreads,memsize=1m {
    flowop createfile name=create,filesetname=made,fd=1
    flowop writewholefile name=write,fd=1,iosize=$blocksize
    flowop closefile name=close,fd=1
    flowop deletefile name=remove,filesetname=made
  }
}
"""


def files_of(workload: WorkloadSpec, host: str, settings: Mapping[str, Level], seed: int) -> dict[str, Any]:
    """The part of the job that is about files. Each host has a seed of its own. Raises ExperimentError."""
    target = settings.get("target")
    where = None if target is None else target_of(str(target), host)
    seeded = zlib.crc32(host.encode(), seed)
    remove = bool(settings.get("remove", False))
    return {"files": program(bound_of(workload, settings), target=where, seed=seeded, remove_after=remove)}
