"""Answer of `iodyno compare`: the verdict first, then what it rests on most; tables behind -v."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from iodyno.analysis.compare import OutcomeChange
from iodyno.analysis.decisions.sides import PairVerdicts, Series
from iodyno.analysis.decisions.verdicts import Verdict
from iodyno.analysis.setting_changes import WORKLOAD, SettingChange
from iodyno.analysis.summary import unit_of
from iodyno.core.quantity import counted
from iodyno.report.csv import verdict_rows
from iodyno.report.form import Block, Headline, Row, Shown, flat
from iodyno.report.numbers import digits
from iodyno.report.tables import outcome_name
from iodyno.report.verdicts import (
    edge_text,
    history_lines,
    history_note,
    history_table,
    history_values,
    in_two_sessions,
    more_text,
    outcome_values,
    ratio_text,
    verdict_note,
    verdict_table,
    verdict_values,
    void_verdict,
)
from iodyno.report.void import MARK

_MOST = 4
"""Comparisons, or changes, that an answer names (chosen: with its other lines it has ten)."""
_ORDER = ("worse", "better", "higher", "lower", "undecided", "same")
_TITLES = {"worse": "Worse", "better": "Better", "higher": "Higher", "lower": "Lower"}


@dataclass(frozen=True)
class Compared:
    """Verdicts and how they were reached. `sides`: a line for each; `head`: what JSON says of them."""

    found: Sequence[PairVerdicts]
    sides: Sequence[tuple[str, str]]
    head: Mapping[str, Any]
    least: float
    control: str
    warnings: Sequence[str] = ()


def verdicts_shown(compared: Compared, *, verbose: bool) -> Shown:
    """Return what there is to show of verdicts on pairs of points."""

    def blocks() -> Iterator[Block]:
        yield _verdict_headline(compared)
        if verbose:
            yield ""
            yield from map(verdict_table, compared.found)
            yield verdict_note(compared.found, compared.least, compared.control)

    def values() -> dict[str, Any]:
        points = [
            {
                "levels": dict(each.pair.first.levels),
                "labels": dict(each.pair.first.labels),
                "outcomes": outcome_values(each),
                "verdicts": verdict_values(each),
            }
            for each in compared.found
        ]
        note = verdict_note(compared.found, compared.least, compared.control)
        more = {"least": compared.least, "control": compared.control, "note": note}
        return {**compared.head, "points": points, **more, "warnings": list(compared.warnings)}

    return Shown(blocks, values, lambda: verdict_rows(compared.found))


def _verdict_headline(compared: Compared) -> Headline:
    every = [(each, verdict) for each in compared.found for verdict in each.verdicts]
    every.sort(key=lambda one: (_ORDER.index(one[1].answer), -_size(one[1])))
    rows: list[tuple[str, tuple[str, ...]]] = []
    alike = len({verdict.reason or verdict for _, verdict in every}) == 1
    for each, verdict in every[: 0 if alike else _MOST]:
        where = f" at {each.pair.title}" if len(compared.found) > 1 and each.pair.title else ""
        rows.append((_name(verdict.outcome), _cells(each, verdict, len(every), where)))
    if len(every) > _MOST and not alike:
        rows.append(("", (f"{len(every) - _MOST} more with -v",)))
    rows += [(letter, (text,)) for letter, text in compared.sides]
    rows += [("Warning", (text,)) for text in compared.warnings]
    return Headline(
        _verdict_title(compared, [verdict for _, verdict in every]),
        tuple(rows),
        ("B / A", "95 % interval", ""),
    )


def _verdict_title(compared: Compared, verdicts: Sequence[Verdict]) -> str:
    """Return the verdict in a line: `Worse: 2 of 16 outcomes by more than 5 %; 10 the same, 4 undecided`."""
    number: Counter[str] = Counter(verdict.answer for verdict in verdicts)
    total = counted(len(verdicts), "outcome")
    edge = edge_text(verdicts, compared.least)
    first = next((word for word in _ORDER if number[word]), None)
    if first is None:
        return "Nothing was compared"
    if len(why := {verdict.reason for verdict in verdicts}) == 1 and (reason := why.pop()):
        return f"No verdict: {reason}"
    if first in _TITLES:
        said = f"{_TITLES[first]}: {number[first]} of {total} by more than {edge}"
    elif first == "undecided":
        said = f"No difference shown: {number[first]} of {total} undecided at {edge}"
    else:
        said = f"The same: {number[first]} of {total} within {edge}"
    words = {"same": "the same"}
    others = [f"{number[word]} {words.get(word, word)}" for word in _ORDER if word != first and number[word]]
    sessions = ", in these two sessions" if any(map(in_two_sessions, compared.found)) else ""
    return said + (f"; {', '.join(others)}" if others else "") + sessions


def _cells(each: PairVerdicts, verdict: Verdict, compared: int, where: str) -> tuple[str, ...]:
    """Return ratio, interval and verdict, and `where`; where there is no ratio, the reason."""
    if verdict.ratio is None:
        return ((verdict.reason or verdict.answer) + where,)
    ratio, _, bounds = ratio_text(verdict).partition(" ")
    answer = verdict.answer + (MARK if void_verdict(each, verdict) else "") + where
    if verdict.answer == "undecided":
        alone = verdict.direction and verdict.p_adjusted != verdict.p_value and compared > 1
        answer += f" among {compared}, by itself it {verdict.direction}" if alone else ""
        answer += f" ({more_text(verdict)})" if more_text(verdict) else ""
    return f"x {ratio}", bounds, answer


def _size(verdict: Verdict) -> float:
    return abs(math.log(verdict.ratio)) if verdict.ratio else 0.0


def _name(outcome: str) -> str:
    host, _, name = outcome.rpartition(".")
    return f"{host + ': ' if host else ''}{outcome_name(name)}"


def history_shown(
    series: Sequence[Series],
    campaigns: Sequence[tuple[str, str]],
    warnings: Sequence[str] = (),
    *,
    verbose: bool,
) -> Shown:
    """Return what there is to show of a history; `campaigns`: folder of each, and when it was made."""
    names = [folder for folder, _ in campaigns]

    def blocks() -> Iterator[Block]:
        changes = sum(len(each.history.changes) for each in series)
        shown = counted(changes, "change") if changes else "No change shown"
        yield f"{shown} in {counted(len(series), 'outcome')} of {counted(len(names), 'campaign')}"
        lines = history_lines(series, names)
        yield from (f"  {line}" for line in (lines if verbose else lines[: 2 * _MOST]))
        if len(lines) > 2 * _MOST and not verbose:
            yield f"  {counted(len(lines) - 2 * _MOST, 'more line')} with -v"
        yield from (f"  warning: {text}" for text in warnings)
        if verbose:
            yield ""
            yield from (
                history_table(each, names, unit_of(each.outcome)) for each in series if each.history.changes
            )
            yield history_note(series)

    def values() -> dict[str, Any]:
        return {
            "campaigns": [{"campaign": folder, "created": created} for folder, created in campaigns],
            "histories": [history_values(each) for each in series],
            "note": history_note(series),
            "warnings": list(warnings),
        }

    return Shown(blocks, values, lambda: _history_rows(series, names))


def _history_rows(series: Sequence[Series], names: Sequence[str]) -> Iterator[Row]:
    """Yield a row for each campaign of each history."""
    for each in series:
        changes = {change.at: change for change in each.history.changes}
        for place, (name, values) in enumerate(zip(names, each.values, strict=True)):
            change = changes.get(place)
            yield {
                "outcome": each.outcome,
                "point": each.title,
                "campaign": name,
                "trials": len(values),
                "mean": sum(values) / len(values) if values else None,
                "ratio": change.ratio if change else None,
                "p_value": change.p_value if change else None,
                "missing": each.history.missing or None,
            }


def points_headline(
    changes: Sequence[OutcomeChange],
    sides: Sequence[tuple[str, str]],
    apart: Sequence[str],
    asked: Collection[str],
    sessions: int,
) -> Headline:
    """Return what differs most between two points, of what was `asked` for first; `apart`: how else they differ."""
    decided = [each for each in changes if each.verdict != "undecided"]
    decided.sort(key=lambda each: (each.outcome not in asked, -abs(math.log(each.ratio.estimate or 1.0))))
    rows: list[tuple[str, tuple[str, ...]]] = []
    for each in decided[:_MOST]:
        ratio = each.ratio
        assert ratio.estimate is not None
        assert ratio.low is not None
        assert ratio.high is not None
        bounds = f"[{digits(ratio.low)}, {digits(ratio.high)}]"
        rows.append((_name(each.outcome), (f"x {digits(ratio.estimate)}", bounds, each.verdict)))
    if len(decided) > _MOST:
        rows.append(("", (f"{len(decided) - _MOST} more with -v",)))
    rows += [(letter, (text,)) for letter, text in sides]
    rows += [("Warning", (text,)) for text in apart]
    known = sum(each.ratio.estimate is not None for each in changes)
    within = ", in these two sessions" if sessions > 1 else ""
    title = f"{len(decided)} of {counted(known, 'outcome')} differ from A to B{within}"
    return Headline(
        title if known else "No outcome is known at both points", tuple(rows), ("B / A", "95 % interval", "")
    )


def apart_lines(found: Sequence[SettingChange]) -> list[str]:
    """Return what is set differently, in a line; nothing where all is the same."""
    if found and found[0].name == WORKLOAD:
        return [
            f"the workloads differ: {found[0].first} in A and {found[0].second} in B; of two kinds of work neither is the "
            "cause of the other's cost"
        ]
    parts = [f"{one.name} {one.first or 'not set'} in A and {one.second or 'not set'} in B" for one in found]
    return [f"set differently: {'; '.join(parts)}"] if parts else []


def apart_values(found: Sequence[SettingChange]) -> dict[str, Any]:
    """Return the same as values that JSON knows."""
    return {"set_differently": [asdict(one) for one in found]}


def change_rows_of(host: str, values: Mapping[str, Any]) -> list[Row]:
    """Return a row for each function that was compared on the host."""
    return [{"host": host, **flat(each)} for each in values["functions"]]
