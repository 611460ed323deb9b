"""Metrics that other programs hold: an array, a switch, Prometheus. Which sources an experiment names, and what each value is.

How a source is read is in `iodyno.campaign.metric_sources`, what its answers mean in `iodyno.formats.metric_answers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from iodyno.core.outcome_kind import OutcomeKind

Kind = Literal["counter", "gauge"]
KINDS: Mapping[str, str] = {
    "counter": "it only grows: its rate counts",
    "gauge": "a state: its mean counts",
}


@dataclass(frozen=True)
class ReaderKind:
    """A way to read a source. `place`: what its key holds, an `address` of HTTP, `words` of a command, a `host`, a `file` or an
    address; `value`: what `name` of a value is there; `dated`: its samples have times of their own.
    """

    name: str
    place: Literal["address", "words", "host", "file"]
    help: str
    value: str
    dated: bool = False


READERS: Mapping[str, ReaderKind] = {
    kind.name: kind
    for kind in (
        ReaderKind(
            "prometheus",
            "address",
            "Address of a page in its text format.",
            "Name of the metric there; exactly one sample must have it, with the `labels`.",
        ),
        ReaderKind(
            "prometheus_server",
            "address",
            "Address of a server, asked by `/api/v1/query_range` after the load.",
            "Query (PromQL) with one series as its result.",
            dated=True,
        ),
        ReaderKind(
            "command",
            "words",
            "List: a program, and what it is told, that prints lines of `name value`.",
            "Name that is printed.",
        ),
        ReaderKind(
            "snmp",
            "host",
            "Host that `snmpget -v2c` asks.",
            "Object identifier.",
        ),
        ReaderKind(
            "nic",
            "host",
            "Host of the experiment whose adapter `ethtool -S` tells of: that of its data, or `device`.",
            "One of the names that drivers have in common, or the driver's own.",
        ),
        ReaderKind(
            "csv",
            "file",
            "Whole path or address of a file with heads and a column of times (ISO 8601 with a zone, or since 1970).",
            "Head of the column.",
            dated=True,
        ),
    )
}
"""Every way to read a source."""

MOST_VALUES = 64
"""Values of one source (chosen: more are no longer looked at one by one)."""
MOST_SAMPLES = 10_000
"""Readings of a source in one trial (chosen: an hour at three a second)."""


@dataclass(frozen=True)
class MetricValue:
    """One number of a source. `name`: what it is called there; `unit`: its own, of a counter that which grows; `full`: from
    which value on what it tells of is full, None: it is no limit.
    """

    name: str
    kind: Kind
    unit: str = "1"
    labels: Mapping[str, str] = field(default_factory=dict)
    full: float | None = None

    @property
    def outcome_unit(self) -> str:
        """Unit of what a report shows."""
        return f"{self.unit}/s" if self.kind == "counter" else self.unit


@dataclass(frozen=True)
class MetricSource:
    """A source by the name that stands before its values: what is asked, how often, how long it may take.

    `place`: an address, a file, a host, or the words of a command. `clock_error_ns`: how far the times in a file may be off.
    """

    name: str
    reader: str
    place: tuple[str, ...]
    values: Mapping[str, MetricValue]
    every_ns: int = 1_000_000_000
    timeout_ns: int = 1_000_000_000
    community: str = "public"
    device: str = ""
    time_column: str = ""
    clock_error_ns: int = 0

    @property
    def shown(self) -> str:
        """The source in a sentence, without what may be a secret in it: `prometheus http://array:9100/metrics`."""
        return f"{self.reader.replace('_', ' ')} {self.place[0].partition('?')[0]}"

    def stored(self) -> dict[str, Any]:
        """As `campaign.json` has it: what a reader of the numbers must know, and no password."""
        return {
            "source": self.shown,
            "every_ns": self.every_ns,
            "dated": READERS[self.reader].dated,
            "values": {
                name: {"kind": value.kind, "unit": value.outcome_unit, "full": value.full}
                for name, value in self.values.items()
            },
        }


def names_of(stored: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Every metric of an experiment as stored: its name with its source, the source, and the value."""
    for source, about in (stored.get("metrics") or {}).items():
        for name, value in about["values"].items():
            yield f"{source}.{name}", about, value


def outcome_kinds(stored: Mapping[str, Any]) -> dict[str, OutcomeKind]:
    """The outcomes that the metrics of an experiment as stored are."""
    return {
        name: OutcomeKind(name, value["unit"], f"Metric of {about['source']}.", own=value["kind"])
        for name, about, value in names_of(stored)
    }
