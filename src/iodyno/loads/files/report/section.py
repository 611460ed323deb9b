"""Results of a file program, in tables and sentences: a row for every flowop, and a summary line as Filebench's users have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iodyno.core.factor import VARIANT
from iodyno.core.quantity import counted
from iodyno.loads.files.analysis.flowops import NO_OPERATION, FoundFlowop, FoundProgram
from iodyno.report.estimate_json import estimate_values
from iodyno.report.numbers import between, quantity, with_interval
from iodyno.report.table import Cell, Column, Table

_SHORT_NS = 10**9
"""A run that ends by itself before this has few values in it (chosen: one interval)."""


def flowop_tables(programs: tuple[FoundProgram, ...]) -> list[Table]:
    """A table for each point."""
    return [_table(program) for program in programs]


def flowop_sentences(programs: tuple[FoundProgram, ...]) -> list[str]:
    """The summary of each point, how it ended, and what failed."""
    return [sentence for program in programs for sentence in _sentences(program)]


def program_json(program: FoundProgram) -> dict[str, Any]:
    """Return the results of the program at a point, as values that JSON knows; times in ns."""
    together = program.together
    return {
        "labels": dict(program.labels),
        "trials": program.trials,
        "clients": list(program.clients),
        "ended": list(program.ends),
        "elapsed_ns": program.elapsed_ns,
        "io_summary": {
            "operations": together.operations,
            "operations_per_s": estimate_values(together.operations_per_s),
            "reads_per_s": together.reads_per_s,
            "writes_per_s": together.writes_per_s,
            "bytes_per_s": estimate_values(together.bytes_per_s),
            "mean_ns": estimate_values(together.mean_ns),
        },
        "flowops": [
            {
                **{key: getattr(flowop, key) for key in _PLAIN},
                **{key: estimate_values(getattr(flowop, key)) for key in _ESTIMATED},
            }
            for flowop in program.flowops
        ],
        "notes": list(program.notes),
    }


_PLAIN = ("process", "thread", "name", "call", "operations", "bytes", "errors", "first_error", "greatest_ns")
_ESTIMATED = ("rate_per_s", "bytes_per_s", "mean_ns", "p50_ns", "p99_ns")


def _place(program: FoundProgram) -> str:
    # The names of a variant stand for all that goes with them.
    named = {VARIANT: program.labels[VARIANT]} if VARIANT in program.labels else program.labels
    levels = ", ".join(f"{name} {level}" for name, level in named.items())
    return f", {levels}" if levels else ""


def _table(program: FoundProgram) -> Table:
    trials = f" ({program.trials} trials)" if program.trials > 1 else ""
    columns = (
        Column("flowop"),
        Column("call"),
        Column("done", hint="times, from start to end"),
        Column("/s", hint="over the measured window"),
        Column("moved", hint="bytes per second over the measured window"),
        Column("mean", hint="service time"),
        Column("p50", hint="service time"),
        Column("p99", hint="service time"),
        Column("max", hint="service time"),
        Column("failed"),
    )
    rows = tuple(_row(flowop, program) for flowop in program.flowops)
    return Table(f"Flowops{_place(program)}{trials}", columns, rows, keys=2)


def _row(flowop: FoundFlowop, program: FoundProgram) -> tuple[Cell, ...]:
    several = len({(f.process, f.thread) for f in program.flowops}) > 1
    name = f"{flowop.process}.{flowop.thread}.{flowop.name}" if several else flowop.name
    times = [
        Cell(with_interval(found), found.missing or f"{found.method}, n = {found.n}")
        for found in (flowop.mean_ns, flowop.p50_ns, flowop.p99_ns)
    ]
    moved = with_interval(flowop.bytes_per_s) if flowop.bytes else ""
    return (
        Cell(name),
        Cell(flowop.call),
        Cell(str(flowop.operations)),
        Cell(with_interval(flowop.rate_per_s), flowop.rate_per_s.method),
        Cell(moved),
        *times,
        Cell(quantity(flowop.greatest_ns, "ns")),
        Cell(str(flowop.errors) if flowop.errors else "", flowop.first_error or ""),
    )


def _sentences(program: FoundProgram) -> Iterator[str]:
    found = program.together
    mixed = ""
    if found.reads_per_s is not None or found.writes_per_s is not None:
        reads, writes = quantity(found.reads_per_s or 0.0, "1/s"), quantity(found.writes_per_s or 0.0, "1/s")
        mixed = f" ({reads} reads, {writes} writes)"
    yield (
        f"IO Summary{_place(program)}: {found.operations} operations, {between(found.operations_per_s)}{mixed},"
        f" {between(found.bytes_per_s)}, {between(found.mean_ns)} each."
    )
    ends = " or ".join(program.ends)
    if program.ends != ("with its time",):
        short = (
            " It lasted so short that its numbers are of few operations."
            if program.elapsed_ns < _SHORT_NS
            else ""
        )
        yield f"The program{_place(program)} ended {ends} after {quantity(program.elapsed_ns, 'ns')}.{short}"
    failed = [f for f in program.flowops if f.errors]
    for flowop in failed[:3]:
        first = flowop.first_error or "no reason was told"
        yield f"The flowop {flowop.name} failed {counted(flowop.errors, 'time')}; first: {first}."
    idle = [f.name for f in program.flowops if not f.operations and f.call not in NO_OPERATION]
    if idle:
        yield f"Never done{_place(program)}: {', '.join(idle[:6])}{' ...' if len(idle) > 6 else ''}."
    yield from (f"Of the program: {note}." for note in program.notes[:5])
