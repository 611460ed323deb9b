"""The section `search` of an experiment file: the largest level of a parameter that meets a goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from iodyno.core.experiment import WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.invalid import invalid
from iodyno.core.outcome import TIMES_OF_REQUESTS, not_of
from iodyno.core.search import Goal, SearchSpec
from iodyno.core.workload import Level
from iodyno.formats import experiment_model as model
from iodyno.formats.mistakes import Path, unknown
from iodyno.formats.reading import Reading
from iodyno.loads.base.formats import load_named


def searched(
    reading: Reading, workload: WorkloadSpec | None, factors: Mapping[str, Factor]
) -> SearchSpec | None:
    """The search, when the file asks for one; what cannot be is noted."""
    if "search" not in reading.plain:
        return None
    path: Path = ("search",)
    section = reading.section(model.SearchSection, reading.plain.get("search"), path)
    if section is None or workload is None:
        return None
    if section.low >= section.high:
        reading.note(
            (*path, "low"), f"invalid value: {section.low} to {section.high}; expected a low below the high"
        )
    if not 0.001 <= section.precision <= 0.5:
        reading.note((*path, "precision"), invalid(section.precision, "0.1 % to 50 %"))
    parameters = {p.name: p for p in workload.workload.parameters}
    if section.parameter not in parameters:
        text = unknown(section.parameter, parameters, f"parameter of the workload {workload.kind}")
        reading.note((*path, "parameter"), text)
    set_by = {name: f"the factor {f.name}" for f in factors.values() for name in (f.name, *f.together)}
    set_by |= dict.fromkeys(workload.settings, "the workload")
    if section.parameter in set_by:
        text = f"duplicate setting {section.parameter}: {set_by[section.parameter]} sets it too"
        reading.note((*path, "parameter") if reading.has((*path, "parameter")) else path, text)
    for key, text in _undecidable(section.goal, section.parameter, workload, factors).items():
        closed = ("workload", "arrivals")
        place = (*path, key) if reading.has((*path, key)) else closed if reading.has(closed) else path
        reading.note(place, text)
    name = section.goal.outcome
    goal = replace(section.goal, outcome=TIMES_OF_REQUESTS[name] if name in not_of(workload.kind) else name)
    return SearchSpec(goal, section.parameter, section.low, section.high, section.precision, section.time)


def _undecidable(
    goal: Goal, parameter: str, workload: WorkloadSpec, factors: Mapping[str, Factor]
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
