"""Sampled call stacks of a campaign as arrays: which functions were seen, in which trial, how often.

A stack holds its frames with the outermost caller first. In a kernel stack the frames before the first one of
module `kernel` are user code that called the kernel; all others are the kernel's own.

Other programs on the host are no cost of the load: their stacks are told apart, as stacks of other tasks that begin in
user code or at an entry to the kernel from there. Interrupts that came on top of them are the host's own, and begin at
their entry here. Threads of the kernel work for whoever has work for them, and are kept.

Where a timer makes the samples, code with interrupts off is seen when they are open again. After an interrupt's handler that is
the begin of the soft interrupts that run on its way out: such a sample is one of the handler, and ends at its entry here. So it
is at a function that lets interrupts in again, or writes a register for which a hypervisor stops the guest: such a sample is one
of its caller, which ran with interrupts off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from duckdb import DuckDBPyConnection

from iodyno.analysis.dataset import Dataset
from iodyno.analysis.trial import Trial

OWNERS = ("app", "other", "idle")
MODES = ("user", "kernel")
PARTS = ("app", "irq", "softirq", "other")
"""Parts that a stack belongs to, as the exact classes of CPU time have it: tasks of the agent, interrupts, other tasks."""
KERNEL = "kernel"
SOFTIRQ = ("handle_softirqs", "__do_softirq", "do_softirq")
"""Prefixes of the names of functions that run soft interrupts (kernel/softirq.c)."""
HARDIRQ = (
    "asm_common_interrupt",
    "common_interrupt",
    "asm_sysvec_",
    "sysvec_",
    "__sysvec_",
    "el1h_64_irq",
    "el0t_64_irq",
)
"""Prefixes of the names of functions that enter the kernel by an interrupt (arch/x86, arch/arm64)."""
_RETURN = "irqentry_exit"
_RETURN_TO_USER = "irqentry_exit_to_user"
"""Prefixes of the names of functions that give a CPU back after an interrupt, also to another task; from user code."""
_TIMER = "cpu-clock"
"""The event of samples that a timer makes."""
LATE = frozenset(
    {
        *(
            "_raw_spin_unlock_irqrestore",
            "_raw_spin_unlock_irq",
            "_raw_read_unlock_irqrestore",
            "_raw_read_unlock_irq",
        ),
        *(
            "_raw_write_unlock_irqrestore",
            "_raw_write_unlock_irq",
            "native_write_msr",
            "pv_native_write_msr",
            "paravirt_write_msr",
        ),
    }
)
"""Functions of Linux that a timer's sample finds for what their callers did (kernel/locking/spinlock.c, arch/x86/lib/msr.c)."""
_FROM_USER = (
    "entry_SYSCALL",
    "do_syscall_64",
    "x64_sys_call",
    "asm_exc_",
    "exc_page_fault",
    "el0t_64_sync",
    "el0_svc",
)
"""Prefixes of the names of functions that enter the kernel from user code otherwise: they come first where the user's own frames
could not be read."""
_NESTED = 2
"""Of these, how many lie within each other at most: a register is written through a wrapper."""
UNKNOWN = "[unknown]"
_CODED = ("unnest(functions)", "unnest(modules)", "trial", "host", "owner", "mode")
"""Columns of the stacks that are texts: of each frame, and of each row."""
_READ_AT_ONCE = 50
"""Trials whose stacks are read together (chosen: what the engine holds of their texts is some tens of MB)."""

Integers = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.float64]
EVEN: Numbers = np.ones(len(PARTS))
"""Weights of parts of which each sample counts as one."""
Space = Literal["user", "kernel"]
Reach = Literal["all", "own", "user"]
REACHES: tuple[Reach, ...] = ("all", "own", "user")
"""Reaches of sampling, the most first: everything, the agent's own threads, and of those user code only."""
SAMPLED_BY = "run again: `iodyno run` samples call stacks unless the file says `profile: off`; `iodyno tcp` with --profile"
"""Advice where a campaign has no call stacks."""
_SAID: Mapping[Reach, str] = {
    "own": "only the agent's own threads are sampled",
    "user": "only user code of the agent's own threads is sampled",
}
"""Words in the manifest of an agent that samples less than everything (`Reach::missing` in agent/profile/src/profiler.rs)."""


@dataclass(frozen=True)
class Function:
    """A function: its symbol, the file or kernel module that holds it, and on which side of a system call it is."""

    name: str
    module: str
    space: Space = "kernel"

    @property
    def title(self) -> str:
        """Its name, with the module where the name says nothing."""
        return f"{self.name} {self.module}" if self.name == UNKNOWN else self.name


@dataclass(frozen=True)
class Stack:
    """One call stack: numbers of functions, outermost first, and its samples."""

    owner: str
    mode: str
    frames: tuple[int, ...]
    count: int


@dataclass(frozen=True)
class StackTable:
    """The stacks of many trials. Row i has the frames `frames[starts[i]:starts[i + 1]]`, numbers of `functions`. As there are
    millions, they have 4 bytes each.

    `foreign`: rows of other programs. `part`: which of `PARTS` a row belongs to.
    """

    functions: tuple[Function, ...]
    trials: tuple[str, ...]
    hosts: tuple[str, ...]
    trial: Integers
    host: Integers
    owner: Integers
    mode: Integers
    count: Integers
    starts: Integers
    frames: Small
    foreign: npt.NDArray[np.bool_]
    part: Integers

    def rows(self, trial: str, host: str) -> Integers:
        """The rows of one host in one trial."""
        if trial not in self.trials or host not in self.hosts:
            return np.empty(0, dtype=np.int64)
        mine = (self.trial == self.trials.index(trial)) & (self.host == self.hosts.index(host))
        return np.flatnonzero(mine).astype(np.int64)

    def stacks(self, rows: Integers) -> Iterator[Stack]:
        """The stacks of these rows."""
        starts, frames = self.starts.tolist(), self.frames
        for row in rows.tolist():
            found = tuple(frames[starts[row] : starts[row + 1]].tolist())
            yield Stack(OWNERS[self.owner[row]], MODES[self.mode[row]], found, int(self.count[row]))

    def weighed(self, rows: Integers, weights: Numbers = EVEN) -> Numbers:
        """The samples of each row, times the weight of the part that it belongs to."""
        found: Numbers = self.count[rows] * weights[self.part[rows]]
        return found

    def by_part(self, rows: Integers) -> Integers:
        """Samples of these rows by part."""
        found = np.zeros(len(PARTS), dtype=np.int64)
        np.add.at(found, self.part[rows], self.count[rows])
        return found

    def exclusive(self, rows: Integers, weights: Numbers = EVEN) -> Numbers:
        """Samples in which a function itself ran, by number of function."""
        return self._summed(self.frames[self.starts[rows + 1] - 1], self.weighed(rows, weights))

    def inclusive(self, rows: Integers, weights: Numbers = EVEN) -> Numbers:
        """Samples in whose stack a function is, by number of function; recursion is counted once."""
        place, function = self.members(rows)
        return self._summed(function, self.weighed(rows, weights)[place])

    def members(self, rows: Integers) -> tuple[Integers, Integers]:
        """The functions of each of these rows, each once: place of the row, and number of the function."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        row = np.repeat(np.arange(len(rows)), lengths)
        places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        frames = self.frames[np.repeat(self.starts[rows], lengths) + places]
        once = np.unique(row * len(self.functions) + frames)
        return once // len(self.functions), once % len(self.functions)

    def samples(self, rows: Integers) -> int:
        """Samples of these rows."""
        return int(self.count[rows].sum())

    def _summed(self, functions: Integers | Small, counts: Numbers) -> Numbers:
        return np.bincount(functions, counts, len(self.functions)).astype(np.float64, copy=False)


def read_stacks(dataset: Dataset) -> StackTable:
    """The stacks of all finished trials of a campaign; none where no profile was taken."""
    if dataset.stored is None:
        return stack_table(())
    counted = [stored for stored in dataset.stored.trials if stored.counts]
    # Numbers of the different texts of each column, in the order in which they come, and those of all rows.
    known: dict[str, dict[str, int]] = {column: {} for column in _CODED}
    known |= {"owner": {one: place for place, one in enumerate(OWNERS)}}
    known |= {"mode": {one: place for place, one in enumerate(MODES)}}
    coded: dict[str, list[Small]] = {column: [] for column in _CODED}
    lengths, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    with dataset.stored.reading(counted) as connection:
        for first in range(0, len(counted), _READ_AT_ONCE):
            stacks = dataset.stored.sources(counted[first : first + _READ_AT_ONCE])["stacks"]
            connection.execute(
                f"CREATE TEMP TABLE sampled AS SELECT * FROM {stacks} WHERE len(functions) > 0"
            )
            sizes = connection.execute("SELECT len(functions) AS length, count FROM sampled").fetchnumpy()
            lengths.append(sizes["length"].astype(np.int64))
            counts.append(sizes["count"].astype(np.int64))
            for column in _CODED if len(sizes["count"]) else ():
                coded[column].append(_coded(connection, column, known[column]))
            connection.execute("DROP TABLE sampled")
    if not coded["trial"]:
        return stack_table(())
    name_of, file_of, trial, host, owner, mode = (np.concatenate(coded.pop(column)) for column in _CODED)
    names, files, trials, hosts = ([*known[column]] for column in _CODED[:4])
    # Of hosts that are one, the first has the profile.
    hosts = [dataset.one_of.get(name, name) for name in hosts]
    width = max(1, len(files))
    pair = name_of * np.int32(width) + file_of
    seen = np.zeros(len(names) * width, dtype=bool)
    seen[pair] = True
    pairs, frames = np.flatnonzero(seen), (np.cumsum(seen, dtype=np.int32) - 1)[pair]
    del name_of, file_of, pair
    functions = [Function(names[pair // len(files)], files[pair % len(files)]) for pair in pairs.tolist()]
    timed = {
        (one.name, name)
        for one in dataset.trials
        for name, data in one.hosts.items()
        if (data.manifest.get("profile") or {}).get("event") == _TIMER
    }
    by_timer = np.asarray([[(one, name) in timed for name in hosts] for one in trials], dtype=bool)
    return _separated(
        StackTable(
            functions=tuple(functions),
            trials=tuple(trials),
            hosts=tuple(hosts),
            trial=trial.astype(np.int64),
            host=host.astype(np.int64),
            owner=owner.astype(np.int64),
            mode=mode.astype(np.int64),
            count=np.concatenate(counts),
            starts=np.concatenate(([0], np.cumsum(np.concatenate(lengths)))).astype(np.int64),
            frames=frames,
            foreign=np.zeros(len(trial), dtype=bool),
            part=np.zeros(len(trial), dtype=np.int64),
        ),
        by_timer[trial, host],
    )


def stack_table(
    rows: Iterable[tuple[str, str, str, str, Sequence[tuple[str, str]], int]],
    by_timer: bool = False,
) -> StackTable:
    """A table of (trial, host, owner, mode, frames as (name, module), count). `by_timer`: whether a timer made the samples."""
    numbers: dict[tuple[str, str], int] = {}
    trials: dict[str, int] = {}
    hosts: dict[str, int] = {}
    columns: list[tuple[int, int, int, int, int]] = []
    starts, frames = [0], []
    for trial, host, owner, mode, called, count in rows:
        frames += [numbers.setdefault(function, len(numbers)) for function in called]
        starts.append(len(frames))
        columns.append(
            (
                trials.setdefault(trial, len(trials)),
                hosts.setdefault(host, len(hosts)),
                OWNERS.index(owner),
                MODES.index(mode),
                count,
            )
        )
    column = np.asarray(columns, dtype=np.int64).reshape(-1, 5).T
    return _separated(
        StackTable(
            functions=tuple(Function(name, module) for name, module in numbers),
            trials=tuple(trials),
            hosts=tuple(hosts),
            trial=column[0],
            host=column[1],
            owner=column[2],
            mode=column[3],
            count=column[4],
            starts=np.asarray(starts, dtype=np.int64),
            frames=np.asarray(frames, dtype=np.int32),
            foreign=np.zeros(len(columns), dtype=bool),
            part=np.zeros(len(columns), dtype=np.int64),
        ),
        np.full(len(columns), by_timer),
    )


def why_no_profile(trial: Trial, host: str) -> str:
    """Why a host of a trial has no stacks, as the agent said."""
    data = trial.hosts.get(host)
    profile = (data.manifest.get("profile") if data else None) or {}
    if lacks := what_lacks(trial, host):
        return lacks
    return f"no call stacks were sampled on {host}" if profile else f"no profile was taken on {host}"


def what_lacks(trial: Trial, host: str) -> str:
    """Return the gaps in a host's profile of a trial and why, as the agent said; empty: nothing lacks, or nothing was said."""
    data = trial.hosts.get(host)
    return str(((data.manifest.get("profile") if data else None) or {}).get("missing") or "")


def reach_of(trial: Trial, host: str) -> Reach:
    """Return the part of a host that was sampled in a trial."""
    said = what_lacks(trial, host)
    return next((reach for reach, words in _SAID.items() if words in said), "all")


def _separated(table: StackTable, by_timer: npt.NDArray[np.bool_]) -> StackTable:
    """With sides of all functions, parts, other programs told apart from interrupts on top of them, and the samples of a timer
    given to the handlers that they are of."""
    table = _with_spaces(table)
    if not len(table.count):
        return table
    lengths = np.diff(table.starts)
    soft, hard, back, user = (
        np.asarray([f.name.startswith(names) for f in table.functions], dtype=bool)[table.frames]
        for names in (SOFTIRQ, HARDIRQ, _RETURN, _RETURN_TO_USER)
    )
    outside = np.asarray(
        [f.space == "user" or f.name.startswith(_FROM_USER) for f in table.functions], dtype=bool
    )
    theirs = (table.owner == OWNERS.index("other")) & outside[table.frames[table.starts[:-1]]]
    row = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    place = np.arange(len(table.frames), dtype=np.int32)
    place -= np.repeat(table.starts[:-1].astype(np.int32), lengths)
    first = _extreme(np.minimum, row, place, soft | hard, lengths)
    last_hard = _extreme(np.maximum, row, place, hard, np.full(len(lengths), -1))
    interrupted = first < lengths
    cut = np.where(theirs & interrupted, first, 0)
    late = by_timer & soft[table.starts[1:] - 1] & (last_hard >= 0)
    ends = np.where(late, last_hard + 1, lengths)
    title = np.asarray([f.name.partition(".")[0] in LATE for f in table.functions], dtype=bool)[table.frames]
    for _ in range(_NESTED):
        inner = table.starts[:-1] + np.maximum(ends, 1) - 1
        ends = np.where(by_timer & title[inner] & (ends - cut > 1), ends - 1, ends)
    kept = (place >= cut[row]) & (place < ends[row])
    starts = np.concatenate(([0], np.cumsum(ends - cut))).astype(np.int64)
    in_soft, in_hard, given_back, to_user = (
        np.bincount(row[kept & of], minlength=len(lengths)) > 0 for of in (soft, hard, back, user)
    )
    of_task = np.where(table.owner == OWNERS.index("app"), PARTS.index("app"), PARTS.index("other"))
    # On an idle CPU there is nothing but interrupts, and what they wake it with.
    irq = (in_hard & ~given_back) | (table.owner == OWNERS.index("idle"))
    part = np.where(in_soft, PARTS.index("softirq"), np.where(irq, PARTS.index("irq"), of_task))
    return replace(
        table,
        starts=starts,
        frames=table.frames[kept],
        foreign=(theirs & ~interrupted) | ((part == PARTS.index("other")) & to_user),
        part=part.astype(np.int64),
    )


def _extreme(
    of: np.ufunc, row: Small, place: Small, wanted: npt.NDArray[np.bool_], absent: Integers
) -> Integers:
    """The first or last place in each row at which `wanted` holds; `absent` where there is none."""
    found = absent.copy()
    of.at(found, row[wanted], place[wanted])
    return found


def _with_spaces(table: StackTable) -> StackTable:
    """Says of every function whether it is user code: its module was seen running in user mode, or calling."""
    modules = sorted({function.module for function in table.functions})
    module_of = np.asarray([modules.index(function.module) for function in table.functions], dtype=np.int64)
    lengths = np.diff(table.starts)
    in_kernel = np.asarray([function.module == KERNEL for function in table.functions], dtype=bool)
    # From the first frame of the kernel on, all frames of a kernel stack are the kernel's.
    seen = np.cumsum(in_kernel[table.frames], dtype=np.int32)
    before = np.concatenate(([0], seen))[table.starts[:-1]] if len(table.count) else seen
    entered = seen > np.repeat(before, lengths)
    has_entry = np.repeat(np.concatenate((seen, [0]))[table.starts[1:] - 1] - before > 0, lengths)
    outside = np.repeat(table.mode == MODES.index("user"), lengths) | (has_entry & ~entered)
    user = {modules[number] for number in np.unique(module_of[table.frames[outside]]).tolist()} - {KERNEL}
    functions = tuple(
        Function(f.name, f.module, "user" if f.module in user else "kernel") for f in table.functions
    )
    return replace(table, functions=functions)


def _coded(connection: DuckDBPyConnection, column: str, known: dict[str, int]) -> Small:
    """The number of the text of each row of a column of the stacks, as far as they are `known`, and the next ones in the order in
    which they come: there are millions of frames with some hundred names.
    """
    texts = f"SELECT {column} AS text FROM sampled"
    once = f"SELECT text, row_number() OVER () AS place FROM ({texts})"
    connection.execute(
        f"CREATE TEMP TYPE words AS ENUM (SELECT text FROM ({once}) GROUP BY text ORDER BY min(place))"
    )
    ((words,),) = connection.execute("SELECT enum_range(NULL::words)").fetchall()
    numbers = connection.execute(f"SELECT enum_code(text::words) AS number FROM ({texts})").fetchnumpy()
    connection.execute("DROP TYPE words")
    mine = np.asarray([known.setdefault(word, len(known)) for word in words], dtype=np.int32)
    found: Small = mine[numbers["number"]]
    return found
