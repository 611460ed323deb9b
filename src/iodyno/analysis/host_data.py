"""Report of one host of a trial, as values: records, histograms, and readings of sensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from iodyno.analysis.histogram import Histogram, merge
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Part, Record
from iodyno.core.experiment import NO_SENSORS
from iodyno.core.workload import EXCHANGES, REQUEST_RESPONSE, STREAM

MEASURED = "measured"
_ROWS: Mapping[str, Callable[[], Any]] = {
    "records": list,
    "histograms": dict,
    "readings": dict,
    "more_histograms": dict,
    "classes": dict,
    "sensed_times": dict,
}
"""Values that are made of the rows of the store, and how they are without any."""


@dataclass(frozen=True)
class ClassCounts:
    """Counts of one class of operations in an interval; `operations` ended well, `errors` did not."""

    bytes: int
    operations: int
    errors: int


@dataclass(eq=False)
class HostData:
    """Report of one host of a trial. `readings`: by sensor, then by index of the record; `histograms`: service times;
    `more_histograms`: what else was counted so, by name (`response_time`, `lateness`, `waiting`, `batch`, `io.CLASS` and
    `response.CLASS`). `classes`: counts by class of operation, by index of the record, where the load has classes.
    `machine`: what it shares CPUs with; hosts of one machine have one. `sensed_times`: histograms that sensors counted, by
    metric and label. `lacking`: sensors that the agent could not open there, with the reason; `sensors`: how many
    were asked for.

    `derived` keeps what many outcomes are made from, so that it is worked out once. `fetch`: reads the rows of the trial, where
    the campaign has more of them than are held at a time (`held_rows`); `kept`: what was worked out of rows that may be gone.
    `made_of`: the hosts that it stands for (`alike`).
    """

    name: str
    role: str
    cpus: tuple[int, ...]
    manifest: Mapping[str, Any]
    records: list[Record] = field(default_factory=list)
    histograms: dict[int, Histogram] = field(default_factory=dict)
    readings: dict[str, Mapping[int, Reading]] = field(default_factory=dict)
    more_histograms: dict[str, dict[int, Histogram]] = field(default_factory=dict)
    classes: dict[str, dict[int, ClassCounts]] = field(default_factory=dict)
    machine: str = ""
    sensed_times: dict[tuple[str, str], dict[int, Histogram]] = field(default_factory=dict)
    lacking: Mapping[str, str] = field(default_factory=dict)
    sensors: str = "full"
    derived: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False, compare=False)
    fetch: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    made_of: tuple[HostData, ...] = field(default=(), repr=False, compare=False)

    def __getattr__(self, name: str) -> Any:
        # Asked only for what is not there: rows that are read again.
        fetch = self.__dict__.get("fetch")
        if name not in _ROWS or fetch is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        fetch()
        return self.__dict__[name]

    def without_rows(self) -> None:
        """Lets go of all rows, and of what was worked out of them: they are fetched when they are asked for."""
        for name in _ROWS:
            self.__dict__.pop(name, None)
        self.derived = {}

    def with_no_rows(self) -> None:
        """Begins anew without any row, to be filled."""
        for name, empty in _ROWS.items():
            self.__dict__[name] = empty()

    @property
    def job(self) -> Mapping[str, Any]:
        """Its job, each key by itself (`core/asked.py`); empty where none is kept."""
        return self.manifest.get("job") or {}

    @property
    def one_way(self) -> bool:
        """Tell whether nothing answers what its load sends: who receives knows what came."""
        return bool(self.job.get("workload", STREAM.name) == STREAM.name)

    @property
    def exchanges(self) -> bool:
        """Tell whether an operation is a request of some size and its answer."""
        return self.job.get("workload") in EXCHANGES

    @property
    def answered(self) -> bool:
        """Tell whether requests are answered on connections that stay: who asks waits, and knows what was lost."""
        return bool(self.job.get("workload") == REQUEST_RESPONSE.name)

    @property
    def measured(self) -> list[Record]:
        """The records of the measured window."""
        records = self.records
        kept = self.derived.get(("measured",))
        # Whoever makes a host by hand may give it other records.
        if kept is None or kept[0] is not records or kept[1] != len(records):
            found = [record for record in records if record.window == MEASURED]
            kept = self.derived["measured",] = records, len(records), found
        return cast("list[Record]", kept[2])

    @property
    def parts(self) -> list[Part]:
        """The measured window cut as finely as it was counted: parts of records, or whole ones."""
        whole = ((r.parts or (Part(r.bytes, r.operations, r.span_ns),)) for r in self.measured)
        return [part for parts in whole for part in parts]

    @property
    def batches(self) -> dict[int, Histogram]:
        """Messages of one call, by index of the record, where a call may take several."""
        return self.more_histograms.get("batch", {})

    def measured_times(self, kind: str = "") -> list[Histogram]:
        """Histograms of the measured records: service times, or what `more_histograms` calls so."""
        found = self.more_histograms.get(kind, {}) if kind else self.histograms
        return [found[record.index] for record in self.measured if record.index in found]

    def all_times(self, kind: str = "") -> Histogram:
        """The same in one."""
        return self.together(self.measured_times(kind))

    def together(self, each: Sequence[Histogram]) -> Histogram:
        """Histograms of this host added up, once for all quantiles that are asked of them."""
        key = ("together", *map(id, each))
        if key not in self.derived:
            # They are kept too: numbers of objects that are gone are given to others.
            self.derived[key] = each, merge(each)
        return cast("Histogram", self.derived[key][1])

    @property
    def measured_ns(self) -> int:
        """Length of the measured window on this host's own clock."""
        return sum(record.span_ns for record in self.measured)

    @property
    def measured_bytes(self) -> int:
        """Payload bytes of the measured window."""
        return sum(record.bytes for record in self.measured)

    def measured_readings(self, sensor: str) -> list[Reading]:
        """The readings of a sensor at the ends of the measured records, where there are any."""
        return [reading for reading, _ in self.covered(sensor)]

    def covered(self, sensor: str) -> list[tuple[Reading, list[Record]]]:
        """The same, each with the measured records that it covers: one; where a sensor is too costly to be read at the end of
        every record, all since its last reading.
        """
        readings, measured = self.readings.get(sensor), self.measured
        if readings is None:
            return []
        kept = self.derived.get(("covered", sensor))
        if kept is None or kept[0] is not readings or kept[1] is not measured or kept[2] != len(readings):
            found: list[tuple[Reading, list[Record]]] = []
            records: list[Record] = []
            for record in measured:
                records.append(record)
                if record.index in readings:
                    found.append((readings[record.index], records))
                    records = []
            kept = self.derived["covered", sensor] = readings, measured, len(readings), found
        return cast("list[tuple[Reading, list[Record]]]", kept[3])

    def growth(self, sensor: str, metric: str, label: str = "") -> int | None:
        """Growth of a counter over the measured window; None when no reading has it."""
        values = [r.values.get((metric, label)) for r in self.measured_readings(sensor)]
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    def labels(self, sensor: str, metric: str) -> list[str]:
        """Every label that the metric had in the measured window, sorted."""
        covered = self.covered(sensor)
        kept = self.derived.get(("labels", sensor, metric))
        if kept is None or kept[0] is not covered:
            found = sorted({label for reading, _ in covered for label in reading.values.of(metric)})
            kept = self.derived["labels", sensor, metric] = covered, found
        return [*kept[1]]

    def why_missing(self, sensor: str) -> str:
        """Why a sensor has nothing to say, as it said itself, or why the host has none. One that was read and lacked nothing has
        not seen what was asked for.
        """
        said = self.said_missing(sensor)
        if self.sensors == "off":
            return NO_SENSORS
        if not said and sensor in self.lacking:
            return f"sensor {sensor} is not to be had on {self.name}: {self.lacking[sensor]}"
        if not said and self.measured_readings(sensor):
            return f"sensor {sensor} was read on {self.name}, and saw nothing of it in the measured window"
        less = f", as of `sensors: {self.sensors}`; `full` has it" if self.sensors != "full" else ""
        return "; ".join(said) or f"sensor {sensor} was not read on {self.name}{less}"

    def said_missing(self, sensor: str) -> list[str]:
        """List what the readings of a sensor lacked, each thing once: one lasts for many readings while others come and go."""
        lacks = (r.missing for _, r in sorted(self.readings.get(sensor, {}).items()) if r.missing)
        return list(dict.fromkeys(part for text in lacks for part in text.split("; ")))


def merged_histograms(each: Sequence[Mapping[int, Histogram]]) -> dict[int, Histogram]:
    """Of several hosts or classes together, by index of the record."""
    indices = sorted({index for histograms in each for index in histograms})
    return {index: merge(h[index] for h in each if index in h) for index in indices}
