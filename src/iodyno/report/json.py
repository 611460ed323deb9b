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
    return json.dumps(campaign(summary), indent=indent, ensure_ascii=False, allow_nan=False)


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
        "outcomes": {name: _estimate(found) for name, found in point.outcomes.items()},
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
        "outcomes": dict(trial.outcomes),
    }


def _estimate(found: Estimate) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "estimate": found.estimate,
        "low": found.low,
        "high": found.high,
        "n": found.n,
        "unit": found.unit,
        "method": found.method,
    }
    if found.assumptions:
        shown["assumptions"] = list(found.assumptions)
    if found.missing:
        shown["missing"] = found.missing
    return shown


def _doubt(doubt: Doubt) -> dict[str, str]:
    return {"code": str(doubt.code), "text": doubt.text, "where": doubt.where}
