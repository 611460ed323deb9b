"""The answer of a campaign of one point on a terminal: what was loaded, rate, times, costs and limiter, in at most ten lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from iodyno.analysis.alike import groups_of
from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.core.experiment import NO_SENSORS
from iodyno.core.limiter import UNKNOWN, Finding
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import counted
from iodyno.core.warnings import WarningCode
from iodyno.loads.base.report import Row, load_of
from iodyno.report.csv import outcome_rows
from iodyno.report.estimate_json import outcome_json
from iodyno.report.form import Block, Headline, Shown
from iodyno.report.limiter import blind, finding_json, name_of, nearest, sentence
from iodyno.report.numbers import Scale, digits, scale_of
from iodyno.report.observer import observer_note
from iodyno.report.table import Cell, Column, Table
from iodyno.report.void import MARK, is_void
from iodyno.report.warnings import grouped

NOTES = frozenset((WarningCode.ONE_TRIAL, WarningCode.FEW_REPLICATES, WarningCode.SHARED_CPUS))
"""Warnings that the first line tells already: how many trials there are, and that both hosts are this machine."""
_FIRST = (WarningCode.PHYSICS, WarningCode.COST_VOID, WarningCode.GENERATOR_LIMITED, WarningCode.BACKGROUND)
"""Those that change the reading most, which are told before others."""
_SCALES = {"ns/operation": ((1e6, "ms each"), (1e3, "us each"), (1, "ns each")), "us/IO": ((1, "us each"),)}
_ARROWS = {"reverse": "<-", "both": "<->"}
_HOSTS_NAMED = 4
"""Hosts that a first line names one by one (chosen: more of them hide where the load was)."""
_LONGEST = 100
"""Characters of a warning or a reason that are shown (chosen: a line and a half); all of it with -v."""
_ENDS = re.compile(r"[.;:,] ")
"""Ends of sentences and of their parts."""


def point_shown(
    summary: CampaignSummary, saved: str, void: Mapping[str, str], *, verbose: bool = False
) -> Shown:
    """Return what there is to show of a campaign of one point; `saved`: its folder; `void`: trials that are, and why."""

    def blocks() -> Iterator[Block]:
        yield headline(summary, saved)
        for name, why in void.items():
            yield f"  trial {name} is void: {why}"
        if verbose:
            yield from _details(summary)

    def values() -> dict[str, Any]:
        point = summary.points[0]
        found = {
            "levels": dict(point.levels),
            "outcomes": {name: outcome_json(point, name) for name in summary.asked},
            "limiter": finding_json(point.limiter),
            "void": dict(void),
            "warnings": [{"code": str(d.code), "text": d.text, "where": d.where} for d in summary.warnings],
        }
        return {"campaign": saved, "points": [found]}

    return Shown(blocks, values, lambda: outcome_rows(summary, summary.asked))


def headline(summary: CampaignSummary, saved: str) -> Headline:
    """Return the answer; `saved`: the campaign's folder."""
    point, load = summary.points[0], load_of(summary)
    rows = [(row.label, _values(point, row)) for row in load.rows(summary)]
    rows.append(("Limited by", (limited_by(point.limiter),)))
    rows += told_last(summary, saved)
    return Headline(
        f"{load.title(summary, point)}, {_trials(summary, point)}{hosts_of(summary)}", tuple(rows)
    )


def told_last(summary: CampaignSummary, saved: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the last lines of an answer: the warning that changes the reading most, and where all of it lies."""
    if told := _warning(summary):
        yield "Warning", (told,)
    yield "Saved", (f"{saved}   (iodyno report: tables, plots)",)


def _details(summary: CampaignSummary) -> Iterator[Block]:
    """Yield every outcome with its interval, the evidence for the limiter, how intervals were had, and all warnings."""
    point = summary.points[0]
    yield ""
    rows = [
        tuple(map(Cell, (name, value + (MARK if is_void(point, name) else ""), interval)))
        for name in summary.asked
        for value, interval in (estimate_text(point.outcomes[name], name),)
    ]
    yield Table("Every outcome", tuple(map(Column, ("", "", "95 % interval"))), tuple(rows))
    yield sentence(point.limiter)
    yield from _methods({name: point.outcomes[name].method for name in summary.asked})
    yield observer_note(summary, parts=True)
    for warning in summary.warnings:
        yield f"warning: {warning.line}"


def _methods(methods: Mapping[str, str]) -> list[str]:
    """List the methods of the intervals: each way once, with the outcomes that it is of where there are several ways.

    Below them what was done for the costs of a host, with its name.

    >>> _methods({"goodput_bits_per_s": "t", "client.cpu_ns_per_kib": "t; tier bpf"})
    ['intervals: 95 %, t', 'client: tier bpf']
    >>> _methods({"goodput_bits_per_s": "t", "rate_per_s": "t", "p99_ns": "order statistics"})
    ['intervals of goodput_bits_per_s, rate_per_s: 95 %, t', 'intervals of p99_ns: 95 %, order statistics']
    >>> _methods({"goodput_bits_per_s": "t", "loss_ratio": "none"})
    ['intervals: 95 %, t']
    >>> _methods({"client.cpu_busy_ratio": "t; cut off at 1, the whole; tier bpf"})
    ['intervals: 95 %, t', 'client.cpu_busy_ratio: cut off at 1, the whole', 'client: tier bpf']
    """
    ways: dict[str, list[str]] = {}
    notes: dict[str, None] = {}
    for outcome, method in methods.items():
        if method == "none":
            # The row of the outcome says why it is missing.
            continue
        host, _, _ = outcome.rpartition(".")
        interval, *more = method.split("; ")
        ways.setdefault(interval, []).append(outcome)
        for note in more:
            whose = outcome if note.startswith("cut off at") else host
            notes[f"{whose}: {note}" if whose else note] = None
    lines = []
    for way, outcomes in ways.items():
        named = ", ".join(outcomes) if len(ways) > 1 else ""
        if way.startswith("no interval"):
            lines.append(f"{way} ({named})" if named else way)
        else:
            lines.append(f"intervals of {named}: 95 %, {way}" if named else f"intervals: 95 %, {way}")
    return [*lines, *notes]


def limited_by(finding: Finding) -> str:
    """Return the limiter, and how it is known: `receiver CPU (suspected; --prove tests it)`; of a proof, by how much the rate
    followed.
    """
    if not finding.verdict.trials:
        return "not known: no trial counts"
    if finding.name == UNKNOWN and finding.verdict.name in finding.contradicted:
        (refuted,) = [proof for proof in finding.proofs if proof.limiter == finding.verdict.name]
        return f"not clear: an experiment spoke against {_plain(refuted.limiter)} ({refuted.why})"
    if blind(finding):
        return f"not known: {NO_SENSORS}"
    if finding.name == UNKNOWN:
        first = nearest(finding)
        near = f"; nearest: {_plain(first.name)}, in {first.held:.0%} of the intervals" if first else ""
        return f"not clear{near}"
    known = {"suspected": "suspected; --prove tests it"}.get(finding.status, finding.status.replace("_", " "))
    proof = next((proof for proof in finding.proofs if proof.limiter == finding.name), None)
    return f"{_plain(finding.name)} ({known}{f': {proof.why}' if proof else ''})"


def _plain(limiter: str) -> str:
    return name_of(limiter).replace(": ", " ")


def _trials(summary: CampaignSummary, point: PointSummary) -> str:
    return f"{point.finished} x {summary.windows['measured_ns'] / 1e9:g} s"


def hosts_of(summary: CampaignSummary) -> str:
    """Return `, client -> server (2 namespaces of this machine)`; nothing where this machine is the only host."""
    names = [host.name for host in summary.shown_hosts]
    (access, *others) = dict.fromkeys(host.access for host in summary.shown_hosts)
    fallback = any(warning.code is WarningCode.LOOPBACK_FALLBACK for warning in summary.warnings)
    if fallback or (access == "local" and not others):
        return ", over the loopback of this machine" if len(names) > 1 else ""
    several = groups_of(summary.workload)
    count = sum(len(several.get(host.name, (host.name,))) for host in summary.shown_hosts)
    where = f"{count} namespaces of this machine" if access == "netns" and not others else ""
    where = where or (f"{count} hosts, {access}" if len(names) > 1 and not others else "")
    where = where or ", ".join(
        f"{host.name}: {host.facts['hostname']} by ssh"
        if host.access == "ssh" and host.facts.get("hostname")
        else f"{host.name} {host.access}"
        for host in summary.shown_hosts
        if host.access != "local"
    )
    way = (summary.workload.get("settings") or {}).get("direction", "forward")
    between = load_of(summary).between.replace("→", _ARROWS.get(str(way), "->"))
    if len(names) > _HOSTS_NAMED:
        return f", {names[0]} to {names[-1]} ({where})"
    return f", {between.join(names)} ({where})"


def _values(point: PointSummary, row: Row) -> tuple[str, ...]:
    """Return value, interval and CPUs of one outcome; of several each with its word and interval in one text."""
    shown = [(word, name, point.outcomes[name]) for word, name in row.outcomes if name in point.outcomes]
    if not shown:
        return ("not reported",)
    if missing := next((found.missing for _, _, found in shown[:1] if found.estimate is None), None):
        return (shortened(f"not reported: {missing}"),)
    if len(shown) == 1:
        _, name, found = shown[0]
        value, interval = estimate_text(found, name)
        interval = " ".join(filter(None, (interval, _of_some(point, found))))
        return value + (MARK if is_void(point, name) else ""), interval, _cpus(point, row, found)
    texts = []
    for word, name, found in shown:
        too_few = " (too few)" if found.missing and "too few" in found.missing else ""
        value, interval = estimate_text(found, name) if found.estimate is not None else (f"–{too_few}", "")
        value += MARK if is_void(point, name) else ""
        texts.append(" ".join(filter(None, (word, value, interval, _of_some(point, found)))))
    return ("   ".join(texts),)


def _of_some(point: PointSummary, found: Estimate) -> str:
    """Return `of 1 of 3 trials` where the others have no value: the interval is blank then, or that of one trial alone."""
    some = found.estimate is not None and 0 < found.n < point.finished
    return f"of {found.n} of {counted(point.finished, 'trial')}" if some else ""


def _cpus(point: PointSummary, row: Row, cost: Estimate) -> str:
    """Return `97 % of a core`: the cost of one times how many there were a second."""
    rate = point.outcomes[row.works_at].estimate if row.works_at in point.outcomes else None
    if rate is None or cost.estimate is None:
        return ""
    cores = cost.estimate * rate / row.unit / 1e9
    return f"{digits(cores)} cores" if cores >= 1.5 else f"{cores:.0%} of a core".replace("%", " %")


def estimate_text(found: Estimate, name: str = "") -> tuple[str, str]:
    """Return the estimate to three digits in a unit that people read, and its interval in the same unit.

    >>> estimate_text(Estimate(23.42e9, 23.11e9, 23.68e9, 3, "bit/s", "t"))
    ('23.4 Gbit/s', '[23.1, 23.7]')
    >>> estimate_text(Estimate(32_930.0, 31_000.0, 34_860.0, 10, "ns/operation", "t"))
    ('32.9 us each', '[31.0, 34.9]')
    """
    if found.estimate is None:
        return "–", f"({found.missing})"
    scale = _scale(found, name)
    value = f"{digits(found.estimate / scale.factor)} {scale.unit}".rstrip()
    if found.low is None or found.high is None:
        return value, ""
    low, high = (digits(bound / scale.factor) for bound in (found.low, found.high))
    return value, f"[{low}, {high}]"


def _scale(found: Estimate, name: str) -> Scale:
    if (scales := _SCALES.get(found.unit)) and found.estimate is not None:
        return next((Scale(*each) for each in scales if abs(found.estimate) >= each[0]), Scale(*scales[-1]))
    return scale_of(found.estimate or 0.0, found.unit, name)


def _warning(summary: CampaignSummary) -> str:
    """Return the warning that changes the reading most, and how many more kinds there are."""
    groups = [group for group in grouped(summary) if group.code not in NOTES]
    if not groups:
        return ""
    groups.sort(
        key=lambda group: _FIRST.index(WarningCode(group.code)) if group.code in _FIRST else len(_FIRST)
    )
    first, trials = groups[0].warnings[0], len(groups[0].named_trials)
    # Which of them says nothing here.
    of = f" ({trials} of {groups[0].trials} trials)" if trials and groups[0].trials > 1 else ""
    more = f"; {len(groups) - 1} more with -v" if len(groups) > 1 else ""
    # Of all hosts it needs no names.
    everywhere = first.where == ", ".join(f"host {host.name}" for host in summary.shown_hosts)
    return shortened(first.text if trials or everywhere else first.line) + of + more


def shortened(text: str) -> str:
    """Return the text up to the end of a sentence or of a part of one, where it is longer than a line and a half; whole where
    it has no such end.

    >>> shortened("fewer than 100 operations are beyond it; " + "a longer window has more " * 4)
    'fewer than 100 operations are beyond it ...'
    """
    if len(text) <= _LONGEST:
        return text
    ends = [found for found in _ENDS.finditer(text) if _is_closed(text[: found.start()])]
    within = [found for found in ends if _LONGEST // 3 <= found.start() <= _LONGEST - 4]
    of_sentences = [found for found in within if found[0] in (". ", "; ")]
    chosen = (of_sentences or within)[-1:] or [found for found in ends if found.start() >= _LONGEST][:1]
    return f"{text[: chosen[0].start()]} ..." if chosen else text


def _is_closed(text: str) -> bool:
    return text.count("(") == text.count(")")
