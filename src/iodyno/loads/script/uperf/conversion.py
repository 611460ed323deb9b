"""A profile as an experiment file whose numbers are factors.

A plain profile (connect, then one loop that writes, reads, or writes and reads, then disconnect) becomes one of
iodyno's own workloads. Any other stays a script, with a variable in the place of each of its numbers.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from iodyno.core import quantity
from iodyno.core.workload import REQUEST_RESPONSE, STREAM, Level
from iodyno.loads.script.core.flowops import OPENING, OPTIONS
from iodyno.loads.script.core.parameters import RESERVED, WORKLOAD, workload_of
from iodyno.loads.script.core.values import (
    Flowop,
    Group,
    OptionKind,
    Script,
    Transaction,
    Uniform,
    Value,
    Variable,
)
from iodyno.loads.script.uperf.experiment import (
    RECEIVER,
    SENDER,
    SHORTEST_NS,
    Keys,
    ends_keys,
    head,
    needs_one_namespace,
    path_key,
    receivers_of,
    refuse_what_cannot_run,
    windows_keys,
)
from iodyno.loads.script.uperf.profile import LEAST_WINDOW_BYTES, Profile
from iodyno.loads.script.uperf.writing import written

DATAGRAM_HEADER_BYTES = 24
"""Length of the header of every datagram of iodyno's own workloads (`agent/core/src/job.rs`)."""

BOUNDS_SCRIPT = (
    "  # A trial ends when its script does: measured is the longest that it may take with any level."
)

_SENDS, _TAKES = ("write", "send", "sendto"), ("read", "recv", "recvfrom")
_PLAIN_CONNECT = {"remotehost", "protocol", "wndsz", "tcp_nodelay", "cc", "conn", "port", "localhost"}
_PLAIN_MOVE = {"size", "count", "conn"}


@dataclass(frozen=True)
class Conversion:
    """The experiment file, and what is to be said about it."""

    text: str
    notes: tuple[str, ...]


def converted(
    profile: Profile, levels: Mapping[str, Level], *, to: str | None = None, plain: bool = True
) -> Conversion:
    """The experiment that means the same as the profile with these levels; `plain`: as an own workload if it is one."""
    reason = "asked for as a script"
    if plain:
        own = _own(profile.script.bound(levels))
        if isinstance(own, dict):
            note = f"it is the workload {own['workload']['kind']} of iodyno"
            return Conversion(_text(profile, {**head(profile, to=to), **own}), (note,))
        reason = own
    bound = profile.script.bound(levels)
    refuse_what_cannot_run(profile, bound)
    receivers = receivers_of(profile, levels, to)
    hosts = {key: host for host, key in receivers.items()} if len(receivers) > 1 else {}
    script, factors = parametrised(profile.script, levels, hosts)
    workload = workload_of(script)
    shown = {}
    for name, level in factors.items():
        parameter = workload.parameter(name)
        shown[name] = [parameter.show(level) if parameter else level]
    keys = {
        **head(profile, to=to, receivers=tuple(receivers), together=needs_one_namespace(bound)),
        "workload": {
            "kind": WORKLOAD.name,
            **ends_keys(receivers),
            **path_key(to, bound, tuple(receivers)),
            "profile": written(script),
        },
        **({"factors": shown} if shown else {}),
        "design": {"replicates": 3},
        "windows": windows_keys(bound),
    }
    return Conversion(_text(profile, keys), (f"it stays a script: {reason}",))


def _own(script: Script) -> Keys | str:
    """The own workload that a plain script is; else why it is not plain."""
    if len(script.groups) != 1:
        return f"it has {len(script.groups)} groups"
    group = script.groups[0]
    connect, loop = _plain_parts(group)
    if connect is None or loop is None or loop.duration_ns is None:
        return "it is not connect, one loop of some duration, disconnect"
    if _int(loop.duration_ns) < SHORTEST_NS:
        return f"its duration is shorter than {quantity.show('duration', SHORTEST_NS)}, as no measured window may be"
    if loop.rate is not None:
        return "it has a rate for each thread"
    odd = [name for flowop in loop.flowops for name in flowop.options if name not in _PLAIN_MOVE]
    odd += [name for name in connect.options if name not in _PLAIN_CONNECT]
    if odd:
        return f"its flowops have options that no other workload has: {', '.join(dict.fromkeys(odd))}"
    sizes = [flowop.options.get("size") for flowop in loop.flowops]
    if not all(isinstance(size, int) for size in sizes):
        return "its sizes are drawn"
    window = connect.options.get("wndsz")
    if isinstance(window, int) and 0 < window < LEAST_WINDOW_BYTES:
        return f"its wndsz is less than the {LEAST_WINDOW_BYTES} bytes that a window has at least"
    protocol = str(connect.options.get("protocol", "tcp"))
    protocol = "tls" if protocol == "ssl" else protocol
    if protocol not in ("tcp", "udp", "unix", "tls"):
        return f"its protocol is {protocol}"
    if protocol == "udp" and any(isinstance(size, int) and size < DATAGRAM_HEADER_BYTES for size in sizes):
        return f"its datagrams are shorter than the {DATAGRAM_HEADER_BYTES} bytes that those of iodyno begin with"
    kinds = tuple("write" if flowop.kind in _SENDS else "read" for flowop in loop.flowops)
    if len(loop.flowops) == 2 and any(flowop.options.get("count", 1) != 1 for flowop in loop.flowops):
        return "it makes several operations before it turns round"
    own: Keys | None = None
    if kinds == ("write",):
        own = {"kind": STREAM.name, "factors": {"size": sizes[0]}}
    elif kinds == ("read",) and protocol != "udp":
        own = {"kind": STREAM.name, "factors": {"size": sizes[0]}, "direction": "reverse"}
    elif kinds == ("write", "read"):
        own = {"kind": REQUEST_RESPONSE.name, "factors": {"size": sizes[0], "response_size": sizes[1]}}
    if own is None:
        return "its loop is neither a stream nor request and answer"
    sized = {name: [quantity.show("size", int(size))] for name, size in own.pop("factors").items()}
    return {
        "workload": {
            "kind": own.pop("kind"),
            "sender": SENDER,
            "receiver": RECEIVER,
            **own,
            "engine": "threads",
            **_socket_keys(connect, protocol),
        },
        "factors": {"connections": [group.threads], **sized},
        "design": {"replicates": 3},
        # As uperf has it: every byte counts from the first one on.
        "windows": {
            **windows_keys(script),
            "measured": quantity.show("duration", int(_int(loop.duration_ns))),
        },
    }


def _plain_parts(group: Group) -> tuple[Flowop | None, Transaction | None]:
    """The connect and the loop of a group that is nothing but these and a disconnect."""
    once: list[Transaction] = []
    loops: list[Transaction] = []
    order = []
    for transaction in group.transactions:
        kinds = tuple(flowop.kind for flowop in transaction.flowops)
        opens_or_closes = kinds in (("connect",), ("disconnect",)) and transaction.iterations == 1
        (once if opens_or_closes else loops).append(transaction)
        order.append(kinds[0] if opens_or_closes else "loop")
    if order not in (["connect", "loop"], ["connect", "loop", "disconnect"]):
        return None, None
    moves = all(flowop.kind in (*_SENDS, *_TAKES) for flowop in loops[0].flowops)
    return (once[0].flowops[0], loops[0]) if moves and loops[0].flowops else (None, None)


def _socket_keys(connect: Flowop, protocol: str) -> Keys:
    keys: Keys = {"transport": protocol}
    if protocol == "tcp":
        keys["nagle"] = "tcp_nodelay" not in connect.options
    if connect.options.get("wndsz"):
        keys["window"] = quantity.show("size", int(_int(connect.options["wndsz"])))
    if "cc" in connect.options:
        keys["congestion_control"] = str(connect.options["cc"])
    return keys


def _int(value: Value) -> int:
    assert isinstance(value, int)
    return value


@dataclass(frozen=True)
class _Number:
    """A number of a script, where it is, and what it may be called: the short name, or the one that is its own."""

    place: tuple[int, ...]
    what: str
    kind: OptionKind
    value: Value
    short: str
    own: str


def parametrised(
    script: Script, levels: Mapping[str, Level], hosts: Mapping[str, str] | None = None
) -> tuple[Script, dict[str, Level]]:
    """The script with a variable in the place of each number, and the level of each variable.

    Variables that it has already keep their names. Iterations of 1 stay: they connect and disconnect. Hosts become
    the receiver, or those that `hosts` has for them, by value.
    """
    names_of_hosts = hosts or {}

    def host_of(flowop: Flowop) -> str:
        host = flowop.options.get("remotehost")
        if isinstance(host, Variable):
            host = levels.get(host.name, f"${host.name}")
        return names_of_hosts.get(str(host), next(iter(names_of_hosts.values()), RECEIVER))

    numbers = [number for number in _numbers(script) if not isinstance(number.value, Variable)]
    own = {variable.name: variable for variable in script.variables() if variable.kind != "host"}
    names = _names(numbers, {*own, *RESERVED})
    put = {
        (number.place, number.what): Variable(name, number.kind)
        for number, name in zip(numbers, names, strict=True)
    }
    factors: dict[str, Level] = {name: levels[name] for name in own if name in levels}
    for number, name in zip(numbers, names, strict=True):
        value = number.value
        assert not isinstance(value, Variable)
        factors[name] = str(value) if isinstance(value, Uniform) else value
    return _replaced(script, put, host_of), factors


def _matters(option: str, flowop: Flowop, speaks_sctp: bool) -> bool:
    """Tell whether another number of the option could change anything."""
    if option == "duration":
        return flowop.kind == "think"
    if option.startswith("sctp_") or option == "batch_size":
        return speaks_sctp
    return option not in ("conn", "port", "encaps")


def _numbers(script: Script) -> Iterator[_Number]:
    protocols = [flowop.options.get("protocol") for group in script.groups for flowop in group.flowops()]
    speaks_sctp = any(isinstance(protocol, Variable) or protocol == "sctp" for protocol in protocols)
    for g, group in enumerate(script.groups):
        threads = "nprocs" if group.processes else "nthreads"
        yield _Number((g,), "threads", "count", group.threads, threads, f"group_{g + 1}_{threads}")
        for t, transaction in enumerate(group.transactions):
            here = f"group_{g + 1}_transaction_{t + 1}" if len(script.groups) > 1 else f"transaction_{t + 1}"
            if transaction.iterations is not None and transaction.iterations != 1:
                yield _Number(
                    (g, t), "iterations", "count", transaction.iterations, "iterations", f"{here}_iterations"
                )
            if transaction.duration_ns is not None:
                yield _Number(
                    (g, t), "duration_ns", "duration", transaction.duration_ns, "duration", f"{here}_duration"
                )
            if transaction.rate is not None:
                yield _Number((g, t), "rate", "count", transaction.rate, "rate", f"{here}_rate")
            for f, flowop in enumerate(transaction.flowops):
                for name, value in flowop.options.items():
                    kind = OPTIONS[name].kind
                    if kind in ("size", "duration", "count") and _matters(name, flowop, speaks_sctp):
                        short = "think" if flowop.kind == "think" else name
                        yield _Number((g, t, f), name, kind, value, short, f"{flowop.kind}_{name}")


def _names(numbers: list[_Number], taken: set[str]) -> list[str]:
    """A name for each number: the shortest that no other has."""
    shorts, owns = Counter(n.short for n in numbers), Counter(n.own for n in numbers)
    used, names = set(taken), []
    for number in numbers:
        name = number.short if shorts[number.short] == 1 else number.own
        if name in used or (name == number.own and owns[number.own] > 1):
            name = next(
                f"{number.own}_{i}" for i in range(1, len(numbers) + 2) if f"{number.own}_{i}" not in used
            )
        used.add(name)
        names.append(name)
    return names


def _replaced(
    script: Script, put: Mapping[tuple[tuple[int, ...], str], Variable], host_of: Callable[[Flowop], str]
) -> Script:
    def flowop_of(flowop: Flowop, place: tuple[int, ...]) -> Flowop:
        options = {name: put.get((place, name), value) for name, value in flowop.options.items()}
        if flowop.kind in OPENING:
            options["remotehost"] = host_of(flowop)
        return replace(flowop, options=options)

    def transaction_of(transaction: Transaction, place: tuple[int, ...]) -> Transaction:
        return replace(
            transaction,
            iterations=put.get((place, "iterations"), transaction.iterations),
            duration_ns=put.get((place, "duration_ns"), transaction.duration_ns),
            rate=put.get((place, "rate"), transaction.rate),
            flowops=tuple(flowop_of(f, (*place, i)) for i, f in enumerate(transaction.flowops)),
        )

    groups = [
        replace(
            group,
            threads=put.get(((g,), "threads"), group.threads),
            transactions=tuple(transaction_of(t, (g, i)) for i, t in enumerate(group.transactions)),
        )
        for g, group in enumerate(script.groups)
    ]
    return replace(script, groups=tuple(groups))


_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*|[0-9]+(?:[A-Za-z]+)?")
_NOT_PLAIN = ("yes", "no", "on", "off", "true", "false", "null")


def _text(profile: Profile, keys: Keys) -> str:
    """The experiment file, as a person would write it."""
    lines = [f"# Made from {profile.file} by `iodyno convert`. Every factor has one level: add others."]
    for key, value in keys.items():
        if not isinstance(value, Mapping):
            lines.append(f"{key}: {_flow(value)}")
            continue
        bounds_script = key == "windows" and keys["workload"]["kind"] == WORKLOAD.name
        lines.append(f"{key}:{BOUNDS_SCRIPT if bounds_script else ''}")
        for name, entry in value.items():
            if name == "profile" and isinstance(entry, str):
                lines += [
                    f"  {name}: |",
                    *(f"    {line}" for line in entry.replace("${", "$${").splitlines()),
                ]
            else:
                lines.append(f"  {name}: {_flow(entry)}")
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str) and (not _PLAIN.fullmatch(value) or value.lower() in _NOT_PLAIN):
        return json.dumps(value.replace("${", "$${"), ensure_ascii=False)
    return str(value)
