"""Several hosts of an end: the rate of each, and how alike they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from iodyno.analysis.alike import groups_of
from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.core.outcome import OUTCOMES
from iodyno.loads.base.report import load_of
from iodyno.report.layout import SHORT, layout_of, place_name, sections
from iodyno.report.numbers import Scale, between, digits, scale_of, with_interval
from iodyno.report.table import Cell, Column, Table

ROWS_MOST = 40
"""Rows of hosts that a table has (chosen: a screen); with more, it has a row for each point."""
_FAIR = 0.9
"""Jain's index below which hosts do not get the same (chosen: as for connections)."""
_TIMES = (
    "response_time_p99_ns",
    "write_service_time_p99_ns",
    "latency_from_schedule_p99_ns",
    "latency_p99_ns",
)


def member_tables(summary: CampaignSummary) -> list[Table]:
    """Return a table for each end of several hosts: a row for each host at each point, or for each point where those are many."""
    groups = groups_of(summary.workload)
    points = [point for point in summary.points if point.finished]
    return [
        _of_hosts(summary, name, hosts, points)
        if len(hosts) * len(points) <= ROWS_MOST
        else _of_points(summary, name, hosts)
        for name, hosts in groups.items()
        if points
    ]


def member_sentences(summary: CampaignSummary) -> Iterator[str]:
    """Describe the least fair point: Jain's index of the hosts, and the slowest of them against the mean."""
    known = [point for point in summary.points if point.knows("fairness")]
    groups = groups_of(summary.workload)
    if not known or not groups:
        return
    name, hosts = next(iter(groups.items()))
    worst = min(known, key=lambda point: point.outcomes["fairness"].estimate or 0.0)
    index = worst.outcomes["fairness"].estimate or 0.0
    where = place_name(worst, layout_of(summary).factors)
    at = f" at the least ({where})" if where and len(known) > 1 else ""
    slowest, ratio = _extreme(summary, worst, hosts, slowest=True)
    same = "get the same" if index >= _FAIR else "do not get the same"
    clause = f"; the slowest, {slowest}, has {digits(100 * ratio)} % of the mean" if slowest else ""
    yield f"The {len(hosts)} hosts of {name} {same}: Jain's index is {between(worst.outcomes['fairness'])}{at}{clause}."


def _rate(summary: CampaignSummary) -> str:
    return "operations_per_s" if load_of(summary).asks else "goodput_bits_per_s"


def _rates(summary: CampaignSummary, point: PointSummary, hosts: Sequence[str]) -> Mapping[str, float]:
    rate = _rate(summary) if hosts and point.knows(f"{hosts[0]}.{_rate(summary)}") else "goodput_bits_per_s"
    names = {host: f"{host}.{rate}" for host in hosts}
    return {
        host: found
        for host, name in names.items()
        if point.knows(name) and (found := point.outcomes[name].estimate) is not None
    }


def _extreme(
    summary: CampaignSummary, point: PointSummary, hosts: Sequence[str], *, slowest: bool
) -> tuple[str, float]:
    """The slowest or fastest host at a point, and its rate over the mean of all; no name where none is known."""
    rates = _rates(summary, point, hosts)
    mean = sum(rates.values()) / len(rates) if rates else 0.0
    if not mean:
        return "", 0.0
    name = (min if slowest else max)(rates, key=lambda host: rates[host])
    return name, rates[name] / mean


def _of_hosts(
    summary: CampaignSummary, name: str, hosts: Sequence[str], points: Sequence[PointSummary]
) -> Table:
    layout = layout_of(summary)
    factors = [factor for factor in layout.factors if factor.varies]
    rates = {"goodput_bits_per_s": "Throughput", "operations_per_s": "rate"}
    shown = {
        outcome: title
        for outcome, title in {**rates, **dict.fromkeys(_TIMES, "p99")}.items()
        if any(point.knows(f"{host}.{outcome}") for point in points for host in hosts)
    }
    scales = {outcome: _scale(points, hosts, outcome) for outcome in shown}
    columns = [
        *(Column(SHORT.get(factor.name, factor.name.replace("_", " "))) for factor in factors),
        Column("host"),
        *(Column(title, name) for title in shown.values()),
        Column("of mean", name, "rate over the mean of all hosts"),
    ]
    rows = []
    for point in points:
        each = _rates(summary, point, hosts)
        mean = sum(each.values()) / len(each) if each else 0.0
        for host in hosts:
            found = [point.outcomes.get(f"{host}.{outcome}") for outcome in shown]
            cells = [
                Cell(with_interval(one, outcome, scales[outcome]), estimates=(one,))
                if one is not None
                else Cell("–")
                for outcome, one in zip(shown, found, strict=True)
            ]
            share = f"{100 * each[host] / mean:.0f} %" if mean and host in each else "–"
            labels = (Cell(point.labels.get(factor.name, "")) for factor in factors)
            rows.append((*labels, Cell(host), *cells, Cell(share)))
    return Table(f"Hosts of {name}", tuple(columns), tuple(rows), len(factors) + 1)


def _of_points(summary: CampaignSummary, name: str, hosts: Sequence[str]) -> Table:
    layout = layout_of(summary)
    factors = [factor for factor in layout.factors if factor.varies]
    columns = [
        *(Column(SHORT.get(factor.name, factor.name.replace("_", " "))) for factor in factors),
        Column("fairness", name, "Jain's index of the hosts"),
        Column("slowest", name, "rate over the mean of all hosts"),
        Column("fastest", name, "rate over the mean of all hosts"),
    ]
    rows = []
    for _, points in sections(summary, layout):
        for point in (point for point in points if point.finished):
            ends = (_extreme(summary, point, hosts, slowest=slowest) for slowest in (True, False))
            cells = (Cell(f"{host} {100 * ratio:.0f} %" if host else "–") for host, ratio in ends)
            fair = point.outcomes.get("fairness")
            index = Cell(between(fair) if fair is not None and fair.estimate is not None else "–")
            labels = (Cell(point.labels.get(factor.name, "")) for factor in factors)
            rows.append((*labels, index, *cells))
    return Table(f"Hosts of {name}", tuple(columns), tuple(rows), len(factors))


def _scale(points: Sequence[PointSummary], hosts: Sequence[str], outcome: str) -> Scale:
    every = [point.outcomes.get(f"{host}.{outcome}") for point in points for host in hosts]
    values = [found.estimate for found in every if found is not None and found.estimate is not None]
    return scale_of(max(values, default=0.0), OUTCOMES[outcome].unit, outcome)
