"""Checks before the first trial that the hosts can carry a file program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from iodyno.campaign.preflight_lines import Line, line, mib, or_unknown
from iodyno.campaign.testbed import Testbed
from iodyno.core.workload import Level
from iodyno.hosts.target import TargetKeeper
from iodyno.loads.disk.campaign.preflight import Settings, machines
from iodyno.loads.files.campaign import jobs as file_job

_SPARE_THREADS = 32
_SPARE_BYTES = 64 << 20
_STACK_BYTES = 256 << 10
"""Memory of a thread beside that which the personality gives it (chosen: stack and histograms)."""


def limits(testbed: Testbed, settings: Settings) -> Iterator[tuple[Line, str]]:
    """Threads of all processes. Hosts with one boot id share a machine."""
    most = max(int(point["connections"]) for point in settings)
    for hosts in machines(testbed):
        have, need = (
            testbed.sessions[hosts[0]].hello["host"]["threads_limit"],
            most * len(hosts) + _SPARE_THREADS,
        )
        yield line(
            "threads",
            have is None or need <= have,
            f"host {' and '.join(hosts)}: {most} threads of the personality need {need}, it may have {or_unknown(have)}",
            "set fewer instances (--set nthreads=...), or raise the limit there (ulimit -u, pids.max)",
        )


def memory(testbed: Testbed, settings: Settings) -> Iterator[tuple[Line, str]]:
    """Check that hosts have the memory that the threads ask for (memsize)."""
    most = max(_needed_bytes(point) for point in settings)
    for hosts in machines(testbed):
        known = [testbed.sessions[host].hello["host"]["memory_available_bytes"] for host in hosts]
        have = min((each for each in known if each is not None), default=None)
        need = most * len(hosts) + _SPARE_BYTES
        yield line(
            "memory",
            have is None or need <= have,
            f"host {' and '.join(hosts)}: threads may take {mib(need)}, {mib(have)} are available",
            "set fewer instances or a smaller memsize",
        )


async def filesets(testbed: Testbed, settings: Settings) -> Line:
    """Check that every host has room for the filesets of every point, and may write there. Raises PreflightError, AccessError."""
    workload = testbed.experiment.workload
    looked = 0
    for host in workload.hosts:
        if testbed.experiment.hosts[host].access == "simulated":
            continue
        made = {} if testbed.volume is None else {"target": str(testbed.volume.target_of(host))}
        programs = {
            json.dumps(file_job.files_of(workload, host, {**point, **made}, 0)["files"], sort_keys=True)
            for point in settings
        }
        async with await TargetKeeper.start(testbed.hosts.accesses[host], testbed.program) as keeper:
            for program in sorted(programs):
                await keeper.look_at_filesets(json.loads(program))
        looked += len(programs)
    return line("filesets", True, f"there is room for the filesets of {looked} programs")[0]


def _needed_bytes(point: Mapping[str, Level]) -> int:
    return int(point["memory_bytes"]) + int(point["connections"]) * _STACK_BYTES
