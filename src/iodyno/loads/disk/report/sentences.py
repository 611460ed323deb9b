"""Findings of a load on disks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from iodyno.analysis.results import CampaignSummary
from iodyno.loads.disk.report.tables import asks_mean_time, machines_of, storage_sentences
from iodyno.report.decision import decision_sentence
from iodyno.report.fit import fit_sentences
from iodyno.report.layout import Layout
from iodyno.report.search import search_sentences
from iodyno.report.sentence import About, Sentence
from iodyno.report.sentences import factor_sentences, range_sentences, void_sentences
from iodyno.report.void import claimed


def of_storage(summary: CampaignSummary, layout: Layout) -> list[Sentence]:
    """Return the findings: decision and search, then rate, times and cost of an operation."""
    found = [Sentence(decision_sentence(summary.decision), about="decision")] if summary.decision else []
    found += (Sentence(text, about="search") for text in search_sentences(summary))
    found += (Sentence(text, about="fit") for text in fit_sentences(summary))

    def range_of(outcome: str, opening: str) -> Iterator[Sentence]:
        of_host, _, name = outcome.rpartition(".")
        about: About = "cost" if of_host else "rate" if name == "iops" else "more"
        if asks_mean_time(summary) == outcome:
            about = "times"
        own = claimed(summary, outcome)
        return (replace(one, about=about) for one in range_sentences(own, layout, outcome, opening))

    def along(outcome: str, what: str) -> Iterator[Sentence]:
        own = claimed(summary, outcome)
        return (replace(one, about="change") for one in factor_sentences(own, layout, outcome, what, summary))

    found += storage_sentences(summary, range_of, along)
    for machine in machines_of(summary):
        found += void_sentences(summary, machine)
    return found or [Sentence("No trial finished, so nothing can be said.")]
