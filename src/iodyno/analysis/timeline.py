"""What happened during a trial, interval by interval, for a person to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iodyno.analysis import cpu_classes
from iodyno.analysis.cpu_classes import ClassTier
from iodyno.analysis.dataset import HostData, Record, Trial


@dataclass(frozen=True)
class Line:
    """One quantity of one host over a trial: ends of the intervals in seconds since the start, and values."""

    host: str
    seconds: tuple[float, ...]
    values: tuple[float, ...]
    windows: tuple[str, ...]


@dataclass(frozen=True)
class Timeline:
    """The lines of a trial, and its measured window in seconds since the start."""

    goodput_bits_per_s: Line | None
    busy_cpus: tuple[Line, ...]
    retransmits: Line | None
    measured: tuple[float, float]


def timeline(trial: Trial, tier: ClassTier) -> Timeline | None:
    """The lines of a finished trial, with CPU time of that tier; None when there are no records."""
    receiver, sender = trial.end("receive"), trial.end("send")
    shown = receiver or next(iter(trial.hosts.values()), None)
    if shown is None or not shown.records:
        return None
    start = shown.records[0].begin_ns
    measured = shown.measured
    rates = {r.index: r.bytes * 8e9 / r.span_ns for r in receiver.records if r.span_ns} if receiver else {}
    again = {
        index: float(reading.values["tcp.retransmitted_segments", ""])
        for index, reading in (sender.readings.get("tcp_info", {}) if sender else {}).items()
        if ("tcp.retransmitted_segments", "") in reading.values
    }
    return Timeline(
        goodput_bits_per_s=_line(receiver, rates) if receiver else None,
        busy_cpus=tuple(_line(host, _busy_cpus(host, tier)) for host in trial.hosts.values()),
        retransmits=_line(sender, again) if sender and again else None,
        measured=((measured[0].begin_ns - start) / 1e9, (measured[-1].end_ns - start) / 1e9)
        if measured
        else (0.0, 0.0),
    )


def _busy_cpus(host: HostData, tier: ClassTier) -> dict[int, float]:
    found = cpu_classes.spent(host, tier, every=True) or cpu_classes.spent(host, "tick", every=True)
    return {one.index: max(0.0, one.busy_ns / one.span_ns) for one in found}


def _line(host: HostData, values: Mapping[int, float]) -> Line:
    shown: list[Record] = [record for record in host.records if record.index in values]
    start = host.records[0].begin_ns
    return Line(
        host=host.name,
        seconds=tuple((record.end_ns - start) / 1e9 for record in shown),
        values=tuple(values[record.index] for record in shown),
        windows=tuple(record.window for record in shown),
    )
