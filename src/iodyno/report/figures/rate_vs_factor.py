"""Rate that the receiving application got, or of answered requests, and how busy that kept a host, against the main factor."""

from __future__ import annotations

from iodyno.analysis.results import CampaignSummary
from iodyno.report.cost_words import subject
from iodyno.report.figures.panel import Figure, estimates, interval_note
from iodyno.report.tables import RATES, rate_outcome


def figure(summary: CampaignSummary) -> Figure | None:
    """The rate that the experiment asks for beside the busy share of CPUs of who sends a stream, or answers requests."""
    rate = rate_outcome(summary)
    titles = {rate: "answered" if rate == "operations_per_s" else "delivered to the receiver"}
    word = RATES[rate].capitalize()
    panels = estimates(summary, titles, word)
    if not panels:
        return None
    busy = subject(summary)
    who = "sender" if busy is not None and busy.role == "send" else "server"
    if busy is not None:
        does = "sends" if who == "sender" else "answers"
        panels += estimates(summary, {f"{busy.name}.cpu_busy_ratio": f"{busy.name} ({does})"}, "Busy CPUs")
    caption = f"{interval_note(summary, titles)} Busy includes the background. {word}: higher is better."
    return Figure(f"{word}, and how busy the {who} was", caption, panels)
