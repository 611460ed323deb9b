"""Kinds of loads, and where the parts of each stand."""

from __future__ import annotations

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
_ANY = "stream"
"""Kind that stands for one that another version of iodyno has measured, whose tables can be shown all the same."""


def part(kind: str, layer: str) -> Any:
    """Return the part of a load that serves a layer: the `Load` of its class there."""
    known = kind if kind in FOLDERS else _ANY
    return import_module(f"iodyno.loads.{FOLDERS[known]}.{layer}.load").LOADS[known]
