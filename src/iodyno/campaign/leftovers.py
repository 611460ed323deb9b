"""Leftovers of labs that are gone on this machine: removed before a campaign, whatever that needs itself, and by a command."""

from __future__ import annotations

from iodyno.hosts import guest, sandbox
from iodyno.paths import veth
from iodyno.paths.volumes import volume
from iodyno.targets import throttle


def remove() -> tuple[list[str], list[str]]:
    """Names of volumes and network namespaces: those that are gone now, and those that did not go. Raises AccessError when others
    may write where they are noted.
    """
    removed = [f"volume {name}" for name in volume.remove_leftovers()]
    removed += [f"namespace {name}" for name in veth.remove_leftovers()]
    sandbox.remove_leftovers()
    guest.remove_leftovers()
    throttle.remove_leftovers()
    left = [f"volume {note.stem}" for note in volume.leftovers()]
    return removed, [*left, *(f"namespace {name}" for name in veth.leftovers())]
