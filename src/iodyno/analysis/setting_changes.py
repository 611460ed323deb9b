"""Differences in the settings of two points, of one campaign or of two: the workload, and its parameters as obtained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from iodyno.analysis.results import CampaignSummary, PointSummary

WORKLOAD = "workload"


@dataclass(frozen=True)
class SettingChange:
    """A parameter with its levels as people write them; None where it was not set."""

    name: str
    first: str | None
    second: str | None


def setting_changes(
    first: CampaignSummary, second: CampaignSummary, points: Iterable[tuple[PointSummary, PointSummary]]
) -> list[SettingChange]:
    """Return the differences between points of one campaign and those of another, each once.

    Of two kinds of workload that they are two is all that is said: parameters of one are none of the other.
    """
    kinds = [str(summary.workload.get("kind", "")) for summary in (first, second)]
    if kinds[0] != kinds[1]:
        return [SettingChange(WORKLOAD, kinds[0], kinds[1])]
    found: dict[SettingChange, None] = {}
    for one, other in points:
        a, b = one.settings, other.settings
        # Of a point without a trial nothing is known.
        for name in dict.fromkeys((*a, *b)) if a and b else ():
            if a.get(name) != b.get(name):
                found[SettingChange(name, a.get(name), b.get(name))] = None
    return list(found)
