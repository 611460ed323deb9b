"""The section `workload` of an experiment file, and that of a workload beside."""

from __future__ import annotations

from typing import Any

from iodyno.core.experiment import WorkloadSpec
from iodyno.core.invalid import found, invalid
from iodyno.core.outcome import BYSTANDER
from iodyno.core.workload import Workload
from iodyno.formats.mistakes import Path, unknown
from iodyno.formats.reading import Reading
from iodyno.loads.base.formats import load_named
from iodyno.loads.base.workloads import WORKLOADS


def read(reading: Reading, path: Path) -> WorkloadSpec | None:
    """The workload at this place, when it can be read."""
    key, *at = path
    written = reading.plain.get(key) if not at else reading.plain[key][at[0]]
    if key not in reading.plain or not reading.mapping(written, path, "keys such as `kind: stream`"):
        return None
    kind = written.get("kind")
    if "kind" not in written:
        reading.note_missing(path, "kind", ", ".join(WORKLOADS))
        return None
    if not isinstance(kind, str) or kind not in WORKLOADS:
        reading.note((*path, "kind"), unknown(kind if isinstance(kind, str) else found(kind), WORKLOADS))
        return None
    load = load_named(kind)
    if key == BYSTANDER and not load.beside:
        text = invalid(kind, "any other workload, which lasts as long as the windows")
        reading.note((*path, "kind"), text)
        return None
    return load.read(reading, kind, written, path)


def named(plain: Any) -> Workload:
    """The workload that a file names, though it cannot be read; the first of all where it names none."""
    section = plain.get("workload")
    kind = section.get("kind") if isinstance(section, dict) else None
    known = WORKLOADS.get(kind) if isinstance(kind, str) else None
    return known or next(iter(WORKLOADS.values()))
