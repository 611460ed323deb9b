"""Rate and cost of each of several hosts of an end, and of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.trial import Trial, clients_together

_OF_BYTES, _OF_OPERATIONS = ("ns/KiB", "cycles/KiB"), ("ns/operation",)
"""Units of what adds up over hosts, each of which has done a part of all."""


def goodput(trial: Trial, name: str) -> Measured:
    """Payload bits per second that one host of an end, or all of them, sent or got; of requests and answers, both."""
    host = _of(trial, name)
    if host is None:
        return missing(f"{name} takes no part in this trial")
    return total_ratio([(r.bytes, r.span_ns) for r in trial.share_of(host).measured], scale=8e9)


def counted(trial: Trial, name: str, measure_one: Callable[[Trial], Measured]) -> Measured:
    """An outcome of what the sending end counts, of one host or of all of it."""
    host = _of(trial, name)
    if host is None:
        return missing(f"{name} takes no part in this trial")
    if host.role != "send":
        return missing(f"{name} receives: the other end counts it")
    return measure_one(replace(trial, hosts={host.name: host}, members={}, groups={}))


def cost(trial: Trial, name: str, measure_one: Callable[[str], Measured], unit: str) -> Measured:
    """A cost of all hosts of an end that have CPUs of their own: of each its own for its part of what all did. Of one whose CPUs
    are those of others too, it is theirs together.
    """
    hosts = {host for host in trial.groups.get(name, ()) if host in trial.members}
    if not hosts:
        reads = next(
            (n for n, one in trial.hosts.items() if name in (each.name for each in one.made_of)), None
        )
        if reads is None:
            return missing(f"{name} takes no part in this trial")
        return missing(f"{name} shares its CPUs with others of {reads}: that of all of them is {reads}'s")
    places = [n for n, one in trial.hosts.items() if hosts & {n, *(each.name for each in one.made_of)}]
    if unit not in (*_OF_BYTES, *_OF_OPERATIONS):
        return missing(f"each host of {name} has its own: {', '.join(places)}")
    each = [measure_one(place) for place in places]
    for place, found in zip(places, each, strict=True):
        if found.value is None:
            return missing(f"{place}: {found.missing}")
    done = [_done(trial.share_of(trial.hosts[place]), unit) for place in places]
    weights = [part / sum(done) for part in done] if sum(done) else [1 / len(done)] * len(done)
    alike = len({len(found.intervals) for found in each}) == 1
    rows = zip(*(found.intervals for found in each), strict=True) if alike else ()
    return replace(
        each[0],
        value=sum(w * (found.value or 0.0) for w, found in zip(weights, each, strict=True)),
        intervals=tuple(sum(w * one for w, one in zip(weights, row, strict=True)) for row in rows),
        note=f"{each[0].note}; all of {', '.join(places)}, each for its part",
        shared_error=sum(w * found.shared_error for w, found in zip(weights, each, strict=True)),
        sampling_error=sum(w * found.sampling_error for w, found in zip(weights, each, strict=True)),
        resolution=sum(w * found.resolution for w, found in zip(weights, each, strict=True)),
    )


def _of(trial: Trial, name: str) -> HostData | None:
    """One host, or those of an end as one."""
    if name in trial.groups:
        among = {host: trial.members[host] for host in trial.groups[name] if host in trial.members}
        return trial.hosts.get(name) or (clients_together(among) if among else None)
    return trial.members.get(name) or trial.hosts.get(name)


def _done(host: HostData, unit: str) -> float:
    """Work of a host a second, in what the unit is per."""
    moved = sum(r.bytes if unit in _OF_BYTES else r.operations for r in host.measured)
    return moved / host.measured_ns if host.measured_ns else 0.0
