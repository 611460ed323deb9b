"""Job of an agent as one mapping: a job holds what belongs to a kind of load in a part of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def load_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a job that belongs to its kind of load.

    >>> load_of({"trial": "1", "load": {"script": {"role": "send"}}})
    {'role': 'send'}
    """
    part: dict[str, Any]
    (part,) = job["load"].values()
    return part


def asked(job: Mapping[str, Any] | None) -> dict[str, Any]:
    """All keys of a job side by side, with `role` and `workload`. A job of wire version 5 or older has them so.

    >>> traffic = {"stream": {"direction": "forward", "application": {"burst": 1}}}
    >>> asked({"trial": "1", "load": {"network": {"role": "send", "traffic": traffic}}})
    {'trial': '1', 'role': 'send', 'direction': 'forward', 'burst': 1, 'workload': 'stream'}
    >>> asked({"load": {"idle": {"storage": False}}})["role"], asked(None)
    ('idle', {})
    """
    if not job or not job.get("load"):
        return dict(job or {})
    own: dict[str, Any]
    ((kind, own),) = job["load"].items()
    flat: dict[str, Any] = {key: value for key, value in job.items() if key != "load"}
    if kind == "network":
        special: dict[str, Any]
        ((workload, special),) = own["traffic"].items()
        flat |= {key: value for key, value in own.items() if key != "traffic"}
        flat |= {key: value for key, value in special.items() if key != "application"}
        flat |= special.get("application", {})
        return flat | {"workload": workload}
    if kind == "script":
        threads = sum(int(group.get("threads", 1)) for group in own["script"].get("groups", ()))
        return flat | own | {"workload": kind, "connections": threads}
    if kind == "idle":
        return flat | own | {"role": kind, "arrivals": None}
    alone = {"role": "alone", "workload": kind, kind: own, "arrivals": own.get("arrivals")}
    return flat | alone | _units_of(kind, own)


def _units_of(kind: str, own: Mapping[str, Any]) -> dict[str, int]:
    """Return what stands for connections in a load without them: its threads, and the most that one of them moves at a time."""
    if kind == "disk":
        return {"connections": own.get("workers", 1), "message_bytes": own.get("block_bytes", 1)}
    processes = own.get("processes", ())
    threads = sum(
        process["instances"] * thread["instances"] for process in processes for thread in process["threads"]
    )
    return {"connections": max(1, threads), "message_bytes": 1}
