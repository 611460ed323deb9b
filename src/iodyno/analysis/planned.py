"""Trials that a campaign was to make, and the rule that may stop it before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.analysis.dataset import Dataset
from iodyno.core.decision import Rule, Standing, UntilSpec


def decision_of(dataset: Dataset) -> Standing | None:
    """Return the standing of the rule for stopping, of a campaign that has one and that was looked at."""
    stored = dataset.header.get("until")
    return Standing.from_json(stored) if stored else None


def until_of(dataset: Dataset) -> UntilSpec | None:
    """Return the rule for stopping; None: the campaign has none."""
    stored = dataset.experiment.get("until")
    if not stored:
        return None
    try:
        return UntilSpec(**{**stored, "rule": Rule(**stored["rule"])})
    except (TypeError, KeyError):
        return None  # Of another version: the decision stands by itself.


def planned_trials(dataset: Dataset) -> list[Mapping[str, Any]]:
    """Trials that were to be made: those of the design, or of its blocks up to the decision."""
    trials = list((dataset.header.get("design") or {}).get("trials") or ())
    decision = decision_of(dataset)
    if decision is None or not trials:
        return trials
    blocks = list(dict.fromkeys(trial["block"] for trial in trials))[: decision.blocks]
    return [trial for trial in trials if trial["block"] in blocks]


def lacks(dataset: Dataset) -> str:
    """Return what is left to do of a campaign whose trials are all finished; empty where nothing is, or where trials are."""
    trials = [trial for trial in dataset.trials if trial.status != "skipped"]
    whole = len(dataset.trials) >= len(planned_trials(dataset)) and all(trial.finished for trial in trials)
    if dataset.header.get("finished") or not whole:
        return ""
    left = {"search": "the search", "until": "the rule for stopping", "prove": "the proof of the limiter"}
    return next((what for key, what in left.items() if dataset.experiment.get(key)), "")
