"""Readings of sensors as columns: what a metric with a label was at the ends of a host's intervals.

A trial has thousands of values and some hundred pairs of metric and label, each of which nearly every reading of its sensor has.
So they are kept by pair, and a reading is a row of all of its sensor's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from operator import itemgetter
from typing import overload

Key = tuple[str, str]
"""Metric and label."""
Columns = dict[str, dict[str, list[int | None]]]
"""Values by metric, by label, and by place of the reading; None where a reading has none."""


class Values(MutableMapping[Key, int]):
    """Values of one reading, by metric and label."""

    __slots__ = ("_columns", "_place", "_rows")

    def __init__(self, columns: Columns, place: int, rows: int) -> None:
        self._columns, self._place, self._rows = columns, place, rows

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
        labels = self._columns.setdefault(key[0], {})
        labels.setdefault(key[1], [None] * self._rows)[self._place] = value

    def __delitem__(self, key: Key) -> None:
        if key not in self:
            raise KeyError(key)
        self._columns[key[0]][key[1]][self._place] = None

    def __iter__(self) -> Iterator[Key]:
        for metric, labels in self._columns.items():
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
            for label, column in self._columns.get(metric, {}).items()
            if (value := column[place]) is not None
        }

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
        self.values = values if isinstance(values, Values) else Values({}, 0, 1)
        if values is not None and values is not self.values:
            self.values.update(values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reading):
            return NotImplemented
        mine, theirs = ((one.span_ns, one.cost_ns, one.missing) for one in (self, other))
        return mine == theirs and self.values == other.values

    def __repr__(self) -> str:
        return f"Reading({self.span_ns}, {self.cost_ns}, {self.missing!r}, {self.values!r})"


class Sheet:
    """Readings of one sensor of a host in a trial, with their values as columns. `indices`: of the record at whose end each was
    made.
    """

    def __init__(
        self,
        indices: Sequence[int],
        spans_ns: Sequence[int],
        costs_ns: Sequence[int],
        missing: Sequence[str | None],
    ) -> None:
        rows = sorted(zip(indices, spans_ns, costs_ns, missing, strict=True), key=itemgetter(0))
        self._indices = [index for index, *_ in rows]
        self._places = {index: place for place, index in enumerate(self._indices)}
        self._columns: Columns = {}
        self.readings = {
            index: Reading(span_ns, cost_ns, why, Values(self._columns, place, len(rows)))
            for place, (index, span_ns, cost_ns, why) in enumerate(rows)
        }

    def add(self, metric: str, label: str, indices: Sequence[int], values: list[int]) -> None:
        """Adds the values that a metric with a label has in the readings of these indices."""
        column: list[int | None]
        if indices == self._indices:
            column = [*values]
        else:
            column = [None] * len(self._indices)
            for index, value in zip(indices, values, strict=True):
                column[self._places[index]] = value
        self._columns.setdefault(metric, {})[label] = column
