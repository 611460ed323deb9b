"""Times of operations, interval by interval: the histograms of a trial, merged over hosts, cut into rows for a heat map.

Agents store a histogram of the layout `ll7` for every record interval and operation. Everything here adds counts of whole
buckets, so that nothing is lost and nothing is rounded: a row's edges are borders of buckets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from typing import Literal

import numpy as np
import numpy.typing as npt

from iodyno.analysis.histogram import BUCKETS, SUB_BITS, Histogram, bounds_of, bucket_of, merge
from iodyno.analysis.host_data import HostData
from iodyno.analysis.trial import Trial
from iodyno.loads.disk.analysis import block_times

Clock = Literal["service", "response"]
"""From the first attempt to the end of an operation; from when it was to begin to its end."""
ROWS_MOST = 60
"""Rows of a heat map (chosen: at 200 units of height a row is still three of them)."""
_OF_ROLE = {"send": "write", "receive": "read", "alone": "io"}
"""Operation of the histogram without a class, by the role of a host."""
_RESPONSE = "response_time"
_SERVICE_OF_CLASS, _RESPONSE_OF_CLASS = "io.", "response."
"""Prefixes of the class of an operation, in loads that have classes."""
_NO_OPERATIONS = frozenset({"lateness", "waiting", "batch"})
"""Histograms that are not of an operation's own time."""
_HELD_MOST = 32
"""Trials whose times are held before they are added up (chosen: adding them one by one would take as many times as long)."""
_ROWS_AN_OCTAVE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


@dataclass(frozen=True)
class Column:
    """One record interval: its ends in seconds since the trial's first record, its window, and the times in it (ns)."""

    begin_s: float
    end_s: float
    window: str
    times: Histogram

    @property
    def span_s(self) -> float:
        """Length of the interval."""
        return self.end_s - self.begin_s


@dataclass(frozen=True)
class OperationTimes:
    """Times of one operation by one clock, over the hosts that do it. `beside`: the name of the bystander whose they are; empty:
    the workload's. `sub_bits`: how fine the times are, as `bounds_of` has it.
    """

    operation: str
    clock: Clock
    hosts: tuple[str, ...]
    columns: tuple[Column, ...]
    beside: str = ""
    sub_bits: int = SUB_BITS

    @property
    def key(self) -> tuple[str, str, Clock]:
        """Key that the same operation has in every trial."""
        return self.beside, self.operation, self.clock

    @property
    def count(self) -> int:
        """Operations in all columns."""
        return sum(column.times.count for column in self.columns)

    def within(self, window: str) -> Histogram:
        """All times of one window, exactly merged."""
        if window not in self._merged:
            self._merged[window] = merge(column.times for column in self.columns if column.window == window)
        return self._merged[window]

    @cached_property
    def _merged(self) -> dict[str, Histogram]:
        return {}


def times_of(trial: Trial) -> tuple[OperationTimes, ...]:
    """Every operation of a trial by every clock that it has, hosts merged interval by interval; without empty ones."""
    # Of hosts of one machine `hosts` has the first only, `clients` all.
    found = list(_of_hosts((trial.clients or trial.hosts).values()))
    found += _of_devices(trial)
    for name, its in trial.bystanders.items():
        found += _of_hosts(its.hosts.values(), name)
    return tuple(each for each in found if each.count)


def _of_hosts(hosts: Iterable[HostData], beside: str = "") -> Iterable[OperationTimes]:
    parts: dict[tuple[str, Clock], list[tuple[HostData, Mapping[int, Histogram]]]] = {}
    for host in hosts:
        own = _OF_ROLE.get(host.role, host.role)
        parts.setdefault((own, "service"), []).append((host, host.histograms))
        for name, found in host.more_histograms.items():
            if name in _NO_OPERATIONS:
                continue
            key: tuple[str, Clock]
            if name == _RESPONSE:
                key = (own, "response")
            elif name.startswith(_RESPONSE_OF_CLASS):
                key = (name.removeprefix(_RESPONSE_OF_CLASS), "response")
            else:
                key = (name.removeprefix(_SERVICE_OF_CLASS), "service")
            parts.setdefault(key, []).append((host, found))
    of_classes = any(name != _OF_ROLE["alone"] for name, _ in parts)
    for (operation, clock), each in parts.items():
        # Where a load has classes, all of them together say nothing more.
        if operation == _OF_ROLE["alone"] and of_classes:
            continue
        by_host = [(host, found) for host, found in each if found and host.records]
        if by_host:
            yield _merged_hosts(operation, clock, by_host, beside)


def _of_devices(trial: Trial) -> Iterable[OperationTimes]:
    """Yield the times that the block device under the target took for reads and writes, on each machine that tells."""
    for kind in ("read", "write"):
        parts = [
            (host, block_times.times_of(trial, host, operations=(kind,))) for host in trial.hosts.values()
        ]
        recorded = [(host, found) for host, found in parts if found and host.records]
        if recorded:
            found = _merged_hosts(f"{kind} at the device", "service", recorded)
            yield replace(found, sub_bits=block_times.SUB_BITS)


def _merged_hosts(
    operation: str,
    clock: Clock,
    each: Sequence[tuple[HostData, Mapping[int, Histogram]]],
    beside: str = "",
) -> OperationTimes:
    """Records of one index are of one interval on every host: all begin at the instant that they were armed for."""
    host = max((host for host, _ in each), key=lambda host: len(host.records))
    start = host.records[0].begin_ns
    columns = tuple(
        Column(
            (record.begin_ns - start) / 1e9,
            (record.end_ns - start) / 1e9,
            record.window,
            _together([found[record.index] for _, found in each if record.index in found]),
        )
        for record in host.records
        if record.span_ns > 0
    )
    return OperationTimes(operation, clock, tuple(host.name for host, _ in each), columns, beside)


def over_trials(each: Sequence[OperationTimes]) -> OperationTimes:
    """The same operation of several trials, interval by interval; ends of intervals are those of the longest trial."""
    longest = max(each, key=lambda times: len(times.columns))
    columns = tuple(
        replace(
            column, times=_together([one.columns[place].times for one in each if place < len(one.columns)])
        )
        for place, column in enumerate(longest.columns)
    )
    return replace(longest, columns=columns)


def of_all(trials: Iterable[Iterable[OperationTimes]]) -> tuple[OperationTimes, ...]:
    """The operations of any number of trials, each operation over all of them. What was added up takes no more room, however
    many there are.
    """
    found: dict[object, list[OperationTimes]] = {}
    for times in chain.from_iterable(trials):
        each = found.setdefault(times.key, [])
        each.append(times)
        if len(each) == _HELD_MOST:
            each[:] = [over_trials(each)]
    return tuple(over_trials(each) for each in found.values())


def _together(each: Sequence[Histogram]) -> Histogram:
    """One is what it is; only several have to be added."""
    return each[0] if len(each) == 1 else merge(each)


def joined(times: OperationTimes, columns_most: int) -> OperationTimes:
    """With neighbours of one window joined, so that there are no more columns than asked for (windows permitting)."""
    every = -(-len(times.columns) // columns_most)
    if every <= 1:
        return times
    columns: list[Column] = []
    members: list[list[Column]] = []
    for column in times.columns:
        if members and len(members[-1]) < every and members[-1][-1].window == column.window:
            members[-1].append(column)
        else:
            members.append([column])
    for group in members:
        both = merge(column.times for column in group)
        columns.append(Column(group[0].begin_s, group[-1].end_s, group[0].window, both))
    return replace(times, columns=tuple(columns))


@dataclass(frozen=True)
class Rows:
    """Rows of a heat map over time in ns: row r holds edges[r] <= time < edges[r + 1]. All edges are borders of buckets, of
    those with 2^`sub_bits` an octave.

    `an_octave`: rows from a time to twice it. Edges lie next to 2^(step / an_octave) ns, for whole steps from `first` to `last`.
    """

    edges: tuple[int, ...]
    an_octave: int
    first: int
    last: int
    sub_bits: int = SUB_BITS

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.edges) - 1

    def finer(self, rows_most: int) -> Rows:
        """Rows of the same range with all of these edges and more between them, `rows_most` at most; else these."""
        best = self
        for an_octave in _ROWS_AN_OCTAVE:
            times, rest = divmod(an_octave, self.an_octave)
            if rest == 0 and times > 1:
                found = _rows(
                    an_octave, self.first * times, self.last * times, self.edges[0] == 0, self.sub_bits
                )
                if found.count <= rows_most:
                    best = found
        return best

    @cached_property
    def _row_of_bucket(self) -> npt.NDArray[np.int64]:
        """Row of every bucket; the first behind the others outside of the range."""
        rows = np.searchsorted(self.edges, _lows(), side="right") - 1
        return np.where(rows < 0, self.count, rows)

    def counts(self, times: Histogram) -> dict[int, int]:
        """Times in each row, rows without any left out. Every bucket lies in exactly one row.

        Raises ValueError when a time lies outside of the rows: nothing is dropped silently.
        """
        # A page asks for the same ones when it looks how fine its rows may be, when it draws them, and for its data.
        known = self._counted.get(id(times))
        if known is None:
            known = self._counted[id(times)] = times, self._counts(times)
        return known[1]

    @cached_property
    def _counted(self) -> dict[int, tuple[Histogram, dict[int, int]]]:
        return {}

    def _counts(self, times: Histogram) -> dict[int, int]:
        sums = np.zeros(self.count + 1, dtype=np.int64)
        np.add.at(sums, self._row_of_bucket[np.asarray(times.buckets, dtype=np.int64)], times.counts)
        if sums[-1]:
            raise ValueError(f"{sums[-1]} times lie outside of the rows")
        rows = np.flatnonzero(sums)
        return dict(zip(rows.tolist(), sums[rows].tolist(), strict=True))


class SeenRows:
    """Which of the finest rows hold a time, in each of several histograms."""

    def __init__(self, finest: Rows, each: Sequence[Histogram]) -> None:
        self._finest = finest
        held = [at * finest.count + row for at, times in enumerate(each) for row in finest.counts(times)]
        self._held = np.sort(np.array(held, np.int64))

    def cells(self, rows: Rows) -> int:
        """Cells that hold a time, of all histograms in `rows`, whose edges are among the finest ones."""
        row_of = np.searchsorted(rows.edges, self._finest.edges[:-1], side="right")
        columns, finest = np.divmod(self._held, self._finest.count)
        cells = columns * (rows.count + 1) + row_of[finest]
        return int(np.count_nonzero(np.diff(cells))) + (len(cells) > 0)


@cache
def _lows() -> npt.NDArray[np.int64]:
    """Least time of each bucket."""
    return np.asarray([bounds_of(bucket)[0] for bucket in range(BUCKETS)])


def rows_for(each: Iterable[OperationTimes], rows_most: int = ROWS_MOST) -> Rows | None:
    """Logarithmic rows that hold every time of all of them, as many an octave as keep their number to `rows_most`; None when
    there is no time at all."""
    each = list(each)
    sub_bits = min((times.sub_bits for times in each), default=SUB_BITS)
    buckets = [
        (column.times.buckets[0], column.times.buckets[-1])
        for times in each
        for column in times.columns
        if column.times.buckets
    ]
    if not buckets:
        return None
    low, _ = bounds_of(min(first for first, _ in buckets), sub_bits)
    _, high = bounds_of(max(last for _, last in buckets), sub_bits)
    best = None
    for an_octave in _ROWS_AN_OCTAVE:
        first = math.floor(math.log2(max(low, 1)) * an_octave)
        last = math.ceil(math.log2(max(high, 2)) * an_octave)
        # A border next to the exact place may have passed the value itself.
        while first > 0 and border(2.0 ** (first / an_octave), sub_bits) > low:
            first -= 1
        while border(2.0 ** (last / an_octave), sub_bits) < high:
            last += 1
        rows = _rows(an_octave, first, last, low == 0, sub_bits)
        if best is None or rows.count <= rows_most:
            best = rows
    return best


def _rows(an_octave: int, first: int, last: int, from_zero: bool, sub_bits: int) -> Rows:
    edges = [border(2.0 ** (step / an_octave), sub_bits) for step in range(first, last + 1)]
    # Below some hundred ns neighbours of a fine scale share a border.
    return Rows(tuple(dict.fromkeys([0, *edges] if from_zero else edges)), an_octave, first, last, sub_bits)


def border(value: float, sub_bits: int) -> int:
    """The border of a bucket, of those with 2^`sub_bits` an octave, that is nearest to a value in ns."""
    low, high = bounds_of(bucket_of(max(0, round(value))), sub_bits)
    return low if value - low <= high - value else high
