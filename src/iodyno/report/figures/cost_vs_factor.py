"""Cost of a KiB, or of a request, on each host, against the main factor."""

from __future__ import annotations

from iodyno.analysis.results import CampaignSummary
from iodyno.report.cost_words import COSTS, cost_outcome
from iodyno.report.figures.panel import Figure, estimates, interval_note


def figure(summary: CampaignSummary) -> Figure | None:
    """A panel for each host, on one scale."""
    cost = cost_outcome(summary)
    ends = {"send": "sends", "receive": "receives"}
    titles = {
        f"{host.name}.{cost}": f"{host.name} ({ends.get(host.role, host.role)})" for host in summary.hosts
    }
    panels = estimates(summary, titles, "CPU cost")
    if not panels:
        return None
    tier = {"pmu": "hardware cycles", "tsc": "reference cycles: busy time × time-stamp clock"}[summary.tier]
    counted = f" Cycles are {tier}." if cost == "cycles_per_kib" else ""
    caption = f"{interval_note(summary, titles)} Background is subtracted.{counted} Lower is better."
    return Figure(COSTS[cost].figure, caption, panels)
