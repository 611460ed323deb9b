"""Cost by function, and what `iodyno compare` finds, as values that JSON knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from iodyno.analysis.compare import OutcomeChange
from iodyno.analysis.function_change import FunctionChange, ProfileChange
from iodyno.analysis.functions import FunctionCost, Part, PointProfile
from iodyno.analysis.mechanisms import Mechanism, MechanismChange
from iodyno.analysis.path_steps import StepChange
from iodyno.analysis.results import PointSummary
from iodyno.analysis.stacks import Function
from iodyno.report.estimate_json import estimate_values
from iodyno.report.form import Row, flat
from iodyno.report.function_tables import direction
from iodyno.report.void import WHY, is_void


def profile_values(profile: PointProfile, top: int | None = None, by: Part = "exclusive") -> dict[str, Any]:
    """A profile: how it was had, whose time it is, and its functions, the costliest first.

    `sampled`: everything (`all`), the agent's own threads (`own`), or of those user code (`user`): costs are of that time.
    `other_programs_ratio`: what other programs took, which is left out; `with_other_programs`: it is not, as some of them serve
    the load.
    """
    taken, per = profile.sampling, _per(profile)
    busy = profile.busy
    if profile.reach != "all":
        # What the samples stand for is less than busy time.
        busy = replace(busy, estimate=None, low=None, high=None, missing="; ".join(profile.lacks))
    return {
        "point": profile.point,
        "levels": dict(profile.levels),
        "labels": dict(profile.labels),
        "host": profile.host,
        f"cost_{per}": estimate_values(profile.cost),
        "sampled": profile.reach,
        "missing": "; ".join(profile.lacks) or None,
        f"busy_{per}": estimate_values(busy),
        "other_programs_ratio": profile.foreign_ratio,
        "with_other_programs": profile.with_programs,
        "basis": profile.basis,
        "profile_hz": taken.hz,
        "event": taken.event,
        "samples": taken.samples,
        "lost": taken.lost,
        "classes": [
            {
                "owner": each.owner,
                "mode": each.mode,
                "ratio": estimate_values(each.ratio),
                per: estimate_values(each.ns_per_kib),
            }
            for each in profile.classes()
        ],
        "layers": [
            {"layer": each.layer, "ratio": estimate_values(each.ratio), per: estimate_values(each.ns_per_kib)}
            for each in profile.layers()
        ],
        "functions": [_function_cost(each, per) for each in profile.functions(by, top)],
        "warnings": [{"code": d.code, "text": d.text, "where": d.where} for d in profile.warnings],
    }


def function_rows(profile: PointProfile, by: Part = "exclusive") -> Iterator[Row]:
    """Yield a row for each function."""
    for each in profile_values(profile, by=by)["functions"]:
        yield {"point": profile.point, **profile.levels, "host": profile.host, **flat(each)}


def change_values(change: ProfileChange, top: int | None = None, by: Part = "exclusive") -> dict[str, Any]:
    """The change from one profile to another, those functions first that explain most."""
    per = _per(change.second)
    return {
        f"difference_{per}": estimate_values(change.total),
        "ratio": estimate_values(change.total_ratio),
        "compared": change.compared,
        "too_few_samples": change.too_few,
        f"unexplained_{per}": change.rest,
        "functions": [_function_change(each, per) for each in change.ranked(by, top)],
    }


def mechanism_values(found: Sequence[Mechanism]) -> list[dict[str, Any]]:
    """Mechanisms of one point."""
    return [_kind(each) | {"value": estimate_values(each.value)} for each in found]


def mechanism_change_values(found: Sequence[MechanismChange]) -> list[dict[str, Any]]:
    """Mechanisms of two points."""
    return [
        _kind(each)
        | {
            "first": estimate_values(each.first),
            "second": estimate_values(each.second),
            "ratio": estimate_values(each.ratio),
            "verdict": _direction(direction(each.ratio)),
        }
        for each in found
    ]


def step_values(found: Sequence[StepChange]) -> list[dict[str, Any]]:
    """Steps of the path at two points: how many a KiB has, and what one takes with all that it calls."""
    return [
        {
            "step": each.kind.one,
            "host": each.host,
            "function": each.change.function.name,
            "per_kib": [estimate_values(e) for e in each.count],
            "per_kib_ratio": estimate_values(each.count_ratio),
            "each_ns": [estimate_values(e) for e in each.each],
            "each_ratio": estimate_values(each.each_ratio),
        }
        for each in found
    ]


def outcome_change_values(found: Sequence[OutcomeChange], points: Sequence[PointSummary]) -> dict[str, Any]:
    """Outcomes of two points, by name. Of a cost of which nothing is claimed at one of them there is no verdict."""
    values: dict[str, Any] = {}
    for each in found:
        void = any(is_void(point, each.outcome) for point in points)
        values[each.outcome] = {
            "first": estimate_values(each.first),
            "second": estimate_values(each.second),
            "ratio": estimate_values(each.ratio),
            "verdict": None if void else _direction(direction(each.ratio)),
            **({"void": WHY} if void else {}),
        }
    return values


def _kind(each: Mechanism | MechanismChange) -> dict[str, str]:
    return {"name": each.kind.name, "host": each.host, "unit": each.kind.unit}


def _function(function: Function) -> Mapping[str, str]:
    return {"name": function.name, "module": function.module, "space": function.space}


def _per(profile: PointProfile) -> str:
    """Return the ending of the keys of costs: `ns_per_kib`, `ns_per_operation`."""
    return f"ns_per_{profile.per.lower()}"


def _function_cost(each: FunctionCost, per: str) -> dict[str, Any]:
    return {
        **_function(each.function),
        "samples": each.samples,
        "exclusive_ratio": estimate_values(each.exclusive_ratio),
        "inclusive_ratio": estimate_values(each.inclusive_ratio),
        f"exclusive_{per}": estimate_values(each.exclusive_ns_per_kib),
        f"inclusive_{per}": estimate_values(each.inclusive_ns_per_kib),
        "owners": dict(each.owners),
    }


def _function_change(each: FunctionChange, per: str) -> dict[str, Any]:
    return {
        **_function(each.function),
        "samples": list(each.samples),
        "explains": estimate_values(each.explains),
        f"difference_{per}": estimate_values(each.difference),
        f"exclusive_{per}": [estimate_values(e) for e in each.exclusive],
        f"inclusive_{per}": [estimate_values(e) for e in each.inclusive],
        "ratio": estimate_values(each.ratio),
        "verdict": each.verdict,
        "certain": each.certain,
        "inclusive_ratio": estimate_values(each.inclusive_ratio),
        "inclusive_verdict": each.inclusive_verdict,
        "inclusive_certain": each.inclusive_certain,
    }


def _direction(word: str) -> str | None:
    return None if word == "–" else word
