"""Rows of CSV: outcomes of points, and what two of them are against each other; values in base units."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from iodyno.analysis.compare import OutcomeChange
from iodyno.analysis.decisions.sides import PairVerdicts
from iodyno.analysis.results import CampaignSummary
from iodyno.core.outcome import Estimate
from iodyno.report.estimate_json import number
from iodyno.report.form import Row
from iodyno.report.void import WHY, is_void


def outcome_rows(summary: CampaignSummary, names: Collection[str] | None = None) -> Iterator[Row]:
    """Yield a row per point and outcome (`names`: these alone): levels, estimate and 95 % interval to ten digits, trials, unit,
    method, why it is missing, and why nothing is claimed of it. The script of a report writes the same.
    """
    levels = list(dict.fromkeys(name for point in summary.points for name in point.levels))
    for point in summary.points:
        for name, found in point.outcomes.items():
            if names is None or name in names:
                yield {
                    "point": point.id,
                    **{level: point.levels.get(level) for level in levels},
                    "outcome": name,
                    **_estimate("estimate", "low", "high", found),
                    "n": found.n,
                    "unit": found.unit,
                    "method": found.method,
                    "missing": found.missing,
                    "void": WHY if is_void(point, name) else None,
                }


def verdict_rows(found: Sequence[PairVerdicts]) -> Iterator[Row]:
    """Yield a row for each outcome of each pair of points: both sides, their ratio with its 95 % interval, and the verdict."""
    for each in found:
        for verdict in each.verdicts:
            outcome = verdict.outcome
            yield {
                "point": each.pair.title,
                "outcome": outcome,
                **_sides(each.pair.first.outcomes.get(outcome), each.pair.second.outcomes.get(outcome)),
                "ratio": number(verdict.ratio),
                "ratio_low": number(verdict.low),
                "ratio_high": number(verdict.high),
                "method": verdict.method,
                "verdict": verdict.answer,
                "p_value": number(verdict.p_value),
                "p_adjusted": number(verdict.p_adjusted),
                "adjustment": verdict.adjustment,
                "scope": verdict.scope,
                "missing": verdict.reason,
            }


def change_rows(found: Sequence[OutcomeChange]) -> Iterator[Row]:
    """Yield a row for each outcome of two points: both, and the ratio of the second to the first with its 95 % interval."""
    for each in found:
        yield {
            "outcome": each.outcome,
            **_sides(each.first, each.second),
            **_estimate("ratio", "ratio_low", "ratio_high", each.ratio),
            "method": each.ratio.method,
            "missing": each.ratio.missing,
        }


def _sides(first: Estimate | None, second: Estimate | None) -> Row:
    known = first or second
    cells: dict[str, object] = {"unit": known.unit if known else None}
    for side, one in (("first", first), ("second", second)):
        cells |= _estimate(side, f"{side}_low", f"{side}_high", one) | {f"{side}_n": one.n if one else None}
    return cells


def _estimate(value: str, low: str, high: str, one: Estimate | None) -> dict[str, object]:
    bounds = (one.estimate, one.low, one.high) if one else (None, None, None)
    return dict(zip((value, low, high), map(number, bounds), strict=True))
