"""Operations per second of a disk, and the cost of each, against the main factor."""

from __future__ import annotations

from iodyno.analysis.results import CampaignSummary
from iodyno.loads.disk.report.tables import COST, machines_of
from iodyno.report.figures.panel import Figure, estimates, interval_note


def figure(summary: CampaignSummary) -> Figure | None:
    """Operations per second beside the CPU time of one."""
    titles = {"iops": "all clients"}
    panels = estimates(summary, titles, "Operations")
    if not panels:
        return None
    costs = {f"{machine}.{COST}": machine for machine in machines_of(summary)}
    panels += estimates(summary, costs, "CPU of an operation") if costs else ()
    caption = (
        f"{interval_note(summary, titles)} Background is subtracted. Rate: higher is better; cost: lower is."
    )
    return Figure("Operations per second, and what each costs", caption, panels)
