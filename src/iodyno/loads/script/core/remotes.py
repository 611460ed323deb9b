"""Which receiving host each flowop of a script is about, where there are several.

A connection goes to the `remotehost` of the flowop that opens it, and every flowop on it is about that host.

>>> from iodyno.loads.script.core.values import Group, Transaction
>>> opens = [Flowop("connect", {"remotehost": host, "conn": n}) for n, host in enumerate(("a", "b"), start=1)]
>>> talk = Flowop("write", {"conn": 2, "size": 64})
>>> script = Script("s", (Group("g", 1, (Transaction(tuple(opens), 1), Transaction((talk,), 9))),))
>>> remotes_of(script, ("one", "two"))
(((0, 1), (1,)),)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from iodyno.core.errors import ExperimentError
from iodyno.loads.script.core.flowops import OPENING
from iodyno.loads.script.core.values import Flowop, Script, Value, Variable

Remotes = tuple[tuple[tuple[int, ...], ...], ...]
"""Index of a receiving host, by group, transaction and flowop."""


def named_hosts(script: Script) -> tuple[str, ...]:
    """Every `remotehost` in the order of the file, once each; `$name` for a variable without a value."""
    return tuple(dict.fromkeys(name for _, name in _openings(script) if name is not None))


def remotes_of(script: Script, receivers: Sequence[str]) -> Remotes:
    """The receiving host of each flowop, as an index of `receivers`.

    A `remotehost` that is the name of a receiver is that one; the others stand, in the order of the file, for the
    receivers that are not named. Raises ExperimentError where there are too few, or where one connection of a thread is
    accepted from two of them.
    """
    place = _places(named_hosts(script), receivers) if len(receivers) > 1 else {}
    groups = []
    for group in script.groups:
        at: dict[Value, int] = {}
        accepted: dict[Value, int] = {}
        transactions = []
        for transaction in group.transactions:
            found = []
            for flowop in transaction.flowops:
                if flowop.kind in OPENING:
                    at[flowop.connection] = place.get(_name(flowop) or "", 0)
                here = at.get(flowop.connection, 0) if flowop.kind not in ("think", "nop") else 0
                if flowop.kind == "accept" and accepted.setdefault(flowop.connection, here) != here:
                    raise ExperimentError(
                        f"connection {flowop.connection} is accepted from two hosts",
                        where=f"{group.name}, line {flowop.line}",
                        advice="give each host a connection of its own: conn=1, conn=2",
                    )
                found.append(here)
            transactions.append(tuple(found))
        groups.append(tuple(transactions))
    return tuple(groups)


def _places(names: Sequence[str], receivers: Sequence[str]) -> Mapping[str, int]:
    places = {name: receivers.index(name) for name in names if name in receivers}
    free = [index for index in range(len(receivers)) if index not in places.values()]
    strangers = [name for name in names if name not in places]
    if len(strangers) > len(free):
        raise ExperimentError(
            f"the profile names {len(names)} remote hosts ({', '.join(names)}), and {len(receivers)} hosts receive"
            f" ({', '.join(receivers)})",
            where="workload",
            advice="name a host for each as `receiver`, in a list, or one alone, which is then all of them",
        )
    return places | dict(zip(strangers, free, strict=False))


def _openings(script: Script) -> Iterator[tuple[Flowop, str | None]]:
    for group in script.groups:
        for flowop in group.flowops():
            if flowop.kind in OPENING:
                yield flowop, _name(flowop)


def _name(flowop: Flowop) -> str | None:
    host = flowop.options.get("remotehost")
    if host is None:
        return None
    return f"${host.name}" if isinstance(host, Variable) else str(host)
