"""Fairness among the connections of a load: shown where it was asked for, or where they do not carry the same."""

from __future__ import annotations

from collections.abc import Iterator

from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.core.experiment import stored_links
from iodyno.report.layout import layout_of, place_name
from iodyno.report.numbers import between, digits

FAIRNESS = "connection_fairness"
UNFAIR = 0.9
"""Jain's index below which connections do not carry the same (chosen: of two, one carries twice what the other does)."""


def tells_fairness(summary: CampaignSummary) -> bool:
    """Tell whether a table has the index: it was asked for, or is bad at some point."""
    known = _known(summary)
    return bool(known) and (FAIRNESS in summary.asked or any(_index(point) < UNFAIR for point in known))


def fairness_sentences(summary: CampaignSummary) -> Iterator[str]:
    """The least fair point, with how many connections would have carried as much if each of them had carried the same."""
    if not tells_fairness(summary):
        return
    known = _known(summary)
    worst = min(known, key=_index)
    unfair = [point for point in known if _index(point) < UNFAIR]
    place = place_name(worst, layout_of(summary).factors)
    index = f"Jain's index is {between(worst.outcomes[FAIRNESS])}"
    if not unfair:
        least = f" at the least ({place})" if len(known) > 1 else ""
        yield f"The connections carry the same: {index}{least}."
        return
    at = f" at {len(unfair)} of {len(known)} points" if len(known) > 1 else ""
    where = f" ({place})" if place else ""
    connections = worst.levels.get("connections", (summary.workload.get("settings") or {}).get("connections"))
    if isinstance(connections, int):
        connections *= stored_links(summary.workload)
    few = (
        f", as if {digits(_index(worst) * connections)} of {connections} had carried all of it"
        if isinstance(connections, int)
        else ""
    )
    yield f"The connections do not carry the same{at}: {index}{' at the least' if len(unfair) > 1 else ''}{where}{few}."


def _known(summary: CampaignSummary) -> list[PointSummary]:
    """The points with connections that share something."""
    return [point for point in summary.points if point.knows(FAIRNESS)]


def _index(point: PointSummary) -> float:
    return point.outcomes[FAIRNESS].estimate or 0.0
