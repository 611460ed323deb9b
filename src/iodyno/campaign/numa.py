"""NUMA node of a host's load: `cpus: near DEVICE` of an experiment, or `far DEVICE`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iodyno.core.errors import PreflightError
from iodyno.core.experiment import HostSpec


@dataclass(frozen=True)
class Node:
    """CPUs of a node, and its number as far as memory can be of it; `note`: what is said to people."""

    cpus: tuple[int, ...]
    memory: int | None = None
    note: str = ""


def node_of(spec: HostSpec, facts: Mapping[str, Any]) -> Node:
    """The node of `spec.placed`, by the facts of its agent. Raises PreflightError where it is not known."""
    word, _, device = spec.placed.partition(" ")
    nodes = facts.get("numa_nodes") or []
    if len(nodes) < 2:
        return Node((), None, f"`cpus: {spec.placed}` changes nothing: the host has one NUMA node")
    own = next((node for node in nodes if device in node["devices"]), None)
    if own is None:
        known = ", ".join(name for node in nodes for name in node["devices"]) or "none"
        raise PreflightError(
            f"`cpus: {spec.placed}`: no NUMA node is known of {device}; it is of {known}",
            where=f"host {spec.name}",
            advice="name an interface or a whole disk that is attached to a bus, or CPUs by their numbers",
        )
    found = own if word == "near" else next(node for node in nodes if node is not own)
    cpus = tuple(sorted(set(found["cpus"]) & set(facts["cpus_allowed"])))
    if not cpus:
        raise PreflightError(
            f"`cpus: {spec.placed}`: the agent may not run on any CPU of NUMA node {found['node']}",
            where=f"host {spec.name}",
            advice="allow it these CPUs (cpuset.cpus of its control group)",
        )
    listed = ", ".join(map(str, cpus))
    return Node(cpus, found["node"], f"`cpus: {spec.placed}`: NUMA node {found['node']}, CPUs {listed}")
