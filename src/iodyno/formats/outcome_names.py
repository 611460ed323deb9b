"""Names of outcomes as they are written in a file: alone, after a host, after `bystander`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from iodyno.core.invalid import found, invalid
from iodyno.core.outcome import OF_BYSTANDER, OF_MEMBER, OF_SEVERAL, OUTCOMES, split_beside
from iodyno.formats.mistakes import listed, nearest, unknown

_LISTED_CHARACTERS = 300  # chosen: three lines
_HOSTS_NAMED = 6  # chosen: more make a line that nobody reads


def mistake_of(
    name: str,
    hosts: list[str],
    *,
    beside: Collection[str],
    known: Collection[str],
    groups: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> str:
    """Return the mistake in the name of an outcome; empty when there is none. `beside`: names of the bystanders; `known`: the
    outcomes that the load may have; `groups`: the hosts of ends that have several, by the name of the end.
    """
    whose, of_bystander = split_beside(name)
    if whose and beside and whose not in beside:
        return (
            f"invalid value {found(name)}: it names no bystander; expected "
            f"{', '.join(f'{b}.{of_bystander}' for b in beside)}"
        )
    if whose and beside:
        return (
            ""
            if of_bystander in OF_BYSTANDER
            else unknown(of_bystander, OF_BYSTANDER, "outcome of a bystander")
        )
    prefix, dot, rest = name.rpartition(".")
    if groups and rest in ({*OF_MEMBER} & {*known} if dot else OF_SEVERAL):
        members = list(dict.fromkeys((*groups, *(host for group in groups.values() for host in group))))
        if not dot or prefix in members:
            return ""
        text = f"invalid value {found(name)}: each of several hosts of an end has one; expected "
        return text + ", ".join(f"{host}.{rest}" for host in members[:_HOSTS_NAMED])
    hosts = list(dict.fromkeys((*groups, *hosts)))
    kinds = [kind for kind in OUTCOMES.values() if kind.name in known]
    if rest not in (kind.name for kind in kinds):
        allowed = [k.name if k.of_trial or not k.per_host else f"HOST.{k.name}" for k in kinds]
        near = nearest(rest, [kind.name for kind in kinds])
        some = listed(rest, allowed)
        return invalid(name, f"{some if len(some) <= _LISTED_CHARACTERS else _listed(allowed)}{near}")
    if OUTCOMES[rest].per_host and not OUTCOMES[rest].of_trial and not dot:
        return (
            f"invalid value {found(name)}: each host has one; expected "
            f"{', '.join(f'{h}.{rest}' for h in hosts)}"
        )
    if not OUTCOMES[rest].per_host and dot:
        return f"invalid value {found(name)}: it belongs to no host; expected {rest}"
    if dot and prefix not in hosts:
        of_hosts = ", ".join(f"{host}.{rest}" for host in hosts[:_HOSTS_NAMED]) or "hosts of the file"
        of_hosts += ", ..." if len(hosts) > _HOSTS_NAMED else ""
        return f"invalid value {found(name)}: it names no host; expected {of_hosts}{nearest(prefix, hosts)}"
    return ""


def _listed(names: list[str]) -> str:
    """The names, as many as a line may have."""
    text = ", ".join(names)
    if len(text) <= _LISTED_CHARACTERS:
        return text
    kept = text[:_LISTED_CHARACTERS].count(", ")
    return f"{', '.join(names[:kept])} and {len(names) - kept} more"
