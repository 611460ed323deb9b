"""A script that calls PDQ, solved and shown: one report a solution, or a table of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from iodyno.analysis.queueing.networks.bounds import bounds
from iodyno.analysis.queueing.networks.solution import Solution
from iodyno.analysis.queueing.networks.solve import How, solve
from iodyno.cli.model.network_text import (
    method_text,
    number_text,
    percent_text,
    rate_text,
    report,
    table,
    time_text,
    values,
)
from iodyno.core.errors import ExperimentError
from iodyno.core.network import Network, OpenClass
from iodyno.formats.pdq import Run, run_script


@dataclass(frozen=True)
class Solved:
    """A solution as the calls of a script ask it."""

    solution: Solution

    def throughput_per_s(self, work: str) -> float:
        """Jobs of a class per second."""
        return self.solution.of(work).throughput_per_s

    def response_time_s(self, work: str) -> float:
        """Time of a job of the class."""
        return self.solution.of(work).response_time_s

    def residence_time_s(self, work: str, node: str) -> float:
        """Time of a job at a station; 0 where it does not come."""
        share = self.solution.of(work).at.get(node)
        return 0.0 if share is None else share.residence_time_s

    def utilisation_ratio(self, work: str, node: str) -> float:
        """Busy share of one server; at a delay, which has none, the number there."""
        share = self.solution.of(work).at.get(node)
        if share is None:
            return 0.0
        return share.queue_length if share.utilisation_ratio is None else share.utilisation_ratio

    def queue_length(self, work: str, node: str) -> float:
        """Jobs of the class at a station."""
        share = self.solution.of(work).at.get(node)
        return 0.0 if share is None else share.queue_length

    def throughput_most_per_s(self, work: str) -> float:
        """The upper bound. Raises ExperimentError where the class only meets delays."""
        return self._bound(work, "throughput_most_per_s")

    def optimal_population(self, work: str) -> float:
        """N*. Raises ExperimentError where the class is open or only meets delays."""
        return self._bound(work, "saturation_population")

    def _bound(self, work: str, what: str) -> float:
        found = getattr(next(b for b in bounds(self.solution.network) if b.name == work), what)
        if found is None:
            raise ExperimentError(f"the class {work!r} has no such bound", where="bounds")
        return float(found)


def solved_script(text: str, arguments: Sequence[str], file: str, method: How) -> list[Run]:
    """Every solution of the script. Raises ExperimentError with the line of what cannot be carried out."""

    def solver(network: Network) -> Solved:
        return Solved(solve(network, method))

    return run_script(text, solver, arguments=arguments, file=file)


def solution_of(run: Run) -> Solution:
    """The solution that `solved_script` put into a run."""
    assert isinstance(run.solution, Solved)
    return run.solution.solution


def script_text(runs: Sequence[Run]) -> str:
    """For people: the report of a solution, a table of several that have the same classes and stations."""
    groups = (list(group) for _, group in groupby(runs, lambda run: _shape(solution_of(run))))
    return "\n".join(_table(group) if len(group) > 1 else _single(group[0]) for group in groups)


def _single(run: Run) -> str:
    solution = solution_of(run)
    parts = [f"{run.comment}\n"] if run.comment else []
    parts.append(report(solution, bounds(solution.network), run.work_unit))
    if run.answers:
        unit = run.time_unit or "s"
        lines = [[call, number_text(value)] for call, value in run.answers]
        parts.append(f"\nAsked by the script (times in {unit})\n{table(['call', 'answer'], lines)}\n")
    parts += [f"\nnote: {note}\n" for note in run.notes]
    return "".join(parts)


def _table(runs: Sequence[Run]) -> str:
    heads: list[str] = ["line"]
    rows: list[list[str]] = [[str(run.line)] for run in runs]
    solutions = [solution_of(run) for run in runs]
    for at, entry in enumerate(solutions[0].network.classes):
        open_class = isinstance(entry, OpenClass)
        heads += [f"{entry.name} {'rate' if open_class else 'jobs'}"]
        heads += (
            [f"{entry.name} response"]
            if open_class
            else [f"{entry.name} throughput", f"{entry.name} response"]
        )
        for row, run, solution in zip(rows, runs, solutions, strict=True):
            here, found = solution.network.classes[at], solution.classes[at]
            if isinstance(here, OpenClass):
                row.append(rate_text(here.rate_per_s, run.work_unit))
            else:
                row += [str(here.population), rate_text(found.throughput_per_s, run.work_unit)]
            row.append(time_text(found.response_time_s))
    for at, station in enumerate(solutions[0].network.stations):
        if station.kind == "delay":
            continue
        heads.append(f"{station.name} busy")
        for row, solution in zip(rows, solutions, strict=True):
            row.append(percent_text(solution.stations[at].utilisation_ratio))
    first = runs[0]
    title = f"{first.network.name}: {len(runs)} solutions, {method_text(solutions[0])}"
    notes = dict.fromkeys(note for run in runs for note in (*solution_of(run).notes, *run.notes))
    lines = [title, *([first.comment] if first.comment else []), table(heads, rows)]
    return "\n".join([*lines, *(f"note: {note}" for note in notes)]) + "\n"


def _shape(solution: Solution) -> tuple[Any, ...]:
    network = solution.network
    classes = tuple((c.name, isinstance(c, OpenClass)) for c in network.classes)
    return classes, tuple((s.name, s.kind) for s in network.stations), solution.method


def script_values(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Rows as JSON has them: one a solution, in seconds, and what the script asked, in its own units."""
    rows = []
    for run in runs:
        solution = solution_of(run)
        row = values(solution, bounds(solution.network))
        row["notes"] += run.notes
        row |= {
            "line": run.line,
            "comment": run.comment,
            "work_unit": run.work_unit,
            "time_unit": run.time_unit,
            "answers": [{"call": call, "value": value} for call, value in run.answers],
        }
        rows.append(row)
    return rows
