"""Every outcome of every point as comma-separated text (RFC 4180), in base units; the script of a report writes the same."""

from __future__ import annotations

import csv
import io

from iodyno.analysis.summary import CampaignSummary
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


def _level(level: object) -> object:
    return ("on" if level else "off") if isinstance(level, bool) else level
