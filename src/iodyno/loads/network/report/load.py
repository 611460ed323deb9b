"""Report of streams and requests."""

from __future__ import annotations

from collections.abc import Sequence

from iodyno.analysis.summary import CampaignSummary, TrialSummary
from iodyno.loads.base.report import End, Load
from iodyno.report import method, sentences, tables
from iodyno.report.cost_words import COSTS, cost_outcome, subject
from iodyno.report.layout import Layout
from iodyno.report.numbers import digits, quantity
from iodyno.report.sentence import Sentence
from iodyno.report.table import Column, Table


class StreamLoad(Load):
    """Parts of a load between hosts."""

    def described(self, summary: CampaignSummary) -> str:
        """Return kind, hosts and settings as people write them."""
        return method.pairs(summary.workload)

    def columns(self, summary: CampaignSummary) -> dict[str, Column]:
        """Return the columns of its rate, by outcome."""
        return tables.stream_columns(summary)

    def tables(self, summary: CampaignSummary) -> list[Table]:
        """Return the tables of the points."""
        return tables.host_tables(summary)

    def shown(self, summary: CampaignSummary) -> set[str]:
        """Return the outcomes that `tables` shows."""
        return tables.shown_of_hosts(summary)

    def sentences(self, summary: CampaignSummary, layout: Layout) -> list[Sentence]:
        """Return the findings: cost, its change with every factor, rate, and where the CPU time goes."""
        return sentences.of_hosts(summary, layout)

    def ends(self, summary: CampaignSummary) -> Sequence[End]:
        """Return the cheapest and costliest KiB of the sender (request of the server), and the highest rate."""
        first, cost, rate = subject(summary), cost_outcome(summary), tables.rate_outcome(summary)
        word, one = tables.RATES[rate], COSTS[cost].one
        highest = End(rate, word.capitalize(), f"Highest {word}")
        if first is None:
            return (highest,)
        costs = f"{first.name}.{cost}"
        return (
            End(costs, f"A {one}, {first.name}", f"Lowest cost per {one}, {first.name}", most=False),
            End(costs, f"A {one}, {first.name}", f"Highest cost per {one}, {first.name}"),
            highest,
        )

    def trial(self, summary: CampaignSummary, trial: TrialSummary) -> tuple[str, str]:
        """Return goodput and cost of a trial, in words."""
        first, cost = subject(summary), cost_outcome(summary)
        value = trial.outcomes.get(f"{first.name}.{cost}") if first else None
        goodput = quantity(trial.outcomes.get("goodput_bits_per_s"), "bit/s")
        return goodput, "–" if value is None else f"{digits(value)} {COSTS[cost].unit}"


class RequestLoad(StreamLoad):
    """Parts of a load whose requests are answered: who answers is looked at first, and a request is what costs."""

    subject = "receive"
    costs = ("cpu_ns_per_operation", *StreamLoad.costs)
    rates = ("operations_per_s",)
    asks = True
    done = "requests and answers"

    def columns(self, summary: CampaignSummary) -> dict[str, Column]:
        """Return the columns of its rate and times, by outcome."""
        return tables.request_columns(summary)


class ConnectLoad(RequestLoad):
    """Parts of a load with a connection for each request."""

    done = "requests, a connection for each"


LOADS = {
    "stream": StreamLoad(),
    "request_response": RequestLoad(),
    "connect_request_response": ConnectLoad(),
}
