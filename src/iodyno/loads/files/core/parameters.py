"""Variables of a personality, as parameters that have a unit and can be factors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from iodyno.core.parameter import Level, Parameter
from iodyno.core.volume import FOR_MANY
from iodyno.core.workload import Workload
from iodyno.loads.disk.core import parameters as disk_parameters
from iodyno.loads.files.core import attributes as known
from iodyno.loads.files.core.settings import setting
from iodyno.loads.files.core.values import (
    Arithmetic,
    Command,
    CompositeText,
    Expression,
    FilesText,
    FlowopText,
    Joined,
    Personality,
    ProcessText,
    RandomVariable,
    Reference,
    SetVariable,
)
from iodyno.loads.files.core.values import Literal as Written

Kind = Literal["size", "count", "switch", "text"]

WORKLOAD = Workload(
    name="files",
    help="What a personality of Filebench says (docs/guides/filebench.md). Its variables are parameters, too.",
    parameters=(
        Parameter(
            "target",
            "path",
            "The directory below which all files are; left out: where the personality's own paths are. {host} in it is the"
            " name of the host.",
            form=disk_parameters.checked_target,
        ),
        *(
            replace(p, words=tuple(level for level in p.words if level in FOR_MANY))
            for p in disk_parameters.PARAMETERS
            if p.name == "volume"
        ),
        *(
            p
            for p in disk_parameters.PARAMETERS
            if p.name in ("volume_folder", "server_cached", "file_system", "mount_options")
        ),
        Parameter(
            "volume_size",
            "size",
            "Size of the file system that each host has on the volume.",
            low=16 << 20,
            high=2**50,
        ),
        Parameter("remove", "switch", "Remove the files when a trial is over.", default=False),
        *(p for p in disk_parameters.PARAMETERS if p.name in ("clients", "on_client_loss")),
    ),
    alone=True,
)

RESERVED = (
    "kind",
    "on",
    "program",
    "path",
    "variant",
    *(parameter.name for parameter in WORKLOAD.parameters),
)
"""Names that mean something else in the section `workload` of an experiment."""


@dataclass(frozen=True)
class SettingParameter(Parameter):
    """A variable: whole numbers and sizes as Filebench writes them too."""

    def parse(self, written: object) -> Level:
        """The level. Raises ValueError."""
        if self.kind == "switch" and written in ("true", "false"):
            return written == "true"
        if self.kind == "count" and isinstance(written, str):
            value = setting(written)
            if isinstance(value, int) and not isinstance(value, bool):
                return super().parse(value)
        return super().parse(written)


def workload_of(personality: Personality) -> Workload:
    """The workload `files` with the personality's variables as parameters."""
    return workload_of_kinds(kinds_of(personality))


def workload_of_kinds(kinds: Mapping[str, str]) -> Workload:
    """The same, of variables whose kinds are known."""
    own = tuple(_parameter(name, kind) for name, kind in kinds.items())
    return Workload(WORKLOAD.name, WORKLOAD.help, (*own, *WORKLOAD.parameters), alone=True)


def kinds_of(personality: Personality) -> dict[str, Kind]:
    """Return the kind of each variable that the personality sets, or uses and leaves to whoever runs it. Those that are
    computed from others, or have a name that means something else, are left out.
    """
    sized = set(_sized(personality))
    kinds: dict[str, Kind] = {}
    computed: set[str] = set()
    for statement in personality.statements:
        if isinstance(statement, SetVariable) and not statement.attribute:
            value = statement.value
            if isinstance(value, RandomVariable):
                kinds.setdefault(statement.name, "size")
            elif isinstance(value, Written):
                kinds.setdefault(statement.name, _kind(value, statement.name in sized))
            else:
                computed.add(statement.name)
    local = {n for s in personality.statements if isinstance(s, CompositeText) for n in s.locals}
    counted = set(_counted(personality))
    for name in _used(personality):
        if name not in local:
            kinds.setdefault(name, "size" if name in sized else "count" if name in counted else "text")
    left_out = {*computed, *RESERVED, *_timing(personality)}
    return {n: k for n, k in kinds.items() if n not in left_out}


_TIMES = ("run", "psrun", "sleep")
"""Commands whose values say how long something takes."""


def _timing(personality: Personality) -> set[str]:
    """Variables that say how long it runs, and nothing else: the windows do that, which no level of a factor changes."""
    made_of = [
        (statement.name, set(_names(statement.value)))
        for statement in personality.statements
        if isinstance(statement, SetVariable)
        and not isinstance(statement.value, RandomVariable)
        and not statement.attribute
    ]

    def reached(names: set[str]) -> set[str]:
        for _ in made_of:  # a chain is no longer than there are statements
            names = names.union(*(parts for name, parts in made_of if name in names))
        return names

    of_times = [s for s in personality.statements if isinstance(s, Command) and s.name in _TIMES]
    others = [s for s in personality.statements if s not in of_times and not isinstance(s, SetVariable)]
    randvars = [
        s
        for s in personality.statements
        if isinstance(s, SetVariable) and isinstance(s.value, RandomVariable)
    ]
    elsewhere = reached(set(_used(replace(personality, statements=(*others, *randvars)))))
    times = reached({name for s in of_times for value in s.values for name in _names(value)})
    return times - elsewhere


def _kind(value: Written, sized: bool) -> Kind:
    if isinstance(value.value, bool):
        return "switch"
    if isinstance(value.value, int):
        return "size" if sized else "count"
    return "text"


def _parameter(name: str, kind: str) -> Parameter:
    text = f"The variable ${name} of the personality"
    if kind == "size":
        return SettingParameter(name, "size", f"{text}, a size.", low=0)
    if kind == "count":
        return SettingParameter(name, "count", f"{text}, a number.", low=0)
    if kind == "switch":
        return SettingParameter(name, "switch", f"{text}, yes or no.")
    return SettingParameter(name, "text", f"{text}.")


_COUNTS = {"entries", "dirwidth", "leafdirs", "instances", "iters", "fd", "srcfd"}
"""Attributes that are whole numbers and nothing else; a pause may be 0.5, and a share of files made `true`."""
_SIZES = {"size", "iosize", "workingset", "memsize", "min", "max", "mean", "round"}


def _attributes(personality: Personality) -> Iterator[tuple[str, Expression]]:
    """Every attribute of everything."""

    def of_flowops(flowops: tuple[FlowopText, ...]) -> Iterator[tuple[str, Expression]]:
        for flowop in flowops:
            yield from flowop.attributes.items()
            yield from ((name, value) for name, value in flowop.locals.items() if value is not None)

    for statement in personality.statements:
        if isinstance(statement, FilesText):
            yield from statement.attributes.items()
        elif isinstance(statement, CompositeText):
            yield from of_flowops(statement.flowops)
        elif isinstance(statement, ProcessText):
            yield from statement.attributes.items()
            for thread in statement.threads:
                yield from thread.attributes.items()
                yield from of_flowops(thread.flowops)
        elif isinstance(statement, SetVariable):
            if isinstance(statement.value, RandomVariable):
                yield from statement.value.attributes.items()
            else:
                yield ("", statement.value)
        elif isinstance(statement, Command) and statement.name not in ("echo", "system", "usage", "log"):
            yield from statement.attributes.items()
            yield from (("", value) for value in statement.values)


def _sized(personality: Personality) -> Iterator[str]:
    bytes_of = {"finishonbytes"}
    flowops = [
        f for s in personality.statements if isinstance(s, ProcessText) for t in s.threads for f in t.flowops
    ]
    for flowop in flowops:
        if flowop.kind in bytes_of and "value" in flowop.attributes:
            yield from _names(flowop.attributes["value"])
    for key, value in _attributes(personality):
        if key in _SIZES or known.OTHER_NAMES.get(key) in _SIZES:
            yield from _names(value)


def _counted(personality: Personality) -> Iterator[str]:
    """Variables that are a whole number: those of counts, and those that such a one is computed from."""
    found: set[str] = set()
    for key, value in _attributes(personality):
        if known.OTHER_NAMES.get(key, key) in _COUNTS and not isinstance(value, Joined):
            found |= set(_names(value))
    made_of = [
        (statement.name, set(_names(statement.value)))
        for statement in personality.statements
        if isinstance(statement, SetVariable)
        and not statement.attribute
        and isinstance(statement.value, (Reference, Arithmetic))
    ]
    # A chain is no longer than there are statements.
    for _ in made_of:
        for name, parts in made_of:
            if name in found:
                found |= parts
    return iter(found)


def _used(personality: Personality) -> Iterator[str]:
    for _, value in _attributes(personality):
        yield from _names(value)


def _names(expression: Expression) -> Iterator[str]:
    if isinstance(expression, Reference):
        yield expression.name
    elif isinstance(expression, Arithmetic):
        yield from _names(expression.left)
        yield from _names(expression.right)
    elif isinstance(expression, Joined):
        for part in expression.parts:
            yield from _names(part)
