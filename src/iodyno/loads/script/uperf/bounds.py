"""Bounds of the numbers of a script, and the time that they make it last.

>>> from iodyno.loads.script.core.values import Flowop, Group
>>> pause = Flowop("think", {"duration": 10**9, "count": 3})
>>> script = Script("s", (Group("g", Variable("n", "count", 2), (Transaction((pause,), 5, rate=2),)),))
>>> least_ns(script) // 10**9
15
>>> [(use.variable.name, use.low) for use in uses(script)]
[('n', 1)]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iodyno.core import quantity
from iodyno.core.workload import Level
from iodyno.loads.script.core.flowops import OPTIONS
from iodyno.loads.script.core.values import Script, Transaction, Uniform, Variable
from iodyno.loads.script.uperf.profile import (
    MAX_DURATION_NS,
    MAX_ITERATIONS,
    MAX_RATE,
    MAX_THREADS,
    MAY_BE_RANDOM,
)
from iodyno.loads.script.uperf.values import span

_SECOND_NS = 10**9


@dataclass(frozen=True)
class Use:
    """A place where a variable stands, with the least and the greatest number there; `may_be_random`: or bounds of sizes."""

    variable: Variable
    low: int
    high: int
    may_be_random: bool = False

    def refused(self, level: Level) -> str:
        """Return the allowed values where the level is not one of them; empty: it is."""
        if self.variable.kind not in ("size", "count", "duration"):
            return ""
        if isinstance(level, str):
            if not self.may_be_random:
                return "one number"
            uniform = Uniform.parse(level, lambda size: quantity.parse("size", size))
            least, most = uniform.low_bytes, uniform.high_bytes
        else:
            least = most = int(level)
        return "" if self.low <= least <= most <= self.high else self.allowed

    @property
    def allowed(self) -> str:
        """The numbers that may stand there."""
        return span(self.variable.kind, self.low, self.high)


def uses(script: Script) -> Iterator[Use]:
    """Every use of a variable that is a number, with what it may be there, in the order of the file."""
    for group in script.groups:
        if isinstance(group.threads, Variable):
            yield Use(group.threads, 1, MAX_THREADS)
        for transaction in group.transactions:
            for amount, low, high in (
                (transaction.iterations, 0, MAX_ITERATIONS),
                (transaction.duration_ns, 1, MAX_DURATION_NS),
                (transaction.rate, 0, MAX_RATE),
            ):
                if isinstance(amount, Variable):
                    yield Use(amount, low, high)
            for flowop in transaction.flowops:
                for name, value in flowop.options.items():
                    if isinstance(value, Variable):
                        option = OPTIONS[name]
                        yield Use(value, option.low, option.high, name in MAY_BE_RANDOM)


def refused(script: Script, levels: Mapping[str, Level]) -> dict[str, tuple[int, str]]:
    """Variables whose level is not allowed where they stand: the line of the first such place, and what is allowed."""
    found: dict[str, tuple[int, str]] = {}
    for use in uses(script):
        name = use.variable.name
        if name in levels and name not in found and (allowed := use.refused(levels[name])):
            found[name] = (use.variable.line, allowed)
    return found


def least_ns(script: Script) -> int:
    """Return the time that the script takes for certain: its durations, pauses and rates. What is no number yet takes no time."""
    return max((sum(map(transaction_ns, group.transactions)) for group in script.groups), default=0)


def transaction_ns(transaction: Transaction) -> int:
    """Return the time that a transaction takes for certain."""
    if transaction.duration_ns is not None:
        return _int(transaction.duration_ns)
    times = _int(1 if transaction.iterations is None else transaction.iterations)
    rate = _int(transaction.rate)
    # The first of its iterations begins at once.
    paced_ns = max(0, times - 1) * _SECOND_NS // rate if rate else 0
    return max(times * pause_ns(transaction), paced_ns)


def pause_ns(transaction: Transaction) -> int:
    """Return the time that one iteration thinks."""
    return sum(
        _int(flowop.options.get("duration"))
        * _int(flowop.options.get("count", 1))
        * _int(flowop.options.get("repeat", 1))
        for flowop in transaction.flowops
        if flowop.kind == "think"
    )


def timing(script: Script) -> list[str]:
    """The variables on which it depends how long the script takes for certain."""
    names: dict[str, None] = {}
    for transaction in (t for group in script.groups for t in group.transactions):
        amounts = [transaction.iterations, transaction.duration_ns, transaction.rate]
        amounts += [
            value
            for flowop in transaction.flowops
            if flowop.kind == "think"
            for value in flowop.options.values()
            if isinstance(value, Variable)
        ]
        names |= {amount.name: None for amount in amounts if isinstance(amount, Variable)}
    return list(names)


def _int(amount: object) -> int:
    """The number; 0 where there is none, or not yet."""
    return amount if isinstance(amount, int) else 0
