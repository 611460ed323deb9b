"""Work of the page cache: pages that became dirty and pages written back, of the machine (sensor `writeback`); the part of a
process's reads that it answered.

A page cache has no count of hits. What a process read is known, though, and so is what storage had to give for it
(`read_bytes` of proc_pid_io(5), which counts where a read goes to a block device: read-ahead too, and only of the process that
waits for it). What is left came from memory.
"""

from __future__ import annotations

from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.trial import Trial
from iodyno.core.volume import ROLES

SENSOR = "writeback"
_GIVEN = ("process.storage_read_bytes", "")


def per_second(trial: Trial, name: str, metric: str) -> Measured:
    """Growth per second of `writeback.dirtied_bytes` or `writeback.written_bytes`, of the whole machine."""
    host = trial.hosts.get(name)
    if host is None:
        return missing("another host on the same machine reads its memory")
    parts = [
        (float(reading.values[metric, ""]), float(reading.span_ns))
        for reading in host.measured_readings(SENSOR)
        if (metric, "") in reading.values
    ]
    return total_ratio(parts, scale=1e9, note="of the whole machine", nothing=host.why_missing(SENSOR))


def from_cache_of_load(trial: Trial, name: str) -> Measured:
    """Share of the bytes that a client's load read and storage did not have to give its process. Below 0: it read ahead."""
    client = trial.clients.get(name)
    if client is None:
        return missing("it has no load of its own")
    target = (trial.manifest.get("targets") or {}).get(name) or {}
    if not target.get("device"):
        return missing("what its file lies on goes through no block device of this host")
    read = client.classes.get("read", {})
    parts = []
    for reading, records in client.covered("process"):
        if _GIVEN in reading.values and all(record.index in read for record in records):
            asked = sum(read[record.index].bytes for record in records)
            parts.append((float(asked - reading.values[_GIVEN]), float(asked)))
    return total_ratio(
        parts, note="of the agent's process", nothing="what storage gave its process is not known"
    )


def from_cache_of_role(trial: Trial, name: str, role: str) -> Measured:
    """Share of the bytes that the processes of a role (a server, a client's daemon) got by reading files and storage did not have
    to give them.
    """
    host = trial.hosts.get(name)
    if host is None or role not in ROLES:
        return missing("another host on the same machine reads its processes")
    asked, given = ((f"role.{what}_bytes", f"role={role}") for what in ("asked", "read"))
    parts = [
        (float(reading.values[asked] - reading.values[given]), float(reading.values[asked]))
        for reading in host.measured_readings("roles")
        if asked in reading.values and given in reading.values
    ]
    nothing = f"no process of a {role.replace('_', ' ')} read a file on this host"
    return total_ratio(parts, note=f"processes of the {role.replace('_', ' ')}", nothing=nothing)
