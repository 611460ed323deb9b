"""What the receiving application got, and how busy the hosts were, against the main factor."""

from __future__ import annotations

from iodyno.analysis.summary import CampaignSummary
from iodyno.report.figures.panel import Figure, estimates, interval_note
from iodyno.report.tables import RATES, rate_outcome


def figure(summary: CampaignSummary) -> Figure | None:
    """The rate that the experiment asks for, else goodput, beside the busy share of the sender's CPUs."""
    rate = rate_outcome(summary)
    titles = {rate: "answered" if rate == "operations_per_s" else "delivered to the receiver"}
    word = RATES[rate].capitalize()
    panels = estimates(summary, titles, word)
    if not panels:
        return None
    sender = summary.host("send")
    if sender is not None:
        panels += estimates(summary, {f"{sender.name}.cpu_busy_ratio": f"{sender.name} (sends)"}, "Busy CPUs")
    caption = f"{interval_note(summary, titles)} Busy includes the background. {word}: higher is better."
    return Figure(f"{word}, and how busy the sender was", caption, panels)
