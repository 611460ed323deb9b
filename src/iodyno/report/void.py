"""Costs of which nothing is claimed: the hypervisor took CPU time from their host, and they are not the host's own."""

from __future__ import annotations

from dataclasses import replace

from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.core.outcome import OUTCOMES

MARK = "?"
"""Stands behind such a cost wherever it is shown."""
WHY = "steal time > 1 %: this cost is unreliable"
_COSTS = frozenset({"ns/KiB", "ns/operation", "ns/packet", "cycles/KiB", "B/cycle", "us/IO"})
"""Units of what CPU time is divided by, or into."""


def void(point: PointSummary, host: str) -> bool:
    """Tell whether nothing is claimed of what the point costs the host."""
    return any(
        warning.code == "cost_void" and warning.text.startswith(f"{host}:") for warning in point.warnings
    )


def is_void(point: PointSummary, outcome: str) -> bool:
    """Tell whether the outcome is a cost of which nothing is claimed at the point; one of both ends is, where that of one is."""
    host, _, name = outcome.rpartition(".")
    if name not in OUTCOMES or OUTCOMES[name].unit not in _COSTS:
        return False
    return void(point, host) if host else any(warning.code == "cost_void" for warning in point.warnings)


def _host_of_cost(outcome: str) -> str:
    """The host that the outcome is a cost of; empty: it is none of one host."""
    host, _, name = outcome.rpartition(".")
    return host if name in OUTCOMES and OUTCOMES[name].unit in _COSTS else ""


def points_not_void(summary: CampaignSummary, host: str) -> tuple[PointSummary, ...]:
    """The points whose cost on the host is the host's own."""
    return tuple(point for point in summary.points if not void(point, host))


def points_of_own_cost(summary: CampaignSummary, host: str) -> tuple[PointSummary, ...]:
    """The points whose costs on the host can be set against each other: without the void ones, and without those at which the
    sender's CPU is charged for the receiver's work, unless it is at all of them.
    """
    known = points_not_void(summary, host)
    places = {warning.where for warning in summary.warnings if warning.code == "receive_on_sender"}
    own = tuple(
        point
        for point in known
        if f"path {point.levels.get('path')}" not in places
        and all(warning.code != "receive_on_sender" for warning in point.warnings)
    )
    return own or known


def void_costs(summary: CampaignSummary) -> frozenset[tuple[str, str]]:
    """Point and host of every cost of which nothing is claimed."""
    hosts = [host.name for host in summary.hosts]
    return frozenset((point.id, host) for point in summary.points for host in hosts if void(point, host))


def claimed(summary: CampaignSummary, outcome: str) -> CampaignSummary:
    """The campaign without the points at which nothing is claimed of the outcome, or a cost is not the host's own."""
    host = _host_of_cost(outcome)
    if host:
        return replace(summary, points=points_of_own_cost(summary, host))
    return replace(summary, points=tuple(point for point in summary.points if not is_void(point, outcome)))


def of_claimed(summary: CampaignSummary, outcome: str) -> str:
    """Say of which points an end of a range is one, where others are left out: `the 8 of 30 points whose cost is reliable`."""
    known = sum(point.knows(outcome) for point in summary.points)
    left = sum(point.knows(outcome) for point in claimed(summary, outcome).points)
    return f"the {left} of {known} points whose cost is reliable" if 1 < left < known else ""


def costs_at(summary: CampaignSummary, outcome: str, what: str) -> str:
    """The begin of a sentence on the range of a cost: `On sut, a KiB costs`, with of which points it is said."""
    host, of = outcome.rpartition(".")[0], of_claimed(summary, outcome)
    return f"On {host}, at {of}, {what} costs" if of else f"On {host}, {what} costs"
