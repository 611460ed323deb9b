"""Differences in the settings of two points, of one campaign or of two: the workload, and its parameters as obtained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iodyno.analysis.dataset import Dataset
from iodyno.analysis.factors import label

WORKLOAD = "workload"


@dataclass(frozen=True)
class SettingChange:
    """A parameter with its levels as people write them; None where it was not set."""

    name: str
    first: str | None
    second: str | None


def setting_changes(first: tuple[Dataset, str], second: tuple[Dataset, str]) -> list[SettingChange]:
    """Return the differences between a point of one campaign and one of another, or of the same.

    Of two kinds of workload that they are two is all that is said: parameters of one are none of the other.
    """
    kinds = [str((dataset.experiment.get(WORKLOAD) or {}).get("kind", "")) for dataset, _ in (first, second)]
    if kinds[0] != kinds[1]:
        return [SettingChange(WORKLOAD, kinds[0], kinds[1])]
    a, b = _settings(*first), _settings(*second)
    return [
        SettingChange(name, a.get(name), b.get(name))
        for name in dict.fromkeys((*a, *b))
        if a.get(name) != b.get(name)
    ]


def _settings(dataset: Dataset, point: str) -> Mapping[str, str]:
    """The settings of a point with the levels that were not named; empty where it has no trial."""
    trial = next((trial for trial in dataset.trials if trial.point == point and trial.settings), None)
    return {name: label(dataset, name, level) for name, level in trial.settings.items()} if trial else {}
