"""Tables as values: the table of 2008 with intervals, and every outcome of every point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iodyno.analysis.alike import groups_of
from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.analysis.summary import unit_of
from iodyno.core.factor import VARIANT
from iodyno.core.outcome import OF_MEMBER, OF_SEVERAL, OUTCOMES, Estimate, split_beside
from iodyno.loads.base.report import load_of
from iodyno.report.bystander import bystander_columns
from iodyno.report.cost_words import COSTS, cost_outcome
from iodyno.report.fairness import FAIRNESS, tells_fairness
from iodyno.report.layout import SHORT, Layout, layout_of, sections
from iodyno.report.limiter import cell as limiter_cell
from iodyno.report.members import member_tables
from iodyno.report.numbers import Scale, details, scale_of, with_interval
from iodyno.report.table import Cell as Cell
from iodyno.report.table import Column as Column
from iodyno.report.table import Table as Table
from iodyno.report.table import level_cell
from iodyno.report.void import MARK, WHY, is_void

RATES = {
    "goodput_bits_per_s": "goodput",
    "messages_per_s": "rate of messages",
    "operations_per_s": "rate of operations",
}
"""Rates of a load between hosts, and their words."""
SPLIT = ("cpu_usr_ratio", "cpu_sys_ratio", "cpu_intr_ratio", "cpu_idle_ratio")


def rate_outcome(summary: CampaignSummary) -> str:
    """The rate that sentences, tiles and figures tell of: of `RATES` the one that the experiment names first; where it names
    none, requests answered, or goodput.
    """
    for name in (*summary.asked, *load_of(summary).rates):
        if name in RATES and any(point.knows(name) for point in summary.points):
            return name
    return "goodput_bits_per_s"


def load_tables(summary: CampaignSummary) -> list[Table]:
    """Return the tables of the load, and of what it is made of."""
    load = load_of(summary)
    own = [
        *load.tables_before(summary),
        *source_tables(summary),
        *member_tables(summary),
        *asked_tables(summary),
    ]
    return [*own, *load.tables_after(summary)]


def asked_tables(summary: CampaignSummary) -> list[Table]:
    """The outcomes that the experiment names and no other table shows: a row per point; no table where there are none."""
    shown = load_of(summary).shown(summary)
    names = [name for name in summary.named if name not in shown]
    if not names:
        return []
    return [_of_outcomes(summary, names, "Asked for too", unit=True)]


def shown_of_hosts(summary: CampaignSummary) -> set[str]:
    """The outcomes in the tables of `host_tables`."""
    hosts = [host.name for host in summary.shown_hosts]
    own = [*SPLIT, "cpu_other_ratio", _cost_column(summary)]
    more = load_of(summary).columns(summary)
    of_members = {name for name in summary.named if name.rpartition(".")[2] in (*OF_SEVERAL, *OF_MEMBER)}
    groups = of_members if groups_of(summary.workload) else set()
    return {
        *(f"{host}.{name}" for host in hosts for name in own),
        *more,
        *bystander_columns(summary),
        *groups,
    }


def _cost_column(summary: CampaignSummary) -> str:
    asked = [name for name in summary.asked if name.endswith(".bytes_per_cycle")]
    known = any(point.knows(name) for point in summary.points for name in asked)
    return "bytes_per_cycle" if known else cost_outcome(summary)


def source_tables(summary: CampaignSummary) -> list[Table]:
    """Return the tables of the points: a row for each."""
    return load_of(summary).tables(summary)


def host_tables(summary: CampaignSummary) -> list[Table]:
    """The source's own columns, a section per level: `#conn Wnd (usr/sys/intr/idle) cycles/Kbyte Throughput`.

    Both hosts are shown; ± is half the 95 % interval. Throughput is the goodput. Where requests are answered, a request is
    what costs, and their rate, their mean time and what else was asked for stand beside.
    """
    layout = layout_of(summary)
    factors = _factor_columns(summary, layout)
    cost = _cost_column(summary)
    title = COSTS[cost].title
    columns = [Column(SHORT.get(name, name.replace("_", " ")), hint=name) for name in factors]
    for host in summary.shown_hosts:
        columns.append(
            Column(
                "(usr/sys/intr/idle)", host.name, "% of the host's CPUs", parts=("usr", "sys", "intr", "idle")
            )
        )
        if _tells_other(summary, host.name):
            columns.append(
                Column("other", host.name, "% of the host's CPUs in tasks that are not the load's")
            )
        columns.append(Column(title, host.name, f"{COSTS[cost].figure}, background subtracted"))
    more = load_of(summary).columns(summary)
    columns += more.values()
    beside = bystander_columns(summary)
    for name, (title, what) in beside.items():
        columns.append(Column(title, split_beside(name)[0], f"{what} of the workload beside"))
    columns.append(Column("Limiter", hint="what stops the rate from rising"))
    found = []
    for level, points in sections(summary, layout):
        rows = []
        for point in points:
            row = [level_cell(point, name) for name in factors]
            for host in summary.shown_hosts:
                row.append(_split(point, host.name))
                if _tells_other(summary, host.name):
                    row.append(_other(point, host.name))
                row.append(_cost(point, host.name, cost))
            rates = [*more, *beside]
            if point.skipped:
                row += [*(Cell("skipped", point.skipped) for _ in rates), Cell(point.skipped)]
            else:
                row += [_of_point(point, name) if name in point.outcomes else Cell("–") for name in rates]
                row.append(limiter_cell(point.id, point.limiter))
            rows.append(tuple(row))
        found.append(Table(_section_title(summary, layout, level), tuple(columns), tuple(rows), len(factors)))
    return found


def outcome_table(summary: CampaignSummary) -> Table:
    """Every outcome that is known of any point."""
    names = [name for name in _outcomes(summary) if any(point.knows(name) for point in summary.points)]
    return _of_outcomes(summary, names, "Every outcome")


def _of_outcomes(summary: CampaignSummary, names: Sequence[str], title: str, unit: bool = False) -> Table:
    """A row per point, a column per outcome. That points were skipped, and why, stands in the tables of the load."""
    layout = layout_of(summary)
    factors = _factor_columns(summary, layout, everything=True)
    ordered = [point for _, points in sections(summary, layout) for point in points if not point.skipped]
    scales = {name: _shared_scale(ordered, name) for name in names}
    sources = {metric.name: metric.source for metric in summary.metrics}
    columns = [Column(SHORT.get(name, name.replace("_", " "))) for name in factors]
    for name in names:
        host, _, outcome = name.rpartition(".")
        hint = f"{scales[name].unit}, of {sources[name]}" if name in sources else scales[name].unit
        columns.append(Column(outcome_name(outcome), host, hint))
    rows = tuple(
        (
            *(level_cell(point, factor) for factor in factors),
            *(_of_point(point, name, scales[name], unit=unit) for name in names),
        )
        for point in ordered
    )
    return Table(title, tuple(columns), rows, len(factors))


def outcome_name(outcome: str) -> str:
    """An outcome's name for a heading: without its unit."""
    for unit in ("kib", "operation", "packet"):
        if outcome.endswith(f"_ns_per_{unit}"):
            outcome = f"{outcome.removesuffix(f'_ns_per_{unit}')} per {unit}"
    for suffix in ("_bits_per_s", "_per_s", "_ns", "_ratio", "_bytes"):
        if outcome.endswith(suffix) and outcome != "writes_per_s":
            outcome = outcome.removesuffix(suffix)
            break
    words = {"kib": "KiB", "cpu": "CPU"}
    return " ".join(words.get(word, word) for word in outcome.replace("_", " ").split())


_THROUGHPUT = Column("Throughput", hint="goodput: payload delivered to the receiving application")
_MESSAGES = Column("Messages", hint="messages delivered to the receiving application per second")
_BOTH_WAYS = Column("Throughput", hint="goodput: requests and answers delivered, both ways together")
_REQUESTS = Column("Requests", hint="requests per second whose whole answer came")
_FAIRNESS = Column(
    "fairness", hint="Jain's index of what the connections carried: 1 when all carried the same"
)
_TIMES = {
    f"{kind}_{name}_ns": Column(f"{kind.replace('_', ' ')} {name}", hint=hint)
    for kind, hint in (
        ("latency_from_schedule", "time from when a request was to begin to the last byte of its response"),
        ("latency", "time from the first byte of a request to the last byte of its response"),
    )
    for name in ("mean", "p50", "p90", "p99", "p999")
}
"""Times of requests."""


def stream_columns(summary: CampaignSummary) -> dict[str, Column]:
    """Return the columns of a stream, by outcome."""
    asked = {"messages_per_s": _MESSAGES} if "messages_per_s" in summary.asked else {}
    return {"goodput_bits_per_s": _THROUGHPUT, **asked, **_fairness(summary)}


def _fairness(summary: CampaignSummary) -> dict[str, Column]:
    return {FAIRNESS: _FAIRNESS} if tells_fairness(summary) else {}


def request_columns(summary: CampaignSummary) -> dict[str, Column]:
    """Return the columns of requests, by outcome: rate, mean time, and what else was asked for that is of no single host."""
    found = {"operations_per_s": _REQUESTS, "goodput_bits_per_s": _BOTH_WAYS}
    share = _fairness(summary)
    # Where the load keeps to times of its own, latency from schedule is what a user waits.
    mean = [f"{kind}_mean_ns" for kind in ("latency_from_schedule", "latency")]
    known = [name for name in mean if any(point.knows(name) for point in summary.points)]
    for name in (*known[:1], *summary.asked):
        if "." not in name and any(point.knows(name) for point in summary.points):
            known_as = share.get(name) or _TIMES.get(name)
            found.setdefault(name, known_as or Column(outcome_name(name), hint=OUTCOMES[name].help))
    return {**found, **share}


def _factor_columns(summary: CampaignSummary, layout: Layout, *, everything: bool = False) -> list[str]:
    shown = [*layout.rest, *([layout.along] if layout.along else [])]
    if everything and layout.section:
        shown.insert(0, layout.section)
    if not shown:
        shown = list(summary.factors)
    # The name of a variant stands for what is set with it, which `everything` shows.
    return [
        name
        for factor in shown
        for name in (factor.name, *(factor.together if everything or factor.name != VARIANT else ()))
    ]


def _section_title(summary: CampaignSummary, layout: Layout, level: object) -> str:
    workload = summary.workload.get("settings") or {}
    transports = {
        str(point.levels.get("transport", workload.get("transport", "tcp")))
        for point in summary.points
        if layout.section is None or point.levels.get(layout.section.name) == level
    }
    load = load_of(summary)
    alike = len(transports) == 1 and load.one_transport
    what = f"{transports.pop().upper()} {load.done}" if alike else load.done.capitalize()
    if layout.section is None:
        return what
    labels = dict(zip(layout.section.levels, summary.factor_labels[layout.section.name], strict=True))
    name = "message size" if layout.section.name == "size" else layout.section.name.replace("_", " ")
    return f"{what}, {name} = {labels[level]}"  # type: ignore[index]


def _tells_other(summary: CampaignSummary, host: str) -> bool:
    """Tell whether other tasks are told from the load's, so that the four columns of 2008 do not sum to 100."""
    return any(point.knows(f"{host}.cpu_other_ratio") for point in summary.points)


def _other(point: PointSummary, host: str) -> Cell:
    found = point.outcomes[f"{host}.cpu_other_ratio"]
    if found.estimate is None:
        return Cell("–", found.missing or "")
    hint = f"{with_interval(found, 'cpu_other_ratio')}, {details(found, 'cpu_other_ratio')}"
    return Cell(f"{100 * found.estimate:.0f}", hint, estimates=(found,))


def _cost(point: PointSummary, host: str, cost: str) -> Cell:
    return replace(_of_point(point, f"{host}.{cost}", unit=False), link=f"functions-{point.id}")


def _split(point: PointSummary, host: str) -> Cell:
    shares = [point.outcomes[f"{host}.{name}"] for name in SPLIT]
    if any(share.estimate is None for share in shares):
        return Cell("–", next((share.missing or "" for share in shares if share.missing), ""))
    text = "/".join(f"{100 * share.estimate:.0f}" for share in shares if share.estimate is not None)
    hint = ", ".join(
        f"{name[4:-6]} {with_interval(share, name)}" for name, share in zip(SPLIT, shares, strict=True)
    )
    unsure = any(
        warning.code == "split_unreliable" and warning.text.startswith(host) for warning in point.warnings
    )
    hint += "; the split is unreliable" if unsure else ""
    return Cell(f"({text}){'?' if unsure else ''}", hint, estimates=tuple(shares))


def _cell(found: Estimate, name: str, scale: Scale | None = None, *, unit: bool = True) -> Cell:
    if found.estimate is None:
        return Cell("–", found.missing or "")
    text, hint = with_interval(found, name, scale, unit=unit), details(found, name, scale)
    return Cell(text, hint, estimates=(found,))


def _of_point(point: PointSummary, name: str, scale: Scale | None = None, *, unit: bool = True) -> Cell:
    """With a question mark where the hypervisor took so much that a cost is not the host's own."""
    cell = _cell(point.outcomes[name], name, scale, unit=unit)
    if cell.text == "–" or not is_void(point, name):
        return cell
    return replace(cell, text=f"{cell.text}{MARK}", hint=f"{cell.hint}; {WHY}")


def _shared_scale(points: Sequence[PointSummary], name: str) -> Scale:
    found = [estimate for point in points if (estimate := point.outcomes.get(name))]
    values = [estimate.estimate for estimate in found if estimate.estimate is not None]
    return scale_of(max(map(abs, values), default=0.0), unit_of(name, found), name)


def _outcomes(summary: CampaignSummary) -> list[str]:
    """Those that were asked for first, then all others."""
    every = [name for point in summary.points for name in point.outcomes]
    return list(dict.fromkeys([*summary.asked, *every]))
