"""Verdicts on comparisons, and changes over a history: tables, sentences, JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from iodyno.analysis.decisions.history import History
from iodyno.analysis.decisions.sides import PairVerdicts, Series
from iodyno.analysis.decisions.verdicts import Verdict
from iodyno.analysis.results import PointSummary
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import counted
from iodyno.report.estimate_json import estimate_values
from iodyno.report.numbers import details, digits, scale_of, with_interval
from iodyno.report.tables import Cell, Column, Table, outcome_name
from iodyno.report.void import MARK, WHY, is_void

_CONTROLS = {
    "holm": "Corrected for {n} comparisons (Holm: at most 5 % chance that any claim is wrong)",
    "bh": "Corrected for {n} comparisons (Benjamini-Hochberg: at most 5 % of the claims are wrong)",
    "none": "Not corrected: of {n} comparisons, each has its own 5 % chance of a wrong claim",
}


def verdict_table(found: PairVerdicts) -> Table:
    """A row for each outcome: both sides, their ratio, the verdict, and what more is needed."""
    rows = []
    for verdict in found.verdicts:
        first = found.pair.first.outcomes.get(verdict.outcome)
        second = found.pair.second.outcomes.get(verdict.outcome)
        if first is None or second is None:
            continue
        host, _, outcome = verdict.outcome.rpartition(".")
        scale = scale_of(max(abs(e.estimate or 0.0) for e in (first, second)), first.unit, verdict.outcome)
        name = f"{host + ': ' if host else ''}{outcome_name(outcome)}"

        def shown(point: PointSummary, name: str = verdict.outcome, scale: Any = scale) -> Cell:
            found = point.outcomes[name]
            text = with_interval(found, name, scale, unit=False)
            if found.estimate is not None and is_void(point, name):
                return Cell(text + MARK, WHY)
            return Cell(text, found.missing or details(found, name, scale))

        rows.append(
            (
                Cell(name + (f", {scale.unit}" if scale.unit else ""), verdict.outcome),
                shown(found.pair.first),
                shown(found.pair.second),
                Cell(ratio_text(verdict), verdict.method),
                Cell(verdict.answer + MARK, WHY)
                if void_verdict(found, verdict)
                else Cell(verdict.answer, verdict.reason),
                Cell(more_text(verdict)),
            )
        )
    word = "verdict" if not in_two_sessions(found) else "verdict in these two sessions"
    columns = [Column(text) for text in ("outcome", "A", "B", "ratio B/A", word, "more is needed")]
    return Table(found.pair.title, tuple(columns), tuple(rows))


def in_two_sessions(found: PairVerdicts) -> bool:
    """Tell whether the verdicts hold within two sessions alone."""
    return any(verdict.scope == "two sessions" for verdict in found.verdicts)


def void_verdict(found: PairVerdicts, verdict: Verdict) -> bool:
    """Tell whether the verdict is about a cost of which nothing is claimed at one of the points."""
    points = (found.pair.first, found.pair.second)
    return verdict.answer != "undecided" and any(is_void(point, verdict.outcome) for point in points)


def verdict_note(found: Sequence[PairVerdicts], least: float, control: str) -> str:
    """Count the verdicts of each kind, and explain their words."""
    verdicts = [verdict for pair in found for verdict in pair.verdicts]
    number: Counter[str] = Counter(verdict.answer for verdict in verdicts)
    order = ("worse", "better", "higher", "lower", "same", "undecided")
    said = ", ".join(f"{number[word]} {word}" for word in order if number[word])
    known = sum(verdict.p_value is not None for verdict in verdicts)
    edge = edge_text(verdicts, least)
    return (
        f"B against A: {said or 'nothing was compared'}. Better, worse, higher and lower: by more than {edge}. Same: by less "
        f"either way. {_CONTROLS[control].format(n=known)}. Brackets: 95 % of one comparison, not adjusted. "
        "More is needed: further trials a side for an answer with a chance of 80 %, if this is the truth."
        + _scope(found)
        + (
            f" {MARK}: {WHY}, and so is the verdict."
            if any(void_verdict(p, v) for p in found for v in p.verdicts)
            else ""
        )
    )


def edge_text(verdicts: Sequence[Verdict], least: float) -> str:
    """Return the smallest effect of interest: `5 %`, and how far noise raises it."""
    raised = [verdict.least for verdict in verdicts if verdict.least > least * (1 + 1e-9)]
    up_to = (
        f" (up to {100 * max(raised):.3g} % by the noise between sessions, for {len(raised)})"
        if raised
        else ""
    )
    return f"{100 * least:.3g} %{up_to}"


WITHIN = (
    "Within these two sessions: campaigns differ also with nothing changed, and two do not tell by how much"
)


def _scope(found: Sequence[PairVerdicts]) -> str:
    """State the scope of the verdicts."""
    if any(map(in_two_sessions, found)):
        return f" {WITHIN}; more of the first kind do (--also CAMPAIGN), or a noise ladder (--noise)."
    known = {v.sessions for pair in found for v in pair.verdicts if v.scope == "sessions" and v.sessions > 1}
    if not known:
        return ""
    return (
        f" The ratio is that of B to the mean of A's {max(known)} campaigns, held against what those differ by;"
        " more of them tell more than more trials."
    )


def outcome_values(found: PairVerdicts) -> dict[str, Any]:
    """By outcome that both sides know: their estimates, and the ratio that the verdict is about."""
    shown = {}
    for verdict in found.verdicts:
        first = found.pair.first.outcomes.get(verdict.outcome)
        second = found.pair.second.outcomes.get(verdict.outcome)
        if first is None or second is None or first.estimate is None or second.estimate is None:
            continue
        ratio = Estimate(
            estimate=verdict.ratio,
            low=verdict.low,
            high=verdict.high,
            n=min(verdict.trials),
            unit="1",
            method=verdict.method,
            missing=verdict.reason or None,
        )
        sides = {"first": first, "second": second, "ratio": ratio}
        shown[verdict.outcome] = {name: estimate_values(one) for name, one in sides.items()}
    return shown


def verdict_values(found: PairVerdicts) -> dict[str, Any]:
    """By outcome, what JSON knows."""
    return {
        verdict.outcome: {
            **asdict(verdict),
            "trials": list(verdict.trials),
            **({"void": WHY} if void_verdict(found, verdict) else {}),
        }
        for verdict in found.verdicts
    }


def history_lines(series: Sequence[Series], names: Sequence[str]) -> list[str]:
    """A line for each change, and one for what did not change or could not be judged."""
    lines = []
    for each in series:
        where = f" at {each.title}" if each.title else ""
        for change in each.history.changes:
            percent = 100 * (change.ratio - 1)
            lines.append(
                f"{each.outcome}{where}: {percent:+.3g} % with {names[change.at]} (p = {change.p_value:.2g})"
            )
    steady = sum(not each.history.changes and not each.history.missing for each in series)
    if steady:
        lines.append(f"{steady} of {len(series)} histories show no change.")
    missing = Counter(each.history.missing for each in series if each.history.missing)
    lines += [
        f"{count} of {len(series)} histories cannot be judged: {reason}." for reason, count in missing.items()
    ]
    return lines


def history_table(series: Series, names: Sequence[str], unit: str) -> Table:
    """A campaign a row: its mean, its trials, and whether it brought a change."""
    means = [sum(values) / len(values) if values else None for values in series.values]
    scale = scale_of(
        max((abs(mean) for mean in means if mean is not None), default=0.0), unit, series.outcome
    )
    changes: Mapping[int, float] = {change.at: change.ratio for change in series.history.changes}
    rows = tuple(
        (
            Cell(name),
            Cell(str(len(values))),
            Cell("–" if mean is None else f"{digits(mean / scale.factor)} {scale.unit}".rstrip()),
            Cell(f"{100 * (changes[place] - 1):+.3g} %" if place in changes else ""),
        )
        for place, (name, values, mean) in enumerate(zip(names, series.values, means, strict=True))
    )
    title = series.outcome + (f" at {series.title}" if series.title else "")
    return Table(title, tuple(Column(text) for text in ("campaign", "trials", "mean", "change")), rows)


def history_note(series: Sequence[Series]) -> str:
    """State how changes were told from chance."""
    if any(not each.history.missing for each in series):
        return (
            "Largest t over all places between two campaigns, against 4999 permutations of the campaigns; a history without a "
            "change shows one in 5 % of cases."
        )
    return "How much campaigns of a steady history differ tells a change from chance: name 8 of them or more."


def history_values(each: Series) -> dict[str, Any]:
    """Return one history as values that JSON knows."""
    found: History = each.history
    return {
        "outcome": each.outcome,
        "point": each.title,
        "trials": [list(values) for values in each.values],
        "changes": [asdict(change) for change in found.changes],
        "missing": found.missing,
    }


def ratio_text(verdict: Verdict) -> str:
    """Return the ratio and its interval: `1.53 [1.17, 1.99]`."""
    if verdict.ratio is None:
        return "–"
    if verdict.low is None or verdict.high is None:
        return digits(verdict.ratio)
    # Three digits, as everywhere; more where the interval carries them.
    half = max((verdict.high - verdict.low) / 2, 1e-4)
    ratio, low, high = (
        max(digits(each), digits(each, half), key=len) for each in (verdict.ratio, verdict.low, verdict.high)
    )
    return f"{ratio} [{low}, {high}]"


def more_text(verdict: Verdict) -> str:
    """State what is missing for an answer; nothing where there is one."""
    if verdict.reason:
        return verdict.reason
    if verdict.answer != "undecided":
        return ""
    if verdict.sessions > 1:
        return "more campaigns of A's kind"
    if not verdict.more_trials:
        return "more trials than are sensible"
    return f"about {counted(round(float(f'{verdict.more_trials:.2g}')), 'more trial')} each"
