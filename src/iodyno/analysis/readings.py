"""Readings of sensors as columns: what a metric with a label was at the ends of a host's intervals.

A trial has thousands of values and some hundred pairs of metric and label, each of which nearly every reading of its sensor has.
So they are kept by pair, of many trials together. The readings of a trial are neighbouring rows, and few columns are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from itertools import pairwise
from typing import overload

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

Key = tuple[str, str]
"""Metric and label."""
Column = list[int | None]
"""Values by place of the reading; None where a reading has none."""
_INDEX_BITS = 32


class Sheet:
    """Readings of one sensor of a host in several trials, a row each. A reading's number is that of its trial, then its index."""

    def __init__(
        self, numbers: Integers, spans_ns: Integers, costs_ns: Integers, missing: npt.NDArray[np.object_]
    ) -> None:
        order = np.argsort(numbers)
        self.numbers = numbers[order]
        self.indices: list[int] = (self.numbers & ((1 << _INDEX_BITS) - 1)).tolist()
        self.spans_ns: list[int] = spans_ns[order].tolist()
        self.costs_ns: list[int] = costs_ns[order].tolist()
        self.missing: list[str | None] = [text or None for text in missing[order].tolist()]
        self._stored: dict[str, dict[str, tuple[Integers, Integers]]] = {}
        self._placed: dict[str, dict[str, tuple[Integers, Flags]]] = {}

    def add(self, metric: str, label: str, numbers: Integers, values: Integers) -> None:
        """Adds the values that a metric with a label has in the readings of these numbers; several of one reading are summed."""
        self._stored.setdefault(metric, {})[label] = numbers, values

    def by_trial(self) -> Iterator[tuple[int, Readings]]:
        """The readings of each trial, by its number."""
        trials = self.numbers >> _INDEX_BITS
        begins = [0, *(np.flatnonzero(np.diff(trials)) + 1).tolist(), len(trials)]
        for first, last in pairwise(begins):
            yield int(trials[first]), Readings(self, first, last)

    @property
    def metrics(self) -> Iterable[str]:
        """Every metric that one of the readings has."""
        return [*self._placed, *self._stored]

    def columns(self, metric: str, first: int, last: int) -> dict[str, Column]:
        """Values that these rows have of a metric, by label; without the labels of which they have none."""
        if metric not in self._placed:
            each = self._stored.pop(metric, {})
            self._placed[metric] = {label: self._place(*found) for label, found in each.items()}
        columns: dict[str, Column] = {}
        for label, (values, known) in self._placed[metric].items():
            here: list[bool] = known[first:last].tolist()
            mine: Column = values[first:last].tolist()
            if all(here):
                columns[label] = mine
            elif any(here):
                columns[label] = [value if there else None for value, there in zip(mine, here, strict=True)]
        return columns

    def _place(self, numbers: Integers, values: Integers) -> tuple[Integers, Flags]:
        """Values of all rows, and which of them have one."""
        rows = np.searchsorted(self.numbers, numbers)
        rows[rows == len(self.numbers)] = 0
        mine = self.numbers[rows] == numbers
        found, known = np.zeros(len(self.numbers), np.int64), np.zeros(len(self.numbers), np.bool_)
        np.add.at(found, rows[mine], values[mine])
        known[rows[mine]] = True
        return found, known


def number_of(trial: str, index: str) -> str:
    """Return the number of a reading as SQL, of that of its trial and of its index."""
    return f"({trial} << {_INDEX_BITS}) | {index}"


def trial_of(number: int) -> int:
    """Return the number of the trial of a reading."""
    return int(number) >> _INDEX_BITS


class Columns(dict[str, dict[str, Column]]):
    """Columns of `count` readings, by metric and label: rows of a sheet from `first` on. Those of a metric are made when it is
    asked for."""

    def __init__(self, count: int, sheet: Sheet | None = None, first: int = 0) -> None:
        super().__init__()
        self.count, self._sheet, self._first = count, sheet, first

    def __missing__(self, metric: str) -> dict[str, Column]:
        found: dict[str, Column] = {}
        if self._sheet is not None:
            found = self._sheet.columns(metric, self._first, self._first + self.count)
        self[metric] = found
        return found

    def of_all(self) -> Mapping[str, dict[str, Column]]:
        """All of them, by metric."""
        for metric in self._sheet.metrics if self._sheet else ():
            self[metric]
        return self


class Values(MutableMapping[Key, int]):
    """Values of one reading, by metric and label: a row of its sensor's columns."""

    __slots__ = ("_columns", "_place")

    def __init__(self, columns: Columns, place: int) -> None:
        self._columns, self._place = columns, place

    def __getitem__(self, key: Key) -> int:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    @overload  # type: ignore[override]
    def get(self, key: Key, default: int) -> int: ...
    @overload
    def get(self, key: Key, default: None = None) -> int | None: ...
    def get(self, key: Key, default: int | None = None) -> int | None:
        """One of them; `default` where it is not there."""
        try:
            found = self._columns[key[0]][key[1]][self._place]
        except KeyError:
            return default
        return default if found is None else found

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[call-overload]

    def __setitem__(self, key: Key, value: int) -> None:
        column = self._columns[key[0]].setdefault(key[1], [None] * self._columns.count)
        column[self._place] = value

    def __delitem__(self, key: Key) -> None:
        if key not in self:
            raise KeyError(key)
        self._columns[key[0]][key[1]][self._place] = None

    def __iter__(self) -> Iterator[Key]:
        for metric, labels in self._columns.of_all().items():
            for label, column in labels.items():
                if column[self._place] is not None:
                    yield metric, label

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def of(self, metric: str) -> dict[str, int]:
        """Values of one metric, by label."""
        place = self._place
        return {
            label: value
            for label, column in self._columns[metric].items()
            if (value := column[place]) is not None
        }

    def sum_of(self, metric: str, labels: Iterable[str]) -> int | None:
        """Sum of a metric over these labels; None where one of them has none."""
        columns, place, found = self._columns[metric], self._place, 0
        for label in labels:
            value = columns[label][place] if label in columns else None
            if value is None:
                return None
            found += value
        return found

    def total(self, metric: str, labels: Iterable[str] | None = None) -> float | None:
        """Sum of a metric over its labels, or over these; None where it has none."""
        columns, place = self._columns[metric], self._place
        of = columns.values() if labels is None else [columns[label] for label in labels if label in columns]
        known = [value for column in of if (value := column[place]) is not None]
        return float(sum(known)) if known else None

    def __repr__(self) -> str:
        return repr(dict(self))


class Reading:
    """Reading of one sensor at the end of an interval: growth of counters over `span_ns`, states of gauges."""

    __slots__ = ("cost_ns", "missing", "span_ns", "values")
    __hash__ = None  # type: ignore[assignment]  # its values may change

    def __init__(
        self, span_ns: int, cost_ns: int, missing: str | None, values: Mapping[Key, int] | None = None
    ) -> None:
        self.span_ns, self.cost_ns, self.missing = span_ns, cost_ns, missing
        self.values = values if type(values) is Values else Values(Columns(1), 0)
        if values is not None and values is not self.values:
            self.values.update(values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reading):
            return NotImplemented
        mine, theirs = ((one.span_ns, one.cost_ns, one.missing) for one in (self, other))
        return mine == theirs and self.values == other.values

    def __repr__(self) -> str:
        return f"Reading({self.span_ns}, {self.cost_ns}, {self.missing!r}, {self.values!r})"


class Readings(Mapping[int, Reading]):
    """Readings of one sensor in a trial, by the indices of the records at whose ends they were made: rows of a sheet."""

    __slots__ = ("_first", "_last", "_made", "_sheet")

    def __init__(self, sheet: Sheet, first: int, last: int) -> None:
        self._sheet, self._first, self._last = sheet, first, last
        self._made: dict[int, Reading] | None = None

    def _all(self) -> dict[int, Reading]:
        if self._made is None:
            sheet, first = self._sheet, self._first
            columns = Columns(self._last - first, sheet, first)
            self._made = {
                sheet.indices[row]: Reading(
                    sheet.spans_ns[row], sheet.costs_ns[row], sheet.missing[row], Values(columns, row - first)
                )
                for row in range(first, self._last)
            }
        return self._made

    def __getitem__(self, index: int) -> Reading:
        return self._all()[index]

    def __contains__(self, index: object) -> bool:
        return index in self._all()

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return self._last - self._first

    def looks(self) -> Iterable[tuple[int, int, int]]:
        """Index, span and cost in nanoseconds of each."""
        rows, sheet = slice(self._first, self._last), self._sheet
        return zip(sheet.indices[rows], sheet.spans_ns[rows], sheet.costs_ns[rows], strict=True)


def looks(readings: Mapping[int, Reading]) -> Iterable[tuple[int, int, int]]:
    """Index, span and cost in nanoseconds of each of a sensor's readings."""
    if isinstance(readings, Readings):
        return readings.looks()
    return ((index, one.span_ns, one.cost_ns) for index, one in readings.items())
