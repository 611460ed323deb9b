"""Tables of loads and what was measured there: CSV with a header line, as any tool exports it."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.core.quantity import counted
from iodyno.formats.given_file import read_table


@dataclass(frozen=True)
class LoadTable:
    """Pairs of load and value, in the order of the file, and the names of the two columns."""

    load: str
    value: str
    pairs: tuple[tuple[float, float], ...]


def read_load_table(path: Path | str, columns: Sequence[str] = ()) -> LoadTable:
    """The table in the file, its first two columns unless `columns` names others.

    Several lines with one load are repeated measurements. Raises ExperimentError with the line of what is wrong.
    """
    where = str(path)
    try:
        text = read_table(path)
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is no UTF-8 text"
        raise ExperimentError(
            f"cannot be read: {why}", where=where, advice="a CSV file: threads,rate"
        ) from None
    rows = [
        (number, [cell.strip() for cell in row])
        for number, row in enumerate(csv.reader(text.splitlines()), start=1)
    ]
    rows = [(number, row) for number, row in rows if any(row) and not row[0].startswith("#")]
    if not rows:
        raise ExperimentError(
            "the file is empty", where=where, advice="a header such as `threads,rate`, then a line each load"
        )
    first, header = rows[0]
    if any(_number(cell) is not None for cell in header):
        raise ExperimentError(
            f"the first line has numbers ({','.join(header)}), and must name the columns",
            where=f"{where}, line {first}",
            advice="threads,rate",
        )
    at = _places(header, columns, f"{where}, line {first}")
    pairs = tuple(_pair(row, at, header, f"{where}, line {number}") for number, row in rows[1:])
    if not pairs:
        raise ExperimentError(
            "there is no line after the header", where=where, advice="a line each load: 1,1180"
        )
    return LoadTable(header[at[0]], header[at[1]], pairs)


def _places(header: Sequence[str], columns: Sequence[str], where: str) -> tuple[int, int]:
    if not columns:
        if len(header) < 2:
            raise ExperimentError(
                f"one column ({header[0]}) where two are needed", where=where, advice="threads,rate"
            )
        return 0, 1
    if len(columns) != 2:
        raise ExperimentError(
            f"invalid value: {counted(len(columns), 'name')}; expected the load's and the rate's",
            where="--columns",
            advice="--columns N,X",
        )
    missing = next((name for name in columns if name not in header), None)
    if missing is not None:
        raise ExperimentError(
            f"no column is called {missing!r}; there are: {', '.join(header)}",
            where=where,
            advice=f"--columns {','.join(header[:2])}",
        )
    return header.index(columns[0]), header.index(columns[1])


def _pair(row: Sequence[str], at: tuple[int, int], header: Sequence[str], where: str) -> tuple[float, float]:
    if len(row) <= max(at):
        raise ExperimentError(
            f"invalid value: {counted(len(row), 'cell')}; expected {len(header)}, as the header has",
            where=where,
            advice="a cell each column",
        )
    found = []
    for place in at:
        value = _number(row[place])
        if value is None:
            raise ExperimentError(
                invalid(row[place], "a number", f"{header[place]}"),
                where=where,
                advice="digits with a point, no unit and no thousands separator",
            )
        if not value > 0:
            raise ExperimentError(
                invalid(value, "more than 0", f"{header[place]}"),
                where=where,
                advice="leave the line out: a load or a rate of nothing says nothing of the curve",
            )
        found.append(value)
    return found[0], found[1]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
