"""Names of outcomes as they are written in a file: alone, after a host, after `bystander`."""

from __future__ import annotations

from collections.abc import Collection

from iodyno.core.outcome import OF_BYSTANDER, OUTCOMES, not_of, split_beside
from iodyno.core.workload import WORKLOADS
from iodyno.formats.mistakes import found, listed, nearest, unknown
from iodyno.loads.disk.core.outcomes import NAMES_OF_DISKS, ONLY_OF_DISKS

_OF_NETWORKS = frozenset(OUTCOMES) - ONLY_OF_DISKS
_LISTED_CHARACTERS = 1500  # chosen: half a screen
_HOSTS_NAMED = 6  # chosen: more make a line that nobody reads


def mistake_of(name: str, hosts: list[str], *, beside: Collection[str], kind: str) -> str:
    """Return the mistake in the name of an outcome; empty when there is none. `beside`: names of the bystanders; `kind`:
    that of the workload, empty where it is not known.
    """
    whose, of_bystander = split_beside(name)
    if whose and beside and whose not in beside:
        return f"found {found(name)}, which names no bystander; allowed: {', '.join(f'{b}.{of_bystander}' for b in beside)}"
    if whose and beside:
        return "" if of_bystander in OF_BYSTANDER else f"of a bystander {unknown(of_bystander, OF_BYSTANDER)}"
    prefix, dot, rest = name.rpartition(".")
    on_disks = kind in WORKLOADS and WORKLOADS[kind].alone
    names = NAMES_OF_DISKS if on_disks else _OF_NETWORKS - frozenset(not_of(kind) if kind else ())
    known = [k for k in OUTCOMES.values() if k.name in names]
    if rest not in (kind.name for kind in known):
        allowed = [k.name if k.of_trial or not k.per_host else f"HOST.{k.name}" for k in known]
        near = nearest(rest, [kind.name for kind in known]).removeprefix("; ")
        if near:
            return f"found {found(name)}; {near} allowed: {listed(rest, allowed)}"
        return f"found {found(name)}, allowed: {_listed(allowed)}"
    if OUTCOMES[rest].per_host and not OUTCOMES[rest].of_trial and not dot:
        return f"found {found(name)}, which each host has; allowed: {', '.join(f'{h}.{rest}' for h in hosts)}"
    if not OUTCOMES[rest].per_host and dot:
        return f"found {found(name)}, which belongs to no host; allowed: {rest}"
    if dot and prefix not in hosts:
        of_hosts = ", ".join(f"{host}.{rest}" for host in hosts[:_HOSTS_NAMED]) or "hosts of the file"
        of_hosts += ", ..." if len(hosts) > _HOSTS_NAMED else ""
        return f"found {found(name)}, which names no host; allowed: {of_hosts}{nearest(prefix, hosts)}"
    return ""


def _listed(names: list[str]) -> str:
    """The names, as many as a line may have."""
    text = ", ".join(names)
    if len(text) <= _LISTED_CHARACTERS:
        return text
    kept = text[:_LISTED_CHARACTERS].count(", ")
    return f"{', '.join(names[:kept])} and {len(names) - kept} more"
