"""Estimates as values that JSON knows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from iodyno.analysis.results import PointSummary
from iodyno.core.outcome import Estimate
from iodyno.report.void import WHY, is_void


def estimate_values(found: Estimate) -> dict[str, Any]:
    """An estimate with its interval, how it was made, and why it is missing."""
    shown: dict[str, Any] = {
        "estimate": number(found.estimate),
        "low": number(found.low),
        "high": number(found.high),
        "n": found.n,
        "unit": found.unit,
        "method": found.method,
    }
    if found.median:
        shown["median"] = {name: number(value) for name, value in asdict(found.median).items()}
    if found.assumptions:
        shown["assumptions"] = list(found.assumptions)
    if found.missing:
        shown["missing"] = found.missing
    return shown


def number(value: float | None) -> float | None:
    """To ten digits: more than any measurement carries, and half as long."""
    return None if value is None else float(f"{value:.10g}")


def outcome_json(point: PointSummary, name: str) -> dict[str, Any]:
    """Return an outcome of a point, with `void` and why where nothing is claimed of it."""
    found = estimate_values(point.outcomes[name])
    return {**found, "void": WHY} if is_void(point, name) else found
