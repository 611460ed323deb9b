"""A recording over time: intervals of its segments, joined to as many slots as are shown. Counts are added up, nothing is lost.

The column engine does it: a recording of days has millions of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from iodyno.analysis.histogram import Histogram
from iodyno.analysis.operation_times import Column, OperationTimes
from iodyno.core.errors import StoreError
from iodyno.core.grid import Grid
from iodyno.loads.disk.analysis.block_times import SERVICE, SUB_BITS
from iodyno.store.reader import Campaign, read_campaign

_SIZES = (*(f"{4 << power}KiB" for power in range(8)), "1MiB", "more")
"""Classes of size of operations, as the sensor names them."""
DATA = ("read", "write")
"""Operations that are shown where nobody says which."""
CALLS = ("read", "write", "sync", "receive", "send", "copy")
"""Kinds of system calls, as the sensor names them."""
_CALL_TIME = "syscall.time_ns"
_CPU = {
    "usr": ("cpu.user_ns", "cpu.nice_ns"),
    "sys": ("cpu.system_ns",),
    "intr": ("cpu.irq_ns", "cpu.softirq_ns"),
    "steal": ("cpu.steal_ns",),
    "idle": ("cpu.idle_ns", "cpu.iowait_ns"),
}
"""Classes of CPU time, as ticks tell them."""
_PER_S = {
    "context_switches_per_s": ("sched.context_switches",),
    "received_bytes_per_s": ("net.rx_bytes",),
    "sent_bytes_per_s": ("net.tx_bytes",),
}


@dataclass(frozen=True)
class Slot:
    """Some intervals that are shown as one: its ends in seconds since the recording began, and how much of it was recorded."""

    begin_s: float
    end_s: float
    recorded_ns: int


@dataclass(frozen=True)
class HostRow:
    """CPU time of a host by class, as shares of all its CPUs, and rates, in one slot."""

    slot: Slot
    cpu: Mapping[str, float]
    per_s: Mapping[str, float]


@dataclass(frozen=True)
class OperationRow:
    """Operations of a device in one slot, of one kind, with their times there; or system calls. `slow`: those over 20 ms, of
    devices only.
    """

    slot: Slot
    times: Histogram
    operations: int
    bytes: int
    errors: int
    slow: int = 0

    def per_s(self, amount: int) -> float:
        """Return the amount a second."""
        return amount * 1e9 / self.slot.recorded_ns if self.slot.recorded_ns else 0.0


@dataclass(frozen=True)
class _Counts:
    """Metrics of operations, bytes, errors and, of devices, slow ones, and which of their labels."""

    metrics: tuple[str, ...]
    where: str
    values: tuple[str, ...]


def is_recording(header: Mapping[str, Any]) -> bool:
    """Tell whether a campaign is a recording."""
    return bool(header.get("recording"))


class Recording:
    """The recording in `folder`. Raises StoreError when it is none, or has nothing yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._campaign: Campaign = read_campaign(folder)
        self.header = self._campaign.header
        self.segments = [each for each in self._campaign.trials if each.counts]
        self.damaged = [each for each in self._campaign.trials if each.invalid]
        if not self.segments:
            raise StoreError(
                "no segment is put away yet",
                where=str(folder),
                advice=f"wait for the first, or put away what a killed recorder left: iodyno record --into {folder} --for 0s",
            )
        self.every_ns = int(self.header["recording"]["every_ns"])
        self._connection = self._campaign.connect()
        with self._reading():
            self._connection.execute("CREATE TEMP TABLE segment (trial VARCHAR, wall_ns BIGINT)")
            rows = [[each.name, _wall_ns(each.manifest)] for each in self.segments]
            self._connection.executemany("INSERT INTO segment VALUES (?, ?)", rows)
            self._connection.execute(
                "CREATE TEMP TABLE span AS SELECT trial, host, records.index AS index, wall_ns + begin_ns - first_ns AS at_ns, "
                "end_ns - begin_ns AS span_ns FROM records JOIN segment USING (trial) "
                "JOIN (SELECT trial, min(begin_ns) AS first_ns FROM records GROUP BY trial) USING (trial)"
            )
            first, last, self.intervals = self._rows(
                "SELECT min(at_ns), max(at_ns + span_ns), count(*) FROM span"
            )[0]
        self._begin_ns = int(first)
        self.length_s = (last - first) / 1e9
        self.begin = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=first // 1000)

    @property
    def host(self) -> str:
        """What was recorded: `local`, or how ssh reached it."""
        return str(self.header["recording"]["host"])

    def devices(self, asked: Iterable[str] = ()) -> list[str]:
        """Devices that are shown: those asked for, those that the recorder named, or all that did anything."""
        there = [
            str(row[0])
            for row in self._rows(
                f"SELECT {_part('label', 'dev')} AS dev FROM series WHERE metric = 'block.operations' "
                "GROUP BY dev ORDER BY sum(value) DESC, dev"
            )
        ]
        asked = list(asked)
        if unknown := [name for name in asked if name not in there]:
            known = ", ".join(there) or "none did anything"
            raise StoreError(
                f"no operation of {unknown[0]} is recorded: there are {known}", where=str(self.folder)
            )
        # Of those that the recorder named, one may have done nothing yet.
        shown = asked or self.header["recording"].get("devices") or there
        return [name for name in shown if name in there]

    def operations(self, device: str) -> list[str]:
        """Kinds of operations that the device did, reads and writes first."""
        label = _part("label", "operation")
        found = self._rows(
            f"SELECT DISTINCT {label} AS kind FROM series WHERE metric = 'block.operations' "
            f"AND {_part('label', 'dev')} = ? ORDER BY kind NOT IN ('read', 'write'), kind",
            [device],
        )
        return [str(row[0]) for row in found]

    def slots(self, most: int, begin_s: float = 0.0, end_s: float = math.inf) -> list[Slot]:
        """The recording from `begin_s` to `end_s` in at most so many slots of equal length, also where nothing was recorded."""
        with self._slotted(most, begin_s, end_s) as slots:
            return slots

    def times(
        self, device: str, operation: str, most: int, begin_s: float = 0.0, end_s: float = math.inf
    ) -> OperationTimes:
        """Times at the device, a column a slot."""
        return self._times(operation, self.device_rows(device, operation, most, begin_s, end_s))

    def _times(self, operation: str, rows: Iterable[OperationRow]) -> OperationTimes:
        columns = tuple(Column(row.slot.begin_s, row.slot.end_s, "measured", row.times) for row in rows)
        return OperationTimes(operation, "service", (self.host,), columns, sub_bits=SUB_BITS)

    def device_rows(
        self, device: str, operation: str, most: int, begin_s: float = 0.0, end_s: float = math.inf
    ) -> list[OperationRow]:
        """Operations of a device, a row a slot."""
        where = f"{_part('label', 'dev')} = ? AND {_part('label', 'operation')} = ?"
        metrics = ("operations", "operation_bytes", "errors", "slow_operations")
        counts = _Counts(tuple(f"block.{name}" for name in metrics), where, (device, operation))
        histogram = f"{SERVICE}[dev={device},operation={operation},"
        return self._operation_rows(counts, histogram, most, begin_s, end_s)

    def calls(self) -> list[str]:
        """What the system calls did that ended, reads first; empty: none is recorded."""
        label = _part("label", "operation")
        found = {
            str(row[0])
            for row in self._rows(f"SELECT DISTINCT {label} FROM series WHERE metric = 'syscall.calls'")
        }
        return [kind for kind in CALLS if kind in found]

    def call_times(
        self, kind: str, most: int, begin_s: float = 0.0, end_s: float = math.inf
    ) -> OperationTimes:
        """Times of system calls of a kind, a column a slot."""
        return self._times(kind, self.call_rows(kind, most, begin_s, end_s))

    def call_rows(
        self, kind: str, most: int, begin_s: float = 0.0, end_s: float = math.inf
    ) -> list[OperationRow]:
        """System calls of a kind of all processes, a row a slot."""
        metrics = tuple(f"syscall.{name}" for name in ("calls", "call_bytes", "errors"))
        counts = _Counts(metrics, f"{_part('label', 'operation')} = ?", (kind,))
        return self._operation_rows(counts, f"{_CALL_TIME}[operation={kind}]", most, begin_s, end_s)

    def _operation_rows(
        self, counted: _Counts, histogram: str, most: int, begin_s: float, end_s: float
    ) -> list[OperationRow]:
        """Rows of operations whose histograms' names begin so."""
        with self._slotted(most, begin_s, end_s) as slots:
            names = ", ".join(f"'{name}'" for name in counted.metrics)
            counts: dict[tuple[int, str], int] = {
                (slot, metric): int(amount)
                for slot, metric, amount in self._rows(
                    "SELECT slot, metric, sum(value) FROM series JOIN slot USING (trial, host, index) "
                    f"WHERE metric IN ({names}) AND {counted.where} GROUP BY slot, metric",
                    counted.values,
                )
            }
            of_kind = "FROM histograms JOIN slot USING (trial, host, index) WHERE starts_with(operation, ?)"
            sums = {
                slot: (int(count), int(sum_ns))
                for slot, count, sum_ns in self._rows(
                    f"SELECT slot, sum(count), sum(sum_ns) {of_kind} GROUP BY slot", [histogram]
                )
            }
            cells: dict[int, list[tuple[int, int]]] = {}
            for slot, bucket, count in self._rows(
                "SELECT slot, bucket, sum(count) FROM "
                f"(SELECT slot, unnest(buckets) AS bucket, unnest(counts) AS count {of_kind}) "
                "GROUP BY slot, bucket ORDER BY slot, bucket",
                [histogram],
            ):
                cells.setdefault(slot, []).append((bucket, int(count)))
        rows = []
        for number, slot in enumerate(slots):
            buckets, each = zip(*cells[number], strict=True) if number in cells else ((), ())
            times = Histogram(*sums.get(number, (0, 0)), tuple(buckets), tuple(each))
            rows.append(
                OperationRow(slot, times, *(counts.get((number, name), 0) for name in counted.metrics))
            )
        return rows

    def sizes(
        self, device: str, operation: str, most: int, begin_s: float = 0.0, end_s: float = math.inf
    ) -> Grid:
        """Sizes of operations, a row a class: the powers of two that they are rounded up to."""
        with self._slotted(most, begin_s, end_s) as slots:
            counted = self._rows(
                f"SELECT slot, {_part('label', 'size')} AS size, sum(value) "
                "FROM series JOIN slot USING (trial, host, index) WHERE metric = 'block.operations' "
                f"AND {_part('label', 'dev')} = ? AND {_part('label', 'operation')} = ? GROUP BY slot, size",
                [device, operation],
            )
        cells = sorted((int(slot), _SIZES.index(size), int(count)) for slot, size, count in counted)
        inside = sum(count for _, _, count in cells)
        (whole,) = self.device_rows(device, operation, 1)
        none = (0,) * len(slots)
        return Grid(
            "size",
            "bytes",
            round(slots[0].begin_s * 1e9) if slots else 0,
            round((slots[0].end_s - slots[0].begin_s) * 1e9) if slots else self.every_ns,
            len(slots),
            tuple(4096.0 * 2**row for row in range(len(_SIZES) + 1)),
            "log",
            tuple(cells),
            none,
            none,
            whole.operations - inside,
            whole.operations,
            0,
            (),
            form="store",
            notes=("sizes are rounded up to a power of two, 4 KiB to 2 MiB",),
        )

    def host_rows(self, most: int) -> list[HostRow]:
        """CPU time and rates of the host, a row a slot."""
        with self._slotted(most, 0.0, math.inf) as slots:
            found: dict[int, dict[str, int]] = {}
            for slot, metric, amount in self._rows(
                "SELECT slot, metric, sum(value) FROM series JOIN slot USING (trial, host, index) "
                "WHERE (sensor = 'cpu_times' OR metric IN ('sched.context_switches', 'net.rx_bytes', 'net.tx_bytes')) "
                "AND label <> 'dev=lo' GROUP BY slot, metric"
            ):
                found.setdefault(slot, {})[metric] = int(amount)
        rows = []
        for number, slot in enumerate(slots):
            amounts = found.get(number, {})
            cpu = {name: sum(amounts.get(metric, 0) for metric in metrics) for name, metrics in _CPU.items()}
            total = sum(cpu.values())
            per_s = {
                name: sum(amounts.get(metric, 0) for metric in metrics) * 1e9 / slot.recorded_ns
                for name, metrics in _PER_S.items()
                if slot.recorded_ns and any(metric in amounts for metric in metrics)
            }
            shares = {name: value / total for name, value in cpu.items()} if total else {}
            rows.append(HostRow(slot, shares, per_s))
        return rows

    def left_out(self, sensor: str = "block") -> int:
        """Operations that the kernel did not show whole; of `syscall` calls that it had no room for."""
        sums = f"SELECT coalesce(sum(value), 0) FROM series WHERE metric = '{sensor}.left_out'"
        return int(self._rows(sums)[0][0])

    @contextmanager
    def _slotted(self, most: int, begin_s: float, end_s: float) -> Iterator[list[Slot]]:
        """The slots, with the table `slot`, which has the slot of each interval meanwhile."""
        begin_s, end_s = max(0.0, begin_s), min(end_s, self.length_s)
        length_ns = max(1, round((end_s - begin_s) * 1e9))
        # Intervals of the records end a little late, never so late that they were another's.
        joined = max(1, math.ceil(max(1, round(length_ns / self.every_ns)) / most))
        width_ns, origin_ns = joined * self.every_ns, self._begin_ns + round(begin_s * 1e9)
        place = f"CAST(floor((at_ns - {origin_ns} + {self.every_ns // 2}) / {width_ns}) AS BIGINT)"
        self._connection.execute(
            f"CREATE OR REPLACE TEMP TABLE slot AS SELECT trial, host, index, {place} AS slot, at_ns, span_ns FROM span "
            f"WHERE at_ns + {self.every_ns // 2} >= {origin_ns} AND at_ns + {self.every_ns // 2} < {origin_ns + length_ns}"
        )
        found = {
            slot: (int(recorded), int(last))
            for slot, recorded, last in self._rows(
                "SELECT slot, sum(span_ns), max(at_ns + span_ns) FROM slot GROUP BY slot"
            )
        }
        number = max(found, default=-1) + 1
        slots = []
        for slot in range(number):
            recorded_ns, last_ns = found.get(slot, (0, 0))
            at_s, width_s = begin_s + slot * width_ns / 1e9, width_ns / 1e9
            if slot == number - 1 and joined > 1:
                width_s = min(width_s, max(self.every_ns / 1e9, (last_ns - self._begin_ns) / 1e9 - at_s))
            slots.append(Slot(at_s, at_s + width_s, recorded_ns))
        try:
            yield slots
        finally:
            self._connection.execute("DROP TABLE slot")

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._reading():
            return self._connection.execute(query, list(values)).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except duckdb.Error as error:
            raise StoreError(
                f"cannot be read: {str(error).splitlines()[0]}",
                where=str(self.folder),
                advice="try again: a segment may have been removed meanwhile",
            ) from error


def _part(column: str, key: str) -> str:
    """SQL of one part of a label."""
    return f"regexp_extract({column}, '(?:^|,){key}=([^,]*)', 1)"


def _wall_ns(manifest: Mapping[str, Any]) -> int:
    return round(datetime.fromisoformat(manifest["started_wall"]).timestamp() * 1e3) * 10**6
