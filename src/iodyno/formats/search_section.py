"""The section `search` of an experiment file: the largest loads, levels of a parameter, that meet goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from iodyno.core import quantity
from iodyno.core.experiment import WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.invalid import invalid
from iodyno.core.outcome import TIMES_OF_REQUESTS, not_of
from iodyno.core.search import MOST_TRIALS, TRIALS, SearchGoal, SearchSpec, parse_goal
from iodyno.core.workload import Level
from iodyno.formats import experiment_model as model
from iodyno.formats.mistakes import Path, unknown
from iodyno.formats.reading import Reading
from iodyno.loads.base.formats import load_named


def searched(
    reading: Reading, workload: WorkloadSpec | None, factors: Mapping[str, Factor], windows: Any
) -> SearchSpec | None:
    """The search, when the file asks for one; what cannot be is noted. `windows`: of a trial."""
    if "search" not in reading.plain:
        return None
    path: Path = ("search",)
    section = reading.section(model.SearchSection, reading.plain.get("search"), path)
    if section is None or workload is None or windows is None:
        return None
    if section.min_load >= section.max_load:
        reading.note(
            (*path, "min_load"),
            f"invalid value: {section.min_load} to {section.max_load}; expected a min_load below the max_load",
        )
    parameters = {p.name: p for p in workload.workload.parameters}
    if section.parameter not in parameters:
        text = unknown(section.parameter, parameters, f"parameter of the workload {workload.kind}")
        reading.note((*path, "parameter"), text)
    set_by = {name: f"the factor {f.name}" for f in factors.values() for name in (f.name, *f.together)}
    set_by |= dict.fromkeys(workload.settings, "the workload")
    if section.parameter in set_by:
        text = f"duplicate setting {section.parameter}: {set_by[section.parameter]} sets it too"
        reading.note((*path, "parameter") if reading.has((*path, "parameter")) else path, text)
    reading.no_duplicates(section.goals, (*path, "goals"), str)
    goals = []
    for place, written in enumerate(section.goals):
        at: Path = (*path, "goals", place)
        mapping = isinstance(written, dict)
        own = reading.section(model.GoalSection, written, at) if mapping else _plain(reading, written, at)
        if own is None:
            continue
        goals.append(_goal(reading, own, section, at, windows.measured))
        for key, text in _undecidable(goals[-1], section.parameter, workload, factors).items():
            closed = ("workload", "arrivals")
            where = at if key == "goal" else (*path, key)
            if key != "goal" and not reading.has(where):
                where = closed if reading.has(closed) else path
            reading.note(where, text)
        name = goals[-1].outcome
        if name in not_of(workload.kind):
            goals[-1] = replace(goals[-1], outcome=TIMES_OF_REQUESTS[name])
    return SearchSpec(
        tuple(goals), section.parameter, section.min_load, section.max_load, section.search_duration
    )


def _plain(reading: Reading, written: object, at: Path) -> model.GoalSection | None:
    """A goal that is written as its text."""
    try:
        return model.GoalSection.model_construct(goal=parse_goal(written))
    except ValueError as problem:
        reading.note(at, str(problem))
        return None


def _goal(reading: Reading, own: Any, section: Any, at: Path, measured_ns: int) -> SearchGoal:
    """The goal with what it says itself, what the search says for all, or what is usual."""

    def asked(key: str, usual: int) -> tuple[int, Path]:
        if getattr(own, key) is not None:
            return getattr(own, key), (*at, key)
        return (usual if getattr(section, key) is None else getattr(section, key)), ("search", key)

    final_ns, _ = asked("final_trial_duration", measured_ns)
    initial_ns, initial_at = asked("initial_trial_duration", final_ns)
    sum_ns, sum_at = asked("duration_sum", TRIALS * final_ns)
    for value, place, text in (
        (initial_ns <= final_ns, initial_at, "no longer than final_trial_duration"),
        (sum_ns >= final_ns, sum_at, "no shorter than final_trial_duration"),
        (sum_ns <= MOST_TRIALS * final_ns, sum_at, f"at most {MOST_TRIALS} times final_trial_duration"),
    ):
        if not value:
            reading.note(
                place, f"invalid value: expected a time {text}, {quantity.show('duration', final_ns)}"
            )
    ratios = {}
    for key, low, high, text in (
        ("exceed_ratio", 0.0, 0.9999, "0 % to less than 100 %"),
        ("width", 0.001, 0.5, "0.1 % to 50 %"),
    ):
        of_goal = getattr(own, key)
        ratios[key] = getattr(section, key) if of_goal is None else of_goal
        if not low <= ratios[key] <= high:
            reading.note(("search", key) if of_goal is None else (*at, key), invalid(ratios[key], text))
    goal: SearchGoal = own.goal
    return replace(
        goal,
        **ratios,
        initial_trial_duration_ns=initial_ns,
        final_trial_duration_ns=final_ns,
        duration_sum_ns=sum_ns,
    )


def _undecidable(
    goal: SearchGoal, parameter: str, workload: WorkloadSpec, factors: Mapping[str, Factor]
) -> dict[str, str]:
    """Why no trial can tell whether the goal is met, by the key that is to blame; empty where it can."""
    load = load_named(workload.kind)
    why = load.without_loss(_levels("transport", workload, factors, "tcp"))
    if goal.outcome == "loss_ratio" and why is not None:
        text = f"{why}; expected transport udp, or a goal on the response time, such as p99 <= 1ms"
        return {"goal": text}
    if "closed" in _levels("arrivals", workload, factors, None):
        allowed = "expected arrivals constant, poisson, bursty or of a trace"
        if parameter == "rate":
            return {"parameter": f"with arrivals: closed nothing comes at a rate; {allowed}"}
        if goal.outcome.startswith("response_time"):
            return {
                "goal": f"with arrivals: closed nothing is due at a time that a response could count from; {allowed}"
            }
    timed = parameter in ("rate", "replay") or any(
        level is not None
        for name in ("rate", "arrivals", "replay")
        for level in _levels(name, workload, factors, None)
    )
    if goal.outcome.startswith("response_time") and load.due_by_rate and not timed:
        text = "the loop is closed: nothing is due at a time that a response could count from"
        return {"goal": f"{text}; expected a rate, as a setting or as what is searched"}
    return {}


def _levels(
    name: str, workload: WorkloadSpec, factors: Mapping[str, Factor], otherwise: Level | None
) -> tuple[Level | None, ...]:
    """Every level that the parameter has at some point."""
    for factor in factors.values():
        if name == factor.name:
            return factor.levels
        if name in factor.together:
            return factor.together[name]
    return (workload.settings.get(name, otherwise),)
