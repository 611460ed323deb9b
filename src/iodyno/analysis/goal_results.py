"""Goals and goal results of a search, as a campaign stores them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.analysis.dataset import Dataset
from iodyno.core.search import Bound, GoalResult, LoadTrial, SearchGoal, SearchSpec

_CONFIRMATIONS = 3
"""Trials in a row that a level of an older search had to meet its goal in."""


def load_trials_of(dataset: Dataset) -> dict[str, tuple[LoadTrial, ...]]:
    """Return the trials of a search in their order, by the point that was searched at; of an older campaign nothing."""
    stored = (dataset.header.get("search") or {}).get("load_trials") or {}
    return {
        point: tuple(LoadTrial(**{**trial, "loss_ratios": tuple(trial["loss_ratios"])}) for trial in trials)
        for point, trials in stored.items()
    }


def search_of(dataset: Dataset) -> tuple[SearchSpec | None, tuple[GoalResult, ...]]:
    """Return what was searched for and what was found; None and nothing of a campaign that does not search."""
    asked, stored = dataset.experiment.get("search"), dataset.header.get("search") or {}
    if not asked:
        return None, ()
    if "goal" in asked:
        return _older(asked, stored, int((dataset.experiment.get("windows") or {}).get("measured_ns", 10**9)))
    spec = SearchSpec(**{**asked, "goals": tuple(SearchGoal(**goal) for goal in asked["goals"])})
    return spec, tuple(goal_result(found) for found in stored.get("goal_results") or ())


def goal_result(stored: Mapping[str, Any]) -> GoalResult:
    """Return one of those that a search gives as its answer."""
    bounds = {
        name: stored[name] and Bound(**stored[name])
        for name in ("relevant_lower_bound", "relevant_upper_bound")
    }
    return GoalResult(**{**stored, **bounds})


def _older(
    asked: Mapping[str, Any], stored: Mapping[str, Any], measured_ns: int
) -> tuple[SearchSpec, tuple[GoalResult, ...]]:
    """A search for one goal that ended with a narrow interval: its level that was confirmed is a lower bound, and it has no
    upper one."""
    goal = SearchGoal(
        **asked["goal"],
        width=asked["precision"],
        initial_trial_duration_ns=measured_ns,
        final_trial_duration_ns=measured_ns,
        duration_sum_ns=_CONFIRMATIONS * measured_ns,
    )
    spec = SearchSpec((goal,), asked["factor"], asked["low"], asked["high"], asked["time_ns"])
    found = []
    for one in stored.get("found") or ():
        own = {
            key: one[key]
            for key in ("point", "levels", "estimate", "low", "high", "trials", "ended", "warning")
        }
        met = one["confirmed"]
        bound = None if met is None else Bound(met, _CONFIRMATIONS, _CONFIRMATIONS)
        found.append(GoalResult(
            goal=goal.text, relevant_lower_bound=bound, relevant_upper_bound=None, confirmed=met is not None,
            conditional_throughput=None, duration_ns=one["trials"] * measured_ns, **own,
        ))  # fmt: skip
    return spec, tuple(found)
