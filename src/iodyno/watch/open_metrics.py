"""What a scraper is told at `/metrics`: OpenMetrics 1.0 text.

Counters and histograms grow from the moment at which watching began; several watchers of one campaign count each for
itself. Buckets are cumulative with upper bounds `le`; a value counts under a bound when its bucket in the agent, 0.8 % wide,
lies below it. Source of the form: the OpenMetrics specification 1.0.0, sections "Text Format" and "Metric Types".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from iodyno.watch.board import Board
from iodyno.watch.facts import BANDS_PER_DECADE
from iodyno.watch.totals import Totals

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
BOUNDS = tuple(range(3 * BANDS_PER_DECADE, 11 * BANDS_PER_DECADE + 1, BANDS_PER_DECADE // 4))
"""Bands whose lower edges are the upper bounds of buckets: 1 us to 100 s, four a decade."""

Labels = Mapping[str, str]
Point = tuple[str, Labels, float]
_OPERATIONS = "operations"
_COUNTERS: tuple[tuple[str, str, str, str, float, tuple[str, str]], ...] = (
    ("payload", "iodyno_payload_bytes", "bytes", "Payload that the workload moved.", 1, ("direction", "")),
    (
        "cpu",
        "iodyno_cpu_seconds",
        "seconds",
        "CPU time by class, idle time left out.",
        1e-9,
        ("class", "cpu"),
    ),
    ("softirq", "iodyno_softirq_seconds", "seconds", "Time in soft interrupts.", 1e-9, ("vector", "cpu")),
    (
        "network",
        "iodyno_network_bytes",
        "bytes",
        "Bytes through network devices.",
        1,
        ("device", "direction"),
    ),
    (
        "packets",
        "iodyno_network_packets",
        "packets",
        "Packets through network devices.",
        1,
        ("device", "direction"),
    ),
    ("disk", "iodyno_disk_bytes", "bytes", "Bytes to and from disks.", 1, ("disk", "direction")),
    (
        "disk_operations",
        "iodyno_disk_operations",
        "operations",
        "Operations of disks.",
        1,
        ("disk", "direction"),
    ),
    ("disk_busy", "iodyno_disk_busy_seconds", "seconds", "Time that disks were busy.", 1e-9, ("disk", "")),
    ("retransmits", "iodyno_tcp_retransmitted_segments", "segments", "TCP segments sent again.", 1, ("", "")),
    ("dropped", "iodyno_dropped_packets", "packets", "Packets dropped by the hosts.", 1, ("place", "")),
    ("switches", "iodyno_context_switches", "switches", "Context switches.", 1, ("", "")),
    ("instrument", "iodyno_sensor_cpu_seconds", "seconds", "CPU time of the sensors.", 1e-9, ("sensor", "")),
)
"""Statistic, metric, unit, help, factor, labels of its dimensions."""


def exposition(board: Board) -> str:
    """The whole text, ended by `# EOF`."""
    with board.lock:
        return "".join((*_campaign(board), *_totals(board.totals), "# EOF\n"))


def _campaign(board: Board) -> Iterator[str]:
    state = board.state()
    running = board.trials[board.current] if board.current else None
    named: dict[str, str] = {"campaign": str(state["name"])}
    yield from _family(
        "iodyno_campaign",
        "info",
        "",
        "The campaign that is watched.",
        [("_info", {**named, "phase": state["phase"]}, 1)],
    )
    yield from _family(
        "iodyno_trials",
        "gauge",
        "",
        "Trials of the campaign by status.",
        [("", {"status": status}, state[status]) for status in ("planned", "finished", "failed")],
    )
    if state["left_s"] is not None:
        yield from _family(
            "iodyno_left_seconds",
            "gauge",
            "seconds",
            "Time left of the campaign.",
            [("", {}, state["left_s"])],
        )
    if board.lag_s is not None:
        yield from _family(
            "iodyno_lag_seconds",
            "gauge",
            "seconds",
            "From the arrival of a record at the lab to its arrival here.",
            [("", {}, board.lag_s)],
        )
    if running:
        point = {
            "trial": str(running["trial"]),
            "point": str(running["point"]),
            "levels": str(running["label"]),
        }
        yield from _family("iodyno_trial", "info", "", "The trial under way.", [("_info", point, 1)])


def _totals(totals: Totals) -> Iterator[str]:
    yield from _family(
        "iodyno_records",
        "counter",
        "",
        "Records that came from the hosts.",
        [("_total", {"host": host}, count) for host, count in sorted(totals.records.items())],
    )
    connections = [
        ("", {"host": host}, value)
        for (name, host), value in sorted(totals.states.items())
        if name == "connections"
    ]
    yield from _family("iodyno_connections", "gauge", "", "Connections that are up.", connections)
    for statistic, metric, unit, text, factor, dimensions in _COUNTERS:
        points: list[Point] = []
        for (name, host, first, second), value in sorted(totals.amounts.items()):
            if name == statistic:
                labels = {"host": host, dimensions[0]: first, dimensions[1]: second}
                points.append(("_total", {k: v for k, v in labels.items() if k}, value * factor))
        yield from _family(metric, "counter", unit, text, points)
    for statistic, metric, text, label in (
        (_OPERATIONS, "iodyno_service_time_seconds", "Service times of operations.", "type"),
        ("arrivals", "iodyno_arrival_seconds", "Times of an open loop.", "clock"),
    ):
        yield from _family(metric, "histogram", "seconds", text, _histogram(totals, statistic, label))
    untimed = [
        ("_total", {"host": host, "type": kind}, value)
        for (name, host, kind, band), value in sorted(totals.amounts.items())
        if name == _OPERATIONS and not band
    ]
    yield from _family(
        "iodyno_untimed_operations", "counter", "", "Operations without a service time.", untimed
    )


def _histogram(totals: Totals, statistic: str, label: str) -> Iterator[Point]:
    cells: dict[tuple[str, str], Counter[int]] = {}
    for (name, host, kind, band), count in totals.amounts.items():
        if name == statistic and band:
            cells.setdefault((host, kind), Counter())[int(band)] += count
    for (host, kind), counts in sorted(cells.items()):
        labels = {"host": host, label: kind}
        for bound in BOUNDS:
            below = sum(count for band, count in counts.items() if band < bound)
            # %g would make 1e-06 of it, which every parser takes for the same number.
            le = f"{10 ** (bound / BANDS_PER_DECADE) / 1e9:.6g}"
            yield "_bucket", {**labels, "le": le if "." in le or "e" in le else f"{le}.0"}, below
        yield "_bucket", {**labels, "le": "+Inf"}, counts.total()
        yield "_count", labels, counts.total()
        yield "_sum", labels, totals.time_ns[host, kind] / 1e9


def _family(name: str, kind: str, unit: str, text: str, points: Iterable[Point]) -> Iterator[str]:
    points = list(points)
    if not points:
        return
    yield f"# TYPE {name} {kind}\n"
    if unit and name.endswith(f"_{unit}"):
        yield f"# UNIT {name} {unit}\n"
    yield f"# HELP {name} {text}\n"
    for suffix, labels, value in points:
        within = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        number = str(int(value)) if float(value).is_integer() else repr(float(value))
        yield f"{name}{suffix}{{{within}}} {number}\n" if within else f"{name}{suffix} {number}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
