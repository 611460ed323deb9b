"""CPU time of the instrument itself, as it stands under every figure and table."""

from __future__ import annotations

from iodyno.analysis.summary import CampaignSummary


def observer_note(summary: CampaignSummary) -> str:
    """The largest share of one CPU that the instrument took in a trial, of every host."""
    known = [(host.name, host.observer_ratio) for host in summary.hosts if host.observer_ratio is not None]
    if not known:
        return "What the instrument itself took is not known."
    parts = [f"{_percent(ratio)} of a CPU on {name}" for name, ratio in known]
    listed = ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]
    return f"The instrument itself took at most {listed}, which is in the numbers."


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.2g} %" if ratio < 0.1 else f"{100 * ratio:.0f} %"
