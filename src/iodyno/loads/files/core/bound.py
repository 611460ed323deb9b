"""A personality with values for its variables: what runs, in numbers.

Numbers that are drawn at each use are names of drawn variables (`Use`), all others are fixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from iodyno.loads.files.core.values import Place


@dataclass(frozen=True)
class Use:
    """A number that is drawn anew at each use, by the drawn variable of that name."""

    name: str


Amount = int | float | Use
Option = int | float | bool | str | Use


@dataclass(frozen=True)
class Law:
    """Law by which a variable is drawn. `parameters` by name; `rows` are (percent, low, high) of a table.

    What is drawn is rounded to a multiple of `round_to` and kept within `least` and `most`, where these are not None.
    """

    name: str
    law: str
    parameters: Mapping[str, float]
    rows: tuple[tuple[float, float, float], ...] = ()
    least: float | None = None
    most: float | None = None
    round_to: float | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Files:
    """A file, or a set of files: where it is and what is made before the run."""

    name: str
    path: str
    single: bool
    entries: int
    size: Amount
    directory_width: int
    directory_depth: Use | None
    directory_gamma: float
    leaf_directories: int
    made_percent: int
    reuse: bool
    trusted: bool
    read_only: bool
    write_only: bool
    place: Place


@dataclass(frozen=True)
class Flowop:
    """One flowop with its options, or a composite one with the flowops in it."""

    kind: str
    name: str
    options: Mapping[str, Option]
    iterations: Amount
    place: Place
    flowops: tuple[Flowop, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    """Places at which the values of its options are written."""

    def each(self) -> Iterator[Flowop]:
        """This flowop, or those in it."""
        if not self.flowops:
            yield self
        for flowop in self.flowops:
            yield from flowop.each()


@dataclass(frozen=True)
class Thread:
    """Threads that do the same flowops, one after the other, again and again."""

    name: str
    instances: int
    memory_bytes: int
    io_priority: int | None
    flowops: tuple[Flowop, ...]


@dataclass(frozen=True)
class Process:
    """Processes with the same threads."""

    name: str
    instances: int
    nice: int
    threads: tuple[Thread, ...]


@dataclass(frozen=True)
class Bound:
    """Bound personality, as it runs. `seconds` is None where the personality does not say for how long."""

    name: str
    laws: tuple[Law, ...]
    files: tuple[Files, ...]
    processes: tuple[Process, ...]
    events_per_s: float
    mode: str
    seconds: int | None
    notes: tuple[str, ...] = ()
    settings: Mapping[str, int | float | bool | str] = field(default_factory=dict)

    def flowops(self) -> Iterator[Flowop]:
        """Every flowop, those in composite ones too."""
        for process in self.processes:
            for thread in process.threads:
                for flowop in thread.flowops:
                    yield from flowop.each()

    def threads(self) -> int:
        """Threads of all processes."""
        return sum(p.instances * sum(t.instances for t in p.threads) for p in self.processes)
