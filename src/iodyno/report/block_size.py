"""Packets in blocks that follow the load (`adaptive`), as a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from iodyno.analysis.results import CampaignSummary
from iodyno.report.layout import Layout, place_name
from iodyno.report.numbers import with_interval

_HELD = "server_batch_mean"


def block_size_sentences(summary: CampaignSummary, layout: Layout) -> Iterator[str]:
    """One for each point whose server chose the packets of a block by itself."""
    everywhere = summary.workload.get("settings") or {}
    for point in summary.points:
        settings = {**everywhere, **point.levels}
        if not settings.get("adaptive") or not point.knows(_HELD):
            continue
        place = place_name(point, layout.factors)
        where = f" ({place})" if place else ""
        held = with_interval(point.outcomes[_HELD])
        yield f"Blocks that follow the load held {held} packets on average{where}."
