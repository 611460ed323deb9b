"""The cost that a report of a load between hosts tells of first, whose it is, and its words."""

from __future__ import annotations

from dataclasses import dataclass

from iodyno.analysis.results import CampaignSummary, HostSummary
from iodyno.loads.base.report import load_of


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


def cost_outcome(summary: CampaignSummary) -> str:
    """The cost that is shown, without its host: of a request where there are some; else of a KByte in cycles where they are
    known, else in CPU time.
    """
    for name in load_of(summary).costs:
        known = [f"{host.name}.{name}" for host in summary.shown_hosts]
        if any(point.knows(outcome) for point in summary.points for outcome in known):
            return name
    return "cycles_per_kib"


def subject(summary: CampaignSummary) -> HostSummary | None:
    """The host whose cost is told first: the one that answers requests, or sends a stream; the first client of disks."""
    return summary.host(load_of(summary).subject)
