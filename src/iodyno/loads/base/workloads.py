"""Every kind of load with its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.core.workload import Workload
from iodyno.loads.base.core import Load
from iodyno.loads.base.kinds import ADDED, FOLDERS, part

LOADS: dict[str, Load] = {kind: part(kind, "core") for kind in FOLDERS}
"""Every load, by kind."""
WORKLOADS: dict[str, Workload] = {kind: load.workload for kind, load in LOADS.items()}
"""Every workload, by kind."""


def add(workload: Workload, *, like: str, **parts: Any) -> None:
    """Make a kind of load known to this program: it is like another one, but for the parts of layers that are given."""
    ADDED[workload.name] = (like, {"core": Load(workload), **parts})
    LOADS[workload.name], WORKLOADS[workload.name] = part(workload.name, "core"), workload


def workload_of_stored(workload: Mapping[str, Any]) -> Workload | None:
    """The workload that `campaign.json` tells of; None where this version does not know it."""
    load = LOADS.get(str(workload.get("kind", "stream")))
    return load.of_variables(workload.get("variables") or {}) if load else None
