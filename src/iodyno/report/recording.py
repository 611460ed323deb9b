"""A recording as tables: what the host and its devices did over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from iodyno.analysis.recording import DATA, HostRow, OperationRow, Recording, Slot
from iodyno.core.quantity import counted, show_rough
from iodyno.report.form import Block, Row, Shown
from iodyno.report.numbers import digits, quantity
from iodyno.report.table import Cell, Column, Table

ROWS_MOST = 24
"""Rows of a table (chosen: what a person reads; an hour each of a day)."""
_QUANTILES = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
_LEAST_BEYOND = 10
"""Values beyond a quantile, or it is just the largest one seen (chosen, as for the operations of a load)."""
_CLASSES = ("usr", "sys", "intr", "steal", "idle")
_RATES = (
    ("context_switches_per_s", "switches", "1/s"),
    ("received_bytes_per_s", "received", "B/s"),
    ("sent_bytes_per_s", "sent", "B/s"),
)


def shown_of(recording: Recording) -> Shown:
    """Return what there is to show of a recording."""
    host = recording.host_rows(ROWS_MOST)
    devices = {
        name: {kind: recording.device_rows(name, kind, ROWS_MOST) for kind in recording.operations(name)}
        for name in recording.devices()
    }
    calls = {kind: recording.call_rows(kind, ROWS_MOST) for kind in recording.calls()}
    return Shown(
        lambda: _blocks(recording, host, devices, calls),
        lambda: _values(recording, host, devices, calls),
        lambda: _csv(recording, host, devices, calls),
    )


Kinds = Mapping[str, list[OperationRow]]
Devices = Mapping[str, Kinds]


def _blocks(recording: Recording, host: list[HostRow], devices: Devices, calls: Kinds) -> Iterator[Block]:
    length = show_rough(round(recording.length_s * 1e9))
    yield (
        f"Recording of {recording.host}: {length} from {recording.begin:%Y-%m-%d %H:%M:%S} UTC, "
        f"{counted(recording.intervals, 'interval')} of {recording.every_ns / 1e9:g} s in "
        f"{counted(len(recording.segments), 'segment')}"
    )
    if missing := _missing(recording, host):
        yield missing
    day = recording.length_s > 86_400
    columns = [Column("time (UTC)"), *(Column(f"{name} %", right=True) for name in _CLASSES)]
    columns += [Column(title, right=True) for _, title, _ in _RATES]
    rows = [
        (
            Cell(_time(recording, row.slot, day)),
            *(Cell(digits(100 * row.cpu[name]) if row.cpu else "–") for name in _CLASSES),
            *(Cell(quantity(row.per_s.get(name), unit)) for name, _, unit in _RATES),
        )
        for row in host
        if row.slot.recorded_ns
    ]
    yield Table(f"CPU time of all CPUs, by ticks ({recording.host})", tuple(columns), tuple(rows))
    for device, kinds in devices.items():
        title = f"Device {device}: times from the hand-over to the device to the completion"
        yield _operations(recording, title, kinds, day)
    if not devices:
        yield "No operation of a block device was seen."
    if count := recording.left_out():
        yield f"{counted(count, 'operation')} not in these numbers: the kernel did not show their begin or end."
    if calls:
        title = f"System calls of all processes but the agent ({recording.host}): times from begin to end"
        yield _operations(recording, title, calls, day, calls=True)
    if count := recording.left_out("syscall"):
        yield f"{counted(count, 'call')} not in these numbers: no memory to remember their begin."
    for each in recording.damaged:
        yield f"Damaged and left out: {each.name}."


def _operations(recording: Recording, title: str, kinds: Kinds, day: bool, *, calls: bool = False) -> Table:
    """The table of the operations of a device, or of system calls, by kind."""
    table: list[tuple[Cell, ...]] = []
    for number in range(max(map(len, kinds.values()), default=0)):
        for kind, found in kinds.items():
            row = found[number]
            if not row.slot.recorded_ns or not (row.operations or kind in DATA):
                continue
            cells = [
                _time(recording, row.slot, day),
                kind,
                quantity(row.per_s(row.operations), "1/s"),
                quantity(row.per_s(row.bytes), "B/s"),
                *(quantity(_quantile(row, q), "ns") for _, q in _QUANTILES),
                str(row.errors if calls else row.slow),
            ]
            table.append(tuple(map(Cell, cells)))
    what, last = ("calls", "failed") if calls else ("operations", "over 20 ms")
    titles = (what, "bytes", *(name for name, _ in _QUANTILES), last)
    heads = (Column("time (UTC)"), Column("kind"), *(Column(each, right=True) for each in titles))
    return Table(title, heads, tuple(table), 2)


def _missing(recording: Recording, host: list[HostRow]) -> str:
    recorded_s = sum(row.slot.recorded_ns for row in host) / 1e9
    lost_s = recording.length_s - recorded_s
    return f"Of that time {show_rough(round(lost_s * 1e9))} were not recorded." if lost_s >= 1 else ""


def _time(recording: Recording, slot: Slot, day: bool) -> str:
    at = recording.begin + timedelta(seconds=round(slot.begin_s))
    return f"{at:%m-%d %H:%M:%S}" if day else f"{at:%H:%M:%S}"


def _quantile(row: OperationRow, q: float) -> float | None:
    return row.times.quantile(q) if (1 - q) * row.times.count >= _LEAST_BEYOND else None


def _values(recording: Recording, host: list[HostRow], devices: Devices, calls: Kinds) -> dict[str, Any]:
    return {
        "recording": {
            "host": recording.host,
            "begin": recording.begin.isoformat(timespec="milliseconds"),
            "length_s": recording.length_s,
            "interval_s": recording.every_ns / 1e9,
            "intervals": recording.intervals,
            "segments": len(recording.segments),
            "left_out": recording.left_out(),
        },
        "host": [{**_place(recording, row.slot), "cpu_ratio": dict(row.cpu), **row.per_s} for row in host],
        "devices": {
            device: {kind: [_device(recording, row) for row in rows] for kind, rows in kinds.items()}
            for device, kinds in devices.items()
        },
        "system_calls": {kind: [_call(recording, row) for row in rows] for kind, rows in calls.items()},
    }


def _place(recording: Recording, slot: Slot) -> dict[str, Any]:
    return {
        "begin": (recording.begin + timedelta(seconds=slot.begin_s)).isoformat(timespec="milliseconds"),
        "length_s": slot.end_s - slot.begin_s,
        "recorded_s": slot.recorded_ns / 1e9,
    }


def _device(recording: Recording, row: OperationRow) -> dict[str, Any]:
    return {
        **_place(recording, row.slot),
        "operations": row.operations,
        "bytes": row.bytes,
        "slow_operations": row.slow,
        **_times(row),
    }


def _call(recording: Recording, row: OperationRow) -> dict[str, Any]:
    return {
        **_place(recording, row.slot),
        "calls": row.operations,
        "call_bytes": row.bytes,
        "failed_calls": row.errors,
        **_times(row),
    }


def _times(row: OperationRow) -> dict[str, Any]:
    quantiles = {f"{name.replace('.', '')}_ns": _quantile(row, q) for name, q in _QUANTILES}
    return {"mean_ns": row.times.mean, **quantiles}


def _csv(recording: Recording, host: list[HostRow], devices: Devices, calls: Kinds) -> Iterator[Row]:
    for row in host:
        shares = {f"cpu_{name}_ratio": row.cpu.get(name) for name in _CLASSES}
        for name, value in {**shares, **row.per_s}.items():
            yield {**_place(recording, row.slot), "device": "", "kind": "", "metric": name, "value": value}
    each = [
        (device, kind, _device(recording, one))
        for device, kinds in devices.items()
        for kind, rows in kinds.items()
        for one in rows
    ]
    each += [("system calls", kind, _call(recording, one)) for kind, rows in calls.items() for one in rows]
    for device, kind, values in each:
        place = {name: values.pop(name) for name in ("begin", "length_s", "recorded_s")}
        for name, value in values.items():
            yield {**place, "device": device, "kind": kind, "metric": name, "value": value}
