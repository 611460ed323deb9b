"""Findings of a search, in sentences and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from iodyno.analysis.summary import CampaignSummary, unit_of
from iodyno.core.quantity import counted
from iodyno.core.search import Found, SearchSpec
from iodyno.core.workload import Level
from iodyno.loads.base.report import load_of
from iodyno.report.form import Block, Headline, Row, Shown
from iodyno.report.headline import hosts_of, told_last
from iodyno.report.numbers import quantity
from iodyno.report.table import Cell, Column, Table

_ENDINGS = {
    "": "the search was interrupted",
    "time": "the search ended at its bound on time",
    "failed": "the search ended there",
}


def search_sentences(summary: CampaignSummary) -> Iterator[str]:
    """One for each point that was searched; nothing for an experiment that does not search."""
    for found in summary.found if summary.search else ():
        assert summary.search is not None
        yield sentence(summary.search, found, _place(summary, found) if len(summary.found) > 1 else "")


def _place(summary: CampaignSummary, found: Found) -> str:
    """The levels of its factors, as people wrote them; what is set together with one is told by it."""
    return ", ".join(
        f"{factor.name.replace('_', ' ')} "
        f"{summary.factor_labels[factor.name][factor.levels.index(found.levels[factor.name])]}"
        for factor in summary.factors
        if factor.name in found.levels and found.levels[factor.name] in factor.levels
    )


def sentence(spec: SearchSpec, found: Found, where: str = "") -> str:
    """State the finding at one point.

    >>> from iodyno.core.search import parse_goal
    >>> spec = SearchSpec(parse_goal("p99 <= 1ms"))
    >>> sentence(spec, Found("p1", {}, 20_300.0, 19_900.0, 20_800.0, 19_950, 21, "precise"))
    'The largest rate with p99 <= 1ms is 20300/s [19900, 20800] (95 %, 21 trials); 3 trials in a row met it at 19950/s.'
    """
    at = f" at {where}" if where else ""
    if not found.known:
        why = found.warning or "it was interrupted before the first trial told anything"
        return f"The largest {spec.factor} with {spec.goal.text}{at} is not known: {why}."
    tail = f" {found.warning[:1].upper()}{found.warning[1:]}." if found.warning else ""
    if found.ended == "edge":
        side, level = ("above", spec.high) if _above(spec, found) else ("below", spec.low)
        ends = f"lies {side} {level}{_unit(spec)}, where the search ends"
        return f"The largest {spec.factor} with {spec.goal.text}{at} {ends}.{tail}"
    interval = _interval(spec, found)
    text = f"The largest {spec.factor} with {spec.goal.text}{at} is {interval} (95 %, {counted(found.trials, 'trial')})"
    if found.confirmed is not None:
        text += f"; 3 trials in a row met it at {found.confirmed}{_unit(spec)}"
    elif found.ended == "precise":
        text += "; no level met it 3 times in a row"
    if found.ended in _ENDINGS:
        text += f"; {_ENDINGS[found.ended]}"
    return f"{text}.{tail}"


def so_far(spec: SearchSpec, found: Found) -> str:
    """State the interval that a search has reached so far.

    >>> from iodyno.core.search import parse_goal
    >>> so_far(SearchSpec(parse_goal("loss = 0")), Found("p1", {}, 22_360.0, 2040.0, 4.1e6, None, 2, ""))
    'the largest rate with loss = 0 so far: 22360/s [2040, 4100000]'
    """
    return f"the largest {spec.factor} with {spec.goal.text} so far: {_interval(spec, found)}"


def _interval(spec: SearchSpec, found: Found) -> str:
    return f"{_four(found.estimate)}{_unit(spec)} [{_four(found.low)}, {_four(found.high)}]"


def _unit(spec: SearchSpec) -> str:
    return "/s" if spec.factor == "rate" else ""


def search_shown(summary: CampaignSummary, saved: str, *, verbose: bool = False) -> Shown:
    """Return what there is to show of a search; `saved`: the campaign's folder."""
    spec = summary.search
    assert spec is not None
    factor = spec.factor

    def blocks() -> Iterator[Block]:
        yield _headline(summary, spec, saved)
        if verbose:
            yield ""
            yield _steps(summary, spec)
            yield from (f"warning: {warning.line}" for warning in summary.warnings)

    def values() -> dict[str, Any]:
        tried = [
            {"levels": dict(p.levels), "trials": p.finished}
            for p in sorted(summary.points, key=lambda p: p.levels[factor])
        ]
        warnings = [{"code": d.code, "text": d.text, "where": d.where} for d in summary.warnings]
        return {"campaign": saved, **search_json(summary), "tried": tried, "warnings": warnings}

    return Shown(blocks, values, lambda: _rows(summary, spec))


def _headline(summary: CampaignSummary, spec: SearchSpec, saved: str) -> Headline:
    """Return what was found, whether the search converged, and the steps next to it."""
    rows: list[tuple[str, tuple[str, ...]]] = []
    for found in summary.found:
        if found.known and found.ended != "edge":
            half = (found.high - found.low) / 2 / found.estimate if found.estimate else 0.0
            wide = f"±{float(f'{100 * half:.2g}'):g} %"
            asked = f"{wide}, asked {100 * spec.precision:g} %"
            said = f"yes: {asked}" if found.ended == "precise" else f"no: {asked}; a longer --within goes on"
            rows.append(("Converged", (said,)))
    steps = [(level, met) for _, level, _, met in _tried(summary, spec)]
    met, missed = ([level for level, good in steps if good is which] for which in (True, False))
    parts = [f"{counted(len(met), 'trial')} met it, up to {max(met)}{_unit(spec)}"] if met else []
    parts += (
        [f"{counted(len(missed), 'trial')} did not, from {min(missed)}{_unit(spec)} on"] if missed else []
    )
    if parts:
        rows.append(("Steps", (", ".join(parts) + "; each with -v",)))
    if summary.points:
        load = load_of(summary).title(summary, summary.points[0])
        rows.append(
            ("Load", (f"{load}, {summary.windows['measured_ns'] / 1e9:g} s a trial{hosts_of(summary)}",))
        )
    rows += told_last(summary, saved)
    return Headline(" ".join(search_sentences(summary)), tuple(rows))


def _tried(summary: CampaignSummary, spec: SearchSpec) -> Iterator[tuple[str, Level, float | None, bool]]:
    """Yield each trial in order: its name and level, the outcome that the goal is about, and whether it met that."""
    levels = {point.id: point.levels.get(spec.factor) for point in summary.points}
    for trial in sorted(summary.trials, key=lambda trial: (trial.order, trial.attempt)):
        value, level = trial.outcomes.get(spec.goal.outcome), levels.get(trial.point)
        if level is not None and trial.status in ("finished", "void"):
            met = trial.status == "finished" and value is not None and value <= spec.goal.most
            yield trial.name, level, value, met


def _steps(summary: CampaignSummary, spec: SearchSpec) -> Table:
    """Return a row for each trial, whether it passed, and what the goal is about."""
    name = spec.goal.outcome
    rows = [
        (trial, f"{level}{_unit(spec)}", quantity(value, unit_of(name), name), "pass" if met else "FAIL")
        for trial, level, value, met in _tried(summary, spec)
    ]
    heads = ("trial", spec.factor, spec.goal.text.split()[0], "")
    columns = tuple(Column(head, right=0 < at < 3) for at, head in enumerate(heads))
    return Table("Steps", columns, tuple(tuple(map(Cell, row)) for row in rows))


def search_json(summary: CampaignSummary) -> dict[str, Any]:
    """The goal, and where the search of each point ended; levels in base units."""
    assert summary.search is not None
    return {
        "goal": summary.search.goal.text,
        "parameter": summary.search.factor,
        "method": "probabilistic bisection; interval: 95 % of the probability, over walls of every sharpness",
        "found": [_as_json(summary.search, found) for found in summary.found],
    }


def _rows(summary: CampaignSummary, spec: SearchSpec) -> Iterator[Row]:
    """Yield a row for each point that was searched."""
    for one in search_json(summary)["found"]:
        yield {"goal": spec.goal.text, "parameter": spec.factor, **one.pop("levels"), **one}


def _as_json(spec: SearchSpec, found: Found) -> dict[str, Any]:
    unknown: dict[str, Any] = {} if found.known else dict.fromkeys(("estimate", "low", "high"))
    if found.known and found.ended == "edge":
        # Of what lies outside of the search only the side is known.
        bounds = {"low": spec.high, "high": None} if _above(spec, found) else {"low": None, "high": spec.low}
        unknown = {"estimate": None, **bounds}
    return asdict(found) | unknown


def _above(spec: SearchSpec, found: Found) -> bool:
    return found.estimate > spec.high / 2


def _four(value: float) -> str:
    """To four digits, written out."""
    return f"{float(f'{value:.4g}'):.0f}" if value >= 1000 else f"{value:.4g}"
