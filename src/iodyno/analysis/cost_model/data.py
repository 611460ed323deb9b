"""Data that a cost model is fitted to: levels, blocks, order in time and one outcome, a row a trial."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from iodyno.analysis.cost_model.coding import FactorScale, Kind, Natural
from iodyno.analysis.cost_model.terms import Matrix, Vector
from iodyno.core import quantity
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.core.invalid import for_key
from iodyno.core.quantity import counted
from iodyno.formats.given_file import read_table

ROWS_MOST = 100_000
"""Rows of a file (chosen: the covariance of HC3 and the bootstrap stay within memory)."""
_LEAST, _LARGEST = 1e-140, 1e140
"""Between these a sum of squares over that many rows neither vanishes nor overflows, and keeps its digits."""


@dataclass(frozen=True)
class Rate:
    """Operations per second that a trial was to carry, and carried."""

    asked_per_s: float
    carried_per_s: float


@dataclass(frozen=True)
class CostData:
    """One outcome over trials. `blocks` is empty where nothing is known of them; `order` is the place in time.

    `plots`: whole plots, of a design with slow factors. `left_out`: how many trials have no such outcome. `source` names
    where the data are from. `rates`: of the trials of an open loop; `carried_per_s`: the most operations per second of a trial,
    where that is known.
    """

    outcome: str
    unit: str
    factors: tuple[FactorScale, ...]
    rows: tuple[Mapping[str, Natural], ...]
    values: Vector
    blocks: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    left_out: int = 0
    source: str = ""
    plots: tuple[str, ...] = ()
    rates: tuple[Rate, ...] = ()
    carried_per_s: float | None = None

    def factor(self, name: str) -> FactorScale | None:
        """The factor of that name."""
        return next((factor for factor in self.factors if factor.name == name), None)

    @property
    def varying(self) -> tuple[FactorScale, ...]:
        """The factors with more than one level."""
        return tuple(factor for factor in self.factors if len(factor.levels) > 1)

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """The number of the point that each row belongs to: rows with the same levels have the same."""
        known: dict[tuple[Natural, ...], int] = {}
        names = [factor.name for factor in self.factors]
        return tuple(known.setdefault(tuple(row[name] for name in names), len(known)) for row in self.rows)

    @property
    def replicates(self) -> Mapping[int, int]:
        """Number of rows of each point."""
        return Counter(self.cells)

    def coded(self, name: str, code: Mapping[Natural, tuple[float, ...]]) -> Matrix:
        """The coded columns of a factor, a row a trial."""
        return np.array([code[row[name]] for row in self.rows], dtype=float)


def checked(data: CostData) -> CostData:
    """The data, when a model can be fitted to them. Raises ExperimentError with the reason when not."""
    where = data.source or "the data"
    if not data.varying:
        raise ExperimentError(
            "no factor has two levels, so that there is no effect to be found",
            where=where,
            advice="a campaign whose experiment varies two factors or more",
        )
    if len(data.values) < 3:
        raise ExperimentError(
            f"{counted(len(data.values), 'trial')} with {data.outcome}; expected 3 or more",
            where=where,
            advice="another outcome, or more trials",
        )
    if not np.all(np.isfinite(data.values)):
        raise ExperimentError(f"{data.outcome} has values that are no finite numbers", where=where)
    largest = float(np.max(np.abs(data.values)))
    if 0 < largest < _LEAST or largest > _LARGEST:
        raise ExperimentError(
            f"the largest of {data.outcome} is {largest:g}: its square is no number that a computer holds",
            where=where,
            advice="the same values in another unit",
        )
    if float(np.ptp(data.values)) <= 1e-12 * largest:
        raise ExperimentError(
            f"all {len(data.values)} values of {data.outcome} are equal ({data.values[0]:g}): nothing is explained",
            where=where,
            advice="an outcome that varies; a constant one may come from a meter that stands still",
        )
    return data


def read_csv(
    path: Path | str, outcome: str | None = None, unit: str = "", formula: str | None = None
) -> CostData:
    """Your own data: a line of names, then a line a trial. Numbers may carry units (`4KiB`, `50%`); a name may too (`read
    [%]`).

    The outcome is the column named, or the last. Columns named `block`, `plot` (a whole plot) and `order` (`run`) are taken
    as those, unless the formula names them or they hold quantities with a unit, such as sizes of a block; a column where
    nothing varies is no factor. Raises StoreError for a file that cannot be read, and ExperimentError with line and column.
    """
    path = Path(path)
    try:
        text = read_table(path)
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            f"the file cannot be read: {getattr(error, 'strerror', None) or error}",
            where=str(path),
            advice="a CSV file in UTF-8",
        ) from error
    lines = [
        (number, [cell.strip() for cell in row])
        for number, row in enumerate(csv.reader(text.splitlines(), delimiter=_delimiter(text)), start=1)
        if any(cell.strip() for cell in row)
    ]
    if len(lines) < 2:
        raise ExperimentError(
            "found no trials", where=str(path), advice="a line of names, then one line a trial"
        )
    if len(lines) > ROWS_MOST:
        raise ExperimentError(
            f"invalid value: {len(lines)} lines; expected {ROWS_MOST} at most", where=str(path)
        )
    heads = [head_of(name) for name in lines[0][1]]
    names = [name for name, _ in heads]
    twice = [name for name, count in Counter(names).items() if count > 1 or not name]
    if twice:
        raise ExperimentError(
            f"the column names {', '.join(map(repr, twice))} stand there twice or are empty",
            where=f"{path}:1",
        )
    for number, row in lines[1:]:
        if len(row) != len(names):
            raise ExperimentError(
                f"invalid value: {counted(len(row), 'cell')}; expected {len(names)}, as the first line has",
                where=f"{path}:{number}",
            )
    chosen = outcome or names[-1]
    if chosen not in names:
        raise ExperimentError(
            f"there is no column {chosen!r}", where=f"{path}:1", advice=f"one of {', '.join(names)}"
        )
    at = names.index(chosen)
    values = [_value(row[at], f"{path}:{number}", chosen) for number, row in lines[1:]]
    kept = [place for place, value in enumerate(values) if value is not None]
    if not kept:
        raise ExperimentError(f"found no trial with a value of {chosen}", where=str(path))
    body = [lines[1 + place] for place in kept]
    special = {
        name
        for name in ("block", "plot", "order", "run")
        if name in names and name != chosen and not _is_factor(name, formula, names, body)
    }
    factors, columns = [], {}
    for place, (name, given) in enumerate(heads):
        if name == chosen or name in special:
            continue
        cells = [(f"{path}:{number}", row[place]) for number, row in body]
        factor, levels = factor_of(name, given, cells)
        if len(factor.levels) > 1:
            factors.append(factor)
            columns[name] = levels
    order_name = next((name for name in ("order", "run") if name in special), None)
    order = _order(body, names.index(order_name), path) if order_name else tuple(range(len(body)))
    return CostData(
        outcome=chosen,
        unit=unit or heads[at][1],
        factors=tuple(factors),
        rows=tuple({name: levels[place] for name, levels in columns.items()} for place in range(len(body))),
        values=np.array([values[place] for place in kept], dtype=float),
        blocks=tuple(row[names.index("block")] for _, row in body) if "block" in special else (),
        plots=tuple(row[names.index("plot")] for _, row in body) if "plot" in special else (),
        order=order,
        left_out=len(values) - len(kept),
        source=str(path),
    )


def _is_factor(
    name: str, formula: str | None, names: Sequence[str], body: Sequence[tuple[int, list[str]]]
) -> bool:
    """Tell whether a column with the name of a block or of an order is a factor all the same."""
    at = names.index(name)
    cells = [match for _, row in body if (match := _CELL.fullmatch(row[at]))]
    with_unit = len(cells) == len(body) and any(_kind(match[2]) != "number" for match in cells)
    right = (formula or "").rpartition("~")[2]
    return with_unit or re.search(rf"(?<![\w.]){name}(?![\w.])", right) is not None


def _delimiter(text: str) -> str:
    first = text.partition("\n")[0]
    return max(",;\t", key=first.count)


def head_of(written: str) -> tuple[str, str]:
    """A column's name and its unit, of `read [%]` or `time (us)`."""
    match = re.fullmatch(r"(.+?)\s*[\[(]\s*([^\])]+?)\s*[\])]", written)
    return (match[1], match[2]) if match else (written, "")


_EMPTY = ("", "NA", "nan", "NaN", "null", "None", "-")
_CELL = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*(\D*)")


def _value(cell: str, where: str, name: str) -> float | None:
    """The outcome of a line; None where it has none."""
    if cell in _EMPTY:
        return None
    try:
        found = float(cell)
    except ValueError:
        raise ExperimentError(
            f"invalid value: {cell!r} in column {name}; expected a number, or nothing",
            where=where,
            advice="the unit in the first line: `cost [ns/operation]`, and the number alone below",
        ) from None
    if not math.isfinite(found):
        raise ExperimentError(
            f"invalid value: {cell!r} in column {name}; expected a finite number", where=where
        )
    return found


def factor_of(name: str, given: str, cells: Sequence[tuple[str, str]]) -> tuple[FactorScale, list[Natural]]:
    """A column as a factor, with the level of every line: `cells` are where each stands, and what stands there; `given` is the
    unit that its head has. Raises ExperimentError with the line.
    """
    for where, cell in cells:
        if cell in _EMPTY:
            raise ExperimentError(
                f"the level of {name} is missing",
                where=where,
                advice="a level in every line that has an outcome, or no such line",
            )
    matches = [_CELL.fullmatch(cell) for _, cell in cells]
    known = [match for match in matches if match]
    if len(known) < len(cells):
        words = [cell for (_, cell), match in zip(cells, matches, strict=True) if match is None]
        if known and any(match[2] for match in known):
            where, cell = next(c for c, match in zip(cells, matches, strict=True) if match is None)
            raise _mixed(name, where, cell, known[0][0])
        if known and len(set(words)) < len({cell for _, cell in cells}) / 2:
            where, cell = next(c for c, match in zip(cells, matches, strict=True) if match is None)
            raise ExperimentError(
                f"invalid value {cell!r} for column {name}: its other levels are numbers",
                where=where,
                advice="numbers or words",
            )
        return _words(name, cells)
    units = list(dict.fromkeys(match[2].strip() for match in known))
    if len(units) == 1:
        unit = units[0]
        if unit and given and unit != given:
            raise _mixed(name, cells[0][0], cells[0][1], given)
        unit = unit or given
        kind = _kind(unit)
        if kind == "number":
            levels: list[Natural] = [float(match[1]) for match in known]
            return FactorScale(name, kind, tuple(sorted(set(levels), key=float)), unit), levels
        return _quantities(
            name, kind, [(where, f"{match[1]}{unit}") for (where, _), match in zip(cells, known, strict=True)]
        )
    kinds = {_kind(unit) for unit in units if unit}
    if len(kinds) == 1 and (kind := kinds.pop()) != "number" and "" not in units:
        return _quantities(name, kind, cells)
    other = next(place for place, match in enumerate(known) if match[2].strip() != units[0])
    raise _mixed(name, *cells[other], cells[0][1])


def _mixed(name: str, where: str, cell: str, other: str) -> ExperimentError:
    return ExperimentError(
        f"units are mixed in column {name}: found {cell!r} beside {other!r}",
        where=where,
        advice="one kind of unit in a column",
    )


def _words(name: str, cells: Sequence[tuple[str, str]]) -> tuple[FactorScale, list[Natural]]:
    levels: list[Natural] = [cell for _, cell in cells]
    return FactorScale(name, "word", tuple(sorted(set(levels), key=str))), levels


def _quantities(name: str, kind: Kind, cells: Sequence[tuple[str, str]]) -> tuple[FactorScale, list[Natural]]:
    levels: list[Natural] = []
    for where, cell in cells:
        try:
            levels.append(
                float(
                    quantity.parse(
                        "size" if kind == "size" else "duration" if kind == "duration" else "rate", cell
                    )
                )
            )
        except ValueError as problem:
            raise ExperimentError(for_key(f"column {name}", str(problem)), where=where) from None
    return FactorScale(name, kind, tuple(sorted(set(levels), key=float))), levels


def _kind(unit: str) -> Kind:
    if not unit:
        return "number"
    if unit in quantity.units("rate"):
        return "rate"
    if unit in quantity.units("duration"):
        return "duration"
    return "size" if unit in quantity.units("size") else "number"


def _order(body: Sequence[tuple[int, list[str]]], at: int, path: Path) -> tuple[int, ...]:
    try:
        return tuple(int(float(row[at])) for _, row in body)
    except ValueError:
        raise ExperimentError("a column of the order in time has whole numbers", where=str(path)) from None
