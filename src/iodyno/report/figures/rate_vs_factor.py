"""Rate that the receiving application got, or of answered requests, and how busy that kept a host, against the main factor."""

from __future__ import annotations

from dataclasses import replace

from iodyno.analysis.results import CampaignSummary
from iodyno.loads.base.report import load_of
from iodyno.report.cost_words import subject
from iodyno.report.figures.panel import Figure, estimates, interval_note
from iodyno.report.layout import figure_layout
from iodyno.report.search import search_mark
from iodyno.report.tables import RATES, rate_outcome


def figure(summary: CampaignSummary) -> Figure | None:
    """The rate that the experiment asks for beside the busy share of CPUs of who sends a stream, or answers requests."""
    rate = rate_outcome(summary)
    done = "answered" if load_of(summary).asks else "completed"
    titles = {rate: done if rate == "operations_per_s" else "delivered to the receiver"}
    word = RATES[rate].capitalize()
    panels = estimates(summary, titles, word)
    if not panels:
        return None
    busy = subject(summary)
    who = "sender" if busy is not None and busy.role == "send" else "server"
    if busy is not None:
        does = "sends" if who == "sender" else "answers"
        panels += estimates(summary, {f"{busy.name}.cpu_busy_ratio": f"{busy.name} ({does})"}, "Busy CPUs")
    note = ""
    along = figure_layout(summary).along
    searched = summary.search and along and along.name == summary.search.factor
    if searched and (mark := search_mark(summary)):
        panels = tuple(replace(panel, notes=(*panel.notes, mark)) for panel in panels)
        note = " The upright line stands at the answer of the search."
    caption = (
        f"{interval_note(summary, titles)}{note} Busy includes the background. {word}: higher is better."
    )
    return Figure(f"{word}, and how busy the {who} was", caption, panels)
