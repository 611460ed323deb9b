"""Check that a device has a receive queue (NAPI) that can be held back or given to a thread."""

from __future__ import annotations

from collections.abc import Sequence

from iodyno.hosts.guard import Look, Seen
from iodyno.hosts.tunables.tunable import Place, first_json


def looks(place: Place) -> list[Look]:
    """The kind of the device, and its offloads."""
    return [
        {"run": ["ip", "-d", "-j", "link", "show", "dev", place.device]},
        {"run": ["ethtool", "--json", "-k", place.device]},
    ]


def absent(seen: Sequence[Seen]) -> str | None:
    """Why the device has none; None: it may have one. A veth has one while GRO is on (drivers/net/veth.c)."""
    link, features = (first_json(one) for one in seen)
    gro = features.get("generic-receive-offload") or {}
    if (link.get("linkinfo") or {}).get("info_kind") == "veth" and not gro.get("active"):
        return "a veth has a receive queue only while gro is on: set gro: on with it"
    return None
