"""Facts of the way from a host to the other end, or of the volume under its load, in people's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TITLES = {
    "kind": "Path",
    "namespace": "Network namespace",
    "addresses": "Addresses there",
    "receive_processing": "Received packets are worked on by",
    "settings": "Kernel settings",
    "level": "Volume",
    "target": "The load reads and writes",
    "device": "A block device",
    "file": "Its file",
    "direct_io": "Direct input and output below",
    "uncached": "The server keeps nothing in its page cache",
    "file_system": "File system of each client",
    "mount_options": "Mounted with",
    "ready_s": "Time to make it",
    "server_namespace": "Network namespace of the server",
    "server_address": "Address of the server",
    "clients": "Clients of the server",
    "runsc": "Program of the sandbox",
    "accelerator": "Accelerator of the guest",
    "cpus": "CPUs there",
}
_KINDS = {
    "veth": "a pair of virtual devices (veth)",
    "unlinked": "none: a network namespace without a link",
    "relay": "a relay in user space between two tap devices",
    "loopback": "the loopback device",
    "volume": "a volume that iodyno made",
    "sandbox": "the network of a sandbox",
    "guest": "the network of a guest",
}


def path_rows(path: Mapping[str, Any], address: str | None) -> list[tuple[str, str]]:
    """Titles and values, without what has none; `address` is that of the host, which stands beside its access already."""
    return [
        (_TITLES.get(key, f"Path: {key.replace('_', ' ')}"), text)
        for key, value in path.items()
        if not (key == "address" and value == address) and (text := _text(key, value))
    ]


def _text(key: str, value: object) -> str:
    if key == "kind":
        return _KINDS.get(str(value), str(value))
    if key == "ready_s" and isinstance(value, int | float):
        return f"{value:.3g} s"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(_setting(name, given) for name, given in value.items())
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _setting(name: str, given: object) -> str:
    if not (isinstance(given, Mapping) and {"asked", "obtained"} <= set(given)):
        return f"{name} = {given}"
    same = given["asked"] == given["obtained"]
    return f"{name} = {given['obtained']}" + ("" if same else f" (asked {given['asked']})")
