"""Several hosts under one name: `client: {access: netns, count: 18}` is client-1 to client-18; and what a workload says of its
ends by such names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iodyno.core.experiment import HostSpec, WorkloadSpec
from iodyno.core.invalid import found
from iodyno.core.outcome import BYSTANDER
from iodyno.formats import experiment_model as model
from iodyno.formats.mistakes import Path, unknown
from iodyno.formats.reading import Reading
from iodyno.loads.base.workloads import LOADS, WORKLOADS
from iodyno.loads.script.core.parameters import kinds_of
from iodyno.loads.script.core.values import Script

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
        options = {name: _numbered(value, number) for name, value in host.options.items()}
        address = host.address and host.address.replace(NUMBER, str(number))
        name = host.name if count == 1 else f"{host.name}-{number}"
        numbered.append(replace(host, name=name, options=options, address=address))
    return numbered


def _numbered(value: Any, number: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_numbered(word, number) for word in value)
    return value.replace(NUMBER, str(number)) if isinstance(value, str) else value


def names_of(written: Sequence[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of all hosts, in the order of the file."""
    return [name for key in written for name in groups.get(key, (key,))]


def alone(plain: Any) -> bool:
    """Tell whether the file's workload is one whose hosts need no other end."""
    workload = plain.get("workload") if isinstance(plain, dict) else None
    kind = workload.get("kind") if isinstance(workload, dict) else None
    return isinstance(kind, str) and kind in WORKLOADS and WORKLOADS[kind].alone


def check(groups: Mapping[str, Sequence[str]], note: Note) -> None:
    """That no two hosts have one name."""
    owners: dict[str, str] = {}
    for key, names in groups.items():
        here: Path = ("hosts", key)
        for name in names:
            if name in owners:
                note(here, f"its host {name} has the name of one of {owners[name]}; expected another name")
                break
            owners[name] = key


@dataclass(frozen=True)
class End:
    """One end of a workload: its hosts, and the name that they have together where they are several."""

    hosts: tuple[str, ...]
    name: str


def end_of(
    written: Any, role: str, groups: Mapping[str, Sequence[str]], hosts: Sequence[str], path: Path, note: Note
) -> End:
    """The hosts of `sender` or `receiver`, by names of hosts or groups. What is none of the file's is noted."""
    names = written if isinstance(written, list) else [written]
    found_hosts: list[str] = []
    for index, name in enumerate(names):
        here = (*path, role, index) if isinstance(written, list) else (*path, role)
        if not isinstance(name, str):
            continue  # which is said by the section
        several = groups.get(name, (name,))
        if hosts and any(host not in hosts for host in several):
            note(here, unknown(name, dict.fromkeys((*groups, *hosts))))
        elif taken := [host for host in several if host in found_hosts]:
            note(here, f"duplicate host {found(taken[0])}")
        found_hosts += several
    one = names[0] if len(names) == 1 and isinstance(names[0], str) else f"{role}s"
    return End(tuple(found_hosts), one)


def groups_of(*ends: End) -> dict[str, tuple[str, ...]]:
    """The ends of several hosts, by name."""
    return {end.name: end.hosts for end in ends if len(end.hosts) > 1}


def check_ends(
    reading: Reading, sender: End, receiver: End, path: Path, script: Script | None, between: Any
) -> None:
    """That senders and receivers are different hosts of the file, and that no host stands idle."""
    both = [host for host in receiver.hosts if host in sender.hosts]
    if both:
        text = f"invalid value {found(both[0])}: it is the sender; expected another host"
        reading.note((*path, "receiver"), text)
    senders, receivers = len(sender.hosts), len(receiver.hosts)
    if script is not None and senders > 1:
        text = f"invalid value: {senders} hosts; expected one, as a profile has one side that begins"
        reading.note((*path, "sender"), text)
    if between == "pairs" and senders != receivers:
        text = (
            f"invalid value: pairs of {senders} senders and {receivers} receivers; expected as "
            "many of both, or all"
        )
        reading.note((*path, "between"), text)
    if path[0] == BYSTANDER:
        return
    ends = (*sender.hosts, *receiver.hosts)
    if not both and sender.hosts and receiver.hosts and all(host in reading.host_names for host in ends):
        for name in reading.host_names:
            if name not in ends:
                text = "the host is neither sender nor receiver; expected hosts that take part"
                reading.note(("hosts", name), text)


def between_hosts(
    reading: Reading, kind: str, written: Any, path: Path, script: Script | None = None
) -> WorkloadSpec | None:
    """The workload between hosts of this kind, with its script where it has one."""
    described = LOADS[kind].of_content(script)
    section = reading.section(model.sections_of(described)[0], written, path)
    sender, receiver = (
        end_of(written.get(role), role, reading.groups, reading.host_names, path, reading.note)
        for role in ("sender", "receiver")
    )
    check_ends(reading, sender, receiver, path, script, written.get("between"))
    if section is None:
        return None
    held = section.model_dump(exclude_unset=True)
    settings = {p.name: held[p.name] for p in described.parameters if p.name in held}
    variables = kinds_of(script.variables()) if script else {}
    spec = WorkloadSpec(kind, sender.hosts, receiver.hosts, settings, script, variables)
    if script is not None:
        return spec
    groups = groups_of(sender, receiver)
    return replace(spec, between=held.get("between", "all"), groups=groups)
