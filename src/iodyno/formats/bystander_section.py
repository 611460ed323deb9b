"""The workloads beside, of which a file has one or a list."""

from __future__ import annotations

from iodyno.core.experiment import WorkloadSpec
from iodyno.core.outcome import BYSTANDER, bystander_names
from iodyno.formats import workload_section
from iodyno.formats.mistakes import Path
from iodyno.formats.reading import Reading

MOST = 16
"""Workloads beside (chosen: each has agents of its own on both hosts)."""


def read(reading: Reading) -> dict[Path, WorkloadSpec]:
    """Those that can be read, by their places."""
    written, path = reading.plain.get(BYSTANDER), (BYSTANDER,)
    if not isinstance(written, list):
        places: list[Path] = [path]
    elif 1 <= len(written) <= MOST:
        places = [(*path, at) for at in range(len(written))]
    else:
        reading.note(path, f"invalid value: {len(written)} workloads; expected one, or a list of 1 to {MOST}")
        return {}
    return {place: found for place in places if (found := workload_section.read(reading, place)) is not None}


def names(reading: Reading) -> tuple[str, ...]:
    """Their names."""
    written = reading.plain.get(BYSTANDER, [])
    return bystander_names(len(written) if isinstance(written, list) else 1)
