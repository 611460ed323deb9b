"""What the receiving application got, and how busy the hosts were, against the main factor."""

from __future__ import annotations

from iodyno.analysis.summary import CampaignSummary
from iodyno.report.figures.panel import Figure, estimates, interval_note


def figure(summary: CampaignSummary) -> Figure | None:
    """Goodput beside the busy share of the sender's CPUs."""
    titles = {"goodput_bits_per_s": "delivered to the receiver"}
    panels = estimates(summary, titles, "Goodput")
    if not panels:
        return None
    sender = summary.host("send")
    if sender is not None:
        panels += estimates(summary, {f"{sender.name}.cpu_busy_ratio": f"{sender.name} (sends)"}, "Busy CPUs")
    caption = f"{interval_note(summary, titles)} Busy includes the background. Goodput: higher is better."
    return Figure("Goodput, and how busy the sender was", caption, panels)
