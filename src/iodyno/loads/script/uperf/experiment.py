"""A profile as an experiment: hosts, windows and outcomes around it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from iodyno.core import quantity
from iodyno.core.errors import ExperimentError
from iodyno.core.outcome import BYSTANDER
from iodyno.core.tunable import ALL
from iodyno.core.workload import Level
from iodyno.formats import ssh_hosts
from iodyno.formats.mistakes import Mistake, error
from iodyno.formats.section_values import HOST_NAME
from iodyno.loads.script.core.flowops import FROM_FILES, OPENING, takes_messages
from iodyno.loads.script.core.parameters import WORKLOAD, workload_of
from iodyno.loads.script.core.remotes import named_hosts, remotes_of
from iodyno.loads.script.core.values import Flowop, Group, Script, Transaction, Uniform, Variable
from iodyno.loads.script.core.wire import script_json
from iodyno.loads.script.uperf.bounds import pause_ns, transaction_ns
from iodyno.loads.script.uperf.profile import MAX_DURATION_NS, NEVER_MADE, NOTHING_MADE, Profile

SENDER, RECEIVER = "client", "server"
SHORTEST_NS = 10**7
"""As short as a measured window may be."""
_LIMIT_NS = 10 * 60 * 10**9
"""Longest time of a transaction without a duration beside its pauses, where nobody says it. Chosen: longer than anybody waits
for, and a bound all the same.
"""
_ONCE_NS = 15 * 10**9
"""Time for what is done a few times, such as to connect (chosen: above the 10 s that a connection may take)."""
_FEW = 100
_MAX_DATAGRAM_BYTES = 65_507
"""Most bytes that UDP over IPv4 can carry: 65 535 less the two headers (RFC 768, RFC 791)."""
_OVER_DATAGRAMS = "over udp, which carries no files; expected over a stream such as tcp, or write"
_OVER_TLS = "over TLS, where the kernel does not see what is sent; expected over tcp, or write"
_PLACE = re.compile(r"(?:(?P<group>.*), )?line (?P<line>\d+)(?: of the profile)?")
"""Pattern of the place in errors of `iodyno.loads.script.core`, which does not know the file."""

Keys = dict[str, Any]


def receivers_of(profile: Profile, levels: Mapping[str, Level], to: str | None) -> dict[str, str]:
    """The hosts that receive, each with the `remotehost` that it stands for: one for each that the profile names, called
    as the variable or the name there is; all are one where `to` names it.
    """
    bound = profile.script.bound(levels)
    named = named_hosts(bound)
    if to is not None or len(named) < 2:
        return {RECEIVER: ""}
    calls: dict[str, str] = {}
    for group, own in zip(_with_hosts_named(profile, levels).groups, bound.groups, strict=True):
        for written, flowop in zip(group.flowops(), own.flowops(), strict=True):
            host, value = written.options.get("remotehost"), flowop.options.get("remotehost")
            if flowop.kind in OPENING and host is not None:
                name = host.name if isinstance(host, Variable) else str(host)
                calls.setdefault(f"${value.name}" if isinstance(value, Variable) else str(value), name)
    found: dict[str, str] = {}
    for number, key in enumerate(named, start=1):
        name = calls[key]
        taken = name in found or name in (SENDER, ALL, BYSTANDER) or not re.fullmatch(HOST_NAME, name)
        found[f"{RECEIVER}-{number}" if taken else name] = key
    return found


def _with_hosts_named(profile: Profile, levels: Mapping[str, Level]) -> Script:
    """The script as it is made with these levels, with hosts as they are written, `$h`."""
    hosts = {variable.name for variable in profile.script.variables() if variable.kind == "host"}
    return profile.script.bound({name: level for name, level in levels.items() if name not in hosts})


def ends_keys(receivers: Iterable[str]) -> Keys:
    """The hosts of a script and what they are in it."""
    receiver, *more = receivers
    return {"sender": SENDER, "receiver": [receiver, *more] if more else receiver}


def hosts_keys(to: str | None, receivers: Iterable[str] = (RECEIVER,), *, together: bool = False) -> Keys:
    """The hosts: namespaces of this machine, or this machine and the one that `to` names. `together`: all in the
    namespace that the lab itself is in.
    """
    if to is None:
        return {host: {"access": "local" if together else "netns"} for host in (SENDER, *receivers)}
    return {SENDER: {"access": "local"}, RECEIVER: ssh_hosts.named_by(to)}


def experiment_keys(
    profile: Profile,
    levels: Mapping[str, Level],
    *,
    to: str | None = None,
    repeat: int = 1,
    limit_ns: int | None = None,
    sampled: bool = True,
) -> Keys:
    """The keys of an experiment file that runs the profile with these values of its variables.

    `limit_ns`: for all in a group that has no duration, together; None: what `windows_keys` chooses. Raises ExperimentError.
    """
    workload = workload_of(profile.script)
    settings = {p.name: p.show(levels[p.name]) for p in workload.parameters if p.name in levels}
    bound = profile.script.bound(levels)
    refuse_what_cannot_run(profile, bound)
    if limit_ns is not None:
        _refuse_what_takes_longer(profile, bound, limit_ns)
    receivers = tuple(receivers_of(profile, levels, to))
    return {
        **head(profile, to=to, receivers=receivers, together=needs_one_namespace(bound)),
        "workload": {
            "kind": WORKLOAD.name,
            **ends_keys(receivers),
            **settings,
            **path_key(to, bound, receivers),
            "profile": profile.text,
        },
        "design": {"replicates": repeat},
        "windows": windows_keys(bound, limit_ns),
        "profile": sampled,
    }


def path_key(to: str | None, bound: Script, receivers: tuple[str, ...]) -> Keys:
    """The level of `path` that a script needs whose two ends share a namespace."""
    return {"path": "loopback"} if to is None and len(receivers) == 1 and needs_one_namespace(bound) else {}


def refuse_what_cannot_run(profile: Profile, bound: Script) -> None:
    """Raises ExperimentError, with every mistake, for what no trial can do, before a host is opened for it."""
    mistakes, advice = what_cannot_run(bound)
    if mistakes:
        raise error(profile.file, mistakes, advice)


def what_cannot_run(bound: Script) -> tuple[list[Mistake], str]:
    """List the parts of a script that no trial can carry out, with the lines of its profile, and what to try."""
    mistakes = []
    for group in bound.groups:
        if not group.transactions:
            mistakes.append(Mistake(group.line, group.name, NOTHING_MADE))
        datagrams = {f.connection for f in group.flowops() if _protocol(f) == "udp"}
        encrypted = {f.connection for f in group.flowops() if _protocol(f) in ("ssl", "tls")}
        for flowop in group.flowops():
            if flowop.kind in FROM_FILES and flowop.connection in datagrams | encrypted:
                text = _OVER_DATAGRAMS if flowop.connection in datagrams else _OVER_TLS
                mistakes.append(Mistake(flowop.line, group.name, f"invalid value: {flowop.kind} {text}"))
                continue
            size = flowop.options.get("size")
            greatest = size.high_bytes if isinstance(size, Uniform) else size
            if not takes_messages(flowop.kind) or flowop.connection not in datagrams:
                continue
            if isinstance(greatest, int) and greatest > _MAX_DATAGRAM_BYTES:
                text = (
                    f"invalid value for size: {greatest} bytes over udp; expected 1 to "
                    f"{_MAX_DATAGRAM_BYTES}, one datagram"
                )
                mistakes.append(Mistake(flowop.line, flowop.kind, text))
    if mistakes:
        return mistakes, ""
    try:
        remotes_of(bound, named_hosts(bound))
        for role in ("send", "receive"):
            script_json(bound, role)
    except ExperimentError as problem:
        place = _PLACE.fullmatch(problem.where)
        if place is None:
            raise
        return [Mistake(int(place["line"]), place["group"] or "", problem.what)], problem.advice
    return [], ""


def _refuse_what_takes_longer(profile: Profile, bound: Script, limit_ns: int) -> None:
    """Raises ExperimentError where the limit of what has no duration would end the script for certain."""
    for group in bound.groups:
        free = [transaction for transaction in group.transactions if transaction.duration_ns is None]
        takes_ns = sum(map(transaction_ns, free))
        if takes_ns < limit_ns:
            continue
        takes, limit = (quantity.show("duration", time_ns) for time_ns in (takes_ns, limit_ns))
        text = f"pauses and rates of what has no duration take {takes} and more, and --limit is {limit}"
        needed = quantity.show("duration", _rounded_ns(takes_ns + _ONCE_NS * len(free)))
        line = max(free, key=transaction_ns).line
        raise error(profile.file, [Mistake(line, group.name, text)], f"--limit {needed}")


def needs_one_namespace(script: Script) -> bool:
    """Tell whether the two ends share sockets of the Unix domain, whose names belong to a network namespace."""
    return any(_protocol(flowop) == "unix" for group in script.groups for flowop in group.flowops())


def _protocol(flowop: Flowop) -> str | None:
    """Return the protocol of a connection that the flowop opens; None: it opens none."""
    return str(flowop.options.get("protocol", "tcp")) if flowop.kind in OPENING else None


def head(
    profile: Profile, *, to: str | None, receivers: tuple[str, ...] = (RECEIVER,), together: bool = False
) -> Keys:
    """Name, question and hosts."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", profile.script.name).strip("-._")[:64]
    return {
        "name": name or "profile",
        "question": f"What does the profile {profile.script.name} carry, and what does it cost?",
        "hosts": hosts_keys(to, receivers, together=together and len(receivers) > 1),
    }


def windows_keys(script: Script, limit_ns: int | None = None) -> Keys:
    """No warm-up, and a measured window that is long enough: the trial ends when the script does. With a limit, what has
    no duration has that time, and not more.

    >>> windows_keys(Script("empty", ()))["interval"]
    '1s'
    """
    measured_ns = max((_bound_ns(group, limit_ns) for group in script.groups), default=_ONCE_NS)
    # No window may be longer than what may be written as a duration.
    measured_ns = min(_rounded_ns(measured_ns), MAX_DURATION_NS)
    timed_ns = sum(_durations(script.groups))
    # Ten records of what is timed, if that is short.
    interval_ms = min(1000, measured_ns // 10**6, max(10, timed_ns // 10**7) if timed_ns else 1000)
    return {
        "warm_up": "0s",
        "measured": quantity.show("duration", measured_ns),
        "drain": "0s",
        "interval": f"{interval_ms}ms" if interval_ms < 1000 else "1s",
    }


def _bound_ns(group: Group, limit_ns: int | None) -> int:
    """Return the longest time of the group: its durations, and what is allowed to what has none."""
    if limit_ns is not None:
        return limit_ns + sum(_durations([group]))
    return sum(map(_allowed_ns, group.transactions))


def _allowed_ns(transaction: Transaction) -> int:
    """Return the longest time of a transaction where nobody has set a limit."""
    if isinstance(transaction.duration_ns, int):
        # After it, its last iteration is completed, and what one end is ahead by is made by the other.
        return transaction.duration_ns + pause_ns(transaction) + _ONCE_NS
    times = transaction.iterations if isinstance(transaction.iterations, int) else 1
    return transaction_ns(transaction) + (_ONCE_NS if times <= _FEW else _LIMIT_NS)


def _rounded_ns(time_ns: int) -> int:
    """Not less, in whole milliseconds, or in seconds where it has several."""
    step_ns = 10**9 if time_ns > 10**10 else 10**6
    return -(-time_ns // step_ns) * step_ns


def _durations(groups: Iterable[Group]) -> list[int]:
    timed = (t.duration_ns for group in groups for t in group.transactions)
    return [duration for duration in timed if isinstance(duration, int)]


def host_notes(profile: Profile, levels: Mapping[str, Level], to: str | None) -> list[str]:
    """Which of the profile's hosts stand for which of the experiment's."""
    named: dict[str, str] = {}
    for group in _with_hosts_named(profile, levels).groups:
        for flowop in group.flowops():
            if flowop.kind not in OPENING:
                continue
            host = flowop.options.get("remotehost")
            if isinstance(host, Variable):
                value = levels.get(host.name)
                named[f"${host.name}" + (f" ({value})" if value is not None else "")] = str(value or "")
            elif host is not None:
                named[str(host)] = str(host)
    receivers = receivers_of(profile, levels, to)
    if len(receivers) > 1:
        return _notes_of_several(profile, levels, receivers)
    where = "a network namespace of this machine" if to is None else to.partition(":")[2]
    alone = to is None and needs_one_namespace(profile.script.bound(levels))
    foreign = [text for text, value in named.items() if value not in (SENDER, RECEIVER)]
    notes = []
    if alone:
        notes.append(
            "protocol unix: both hosts are in one network namespace, and what is TCP or UDP takes its loopback device"
        )
    if foreign:
        more = "; --to [USER@]HOST names another one" if to is None else ""
        notes.append(f"remotehost {', '.join(foreign)}: the host {RECEIVER}, {where}{more}")
    if len(foreign) > 1:
        notes.append(
            f"{len(foreign)} remote hosts are one here, which --to names; without it each has a namespace"
        )
    return notes


def never_made_notes(profile: Profile, levels: Mapping[str, Level]) -> list[str]:
    """Note the transactions left out as a variable says that they are never made, where others have another number for it."""
    lines = [
        transaction.line
        for group in profile.script.groups
        for transaction in group.transactions[:-1]
        if isinstance(transaction.iterations, Variable) and levels.get(transaction.iterations.name) == 0
    ]
    return [f"{profile.file}:{', '.join(map(str, lines))}: {NEVER_MADE}"] if lines else []


def _notes_of_several(
    profile: Profile, levels: Mapping[str, Level], receivers: Mapping[str, str]
) -> list[str]:
    alone = needs_one_namespace(profile.script.bound(levels))
    place = (
        "the machine itself"
        if alone
        else "a network namespace of this machine, joined with that of the sender"
    )
    notes = [f"remotehost {key}: the host {host}, {place}" for host, key in receivers.items()]
    if alone:
        notes.append(
            "protocol unix: all hosts are in one network namespace, and what is TCP or UDP takes its loopback"
        )
    return notes
