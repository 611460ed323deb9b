"""Metrics that other programs hold, in a trial: what they were in the measured window, and over its time.

Readings are on the lab's clock: the windows of a trial begin at one instant there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from iodyno.analysis.measured import Measured, missing
from iodyno.core.errors import StoreError
from iodyno.core.metric_source import names_of
from iodyno.store.schema import TRIALS, part_file


@dataclass(frozen=True)
class MetricReading:
    """A value that held at some moment `before_ns` to `after_ns` since the load began; None: it is `missing`."""

    before_ns: int
    after_ns: int
    value: float | None
    missing: str | None

    @property
    def at_ns(self) -> float:
        """The middle of both."""
        return (self.before_ns + self.after_ns) / 2


@dataclass(frozen=True)
class MetricData:
    """A metric in one trial: `kind`, `unit` of its outcome, `every_ns` between its readings. `clock_ns`: how far all of its times
    may be off together, as its source has a clock of its own.
    """

    source: str
    kind: str
    unit: str
    every_ns: int
    full: float | None
    clock_ns: int
    readings: tuple[MetricReading, ...] = ()

    def steps(self) -> list[tuple[int, float, float]]:
        """What it was over time: when, from when on (ns since the load began), and the value; of a counter its rate."""
        known = sorted((r.at_ns, r.value) for r in self.readings if r.value is not None)
        if self.kind == "gauge":
            return [(round(at), at - self.every_ns, value) for at, value in known]
        return [
            (round(to), since, (value - before) / (to - since) * 1e9)
            for (since, before), (to, value) in pairwise(known)
            if value >= before and to > since
        ]

    def within(self, windows: Mapping[str, int]) -> list[MetricReading]:
        """Readings of the measured window, and the nearest beside it where a counter was read at its ends."""
        begin = windows["warm_up_ns"]
        end, beside = begin + windows["measured_ns"], self.every_ns / 2
        return sorted(
            (r for r in self.readings if begin - beside <= r.at_ns <= end + beside), key=lambda r: r.at_ns
        )


def read_metrics(
    connection: Any, rows: str, experiment: Mapping[str, Any], manifests: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, MetricData]]:
    """The metrics of each trial that has a manifest here, by name with their source. Raises StoreError for one that the
    experiment does not name.
    """
    found: dict[str, dict[str, MetricData]] = {}
    for trial, manifest in manifests.items():
        clocks = manifest.get("metrics") or {}
        found[trial] = {
            name: MetricData(
                about["source"],
                value["kind"],
                value["unit"],
                about["every_ns"],
                value.get("full"),
                (clocks.get(name.partition(".")[0]) or {}).get("error_ns", 0),
            )
            for name, about, value in names_of(experiment)
        }
    kept: dict[tuple[str, str], list[MetricReading]] = {}
    columns = "trial, source, metric, before_ns, after_ns, value, missing"
    for trial, source, metric, *reading in connection.execute(f"SELECT {columns} FROM {rows}").fetchall():
        name = f"{source}.{metric}"
        if name not in found.get(trial, {}):
            raise StoreError(
                f"holds the metric {name}, which the experiment does not name",
                where=f"{TRIALS}/{trial}/{part_file('metrics')}",
                advice="put the file back as it was, from a copy of the campaign",
            )
        kept.setdefault((trial, name), []).append(MetricReading(*reading))
    for (trial, name), readings in kept.items():
        about = found[trial][name]
        found[trial][name] = MetricData(**{**vars(about), "readings": tuple(readings)})
    return found


def measured(metric: MetricData, windows: Mapping[str, int]) -> Measured:
    """The rate of a counter, or the mean of a gauge, in the measured window.

    Of a counter the first and the last reading count: what each instant may be off by is an uncertainty of the rate.
    """
    mine = metric.within(windows)
    known = [(r, r.value) for r in mine if r.value is not None]
    lost = [r for r in mine if r.value is None]
    reasons = "; ".join(dict.fromkeys(r.missing for r in lost or metric.readings if r.missing))
    least = 2 if metric.kind == "counter" else 1
    if len(known) < least:
        few = f"{len(known)} of its readings are of the measured window"
        return missing(f"{metric.source}: {reasons or few}")
    note = f"{len(lost)} of {len(mine)} readings of {metric.source} are missing" if lost else ""
    if metric.kind == "gauge":
        values = tuple(value for _, value in known)
        return Measured(fmean(values), intervals=values, note=note)
    if any(b < a for (_, a), (_, b) in pairwise(known)):
        return missing(f"{metric.source}: the counter fell in the measured window: it was set back")
    (first, least_value), (last, most_value) = known[0], known[-1]
    length_ns = last.at_ns - first.at_ns
    # The clock of a source is off by the same at both ends.
    reach_ns = max(0.0, sum((r.after_ns - r.before_ns) / 2 - metric.clock_ns for r in (first, last)))
    if length_ns <= reach_ns:
        return missing(f"{metric.source}: what was between its readings is shorter than they took")
    rate = (most_value - least_value) / length_ns * 1e9
    whole = all(value.is_integer() for _, value in known)
    return Measured(
        rate,
        intervals=tuple(
            (b - a) / (to.at_ns - since.at_ns) * 1e9
            for (since, a), (to, b) in pairwise(known)
            if to.at_ns > since.at_ns
        ),
        note=note,
        # The farther of the bounds of a rate over a time that may be so much shorter, each value between them as likely
        # (JCGM 100:2008, 4.3.7).
        shared_error=rate * reach_ns / (length_ns - reach_ns) / 3**0.5,
        resolution=1e9 / length_ns if whole else 0.0,
    )


def outcomes(metrics: Mapping[str, MetricData], windows: Mapping[str, int]) -> dict[str, Measured]:
    """All of a trial's."""
    return {name: measured(metric, windows) for name, metric in metrics.items()}
