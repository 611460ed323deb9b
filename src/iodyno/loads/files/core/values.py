"""A personality as it was written: statements in their order, with expressions where values stand.

What it means depends on its variables, and is in `binding`. Every part knows its place, so that an error can name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from iodyno.core.errors import ExperimentError

Scalar = int | float | bool | str
"""A value: a number (sizes are bytes), yes or no, or a text."""


@dataclass(frozen=True)
class Place:
    """Place at which something was written; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def error(self, what: str, advice: str = "") -> ExperimentError:
        """The error that names this place."""
        return ExperimentError(what, where=str(self), advice=advice)


@dataclass(frozen=True)
class Literal:
    """A value that was written."""

    value: Scalar
    place: Place


@dataclass(frozen=True)
class Reference:
    """A variable, whose value is looked up."""

    name: str
    place: Place
    outside: bool = False
    """Written as `${NAME}`: from the environment, where no variable of the personality has that name."""


@dataclass(frozen=True)
class Arithmetic:
    """Two numbers and one of + - * / %."""

    operator: str
    left: Expression
    right: Expression
    place: Place


@dataclass(frozen=True)
class Joined:
    """Texts one after the other, such as `$dir/data`."""

    parts: tuple[Expression, ...]
    place: Place


Expression = Literal | Reference | Arithmetic | Joined


@dataclass(frozen=True)
class Row:
    """A row of a table of sizes: its share in percent, and the bounds between which values are drawn alike."""

    percent: Expression
    low: Expression
    high: Expression


@dataclass(frozen=True)
class RandomVariable:
    """A variable whose value is drawn at each use: `randvar(...)` or `cvar(...)`."""

    custom: bool
    attributes: Mapping[str, Expression]
    table: tuple[Row, ...]
    place: Place


Attributes = Mapping[str, Expression]


@dataclass(frozen=True)
class FlowopText:
    """`flowop KIND name=...`, with values for the local variables of a composite one."""

    kind: str
    attributes: Attributes
    locals: Mapping[str, Expression | None]
    place: Place


@dataclass(frozen=True)
class CompositeText:
    """`define flowop name=...{...}`: flowops under one name, with local variables and their defaults."""

    name: str
    attributes: Attributes
    locals: Mapping[str, Expression | None]
    flowops: tuple[FlowopText, ...]
    place: Place


@dataclass(frozen=True)
class ThreadText:
    """`thread name=...{...}`."""

    attributes: Attributes
    flowops: tuple[FlowopText, ...]
    place: Place


@dataclass(frozen=True)
class ProcessText:
    """`define process name=...{...}`."""

    attributes: Attributes
    threads: tuple[ThreadText, ...]
    place: Place


@dataclass(frozen=True)
class FilesText:
    """`define file` or `define fileset`."""

    many: bool
    attributes: Attributes
    place: Place


@dataclass(frozen=True)
class SetVariable:
    """`set $name = value`, or one attribute of a drawn variable: `set $name.min = value`."""

    name: str
    value: Expression | RandomVariable
    place: Place
    attribute: str = ""


@dataclass(frozen=True)
class Command:
    """A statement that is carried out or named: run, psrun, sleep, echo, eventgen, ..."""

    name: str
    place: Place
    attributes: Attributes = field(default_factory=dict)
    values: tuple[Expression, ...] = ()
    words: tuple[str, ...] = ()


Statement = SetVariable | FilesText | ProcessText | CompositeText | Command


@dataclass(frozen=True)
class Personality:
    """A personality: its name, statements in order, what its reader gave another meaning, and its text."""

    name: str
    statements: tuple[Statement, ...]
    text: str
    file: str
    notes: tuple[str, ...] = ()
