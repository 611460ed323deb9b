"""The cost that a report of a load between hosts tells of first, whose it is, and its words."""

from __future__ import annotations

from dataclasses import dataclass

from iodyno.analysis.summary import CampaignSummary, HostSummary
from iodyno.core.workload import EXCHANGES


@dataclass(frozen=True)
class CostWords:
    """`title`: of a column. `unit`: of its numbers. `one`: what costs so much. `figure`: what a figure of it shows."""

    title: str
    unit: str
    one: str
    figure: str


COSTS = {
    "cycles_per_kib": CostWords("cycles/Kbyte", "cycles/KiB", "KiB", "CPU cycles per KiB delivered"),
    "cpu_ns_per_kib": CostWords("ns/KiB", "ns/KiB", "KiB", "CPU time per KiB delivered"),
    "bytes_per_cycle": CostWords("bytes/cycle", "bytes/cycle", "KiB", "Bytes delivered per CPU cycle"),
    "cpu_ns_per_operation": CostWords("ns/request", "ns/request", "request", "CPU time per request"),
}


def is_exchange(summary: CampaignSummary) -> bool:
    """Tell whether requests are answered: then the cost is that of a request, and the host that answers is looked at first."""
    return summary.workload.get("kind") in EXCHANGES


def cost_outcome(summary: CampaignSummary) -> str:
    """The cost that is shown, without its host: of a request where there are some; else of a KByte in cycles where they are
    known, else in CPU time.
    """
    ways = ("cycles_per_kib", "cpu_ns_per_kib")
    for name in ("cpu_ns_per_operation", *ways) if is_exchange(summary) else ways:
        known = [f"{host.name}.{name}" for host in summary.hosts]
        if any(point.knows(outcome) for point in summary.points for outcome in known):
            return name
    return ways[0]


def subject(summary: CampaignSummary) -> HostSummary | None:
    """The host whose cost is told first: the one that answers requests, or sends a stream; the first client of disks."""
    return summary.host("receive" if is_exchange(summary) else "send")
