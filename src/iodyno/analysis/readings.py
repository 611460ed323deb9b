"""Readings of sensors as columns: what a metric with a label was at the ends of a host's intervals.

A trial has thousands of values and some hundred pairs of metric and label, each of which nearly every reading of its sensor has.
So they are kept by pair, and a reading is a row of all of its sensor's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from operator import itemgetter
from typing import overload

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

Key = tuple[str, str]
"""Metric and label."""
Column = list[int | None]
"""Values by place of the reading; None where a reading has none."""


class Columns(dict[str, dict[str, Column]]):
    """Columns of the readings at `indices`, by metric and label. Those of a metric are made when they are asked for: few are."""

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__()
        self.indices = list(indices)
        self._stored: dict[str, dict[str, tuple[Integers, Integers]]] = {}

    def add(self, metric: str, label: str, indices: Integers, values: Integers) -> None:
        """Adds the values that a metric with a label has in the readings at these indices."""
        self._stored.setdefault(metric, {})[label] = indices, values

    def __missing__(self, metric: str) -> dict[str, Column]:
        stored = self._stored.pop(metric, None)
        if stored is None:
            raise KeyError(metric)
        found = self[metric] = {label: self._column(*each) for label, each in stored.items()}
        return found

    def of(self, metric: str) -> dict[str, Column]:
        """Columns of a metric, by label; none where nothing has it."""
        try:
            return self[metric]
        except KeyError:
            return {}

    def of_all(self) -> Mapping[str, dict[str, Column]]:
        """All of them, by metric."""
        for metric in [*self._stored]:
            self.of(metric)
        return self

    def _column(self, indices: Integers, values: Integers) -> Column:
        if indices.tolist() == self.indices:
            return [*values.tolist()]
        by_index = dict(zip(indices.tolist(), values.tolist(), strict=True))
        return [by_index.get(index) for index in self.indices]


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
        labels = self._columns.of(key[0])
        labels.setdefault(key[1], [None] * len(self._columns.indices))[self._place] = value
        self._columns[key[0]] = labels

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
            for label, column in self._columns.of(metric).items()
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
        self.values = values if isinstance(values, Values) else Values(Columns([0]), 0)
        if values is not None and values is not self.values:
            self.values.update(values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reading):
            return NotImplemented
        mine, theirs = ((one.span_ns, one.cost_ns, one.missing) for one in (self, other))
        return mine == theirs and self.values == other.values

    def __repr__(self) -> str:
        return f"Reading({self.span_ns}, {self.cost_ns}, {self.missing!r}, {self.values!r})"


def readings_of(
    indices: Sequence[int], spans_ns: Sequence[int], costs_ns: Sequence[int], missing: Sequence[str | None]
) -> tuple[dict[int, Reading], Columns]:
    """Readings of one sensor of a host by the indices of the records at whose ends they were made, and where their values go."""
    rows = sorted(zip(indices, spans_ns, costs_ns, missing, strict=True), key=itemgetter(0))
    columns = Columns([index for index, *_ in rows])
    return {
        index: Reading(span_ns, cost_ns, why, Values(columns, place))
        for place, (index, span_ns, cost_ns, why) in enumerate(rows)
    }, columns
