"""Findings of a search, in sentences and as JSON, in the terms of RFC 9971."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from iodyno.analysis.results import CampaignSummary
from iodyno.core.quantity import counted
from iodyno.core.search import Bound, GoalResult, LoadTrial, SearchGoal, SearchSpec
from iodyno.loads.base.report import load_of
from iodyno.report.form import Block, Headline, Row, Shown
from iodyno.report.headline import hosts_of, shortened, told_last
from iodyno.report.numbers import digits, quantity
from iodyno.report.table import Cell, Column, Table

_WARNING = "Warning"
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
    return [
        sentence(summary.search, found, _place(summary, found), summary.load_trials.get(found.point, ()))
        for found in summary.goal_results
    ]


def search_answers(summary: CampaignSummary) -> list[tuple[str, str, str]]:
    """Return for each goal at each point that was searched what was looked for, what was found, and what that rests on."""
    spec = summary.search
    if spec is None:
        return []
    several, found = len({one.point for one in summary.goal_results}) > 1, []
    for one in summary.goal_results:
        lower = one.relevant_lower_bound
        value, rests_on = _load(spec, lower.load) if lower else "none that was tried", ""
        if one.known and one.ended == "edge":
            value = (
                f"above {_load(spec, spec.max_load)}"
                if _above(one)
                else f"below {_load(spec, spec.min_load)}"
            )
        elif not one.known:
            value = "not known"
        elif lower:
            rests_on = bounds_text(spec, one, summary.load_trials.get(one.point, ()))
        place = ", ".join(filter(None, (_place(summary, one) if several else "", rests_on)))
        found.append((f"Largest {spec.factor} with {one.goal}", value, place))
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
    """The levels of its factors, as people wrote them, where several points were searched; what is set together with one is told
    by it.
    """
    if len({one.point for one in summary.goal_results}) < 2:
        return ""
    return ", ".join(
        f"{factor.name.replace('_', ' ')} "
        f"{summary.factor_labels[factor.name][factor.levels.index(found.levels[factor.name])]}"
        for factor in summary.factors
        if factor.name in found.levels and found.levels[factor.name] in factor.levels
    )


def sentence(spec: SearchSpec, found: GoalResult, where: str = "", trials: Sequence[LoadTrial] = ()) -> str:
    """State the finding for a goal at one point. `trials`: those of the point, by which it is known whose bound the upper one is.

    >>> from iodyno.core.search import parse_goal
    >>> spec = SearchSpec((parse_goal("p99 <= 1ms"),))
    >>> bounds = Bound(19_950, 3, 3), Bound(20_800, 1, 4)
    >>> sentence(spec, GoalResult(
    ...     "p1", {}, "p99 <= 1ms", *bounds, True, 19_910.0, 20_300.0, 19_900.0, 20_700.0, 21, 21 * 10**9, "regular"))
    'The largest rate with p99 <= 1ms is 19.9 k/s: 3 of 3 trials met it there, 1 of 4 at 20.8 k/s; conditional throughput \
19.9 k/s. Trials begin to miss it at 20.3 k/s, 95 % interval [19.9 k/s, 20.7 k/s], by all 21 trials.'
    """
    title = short_sentence(spec, found, where)
    tail = f" {_capital(found.warning)}." if found.warning else ""
    if not found.known:
        return f"{title}."
    bounds = bounds_text(spec, found, trials)
    said = f"{title}: {bounds}" if bounds else title
    if found.ended == "edge":
        return f"{said}.{tail}"
    if found.ended in _ENDINGS:
        said += f"; {_ENDINGS[found.ended]}, before that was settled"
    return f"{said}. {_capital(limit_text(spec, found))}.{tail}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def short_sentence(spec: SearchSpec, found: GoalResult, where: str = "") -> str:
    """State the answer alone, without what it rests on; no full stop."""
    subject = f"The largest {spec.factor} with {found.goal}{f' at {where}' if where else ''}"
    if not found.known:
        return f"{subject} is not known: {found.warning or 'it was interrupted before the first trial told anything'}"
    lower, upper = found.relevant_lower_bound, found.relevant_upper_bound
    if found.ended == "edge":
        side, load = ("above", spec.max_load) if _above(found) else ("below", spec.min_load)
        return f"{subject} lies {side} {_load(spec, load)}, where the search ends"
    first, second = _apart(spec, lower, upper)
    return f"{subject} {f'is {first}' if lower else f'lies below {second}' if upper else 'is not settled'}"


def bounds_text(spec: SearchSpec, found: GoalResult, trials: Sequence[LoadTrial] = ()) -> str:
    """State how many trials met the goal at its relevant bounds, what was carried at the lower one, and whether the upper one is
    the load generator's.
    """
    lower, upper = found.relevant_lower_bound, found.relevant_upper_bound
    _, above = _apart(spec, lower, upper)
    parts = [f"{_met(lower)} met it there"] if lower else []
    if upper:
        slow = _too_slow(upper, trials)
        if slow == upper.trials:
            parts.append(f"at {above} the load generator was too slow: that bound is its own, not the path's")
        else:
            of_these = f" (the load generator was too slow in {slow})" if slow else ""
            met = f"{_met(upper, lower)} at {above}" if lower else f"{_met(upper)} met it there"
            parts.append(met + of_these)
    said = ", ".join(parts)
    if found.conditional_throughput is not None and found.ended != "edge":
        said += f"; conditional throughput {_load(spec, found.conditional_throughput)}"
    return said


def limit_text(spec: SearchSpec, found: GoalResult) -> str:
    """State the estimate of the largest load that meets the goal beside its interval: it is no bound, and may lie on either side
    of one.
    """
    low, high = _load(spec, found.low), _load(spec, found.high)
    told = f"trials begin to miss it at {_load(spec, found.estimate)}, 95 % interval [{low}, {high}]"
    return f"{told}, by all {found.trials} trials" if found.trials > 1 else f"{told}, by 1 trial"


def _too_slow(upper: Bound | None, trials: Sequence[LoadTrial]) -> int:
    """Count the trials at the upper bound in which the load generator was too slow."""
    return sum(bool(t.suspect) for t in trials if upper and t.load == upper.load)


def _met(bound: Bound, after: object = None) -> str:
    """Trials that met a goal, of all: `2 of 3 trials`, or `1 of 4` after that was said."""
    return f"{bound.low_loss_trials} of {bound.trials if after else counted(bound.trials, 'trial')}"


def so_far(spec: SearchSpec, found: GoalResult) -> str:
    """State the interval that a search has reached so far.

    >>> from iodyno.core.search import parse_goal
    >>> so_far(SearchSpec((parse_goal("loss = 0"),)), GoalResult(
    ...     "p1", {}, "loss = 0", None, None, False, None, 22_360.0, 2040.0, 4.1e6, 2, 0, ""))
    'the largest rate with loss = 0 so far: 22.4 k/s [2.04 k/s, 4.10 M/s]'
    """
    interval = f"{_load(spec, found.estimate)} [{_load(spec, found.low)}, {_load(spec, found.high)}]"
    return f"the largest {spec.factor} with {found.goal} so far: {interval}"


def step_cells(goal: SearchGoal, trial: LoadTrial, place: int) -> tuple[str, str]:
    """Return the loss of a trial by the goal at that place, and `pass` or `FAIL`. Where the load generator was too slow there is
    no loss that anything is known of.

    >>> from iodyno.core.search import parse_goal
    >>> goal = parse_goal("loss <= 1%")
    >>> step_cells(goal, LoadTrial(100, 10**9, (0.0251,)), 0), step_cells(goal, LoadTrial(100, 10**9, (1.0,), None, "late"), 0)
    (('2.51 %', 'FAIL'), ('generator too slow', 'FAIL'))
    """
    ratio = trial.loss_ratios[place]
    answer = "pass" if ratio <= goal.loss_ratio else "FAIL"
    if trial.suspect:
        return "generator too slow", answer
    of_mean = goal.over is None and goal.outcome != "loss_ratio"
    return "" if of_mean else f"{float(f'{100 * ratio:.3g}'):g} %", answer


def step_line(spec: SearchSpec, trial: LoadTrial) -> str:
    """State how a trial met the goals: `loss <= 1%: FAIL, 2.51 %`."""
    cells = [(goal, *step_cells(goal, trial, place)) for place, goal in enumerate(spec.goals)]
    return "; ".join(
        f"{goal.text}: {', '.join(filter(None, (answer, _lost(goal, loss))))}" for goal, loss, answer in cells
    )


def _lost(goal: SearchGoal, loss: str) -> str:
    return f"{loss} later or lost" if goal.over is not None and loss.endswith("%") else loss


def _load(spec: SearchSpec, load: float) -> str:
    """A load to three digits; a count of connections as it is.

    >>> _load(SearchSpec(()), 60488), _load(SearchSpec(()), 100), _load(SearchSpec((), "connections"), 1250)
    ('60.5 k/s', '100/s', '1250')
    """
    if spec.factor == "rate":
        return quantity(load, "1/s").replace(" /s", "/s")
    return str(load) if isinstance(load, int) else digits(load)


def _apart(spec: SearchSpec, lower: Bound | None, upper: Bound | None) -> tuple[str, str]:
    """Both bounds to three digits; in full where that would not tell them apart."""
    first, second = (_load(spec, bound.load) if bound else "" for bound in (lower, upper))
    if lower and upper and first == second:
        return f"{lower.load}{_unit(spec)}", f"{upper.load}{_unit(spec)}"
    return first, second


def _unit(spec: SearchSpec) -> str:
    return "/s" if spec.factor == "rate" else ""


def search_shown(summary: CampaignSummary, saved: str, *, verbose: bool = False) -> Shown:
    """Return what there is to show of a search; `saved`: the campaign's folder."""
    spec = summary.search
    assert spec is not None
    factor = spec.factor

    def blocks() -> Iterator[Block]:
        *first, last = [
            short_sentence(spec, found, _place(summary, found)) for found in summary.goal_results
        ] or ["Nothing was searched"]
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
    told: dict[str, dict[str, None]] = {}
    several = len(summary.goal_results) > 1
    for found in summary.goal_results:
        place = _place(summary, found)
        named = f"{found.goal}{f' at {place}' if place else ''}: " if several else ""
        for label, text in _rows_of(spec, found, summary.load_trials.get(found.point, ())):
            told.setdefault(label, {})[text if label == _WARNING else named + text] = None
    warnings = told.pop(_WARNING, {})
    # Of several goals each has its bounds, and an answer has ten lines.
    if several and "Converged" in told:
        told["Converged"] = {"; ".join(told["Converged"]): None}
    if not several:
        told["Steps"] = dict.fromkeys(_steps_of(summary, spec))
    rows: list[tuple[str, tuple[str, ...]]] = [
        (label, (text,)) for label, texts in told.items() for text in texts
    ]
    if summary.points:
        load = load_of(summary).title(summary, summary.points[0])
        seconds = spec.goals[0].final_trial_duration_ns / 1e9
        rows.append(("Load", (f"{load}, {seconds:g} s a trial{hosts_of(summary)}",)))
    rows += [(_WARNING, (text,)) for text in warnings]
    rows += told_last(summary, saved)
    return Headline(title, tuple(rows))


def _rows_of(spec: SearchSpec, found: GoalResult, trials: Sequence[LoadTrial]) -> Iterator[tuple[str, str]]:
    """Yield what the answer for a goal rests on, and whether the search converged."""
    if not found.known:
        return
    lower, upper = found.relevant_lower_bound, found.relevant_upper_bound
    if bounds := bounds_text(spec, found, trials):
        yield "Bounds", bounds
    if found.ended != "edge":
        yield "Limit", limit_text(spec, found)
        goal = next(goal for goal in spec.goals if goal.text == found.goal)
        asked = f"asked {100 * goal.width:g} %"
        if lower and upper:
            asked = f"bounds {float(f'{100 * (1 - lower.load / upper.load):.2g}'):g} % apart, {asked}"
        slow = upper is not None and _too_slow(upper, trials) == upper.trials
        but = "; the upper one is the load generator's" if slow else ""
        if found.regular:
            yield "Converged", f"yes: {asked}{but}"
        else:
            why = f"{_ENDINGS[found.ended]}; " if found.ended in _ENDINGS else ""
            yield "Converged", f"no: {why}{asked}{but}; a longer --search-duration goes on"
    if found.warning:
        yield _WARNING, shortened(found.warning)


def _steps_of(summary: CampaignSummary, spec: SearchSpec) -> Iterator[str]:
    """Yield how many trials met the one goal, and from which load on they did not, or the generator could not."""
    tried = _tried(summary)
    slow = [trial.load for trial in tried if trial.suspect]
    fair = [trial for trial in tried if not trial.suspect]
    met, missed = (
        [trial.load for trial in fair if (trial.loss_ratios[0] <= spec.goals[0].loss_ratio) is which]
        for which in (True, False)
    )
    parts = [f"{counted(len(met), 'trial')} met it, up to {_load(spec, max(met))}"] if met else []
    if missed:
        parts.append(f"{counted(len(missed), 'trial')} did not, from {_load(spec, min(missed))} on")
    if slow:
        parts.append(f"in {len(slow)} the generator was too slow, from {_load(spec, min(slow))} on")
    if parts:
        yield ", ".join(parts) + "; each with -v"


def _tried(summary: CampaignSummary) -> list[LoadTrial]:
    """Return the trials of each point, in order."""
    return [trial for trials in summary.load_trials.values() for trial in trials]


def _steps(summary: CampaignSummary, spec: SearchSpec) -> Table:
    """Return a row for each trial: its load, and the loss by each goal with whether it met that."""
    rows = []
    for number, trial in enumerate(_tried(summary), 1):
        row = [str(number), f"{trial.load}{_unit(spec)}"]
        for place, goal in enumerate(spec.goals):
            row += step_cells(goal, trial, place)
        rows.append(tuple(map(Cell, row)))
    heads = [Column("trial"), Column(spec.factor, right=True)]
    for goal in spec.goals:
        late = ": later or lost" if goal.over is not None else ""
        heads += [Column(f"{goal.text}{late}", right=True), Column("")]
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
