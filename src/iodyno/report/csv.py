"""Outcomes of points, and what two of them are against each other, as comma-separated text (RFC 4180), in base units; the script
of a report writes the first of both.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from iodyno.analysis.compare import OutcomeChange
from iodyno.analysis.decisions.sides import PairVerdicts
from iodyno.analysis.results import CampaignSummary
from iodyno.core.outcome import Estimate
from iodyno.report.estimate_json import number
from iodyno.report.void import WHY, is_void

_ESTIMATE = ("estimate", "low", "high", "n", "unit", "method", "missing", "void")


def as_csv(summary: CampaignSummary) -> str:
    """A row per point and outcome: levels in base units, estimate and 95 % interval to ten digits, trials, unit, method,
    why it is missing, and why nothing is claimed of it."""
    levels = list(dict.fromkeys(name for point in summary.points for name in point.levels))
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\r\n")
    rows.writerow(["point", *levels, "outcome", *_ESTIMATE])
    for point in summary.points:
        for name, found in point.outcomes.items():
            rows.writerow(
                [
                    point.id,
                    *(_level(point.levels.get(level, "")) for level in levels),
                    name,
                    *(number(found.estimate), number(found.low), number(found.high)),
                    *(found.n, found.unit, found.method, found.missing),
                    WHY if is_void(point, name) else None,
                ]
            )
    return out.getvalue()


_SIDES = tuple(f"{side}{end}" for side in ("first", "second") for end in ("", "_low", "_high", "_n"))
_RATIO = ("ratio", "ratio_low", "ratio_high", "method")
_JUDGED = ("verdict", "p_value", "p_adjusted", "adjustment", "scope", "missing")


def verdicts_csv(found: Sequence[PairVerdicts]) -> str:
    """A row for each outcome of each pair of points: both sides, their ratio with its 95 % interval, and the verdict."""
    rows = [
        [
            each.pair.title,
            verdict.outcome,
            *_sides(
                each.pair.first.outcomes.get(verdict.outcome), each.pair.second.outcomes.get(verdict.outcome)
            ),
            *(number(verdict.ratio), number(verdict.low), number(verdict.high), verdict.method),
            *(verdict.answer, number(verdict.p_value), number(verdict.p_adjusted), verdict.adjustment),
            verdict.scope,
            verdict.reason,
        ]
        for each in found
        for verdict in each.verdicts
    ]
    return _written(["point", "outcome", "unit", *_SIDES, *_RATIO, *_JUDGED], rows)


def changes_csv(found: Sequence[OutcomeChange]) -> str:
    """A row for each outcome of two points: both, and the ratio of the second to the first with its 95 % interval."""
    rows = [
        [
            each.outcome,
            *_sides(each.first, each.second),
            *(
                number(each.ratio.estimate),
                number(each.ratio.low),
                number(each.ratio.high),
                each.ratio.method,
            ),
            each.ratio.missing,
        ]
        for each in found
    ]
    return _written(["outcome", "unit", *_SIDES, *_RATIO, "missing"], rows)


def _sides(first: Estimate | None, second: Estimate | None) -> list[object]:
    known = first or second
    cells: list[object] = [known.unit if known else ""]
    for one in (first, second):
        cells += [number(one.estimate), number(one.low), number(one.high), one.n] if one else [None] * 4
    return cells


def _written(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows([head, *rows])
    return out.getvalue()


def _level(level: object) -> object:
    return ("on" if level else "off") if isinstance(level, bool) else level
