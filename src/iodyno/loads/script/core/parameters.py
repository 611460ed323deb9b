"""Variables of a script, as parameters that have a unit and can be factors.

>>> from iodyno.loads.script.core.values import Flowop, Group, Script, Transaction
>>> write = Flowop("write", {"size": Variable("size", "size")})
>>> script = Script("s", (Group("g", Variable("nthr", "count"), (Transaction((write,), 1),)),))
>>> [(p.name, p.kind) for p in workload_of(script).parameters if p not in WORKLOAD.parameters]
[('nthr', 'count'), ('size', 'size')]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from iodyno.core import quantity
from iodyno.core.workload import OF_THE_WAY, Level, Parameter, Workload
from iodyno.loads.script.core.values import PROTOCOLS, OptionKind, Script, Uniform, Variable

WORKLOAD = Workload(
    name="script",
    help="What a profile of uperf says (docs/guides/uperf.md). Its variables are parameters, too.",
    parameters=OF_THE_WAY,
)

RESERVED = (
    "kind",
    "sender",
    "receiver",
    "profile",
    *(parameter.name for parameter in WORKLOAD.parameters),
)
"""Names that mean something else in the section `workload` of an experiment."""


@dataclass(frozen=True)
class SizeParameter(Parameter):
    """A size, or the bounds between which sizes are drawn: `rand(1,4k)`."""

    def parse(self, written: object) -> Level:
        """Bytes, or the bounds as a text in bytes."""
        if isinstance(written, str) and Uniform.is_meant(written):
            return str(Uniform.parse(written, lambda size: quantity.parse("size", size)))
        return super().parse(written)


def workload_of(script: Script) -> Workload:
    """The workload with the script's variables as parameters, in the order in which they come up."""
    return workload_of_kinds(kinds_of(script.variables()))


def kinds_of(variables: Iterable[Variable]) -> dict[str, OptionKind]:
    """Return the kind of each variable. One that is used in several ways is a text where they do not agree; `mixed`
    tells which.
    """
    kinds: dict[str, OptionKind] = {}
    for variable in variables:
        kinds[variable.name] = _both(kinds.get(variable.name, variable.kind), variable.kind)
    return kinds


def mixed(script: Script) -> list[Variable]:
    """The first use of each variable that stands for values of different kinds, such as a size and a duration."""
    first: dict[str, Variable] = {}
    found: dict[str, Variable] = {}
    for variable in script.variables():
        before = first.setdefault(variable.name, variable)
        if {before.kind, variable.kind} & {"size", "count", "duration", "protocol"} and not (
            before.kind == variable.kind or {before.kind, variable.kind} == {"size", "count"}
        ):
            found.setdefault(variable.name, variable)
    return list(found.values())


def _both(one: OptionKind, other: OptionKind) -> OptionKind:
    if one == other:
        return one
    # A number of bytes is a count, too: uperf reads both alike.
    return "size" if {one, other} == {"size", "count"} else "text"


def workload_of_kinds(kinds: Mapping[str, Any]) -> Workload:
    """The same, of variables whose kinds are known."""
    variables = tuple(_parameter(name, kind) for name, kind in kinds.items())
    return Workload(WORKLOAD.name, WORKLOAD.help, (*variables, *WORKLOAD.parameters))


def _parameter(name: str, kind: OptionKind) -> Parameter:
    text = f"The variable ${name} of the profile"
    if kind == "size":
        return SizeParameter(name, "size", f"{text}, a size.", high=2**30)
    if kind == "duration":
        return Parameter(name, "duration", f"{text}, a duration.", high=7 * 24 * 3600 * 10**9)
    if kind == "count":
        return Parameter(name, "count", f"{text}, a number.", low=0)
    if kind == "protocol":
        return Parameter(name, "word", f"{text}, a protocol.", words=tuple(PROTOCOLS))
    if kind == "host":
        return Parameter(name, "text", f"{text}, a host: one of the experiment; any other is the receiver.")
    return Parameter(name, "text", f"{text}.")
