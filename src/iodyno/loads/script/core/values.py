"""A script as a value: groups of threads that run transactions of flowops, one after the other.

A number of it may be a variable, which gets its value later: from the environment, or as the level of a factor.
Sizes are in bytes, durations in nanoseconds, rates in transactions per second of one thread.

>>> flowop = Flowop("write", {"size": Variable("size", "size")})
>>> script = Script("s", (Group("g", 1, (Transaction((flowop,), iterations=2),)),))
>>> [variable.name for variable in script.variables()]
['size']
>>> script.bound({"size": 8192}).groups[0].transactions[0].flowops[0].options
{'size': 8192}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from iodyno.core import quantity
from iodyno.core.invalid import invalid
from iodyno.core.workload import Level

OptionKind = Literal["flag", "size", "duration", "count", "word", "text", "host", "protocol"]
"""Kind of value of an option. A host names the other end, a text is a path or the like."""

PROTOCOLS: Mapping[str, str] = {
    "tcp": "TCP.",
    "udp": "UDP: a datagram may be lost, which is counted.",
    "unix": "A stream socket of the Unix domain, where both ends are one machine.",
    "ssl": "TLS over TCP.",
    "tls": "TLS over TCP.",
    "vsock": "A socket between a virtual machine and its host.",
    "sctp": "SCTP, where the kernel has it.",
}
"""Protocols that a connection of a script can travel on."""


_RAND = re.compile(r"rand\s*\(\s*(?P<low>[^,()\s]+)\s*,\s*(?P<high>[^,()\s]+)\s*\)", re.IGNORECASE)


@dataclass(frozen=True)
class Variable:
    """Stands for a value that is given later. `line` is where it is written, counted from 1; 0: not known."""

    name: str
    kind: OptionKind
    line: int = 0


@dataclass(frozen=True)
class Uniform:
    """A size that is drawn for each message, each from `low` to `high` as likely as any other."""

    low_bytes: int
    high_bytes: int

    @staticmethod
    def is_meant(written: str) -> bool:
        """Tell whether the text is meant to be one."""
        return written.lstrip()[:4].lower() == "rand"

    @classmethod
    def parse(cls, written: str, size: Callable[[str], int]) -> Uniform:
        """`rand(LOW,HIGH)`, whose sizes are read by `size`. Raises ValueError.

        >>> str(Uniform.parse("rand(1, 64)", int))
        'rand(1,64)'
        """
        match = _RAND.fullmatch(written.strip()) if len(written) <= 80 else None
        if match is None:
            raise ValueError(invalid(written[:80], "rand(LOW,HIGH), such as rand(1,4k)"))
        low, high = size(match["low"]), size(match["high"])
        if not 1 <= low <= high:
            raise ValueError(invalid(written, "1 or more, and the smaller size first"))
        return cls(low, high)

    def __str__(self) -> str:
        return f"rand({self.low_bytes},{self.high_bytes})"


Value = int | str | Uniform | Variable
"""Value of an option; a flag is 1."""

Amount = int | Variable
"""A number, now or later."""


@dataclass(frozen=True)
class Flowop:
    """One operation: what it is and its options (`iodyno.loads.script.core.flowops`)."""

    kind: str
    options: Mapping[str, Value] = field(default_factory=dict)
    line: int = 0

    @property
    def connection(self) -> Value:
        """The connection it is about: `conn=`, else the thread's only unnamed one, 0."""
        return self.options.get("conn", 0)


@dataclass(frozen=True)
class Transaction:
    """Flowops that are repeated: `iterations` times, or for `duration_ns`; `rate` of them begin a second."""

    flowops: tuple[Flowop, ...]
    iterations: Amount | None = None
    duration_ns: Amount | None = None
    rate: Amount | None = None
    line: int = 0


@dataclass(frozen=True)
class Group:
    """Threads (processes where `processes`) that run the same transactions at the same time."""

    name: str
    threads: Amount
    transactions: tuple[Transaction, ...]
    processes: bool = False
    line: int = 0

    def flowops(self) -> Iterator[Flowop]:
        """All flowops in order."""
        for transaction in self.transactions:
            yield from transaction.flowops


@dataclass(frozen=True)
class Script:
    """All groups; they run at the same time."""

    name: str
    groups: tuple[Group, ...]

    def variables(self) -> Iterator[Variable]:
        """Every use of a variable, in the order of the file."""
        for group in self.groups:
            if isinstance(group.threads, Variable):
                yield group.threads
            for transaction in group.transactions:
                for amount in (transaction.iterations, transaction.duration_ns, transaction.rate):
                    if isinstance(amount, Variable):
                        yield amount
                for flowop in transaction.flowops:
                    yield from (value for value in flowop.options.values() if isinstance(value, Variable))

    def bound(self, levels: Mapping[str, Level]) -> Script:
        """The script with its variables replaced; those that `levels` does not know stay.

        As in uperf, a transaction of no iterations is never made, so it is left out, and a rate of 0 is none.
        """

        def group_of(group: Group) -> Group:
            transactions = tuple(t for t in map(transaction_of, group.transactions) if t.iterations != 0)
            return replace(group, threads=_bound(group.threads, levels), transactions=transactions)

        def transaction_of(transaction: Transaction) -> Transaction:
            return replace(
                transaction,
                flowops=tuple(map(flowop_of, transaction.flowops)),
                iterations=_bound(transaction.iterations, levels),
                duration_ns=_bound(transaction.duration_ns, levels),
                rate=_bound(transaction.rate, levels) or None,
            )

        def flowop_of(flowop: Flowop) -> Flowop:
            options = {name: _bound(value, levels) for name, value in flowop.options.items()}
            return replace(flowop, options=options)

        return replace(self, groups=tuple(map(group_of, self.groups)))


_Bound = TypeVar("_Bound", bound="Value | None")


def _bound(value: _Bound, levels: Mapping[str, Level]) -> _Bound:
    """The value, or what the variable stands for: whoever read the levels has checked that they are of its kind."""
    if not isinstance(value, Variable) or value.name not in levels:
        return value
    level = levels[value.name]
    if value.kind == "size" and isinstance(level, str):
        return Uniform.parse(level, lambda written: quantity.parse("size", written))  # type: ignore[return-value]
    return level  # type: ignore[return-value]
