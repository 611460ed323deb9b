"""Findings of a search, in sentences and as JSON, in the terms of RFC 9971."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from iodyno.analysis.results import CampaignSummary
from iodyno.core.quantity import counted
from iodyno.core.search import Bound, GoalResult, LoadTrial, SearchSpec
from iodyno.loads.base.report import load_of
from iodyno.report.form import Block, Headline, Row, Shown
from iodyno.report.headline import hosts_of, told_last
from iodyno.report.table import Cell, Column, Table

_ENDINGS = {
    "": "the search was interrupted",
    "time": "the search ended at its bound on time",
    "duration": "the search ended at its bound on time",
    "failed": "the search ended there",
}


def search_sentences(summary: CampaignSummary) -> list[str]:
    """One for each goal at each point that was searched; nothing for an experiment that does not search."""
    if summary.search is None:
        return []
    several = len({one.point for one in summary.goal_results}) > 1
    return [
        sentence(summary.search, found, _place(summary, found) if several else "")
        for found in summary.goal_results
    ]


def search_answers(summary: CampaignSummary) -> list[tuple[str, str, str, str, str]]:
    """For each goal at each point that was searched: what was found, value, unit, interval and place, for the first screen."""
    spec = summary.search
    if spec is None:
        return []
    several, unit = len({one.point for one in summary.goal_results}) > 1, _unit(spec)
    found = []
    for one in summary.goal_results:
        lower = one.relevant_lower_bound
        value, bounds = (
            str(lower.load) if lower else "none that was tried",
            f"[{_four(one.low)}, {_four(one.high)}]",
        )
        if one.known and one.ended == "edge":
            value, bounds = f"above {spec.max_load}" if _above(one) else f"below {spec.min_load}", ""
        elif not one.known:
            value, bounds = "not known", ""
        met = f"{_met(lower)} met it" if lower and one.known else ""
        place = ", ".join(filter(None, (_place(summary, one) if several else "", met)))
        found.append(
            (
                f"Largest {spec.factor} with {one.goal}",
                value,
                unit if value[-1].isdigit() else "",
                bounds,
                place,
            )
        )
    return found


def answering(summary: CampaignSummary) -> CampaignSummary:
    """The campaign with the one point that answers its search, where one goal was searched for once; with none, where several."""
    spec = summary.search
    assert spec is not None
    bounds = [one.relevant_lower_bound for one in summary.goal_results if one.known and one.ended != "edge"]
    load = bounds[0].load if len(bounds) == len(summary.goal_results) == 1 and bounds[0] else None
    points = tuple(p for p in summary.points if load is not None and p.levels.get(spec.factor) == load)
    return replace(summary, points=points)


def search_mark(summary: CampaignSummary) -> tuple[float, str] | None:
    """Where the answer of a search lies on the axis of what was searched for, and the texts on both sides of it."""
    points = answering(summary).points if summary.search else ()
    if summary.search is None or not points:
        return None
    return float(points[0].levels[summary.search.factor]), f"{summary.goal_results[0].goal} met | not met"


def _place(summary: CampaignSummary, found: GoalResult) -> str:
    """The levels of its factors, as people wrote them; what is set together with one is told by it."""
    return ", ".join(
        f"{factor.name.replace('_', ' ')} "
        f"{summary.factor_labels[factor.name][factor.levels.index(found.levels[factor.name])]}"
        for factor in summary.factors
        if factor.name in found.levels and found.levels[factor.name] in factor.levels
    )


def sentence(spec: SearchSpec, found: GoalResult, where: str = "") -> str:
    """State the finding for a goal at one point.

    >>> from iodyno.core.search import parse_goal
    >>> spec = SearchSpec((parse_goal("p99 <= 1ms"),))
    >>> bounds = Bound(19_950, 3, 3), Bound(20_800, 1, 4)
    >>> sentence(spec, GoalResult(
    ...     "p1", {}, "p99 <= 1ms", *bounds, True, 19_910.0, 20_300.0, 19_900.0, 20_700.0, 21, 21 * 10**9, "regular"))
    'The largest rate with p99 <= 1ms is 19950/s, where 3 of 3 trials met it, below 20800/s, where 1 of 4 did; conditional \
throughput 19910/s; 95 % interval [19900, 20700], 21 trials.'
    """
    at, unit = f" at {where}" if where else "", _unit(spec)
    subject = f"The largest {spec.factor} with {found.goal}{at}"
    if not found.known:
        why = found.warning or "it was interrupted before the first trial told anything"
        return f"{subject} is not known: {why}."
    tail = f" {found.warning[:1].upper()}{found.warning[1:]}." if found.warning else ""
    lower, upper = found.relevant_lower_bound, found.relevant_upper_bound
    if found.ended == "edge":
        side, load, bound = (
            ("above", spec.max_load, lower) if _above(found) else ("below", spec.min_load, upper)
        )
        met = f": {_met(bound)} met it there" if bound else ""
        return f"{subject} lies {side} {load}{unit}, where the search ends{met}.{tail}"
    known = [f"{bound.load}{unit}, where {_met(bound)} met it" for bound in (lower,) if bound]
    known += [f"below {bound.load}{unit}, where {_met(bound, known)} did" for bound in (upper,) if bound]
    parts = [f"{subject} is {', '.join(known) or 'not settled'}"]
    if found.conditional_throughput is not None:
        parts.append(f"conditional throughput {_four(found.conditional_throughput)}{unit}")
    parts.append(f"95 % interval [{_four(found.low)}, {_four(found.high)}], {counted(found.trials, 'trial')}")
    if found.ended in _ENDINGS:
        parts.append(f"{_ENDINGS[found.ended]}, before that was settled")
    return f"{'; '.join(parts)}.{tail}"


def _met(bound: Bound, after: object = None) -> str:
    """Trials that met a goal, of all: `2 of 3 trials`, or `1 of 4` after that was said."""
    return f"{bound.low_loss_trials} of {bound.trials}" + ("" if after else " trials")


def so_far(spec: SearchSpec, found: GoalResult) -> str:
    """State the interval that a search has reached so far.

    >>> from iodyno.core.search import parse_goal
    >>> so_far(SearchSpec((parse_goal("loss = 0"),)), GoalResult(
    ...     "p1", {}, "loss = 0", None, None, False, None, 22_360.0, 2040.0, 4.1e6, 2, 0, ""))
    'the largest rate with loss = 0 so far: 22360/s [2040, 4100000]'
    """
    interval = f"{_four(found.estimate)}{_unit(spec)} [{_four(found.low)}, {_four(found.high)}]"
    return f"the largest {spec.factor} with {found.goal} so far: {interval}"


def _unit(spec: SearchSpec) -> str:
    return "/s" if spec.factor == "rate" else ""


def search_shown(summary: CampaignSummary, saved: str, *, verbose: bool = False) -> Shown:
    """Return what there is to show of a search; `saved`: the campaign's folder."""
    spec = summary.search
    assert spec is not None
    factor = spec.factor

    def blocks() -> Iterator[Block]:
        *first, last = search_sentences(summary) or ("nothing was searched",)
        yield from first
        yield _headline(summary, spec, saved, last)
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


def _headline(summary: CampaignSummary, spec: SearchSpec, saved: str, title: str) -> Headline:
    """Return what was found (`title`), whether the search converged, and the steps next to it."""
    rows: list[tuple[str, tuple[str, ...]]] = []
    several = len(spec.goals) > 1
    for found in summary.goal_results:
        lower, upper = found.relevant_lower_bound, found.relevant_upper_bound
        if found.known and found.ended != "edge":
            goal = next(goal for goal in spec.goals if goal.text == found.goal)
            asked = f"asked {100 * goal.width:g} %"
            if lower and upper:
                asked = f"bounds {float(f'{100 * (1 - lower.load / upper.load):.2g}'):g} % apart, {asked}"
            said = f"yes: {asked}" if found.regular else f"no: {asked}; a longer --search-duration goes on"
            rows.append(("Converged", (f"{found.goal}: {said}" if several else said,)))
    for number, goal in enumerate(spec.goals):
        tried = [(trial.load, trial.loss_ratios[number] <= goal.loss_ratio) for trial in _tried(summary)]
        met, missed = ([load for load, good in tried if good is which] for which in (True, False))
        parts = [f"{counted(len(met), 'trial')} met it, up to {max(met)}{_unit(spec)}"] if met else []
        if missed:
            parts.append(f"{counted(len(missed), 'trial')} did not, from {min(missed)}{_unit(spec)} on")
        if parts:
            text = ", ".join(parts) + "; each with -v"
            rows.append(("Steps", (f"{goal.text}: {text}" if several else text,)))
    if summary.points:
        load = load_of(summary).title(summary, summary.points[0])
        seconds = spec.goals[0].final_trial_duration_ns / 1e9
        rows.append(("Load", (f"{load}, {seconds:g} s a trial{hosts_of(summary)}",)))
    rows += told_last(summary, saved)
    return Headline(title, tuple(rows))


def _tried(summary: CampaignSummary) -> list[LoadTrial]:
    """Return the trials of each point, in order."""
    return [trial for trials in summary.load_trials.values() for trial in trials]


def _steps(summary: CampaignSummary, spec: SearchSpec) -> Table:
    """Return a row for each trial: its load, and the loss by each goal with whether it met that."""
    rows = []
    for number, trial in enumerate(_tried(summary), 1):
        row = [str(number), f"{trial.load}{_unit(spec)}"]
        for goal, ratio in zip(spec.goals, trial.loss_ratios, strict=True):
            row += [f"{float(f'{100 * ratio:.3g}'):g} %", "pass" if ratio <= goal.loss_ratio else "FAIL"]
        rows.append(tuple(map(Cell, row)))
    heads = [Column("trial"), Column(spec.factor, right=True)]
    for goal in spec.goals:
        heads += [
            Column(
                f"later or lost than {goal.text}" if goal.outcome != "loss_ratio" else goal.text, right=True
            )
        ]
        heads += [Column("")]
    return Table("Steps", tuple(heads), tuple(rows))


def search_json(summary: CampaignSummary) -> dict[str, Any]:
    """The goals, and the goal results at each point; loads in base units."""
    spec = summary.search
    assert spec is not None
    return {
        "goals": [
            {
                "goal": goal.text,
                "loss_ratio": goal.loss_ratio,
                "exceed_ratio": goal.exceed_ratio,
                "width": goal.width,
                "initial_trial_duration_ns": goal.initial_trial_duration_ns,
                "final_trial_duration_ns": goal.final_trial_duration_ns,
                "duration_sum_ns": goal.duration_sum_ns,
            }
            for goal in spec.goals
        ],
        "parameter": spec.factor,
        "min_load": spec.min_load,
        "max_load": spec.max_load,
        "method": "RFC 9971; interval: 95 % of the probability, over walls of every sharpness",
        "goal_results": [_as_json(spec, found) for found in summary.goal_results],
        "load_trials": {
            point: [_trial_json(spec, trial) for trial in trials]
            for point, trials in summary.load_trials.items()
        },
    }


def _rows(summary: CampaignSummary, spec: SearchSpec) -> Iterator[Row]:
    """Yield a row for each goal at each point that was searched."""
    for one in search_json(summary)["goal_results"]:
        bounds: dict[str, Any] = {}
        for side in ("relevant_lower_bound", "relevant_upper_bound"):
            found = one.pop(side) or dict.fromkeys(("load", "low_loss_trials", "trials"))
            bounds |= {side if name == "load" else f"{side}_{name}": value for name, value in found.items()}
        yield {"goal": one.pop("goal"), "parameter": spec.factor, **one.pop("levels"), **bounds, **one}


def _as_json(spec: SearchSpec, found: GoalResult) -> dict[str, Any]:
    unknown: dict[str, Any] = {} if found.known else dict.fromkeys(("estimate", "low", "high"))
    if found.known and found.ended == "edge":
        # Of what lies outside of the search only the side is known.
        bounds = (
            {"low": spec.max_load, "high": None} if _above(found) else {"low": None, "high": spec.min_load}
        )
        unknown = {"estimate": None, **bounds}
    return {**asdict(found), "regular": found.regular} | unknown


def _trial_json(spec: SearchSpec, trial: LoadTrial) -> dict[str, Any]:
    met = [ratio <= goal.loss_ratio for ratio, goal in zip(trial.loss_ratios, spec.goals, strict=True)]
    return {**asdict(trial), "met": met}


def _above(found: GoalResult) -> bool:
    return found.relevant_upper_bound is None


def _four(value: float) -> str:
    """To four digits, written out."""
    return f"{float(f'{value:.4g}'):.0f}" if value >= 1000 else f"{value:.4g}"
