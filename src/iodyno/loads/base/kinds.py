"""Kinds of loads, and where the parts of each stand."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

FOLDERS = {
    "stream": "network",
    "request_response": "network",
    "connect_request_response": "network",
    "script": "script",
    "disk": "disk",
    "files": "files",
}
"""Folder of each kind below `iodyno.loads`."""
ADDED: dict[str, tuple[str, Mapping[str, Any]]] = {}
"""Kinds that a program has added (`workloads.add`): the kind that each is like, and the parts in which it is not, by layer."""
_ANY = "stream"
"""Kind that stands for one that another version of iodyno has measured, whose tables can be shown all the same."""


def part(kind: str, layer: str) -> Any:
    """Return the part of a load that serves a layer: the `Load` of its class there."""
    if kind in ADDED:
        like, own = ADDED[kind]
        return own[layer] if layer in own else part(like, layer)
    known = kind if kind in FOLDERS else _ANY
    return import_module(f"iodyno.loads.{FOLDERS[known]}.{layer}.load").LOADS[known]
