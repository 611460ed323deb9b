"""A design as a text of comma-separated values: a line for each trial, a column for each factor.

Levels are natural (`64KiB`, `on`, or a number in the base unit) or coded (-1 and 1 for the ends of the file's
levels, 0 for the middle). Columns that design packages add (`run.no`, `Blocks`, ...) are known; those of ours are
what `iodyno plan --format csv` writes. Any other column, such as `Pattern` or a response, is skipped, and that is noted.
"""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.core.design import Coding
from iodyno.core.effect import LETTERS
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.factor import Factor, parameter_of
from iodyno.core.invalid import for_key, invalid
from iodyno.core.workload import Level
from iodyno.designs import ranges

_BOOKKEEPING = {
    "", "name", "order", "replicate", "point", "plot", "run", "run.no", "run.no.in.std.order",
    "run.no.std.rp", "std.order", "run.order",
    "standard.order", "stdorder", "runorder", "centerpt", "pttype", "run.replicate", "run.point",
}  # fmt: skip
OTHERWISE = {"order": "run.order", "block": "blocks", "replicate": "run.replicate", "point": "run.point"}
"""Names of columns of ours where a factor has their name."""
_BLOCKS = {"block", "blocks", ".block."}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.IGNORECASE)
_SHOWN = 40


@dataclass(frozen=True)
class DesignRows:
    """The trials in their order: what each sets, its block, counted from 0, and its point, where the text says them; and the
    columns that say nothing of a trial.
    """

    rows: list[dict[str, Level]]
    blocks: list[int] | None
    points: list[str] | None
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Column:
    place: int
    name: str
    factor: Factor
    coding: Coding
    coded: bool


def read(experiment: Experiment, text: str) -> DesignRows:
    """The trials in the text. Raises ExperimentError with file, line and column of the first thing that is wrong."""
    file = experiment.design.file or "design.rows"
    lines = _lines(text, file)
    if len(lines) < 2:
        raise _wrong(
            file,
            1,
            "",
            f"invalid value: {'no line' if not lines else 'a header alone'}; expected a header "
            "and a line for each trial",
        )
    head = [cell.strip() for cell in lines[0][1]]
    for number, cells in lines[1:]:
        if len(cells) != len(head):
            raise _wrong(
                file,
                number,
                "",
                f"invalid value: {len(cells)} of {len(head)} cells; expected one for each column",
            )
    columns, together, block, skipped = _columns(experiment, head, file, lines)
    rows = []
    for number, cells in lines[1:]:
        row: dict[str, Level] = {}
        by_name = {column.factor.name: column for column in columns}
        for factor in experiment.factors:
            column = by_name.get(factor.name)
            if column is None:
                row |= factor.settings(0)
                continue
            row |= _settings(experiment, column, cells[column.place].strip(), file, number)
        for place, name in together:
            _check_together(experiment, name, cells[place].strip(), row[name], file, number)
        rows.append(row)
    blocks = None
    if block is not None:
        names = [cells[block].strip() for _, cells in lines[1:]]
        numbers = {name: index for index, name in enumerate(dict.fromkeys(names))}
        blocks = [numbers[name] for name in names]
    points = None if any(column.name == "point" for column in columns) else _points(head, lines[1:])
    return DesignRows(rows, blocks, points, tuple(skipped))


def _points(head: Sequence[str], lines: Sequence[tuple[int, list[str]]]) -> list[str] | None:
    """The points' names, when they are such as a plan of ours has."""
    if "point" not in head:
        return None
    names = [cells[head.index("point")].strip() for _, cells in lines]
    return names if all(re.fullmatch(r"p\d{2,6}", name) for name in names) else None


def _lines(text: str, file: str) -> list[tuple[int, list[str]]]:
    """The lines that are not empty, with their numbers, counted from 1."""
    first = text.split("\n", 1)[0]
    # R writes semicolons where the comma is in numbers (write.csv2).
    delimiter = max((",", ";", "\t"), key=first.count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, strict=True)
    lines = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                lines.append((reader.line_num, cells))
    except csv.Error as problem:
        raise _wrong(
            file, reader.line_num, "", f"invalid value: {problem}; expected comma-separated values"
        ) from None
    return lines


def _columns(
    experiment: Experiment, head: Sequence[str], file: str, lines: Sequence[tuple[int, list[str]]]
) -> tuple[list[_Column], list[tuple[int, str]], int | None, list[str]]:
    """The columns of factors, those of what is set together, and that of blocks; and the names of the others."""
    factors = {factor.name: factor for factor in experiment.factors}
    together = {name for factor in experiment.factors for name in factor.together}
    # A design made without names has letters.
    letters = {
        letter: factor
        for letter, factor in zip(LETTERS, experiment.factors, strict=False)
        if letter not in factors
    }
    named = any(name in factors for name in head)
    numbers = {place: [cells[place].strip() for _, cells in lines[1:]] for place in range(len(head))}
    known: list[tuple[int, str, Factor]] = []
    beside: list[tuple[int, str]] = []
    block: int | None = None
    skipped: list[str] = []
    for place, name in enumerate(head):
        factor = factors.get(name) or (None if named else letters.get(name))
        if factor is not None:
            if any(other is factor for _, _, other in known):
                raise _wrong(file, lines[0][0], name, "duplicate column")
            known.append((place, name, factor))
        elif name in together:
            beside.append((place, name))
        elif name.lower() in _BLOCKS and block is None:
            block = place
        elif name.lower() not in _BOOKKEEPING:
            near = difflib.get_close_matches(
                name, [each for each in factors if each not in head], n=1, cutoff=0.55
            )
            if near:
                raise _wrong(
                    file,
                    lines[0][0],
                    name,
                    f"unknown factor: expected {', '.join(factors)}, and columns such as run.no and "
                    f"Blocks; did you mean {near[0]!r}?",
                )
            skipped.append(name)
    for name, factor in factors.items():
        if len(factor.levels) > 1 and not any(other is factor for _, _, other in known):
            raise _wrong(
                file,
                lines[0][0],
                "",
                f"missing column {name}: expected one for each factor that varies",
            )
    for number, cells in lines[1:]:
        for place, name, factor in known:
            if cells[place].strip() in ("", "NA"):
                shown = ranges.shown(experiment, factor)
                raise _wrong(
                    file, number, name, f"missing value: expected a level of {factor.name} ({shown})"
                )
    below = any(_plain(value) and float(value) < 0 for place, _, _ in known for value in numbers[place])
    coding = {f.name: ranges.coding_of(f, log=f.name in experiment.design.log) for f in experiment.factors}
    columns = []
    for place, name, factor in known:
        values = numbers[place]
        small = all(_plain(value) and abs(float(value)) <= 3 for value in values)
        listed = (
            all(_natural(experiment, factor, value) in factor.levels for value in values) if small else True
        )
        negative = small and any(float(value) < 0 for value in values)
        columns.append(
            _Column(place, name, factor, coding[factor.name], negative or (below and small and not listed))
        )
    return columns, beside, block, skipped


def _settings(experiment: Experiment, column: _Column, cell: str, file: str, line: int) -> dict[str, Level]:
    factor, coding = column.factor, column.coding
    shown = ranges.shown(experiment, factor)
    if column.coded:
        if not _plain(cell):
            raise _wrong(
                file,
                line,
                column.name,
                f"invalid value: {cell[:_SHOWN]!r} among coded levels; expected numbers from -1 to 1",
            )
        value = float(cell)
        if coding.kind == "word" and (value not in (-1, 1) or len(factor.levels) != 2):
            raise _wrong(
                file,
                line,
                column.name,
                invalid(cell, f"-1 and 1 for a factor of two words ({shown})"),
            )
        if not -1 <= value <= 1:
            raise _wrong(file, line, column.name, invalid(cell, f"-1 to 1, the ends of {shown}"))
        if coding.kind == "word":
            return ranges.at(factor, coding.low if value < 0 else coding.high)
        return ranges.place(experiment, factor, coding, value)
    level = _natural(experiment, factor, cell)
    if level in factor.levels:
        return ranges.at(factor, next(own for own in factor.levels if own == level))
    if level is None or coding.kind == "word" or not ranges.is_number(level):
        raise _wrong(file, line, column.name, invalid(cell[:_SHOWN], f"a level of {factor.name} ({shown})"))
    if not int(coding.low) <= int(level) <= int(coding.high):
        raise _wrong(
            file,
            line,
            column.name,
            invalid(cell[:_SHOWN], f"a level within those of {factor.name} ({shown})"),
        )
    return ranges.at(factor, level)


def _check_together(experiment: Experiment, name: str, cell: str, level: Level, file: str, line: int) -> None:
    parameter = parameter_of(experiment.workload.workload, name)
    shown = parameter.show(level) if parameter else str(level)
    if cell not in (shown, str(level)) and not (
        isinstance(level, bool) and cell.lower() == str(level).lower()
    ):
        raise _wrong(
            file,
            line,
            name,
            invalid(cell[:_SHOWN], f"{shown}, which the file sets together with the factor"),
        )


def _natural(experiment: Experiment, factor: Factor, cell: str) -> Level | None:
    """The level that the cell says in its own unit, or as a number in the base unit; None when it says none."""
    for level in factor.levels:
        if cell == str(level):
            return level
    if all(isinstance(level, bool) for level in factor.levels):
        cell = {"true": "on", "false": "off"}.get(cell.lower(), cell)
    parameter = parameter_of(experiment.workload.workload, factor.name)
    if parameter is not None and parameter.kind == "duration" and _plain(cell) and float(cell).is_integer():
        return int(float(cell)) if parameter.low <= float(cell) <= parameter.high else None
    try:
        return parameter.parse(cell) if parameter is not None else None
    except ValueError:
        return None


def _plain(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def _wrong(file: str, line: int, column: str, what: str) -> ExperimentError:
    return ExperimentError(
        for_key(f"column {column[:_SHOWN]}", what) if column else what,
        where=f"{file}:{line}",
        advice="`iodyno plan EXPERIMENT --format csv` writes a file of that form",
    )
