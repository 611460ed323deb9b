"""Times of the operations of a disk, by class, against the main factor."""

from __future__ import annotations

from iodyno.analysis.results import CampaignSummary
from iodyno.report.figures.panel import Figure, Panel, estimates, interval_note

_QUANTILES = {"p50": "median", "p99": "99th percentile"}


def figure(summary: CampaignSummary) -> Figure | None:
    """Service times of reads, writes and fsyncs."""
    panels: tuple[Panel, ...] = ()
    every: list[str] = []
    for kind in ("read", "write", "fsync"):
        titles = {f"{kind}_service_time_{name}_ns": f"{kind}, {what}" for name, what in _QUANTILES.items()}
        panels += estimates(summary, titles, "Service time")
        every += titles
    if not panels:
        return None
    caption = (
        f"{interval_note(summary, every)} From when an operation is handed to the kernel to its end. Each pair of panels"
        " has a scale of its own. Lower is better."
    )
    return Figure("How long operations take", caption, panels)
