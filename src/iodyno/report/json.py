"""A campaign as one JSON object: `{"points": [{"levels", "labels", "outcomes", "limiter", "warnings"}], ...}`.

Levels are in base units (bytes, nanoseconds), with `labels` as people write them. Outcomes of a host are prefixed
with its name. An estimate of null has `missing` saying why; one of which nothing is claimed has `void` saying why.
"""

from __future__ import annotations

import json
from typing import Any

from iodyno.analysis.results import CampaignSummary, PointSummary, TrialSummary
from iodyno.analysis.wall import Wall
from iodyno.core.warnings import Warning
from iodyno.loads.base.report import load_of
from iodyno.loads.disk.analysis.targets import TargetResult
from iodyno.report.cost_model import study_json
from iodyno.report.decision import decision_json
from iodyno.report.estimate_json import estimate_values as estimate_values
from iodyno.report.estimate_json import number, outcome_json
from iodyno.report.file_systems import file_operations_json
from iodyno.report.finite_buffer import finite_buffer_json
from iodyno.report.fit import values as fit_values
from iodyno.report.interrupts import interrupts_json
from iodyno.report.limiter import finding_json
from iodyno.report.placement import placement_json
from iodyno.report.search import search_json


def as_json(summary: CampaignSummary, *, indent: int | None = 2, digits: int | None = None) -> str:
    """The campaign as JSON text; with `digits`, numbers have so many significant ones at the most."""
    separators = (",", ":") if indent is None else None
    found = campaign(summary) if digits is None else _shorter(campaign(summary), digits)
    return json.dumps(found, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False)


def _shorter(value: Any, digits: int) -> Any:
    """The same value with shorter numbers; whole ones are exact counts and levels, and stay."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: _shorter(each, digits) for key, each in value.items()}
    return [_shorter(each, digits) for each in value] if isinstance(value, list) else value


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
        **({"search": search_json(summary)} if summary.search else {}),
        **({"decision": decision_json(summary.decision)} if summary.decision else {}),
        **({"placement": placement_json(summary)} if summary.placement else {}),
        **({"walls": [_wall(wall) for wall in summary.walls]} if summary.walls else {}),
        **({"finite_buffer": finite_buffer_json(summary.finite_buffer)} if summary.finite_buffer else {}),
        **({"fits": [fit_values(found) for found in summary.fits]} if summary.fits else {}),
        **({"cost_model": study_json(summary.costs)} if summary.costs else {}),
        **load_of(summary).json(summary),
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
        "warnings": [_warning(warning) for warning in summary.warnings],
    }


def _target(one: TargetResult) -> dict[str, Any]:
    each = {name: estimate_values(found) for name, found in one.estimates.items()}
    return {"host": one.host, "target": one.target, "operation": one.operation, **each}


def _point(point: PointSummary) -> dict[str, Any]:
    return {
        "id": point.id,
        "levels": dict(point.levels),
        "labels": dict(point.labels),
        "planned": point.planned,
        "finished": point.finished,
        "skipped": point.skipped,
        "outcomes": {name: outcome_json(point, name) for name in point.outcomes},
        "limiter": finding_json(point.limiter),
        "interrupts": [interrupts_json(one) for one in point.interrupts],
        "targets": [_target(one) for one in point.targets],
        "file_systems": [file_operations_json(one) for one in point.file_operations],
        "warnings": [_warning(warning) for warning in point.warnings],
    }


def _wall(wall: Wall) -> dict[str, Any]:
    return {
        "levels": dict(wall.levels),
        "labels": dict(wall.labels),
        "clients": estimate_values(wall.clients),
        "rate_per_s": estimate_values(wall.rate),
        "added_wait_ns": estimate_values(wall.added_wait),
        "least_load_response_ns": estimate_values(wall.response),
        "loads": list(wall.loads),
        "plateau": list(wall.plateau),
        "notes": list(wall.notes),
    }


def _trial(trial: TrialSummary) -> dict[str, Any]:
    return {
        "trial": trial.name,
        "point": trial.point,
        "block": trial.block,
        "replicate": trial.replicate,
        **({"pair": trial.pair} if trial.pair else {}),
        "status": trial.status,
        "reason": trial.reason,
        "outcomes": {name: number(value) for name, value in trial.outcomes.items()},
    }


def _warning(warning: Warning) -> dict[str, str]:
    return {"code": str(warning.code), "text": warning.text, "where": warning.where}
