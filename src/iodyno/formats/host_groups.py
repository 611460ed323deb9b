"""Several hosts under one name: `client: {access: netns, count: 18}` is client-1 to client-18."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from iodyno.core.experiment import HostSpec
from iodyno.formats.mistakes import Path, found, unknown
from iodyno.loads.base.workloads import WORKLOADS

Note = Callable[[Path, str], None]


NUMBER = "{n}"
"""Placeholder in `to` and `address` for the number of the host."""


def expanded(host: HostSpec, count: int | None) -> list[HostSpec]:
    """The host, or as many as `count` says, numbered from 1; None: it stands for itself. One keeps its name.

    >>> [h.name for h in expanded(HostSpec("client", "local"), 3)]
    ['client-1', 'client-2', 'client-3']
    """
    if count is None:
        return [host]
    numbered = []
    for number in range(1, count + 1):
        options = {
            name: value.replace(NUMBER, str(number)) if isinstance(value, str) else value
            for name, value in host.options.items()
        }
        address = host.address and host.address.replace(NUMBER, str(number))
        name = host.name if count == 1 else f"{host.name}-{number}"
        numbered.append(replace(host, name=name, options=options, address=address))
    return numbered


def names_of(written: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of all hosts, in the order of the file."""
    return [name for key in written for name in groups.get(key, (key,))]


def alone(plain: Any) -> bool:
    """Tell whether the file's workload is one whose hosts need no other end."""
    workload = plain.get("workload") if isinstance(plain, dict) else None
    kind = workload.get("kind") if isinstance(workload, dict) else None
    return isinstance(kind, str) and kind in WORKLOADS and WORKLOADS[kind].alone


def check(plain: Any, groups: Mapping[str, Sequence[str]], note: Note) -> None:
    """That only a workload on hosts of one role has several, and that no two have one name."""
    owners: dict[str, str] = {}
    for key, names in groups.items():
        here: Path = ("hosts", key)
        if len(names) > 1 and not alone(plain):
            text = f"found {len(names)}, which a workload with `hosts` takes (disk); allowed: 1 at each end"
            note((*here, "count"), text)
        for name in names:
            if name in owners:
                note(here, f"its host {name} has the name of one of {owners[name]}; allowed: another name")
                break
            owners[name] = key


def further_ends(
    written: Any, ends: Sequence[Any], hosts: Sequence[str], path: Path, note: Note
) -> list[str]:
    """The hosts of `more_receivers`; that each is a host of the file, and no end already, is checked."""
    names = [name for name in written if isinstance(name, str)] if isinstance(written, list) else []
    for index, name in enumerate(names):
        here = (*path, "more_receivers", index)
        if hosts and name not in hosts:
            note(here, unknown(name, hosts))
        elif name in (*ends, *names[:index]):
            note(here, f"found {found(name)}, which is an end already; allowed: another host")
    return names
