"""The section `placement` of an experiment file: pairs of machines, of which each trial has one as its sender and receiver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from iodyno.core.access import ACCESSES, HOST_NAME
from iodyno.core.experiment import HostSpec, Pair
from iodyno.core.invalid import found
from iodyno.formats import experiment_model as model
from iodyno.formats.host_groups import end_of
from iodyno.formats.mistakes import Path
from iodyno.formats.reading import Reading

KEY = "placement"
_WITHOUT = {
    "search": "it looks for one load on one pair",
    "until": "it decides block by block, each of which has other pairs",
    "prove": "it tests what limits one pair",
}
"""Keys that a file with a placement cannot have, and why."""


def read(reading: Reading, hosts: dict[str, HostSpec]) -> tuple[dict[str, HostSpec], tuple[Pair, ...]]:
    """The hosts by their places in the workload, and the pairs that take these in turns; the hosts as they are, and no pair, of a
    file without a placement. What the file says of hosts after this is of the places.
    """
    if KEY not in reading.plain:
        return hosts, ()
    path: Path = (KEY,)
    pairs = _pairs(reading, hosts, path)
    for key, why in _WITHOUT.items():
        if reading.plain.get(key):
            reading.note((key,), f"cannot be used with {KEY}: {why}")
    roles = _roles(reading, hosts, path)
    # After a mistake too, so that what follows is not taken for another one.
    some = next(iter(hosts.values()), HostSpec("", "local"))
    places = {role: replace(some, name=role) for role in roles}
    reading.groups, reading.host_names = {}, list(roles)
    if not pairs or len(roles) < 2:
        return places, ()
    taken = tuple(
        Pair(
            {role: _placed(hosts[machine], role) for role, machine in zip(roles, pair, strict=True)},
            dict(zip(roles, pair, strict=True)),
        )
        for pair in pairs
    )
    return dict(taken[0].hosts), taken


def _pairs(reading: Reading, hosts: Mapping[str, HostSpec], path: Path) -> list[tuple[str, str]]:
    """The machines two by two, in the order of the file."""
    written = reading.plain.get(KEY)
    section: Any = reading.section(model.PlacementSection, written, path)
    if section is None:
        return []
    before = len(reading.mistakes)
    end = end_of(written["of"], "of", reading.groups, reading.host_names, path, reading.note)
    # Of hosts with a mistake it is not known how many they are.
    unknown = any(mistake.path.startswith("hosts") for mistake in reading.mistakes)
    if len(reading.mistakes) > before or unknown or any(name not in hosts for name in end.hosts):
        return []
    count = len(end.hosts)
    if count % 2:
        text = (
            f"invalid value {found(written['of'])}: {count} hosts; expected an even number, two for each pair"
        )
        reading.note((*path, "of"), text)
    elif 2 * section.pairs != count:
        text = (
            f"invalid value {section.pairs}: {section.pairs} pairs take {2 * section.pairs} hosts, and there are {count}; "
            f"expected {count // 2}"
        )
        reading.note((*path, "pairs"), text)
    for name in reading.host_names:
        if name not in end.hosts:
            reading.note(("hosts", name), "the host is in no pair; expected hosts that `placement.of` names")
    if len(reading.mistakes) > before:
        return []
    return list(zip(end.hosts[::2], end.hosts[1::2], strict=True))


def _roles(reading: Reading, hosts: Mapping[str, HostSpec], path: Path) -> tuple[str, ...]:
    """The names that the workload has for the places of a pair."""
    workload = reading.plain.get("workload")
    if not isinstance(workload, dict):
        return ()
    roles = tuple(workload.get(end) for end in ("sender", "receiver"))
    names = tuple(role for role in roles if isinstance(role, str))
    if len(names) < 2:
        if None in roles and "hosts" not in workload:
            return names  # which is said by the section
        reading.note(path, "can only be used with a workload of one sender and one receiver")
    for end, role in zip(("sender", "receiver"), names, strict=False):
        if role in hosts or role in reading.groups:
            text = (
                f"invalid value {found(role)}: it is a machine; expected a name for its place, such as client"
            )
            reading.note(("workload", end), text)
    return names


def _placed(machine: HostSpec, role: str) -> HostSpec:
    """The machine under the name of its place; what its access calls by its own name still goes there."""
    defaults = {o.name: o.default for o in ACCESSES[machine.access].options if o.default is not None}
    options = {name: _named(value, machine.name) for name, value in {**defaults, **machine.options}.items()}
    return replace(machine, name=role, options=options)


def _named(value: Any, name: str) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_named(word, name) for word in value)
    return value.replace(HOST_NAME, name) if isinstance(value, str) else value
