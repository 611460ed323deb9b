"""CPU time of the instrument itself, as it stands under every figure and table."""

from __future__ import annotations

from collections.abc import Mapping

from iodyno.analysis.alike import groups_of
from iodyno.analysis.results import CampaignSummary


def observer_note(summary: CampaignSummary, *, parts: bool = False) -> str:
    """The largest share of one CPU that the instrument took in a trial, of every host; with `parts` also what took it."""
    named = {host: name for name, hosts in groups_of(summary.workload).items() for host in hosts}
    most: dict[str, Mapping[str, float]] = {}
    for host in summary.hosts:
        name = named.get(host.name, host.name)
        if host.observer and _whole(host.observer) > _whole(most.get(name, {})):
            most[name] = host.observer
    if not most:
        return "What the instrument itself took is not known."
    each = [
        f"{_percent(_whole(taken))} of a CPU on {name}{_listed(taken) if parts else ''}"
        for name, taken in most.items()
    ]
    listed = ", ".join(each[:-1]) + (" and " if len(each) > 1 else "") + each[-1]
    return f"The instrument itself took at most {listed}, which is in the numbers."


def _whole(taken: Mapping[str, float]) -> float:
    return sum(taken.values())


def _listed(taken: Mapping[str, float]) -> str:
    return f" ({', '.join(f'{part} {_percent(ratio)}' for part, ratio in taken.items())})"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.2g} %" if ratio < 0.1 else f"{100 * ratio:.0f} %"
