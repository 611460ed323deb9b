"""CPU time of the instrument itself, as it stands under every figure and table."""

from __future__ import annotations

from iodyno.analysis.alike import groups_of
from iodyno.analysis.results import CampaignSummary


def observer_note(summary: CampaignSummary) -> str:
    """The largest share of one CPU that the instrument took in a trial, of every host."""
    named = {host: name for name, hosts in groups_of(summary.workload).items() for host in hosts}
    most: dict[str, float] = {}
    for host in summary.hosts:
        if host.observer_ratio is not None:
            name = named.get(host.name, host.name)
            most[name] = max(most.get(name, 0.0), host.observer_ratio)
    if not most:
        return "What the instrument itself took is not known."
    known = most.items()
    parts = [f"{_percent(ratio)} of a CPU on {name}" for name, ratio in known]
    listed = ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]
    return f"The instrument itself took at most {listed}, which is in the numbers."


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.2g} %" if ratio < 0.1 else f"{100 * ratio:.0f} %"
