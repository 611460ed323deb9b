"""Report of streams and requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from iodyno.analysis.results import CampaignSummary, PointSummary, TrialSummary
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import show as quantity_text
from iodyno.core.warnings import WarningCode
from iodyno.loads.base.report import End, Load, Row
from iodyno.report import method, sentences, tables
from iodyno.report.cost_words import COSTS, cost_outcome, subject
from iodyno.report.layout import Layout
from iodyno.report.numbers import digits, quantity
from iodyno.report.sentence import Sentence
from iodyno.report.table import Column, Table

if TYPE_CHECKING:
    from iodyno.report.figures.stacks import StackFigure

_TRANSPORTS = {"tcp": "TCP", "udp": "UDP", "tls": "TLS", "unix": "Unix sockets"}
_KIB_BITS = 8 * 1024
_FAIRNESS = (("", "fairness"), ("slowest", "slowest_client_ratio"), ("fastest", "fastest_client_ratio"))


def _counted(text: str, noun: str) -> str:
    return f"{text} {noun}{'' if text == '1' else 's'}"


class StreamLoad(Load):
    """Parts of a load between hosts."""

    def title(self, summary: CampaignSummary, point: PointSummary) -> str:
        """Return transport, clients, connections and sizes, as in `TCP, 3 clients x 4 connections x 64KiB`."""
        settings = {**(summary.workload.get("settings") or {}), **point.levels}
        transport = str(settings.get("transport", "tcp"))
        connections = _counted(str(settings.get("connections", 1)), "connection")
        # The rate is that of all of them.
        if (clients := len(summary.workload.get("senders") or ())) > 1:
            connections = f"{clients} clients x {connections}"
        size = (
            point.labels.get("size")
            or point.labels.get("sizes")
            or settings.get("sizes")
            or settings.get("size")
        )
        size = quantity_text("size", size) if isinstance(size, int) else size
        return f"{_TRANSPORTS.get(transport, transport)}, {connections}" + (f" x {size}" if size else "")

    def rows(self, summary: CampaignSummary) -> list[Row]:
        """Return throughput, what was lost, and what each end pays for a KiB."""
        rows = [Row("Throughput", [("", "goodput_bits_per_s")])]
        if "loss_ratio" in summary.asked:
            rows.append(Row("Lost", [("", "loss_ratio")]))
        return rows + self._costs(summary, "goodput_bits_per_s", "cpu_ns_per_kib", _KIB_BITS)

    def _costs(self, summary: CampaignSummary, rate: str, cost: str, unit: float = 1.0) -> list[Row]:
        """Return a row for each end with its cost, one for both where work of one is charged to the other, and how alike clients
        were where there are several.
        """
        # Of several clients the rate is that of all, and the cost that of one.
        several = "fairness" in summary.asked
        way = (summary.workload.get("settings") or {}).get("direction", "forward")
        ends = ("Client", "Server") if self.asks or way == "both" else ("Sender", "Receiver")
        words = dict(zip(("send", "receive"), reversed(ends) if way == "reverse" else ends, strict=True))
        rows = [
            Row(words.get(host.role, host.name), [("", f"{host.name}.{cost}")], "" if several else rate, unit)
            for host in summary.shown_hosts
            if f"{host.name}.{cost}" in summary.asked
        ]
        mixed = any(warning.code is WarningCode.RECEIVE_ON_SENDER for warning in summary.warnings)
        if mixed and rows:
            rows = [Row("Both ends", [("", f"total_{cost}")], rate, unit)]
        return rows + ([Row("Fairness", _FAIRNESS)] if several else [])

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

    def title(self, summary: CampaignSummary, point: PointSummary) -> str:
        """Return transport, connections and sizes, as in `TCP exchanges, 1 connection x 64B, answers of 64B`."""
        transport, _, rest = super().title(summary, point).partition(", ")
        settings = {**(summary.workload.get("settings") or {}), **point.levels}
        answer = settings.get("response_size")
        shown = f", answers of {quantity_text('size', answer)}" if isinstance(answer, int) else ""
        return f"{transport} exchanges, {rest}{shown}"

    def rows(self, summary: CampaignSummary) -> list[Row]:
        """Return exchanges a second, latency, and what each end pays for an exchange."""
        rows = [Row("Exchanges", [("", "operations_per_s")])]
        if "offered_operations_per_s" in summary.asked:
            rows += [
                Row("Offered", [("", "offered_operations_per_s"), ("missed", "missed_arrivals_ratio")]),
                Row("From schedule", [(f"p{q}", f"latency_from_schedule_p{q}_ns") for q in (50, 99)]),
            ]
        if "loss_ratio" in summary.asked:
            rows.append(Row("Lost", [("", "loss_ratio")]))
        times = [("p50", "latency_p50_ns"), ("p99", "latency_p99_ns"), ("p99.9", "latency_p999_ns")]
        rows.append(Row("Latency", times))
        return rows + self._costs(summary, "operations_per_s", "cpu_ns_per_operation")

    def ends(self, summary: CampaignSummary) -> Sequence[End]:
        """Return the highest rate, the longest times, and the cheapest and costliest request of the server."""
        *costs, highest = super().ends(summary)
        kind = sentences.time_of_requests(summary)
        words = kind.replace("_", " ")
        times = [
            End(f"{kind}_{name}_ns", f"{words.capitalize()}, {title}", f"Longest {words}, {title}")
            for name, title in (("p50", "median"), ("p99", "p99"))
        ]
        return (highest, *(times if kind else ()), *costs)

    def by_class(
        self, summary: CampaignSummary, drawn: Callable[[CampaignSummary], StackFigure | None]
    ) -> StackFigure | None:
        """Return the figure of the cost by class of CPU time, of a request."""
        hosts = [host.name for host in summary.hosts]
        points = tuple(replace(point, outcomes=_of_requests(point, hosts)) for point in summary.points)
        made = drawn(replace(summary, points=points))
        if made is None:
            return None
        panels = tuple(replace(panel, y_title="CPU time, us per request") for panel in made.panels)
        return replace(made, title="CPU time of a request by class", panels=panels)

    def columns(self, summary: CampaignSummary) -> dict[str, Column]:
        """Return the columns of its rate and times, by outcome."""
        return tables.request_columns(summary)


def _of_requests(point: PointSummary, hosts: Sequence[str]) -> dict[str, Estimate]:
    """The outcomes with the cost of a request, in microseconds, and its classes in the place of those of a KiB: each is as much
    of the one as of the other.
    """
    found = dict(point.outcomes)
    for host in hosts:
        total = f"{host}.cpu_ns_per_kib"
        of_kib, of_one = (point.outcomes.get(name) for name in (total, f"{host}.cpu_ns_per_operation"))
        if of_kib is None:
            continue
        known = of_one is not None and of_one.estimate is not None and bool(of_kib.estimate)
        ratio = (of_one.estimate or 0.0) / (of_kib.estimate or 1.0) if known and of_one else None
        for name, each in point.outcomes.items():
            if name.startswith(f"{host}.cpu_") and name.endswith("_ns_per_kib"):
                found[name] = _times(each, None if ratio is None else ratio / 1e3)
        found[total] = _times(of_one, 1e-3) if known and of_one else found[total]
    return found


def _times(found: Estimate, factor: float | None) -> Estimate:
    estimate, low, high = (
        None if one is None or factor is None else one * factor
        for one in (found.estimate, found.low, found.high)
    )
    return replace(found, estimate=estimate, low=low, high=high, unit="us")


class ConnectLoad(RequestLoad):
    """Parts of a load with a connection for each request."""

    done = "requests, a connection for each"


LOADS = {
    "stream": StreamLoad(),
    "request_response": RequestLoad(),
    "connect_request_response": ConnectLoad(),
}
