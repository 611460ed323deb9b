"""A campaign as one JSON object: `{"points": [{"levels", "labels", "outcomes", "limiter", "warnings"}], ...}`.

Levels are in base units (bytes, nanoseconds), with `labels` as people write them. Outcomes of a host are prefixed
with its name. An estimate of null has `missing` saying why.
"""

from __future__ import annotations

import json
from typing import Any

from iodyno.analysis.summary import CampaignSummary, PointSummary, TrialSummary
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import Doubt
from iodyno.report.limiter import finding_json


def as_json(summary: CampaignSummary, *, indent: int | None = 2) -> str:
    """The campaign as JSON text."""
    separators = (",", ":") if indent is None else None
    return json.dumps(
        campaign(summary), indent=indent, separators=separators, ensure_ascii=False, allow_nan=False
    )


def campaign(summary: CampaignSummary) -> dict[str, Any]:
    """The campaign as values that JSON knows."""
    return {
        "name": summary.name,
        "question": summary.question,
        "created": summary.created,
        "finished": summary.finished,
        "quick": summary.quick,
        "seed": summary.seed,
        "tool_version": summary.tool_version,
        "build_hash": summary.build_hash,
        "cycles_tier": summary.tier,
        "cpu_tier": summary.accounting.tier,
        "cpu_tier_reason": summary.accounting.why or None,
        "factors": [
            {"name": f.name, "levels": list(f.levels), "labels": list(summary.factor_labels[f.name])}
            for f in summary.factors
        ],
        "points": [_point(point) for point in summary.points],
        "trials": [_trial(trial) for trial in summary.trials],
        "background": {
            host.name: {
                "ratio": host.background.ratio,
                "before": host.background.before,
                "after": host.background.after,
                "missing": host.background.missing,
                "classes": {kind: share.value for kind, share in host.background.classes.items()},
            }
            for host in summary.hosts
        },
        "warnings": [_doubt(doubt) for doubt in summary.doubts],
    }


def _point(point: PointSummary) -> dict[str, Any]:
    return {
        "id": point.id,
        "levels": dict(point.levels),
        "labels": dict(point.labels),
        "planned": point.planned,
        "finished": point.finished,
        "outcomes": {name: estimate_values(found) for name, found in point.outcomes.items()},
        "limiter": finding_json(point.limiter),
        "warnings": [_doubt(doubt) for doubt in point.doubts],
    }


def _trial(trial: TrialSummary) -> dict[str, Any]:
    return {
        "trial": trial.name,
        "point": trial.point,
        "block": trial.block,
        "replicate": trial.replicate,
        "status": trial.status,
        "reason": trial.reason,
        "outcomes": {name: _number(value) for name, value in trial.outcomes.items()},
    }


def estimate_values(found: Estimate) -> dict[str, Any]:
    """An estimate with its interval, how it was made, and why it is missing."""
    shown: dict[str, Any] = {
        "estimate": _number(found.estimate),
        "low": _number(found.low),
        "high": _number(found.high),
        "n": found.n,
        "unit": found.unit,
        "method": found.method,
    }
    if found.assumptions:
        shown["assumptions"] = list(found.assumptions)
    if found.missing:
        shown["missing"] = found.missing
    return shown


def _number(value: float | None) -> float | None:
    """To ten digits: more than any measurement carries, and half as long."""
    return None if value is None else float(f"{value:.10g}")


def _doubt(doubt: Doubt) -> dict[str, str]:
    return {"code": str(doubt.code), "text": doubt.text, "where": doubt.where}
