"""Metrics for a scraper at `/metrics`: OpenMetrics text, written by prometheus-client. Imported when somebody asks for it.

Counters and histograms grow from the moment at which watching began; several watchers of one campaign count each for
itself. Buckets are cumulative with upper bounds `le`; a value counts under a bound when its bucket in the agent, 0.8 % wide,
lies below it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client.openmetrics.exposition import generate_latest

from iodyno.watch.board import Board
from iodyno.watch.facts import BANDS_PER_DECADE
from iodyno.watch.totals import Totals

__all__ = ["CONTENT_TYPE", "exposition"]

BOUNDS = tuple(range(3 * BANDS_PER_DECADE, 11 * BANDS_PER_DECADE + 1, BANDS_PER_DECADE // 4))
"""Bands whose lower edges are the upper bounds of buckets: 1 us to 100 s, four a decade."""

_OPERATIONS = "operations"
_COUNTERS: tuple[tuple[str, str, str, str, float, tuple[str, ...]], ...] = (
    ("payload", "iodyno_payload_bytes", "bytes", "Payload that the workload moved.", 1, ("direction",)),
    ("cpu", "iodyno_cpu_seconds", "seconds", "CPU time by class, idle time left out.", 1e-9, ("class", "cpu")),
    ("softirq", "iodyno_softirq_seconds", "seconds", "Time in soft interrupts.", 1e-9, ("vector", "cpu")),
    ("network", "iodyno_network_bytes", "bytes", "Bytes through network devices.", 1, ("device", "direction")),
    ("packets", "iodyno_network_packets", "packets", "Packets through network devices.", 1, ("device", "direction")),
    ("disk", "iodyno_disk_bytes", "bytes", "Bytes to and from disks.", 1, ("disk", "direction")),
    ("disk_operations", "iodyno_disk_operations", "operations", "Operations of disks.", 1, ("disk", "direction")),
    ("disk_busy", "iodyno_disk_busy_seconds", "seconds", "Time that disks were busy.", 1e-9, ("disk",)),
    ("retransmits", "iodyno_tcp_retransmitted_segments", "segments", "TCP segments sent again.", 1, ()),
    ("dropped", "iodyno_dropped_packets", "packets", "Packets dropped by the hosts.", 1, ("place",)),
    ("switches", "iodyno_context_switches", "switches", "Context switches.", 1, ()),
    ("instrument", "iodyno_sensor_cpu_seconds", "seconds", "CPU time of the sensors.", 1e-9, ("sensor",)),
)  # fmt: skip
"""Statistic, metric, unit, help, factor, labels of its dimensions."""


def exposition(board: Board) -> str:
    """The whole text, ended by `# EOF`."""
    registry = CollectorRegistry()
    registry.register(_Families(board))
    written: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return written.decode()


class _Families:
    """All families that have a sample."""

    def __init__(self, board: Board) -> None:
        self.board = board

    def collect(self) -> list[Metric]:
        with self.board.lock:
            found = (*_campaign(self.board), *_totals(self.board.totals))
        return [family for family in found if family.samples]


def _campaign(board: Board) -> Iterator[Metric]:
    state = board.state()
    yield InfoMetricFamily(
        "iodyno_campaign",
        "The campaign that is watched.",
        {"campaign": state["name"], "phase": state["phase"]},
    )
    trials = GaugeMetricFamily("iodyno_trials", "Trials of the campaign by status.", labels=["status"])
    for status in ("planned", "finished", "failed"):
        trials.add_metric([status], state[status])
    yield trials
    if state["left_s"] is not None:
        yield GaugeMetricFamily(
            "iodyno_left_seconds", "Time left of the campaign.", state["left_s"], unit="seconds"
        )
    outside = GaugeMetricFamily(
        "iodyno_metric", "Metrics of other programs; of counters the rate.", labels=["name", "source", "unit"]
    )
    for each in board.metrics():
        outside.add_metric([each["name"], each["source"], each["unit"]], each["value"])
    yield outside
    if board.lag_s is not None:
        text = "From the arrival of a record at iodyno to its arrival here, less that of the line that came soonest."
        yield GaugeMetricFamily("iodyno_lag_seconds", text, board.lag_s, unit="seconds")
    if board.current and (running := board.trials[board.current]):
        point = {"trial": running["trial"], "point": running["point"], "levels": running["label"]}
        yield InfoMetricFamily("iodyno_trial", "The running trial.", {k: str(v) for k, v in point.items()})


def _totals(totals: Totals) -> Iterator[Metric]:
    records = CounterMetricFamily("iodyno_records", "Records that came from the hosts.", labels=["host"])
    for host, count in sorted(totals.records.items()):
        records.add_metric([host], count)
    yield records
    connections = GaugeMetricFamily("iodyno_connections", "Connections that are up.", labels=["host"])
    for (name, host), value in sorted(totals.states.items()):
        if name == "connections":
            connections.add_metric([host], value)
    yield connections
    amounts = sorted(totals.amounts.items())
    for statistic, metric, unit, text, factor, dimensions in _COUNTERS:
        counter = CounterMetricFamily(metric, text, labels=["host", *dimensions], unit=unit)
        for (name, host, *levels), value in amounts:
            if name == statistic:
                counter.add_metric([host, *levels[: len(dimensions)]], value * factor)
        yield counter
    for statistic, metric, text, label in (
        (_OPERATIONS, "iodyno_service_time_seconds", "Service times of operations.", "type"),
        ("arrivals", "iodyno_arrival_seconds", "Times of an open loop.", "clock"),
        ("calls", "iodyno_system_call_seconds", "Times of system calls.", "type"),
    ):
        yield _histogram(
            totals, statistic, HistogramMetricFamily(metric, text, labels=["host", label], unit="seconds")
        )
    text = "Operations without a service time."
    untimed = CounterMetricFamily("iodyno_untimed_operations", text, labels=["host", "type"])
    for (name, host, kind, band), value in amounts:
        if name == _OPERATIONS and not band:
            untimed.add_metric([host, kind], value)
    yield untimed


def _histogram(totals: Totals, statistic: str, family: HistogramMetricFamily) -> Metric:
    cells: dict[tuple[str, str], Counter[int]] = {}
    for (name, host, kind, band), count in totals.amounts.items():
        if name == statistic and band:
            cells.setdefault((host, kind), Counter())[int(band)] += count
    for (host, kind), counts in sorted(cells.items()):
        buckets = [
            (
                str(round(10 ** (bound / BANDS_PER_DECADE) / 1e9, 12)),
                sum(n for band, n in counts.items() if band < bound),
            )
            for bound in BOUNDS
        ]
        buckets.append(("+Inf", counts.total()))
        family.add_metric([host, kind], buckets, totals.time_ns[host, kind] / 1e9)
    return family
