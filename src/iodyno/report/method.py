"""Method behind the numbers of a report, as names and values: design, windows, clocks, tiers, intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from iodyno.analysis.compare import FEW
from iodyno.analysis.cpu_classes import TIER_NOTES
from iodyno.analysis.results import CampaignSummary, MetricSummary
from iodyno.core.factor import parameter_of
from iodyno.core.quantity import counted
from iodyno.loads.base.report import load_of
from iodyno.loads.base.workloads import workload_of_stored
from iodyno.report.numbers import quantity
from iodyno.report.observer import observer_note

_ENOUGH_FOR_P99 = 100
"""Trials; of fewer the 99 % quantile is the greatest."""

_CYCLES = {
    "pmu": "tier pmu: hardware counters",
    "tsc": "tier tsc: busy time x the rate of the time-stamp counter, reference cycles",
}

_MADE = {"counter": "its rate", "gauge": "its mean"}


def method_rows(summary: CampaignSummary) -> list[tuple[str, str]]:
    """List the facts that a reader needs to make the numbers again, or to question them."""
    return [(name, text) for name, text in _rows(summary) if text]


def _rows(summary: CampaignSummary) -> Iterator[tuple[str, str]]:
    finished = sum(trial.status == "finished" for trial in summary.trials)
    kind = summary.design.replace("_", " ") or "not known"
    order = f"; order of the trials drawn with seed {summary.seed}" if summary.seed is not None else ""
    points, trials = counted(len(summary.points), "point"), counted(summary.planned, "trial")
    yield "Design", f"{kind}, {points}, {trials} planned, {finished} finished{order}"
    yield "Load", load_of(summary).described(summary)
    yield "Read as", "; ".join(summary.notes)
    windows = [f"{_words(name)} {quantity(ns, 'ns')}" for name, ns in summary.windows.items() if ns]
    yield "Windows of a trial", ", ".join(windows)
    yield "Rate", load_of(summary).rate_is
    why = f" ({summary.accounting.why})" if summary.accounting.why else ""
    yield (
        "CPU time",
        f"{TIER_NOTES[summary.accounting.tier]}{why}; the idle machine's background is subtracted from costs",
    )
    sources: dict[str, list[MetricSummary]] = {}
    for metric in summary.metrics:
        sources.setdefault(metric.name.partition(".")[0], []).append(metric)
    yield "Metrics", "; ".join(map(_of_source, sources.values()))
    yield "Cycles", _CYCLES.get(summary.tier, summary.tier)
    yield (
        "Times of operations",
        "each operation is counted in a histogram with buckets at most 0.8 % wide, one for every interval; histograms are"
        " added, quantiles are never averaged",
    )
    asked = [
        found for point in summary.points for name in summary.asked if (found := point.outcomes.get(name))
    ]
    methods = (found.method for found in asked if found.low is not None)
    yield (
        "Intervals (95 %)",
        _listed(part.split(", lag-1")[0] for each in methods for part in each.split("; ")),
    )
    yield "Changes", changes_note(summary)
    yield "They assume", _listed(text for found in asked for text in found.assumptions)
    yield "Start skew", _start_skew(summary)
    yield "The instrument", observer_note(summary, parts=True)


def _of_source(metrics: Sequence[MetricSummary]) -> str:
    """Where metrics of one source come from, what is made of them, and how well their times are known."""
    first = metrics[0]
    names = ", ".join(f"{one.name} ({_MADE[one.kind]})" for one in metrics)
    text = f"{names} of {first.source}, read every {quantity(first.every_ns, 'ns')}"
    if first.clocks:
        error_ns, offset_ns = max(clock["error_ns"] for clock in first.clocks), first.clocks[-1]["offset_ns"]
        where = "ahead of" if offset_ns >= 0 else "behind"
        return (
            f"{text}, its clock {quantity(abs(offset_ns), 'ns')} {where} iodyno's, known to"
            f" {quantity(error_ns, 'ns')} by {first.clocks[-1]['by']}"
        )
    within_ns = max(one.within_ns for one in metrics)
    return f"{text} by iodyno, each value of a time known to {quantity(within_ns / 2, 'ns')}"


def _start_skew(summary: CampaignSummary) -> str:
    """How far apart the hosts of a trial began, over the trials; empty where it is known of none or one."""
    skews = sorted(trial.skew_ns for trial in summary.trials if trial.skew_ns is not None)
    if len(skews) < 2:
        return ""
    quantiles = [
        ("median", 0.5),
        *([("p99", 0.99)] if len(skews) >= _ENOUGH_FOR_P99 else []),
        ("greatest", 1.0),
    ]
    told = (f"{name} {quantity(skews[ceil(q * len(skews)) - 1], 'ns')}" for name, q in quantiles)
    return (
        f"from the first host's first operation to the last one's, of {len(skews)} trials: {', '.join(told)}"
    )


def changes_note(summary: CampaignSummary) -> str:
    """State how changes are judged where points have few trials; empty where each point stands on its own."""
    found = [
        estimate
        for point in summary.points
        for name in (*summary.asked, summary.rate)
        if (estimate := point.outcomes.get(name)) and estimate.spread and 2 <= estimate.n <= FEW
    ]
    if not found or len(summary.points) < 2:
        return ""
    return (
        "by the relative spread of the trials, pooled over all points where these spread alike (Bartlett's test), as a point has"
        f" {FEW} trials or fewer: their bounds hold with 99 % for all pairs of points at once"
    )


def of_clients(summary: CampaignSummary) -> str:
    """Kind, clients, and settings as people write them."""
    workload = workload_of_stored(summary.workload)
    clients = [str(name) for name in summary.workload.get("hosts") or ()]
    settings = summary.workload.get("settings") or {}
    clauses = [
        str(summary.workload.get("kind")),
        f"on {', '.join(clients[:4])}{' ...' if len(clients) > 4 else ''}",
    ]
    for name, level in settings.items():
        parameter = parameter_of(workload, name)
        clauses.append(f"{_words(name)} {parameter.show(level) if parameter else level}")
    return ", ".join(clauses)


def _listed(texts: Iterator[str]) -> str:
    found = list(dict.fromkeys(texts))
    more = f"; and {len(found) - 4} more" if len(found) > 4 else ""
    return "; ".join(found[:4]) + more


def pairs(values: Mapping[str, Any]) -> str:
    """Keys with what they hold, settings as people write them."""
    workload = workload_of_stored(values)
    parts = []
    for name, value in values.items():
        if isinstance(value, dict):
            for key, each in value.items():
                parameter = parameter_of(workload, key)
                if not isinstance(each, (dict, list)):
                    parts.append(f"{_words(key)} {parameter.show(each) if parameter else each}")
        elif value is not None and not isinstance(value, list):
            parts.append(f"{_words(name)} {value}")
    return ", ".join(parts)


def _words(name: str) -> str:
    return str(name).removesuffix("_ns").replace("_", " ")
