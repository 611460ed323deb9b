"""Two points set against each other, of one campaign or of two: mechanisms, settings, and profiles of a host."""

from __future__ import annotations

from dataclasses import dataclass

from iodyno.analysis.dataset import Dataset
from iodyno.analysis.function_change import ProfileChange, profile_change, why_not_compared
from iodyno.analysis.functions import read_profiles
from iodyno.analysis.mechanisms import MechanismChange, mechanism_changes, mechanisms
from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.analysis.setting_changes import SettingChange, setting_changes
from iodyno.analysis.stacks import SAMPLED_BY
from iodyno.core.errors import StoreError


@dataclass(frozen=True)
class Side:
    """A campaign and a point of it."""

    dataset: Dataset
    summary: CampaignSummary
    point: PointSummary

    @property
    def title(self) -> str:
        """The point as it is written."""
        return self.summary.name_of(self.point)


def mechanisms_between(first: Side, second: Side) -> list[MechanismChange]:
    """Return how what is counted below the load differs: packets, calls, switches."""
    found = []
    for side in (first, second):
        trials = [t for t in side.dataset.trials if t.finished and t.point == side.point.id]
        found.append(mechanisms(trials, side.dataset.hosts))
    return mechanism_changes(*found)


def settings_between(first: Side, second: Side) -> list[SettingChange]:
    """Return what is set differently; nothing of two points of one campaign, whose names say it."""
    if first.dataset is second.dataset:
        return []
    return setting_changes(first.summary, second.summary, [(first.point, second.point)])


def profiles_between(first: Side, second: Side, host: str) -> ProfileChange:
    """Return how the profiles of a host differ. Raises StoreError where a side has none, or they cannot be compared."""
    same = first.dataset is second.dataset
    own = (first.point.id, second.point.id) if same else (first.point.id,)
    profiles = [read_profiles(first.dataset, dict.fromkeys(own))]
    profiles.append(profiles[0] if same else read_profiles(second.dataset, (second.point.id,)))
    for side, found in zip((first, second), profiles, strict=True):
        if (side.point.id, host) not in found.found:
            reason = found.missing.get((side.point.id, host), f"{host} is no host of this campaign")
            raise StoreError(
                f"there is no profile of {host} at {side.title}: {reason}",
                where=side.summary.folder,
                advice=SAMPLED_BY,
            )
    a, b = profiles[0].found[first.point.id, host], profiles[1].found[second.point.id, host]
    if reason := why_not_compared(a, b):
        raise StoreError(
            f"the functions of {host} cannot be compared: {reason}",
            where=second.summary.folder,
            advice="`iodyno profile` shows each by itself",
        )
    return profile_change(a, b)
