"""The sentence about blocks that follow the load."""

from __future__ import annotations

from dataclasses import replace

import made_summary
from made_summary import around

from iodyno.analysis.results import CampaignSummary
from iodyno.report.sentences import sentences


def said(made: CampaignSummary) -> list[str]:
    return [one.text for one in sentences(made) if one.text.startswith("Blocks that follow")]


def test_what_they_held_is_said_where_the_server_chose_it() -> None:
    whole = made_summary.summary()
    points = [
        replace(
            point,
            levels={**point.levels, "adaptive": number == 1},
            outcomes={**point.outcomes, "server_batch_mean": around(8.0 * (number + 1), "1")},
        )
        for number, point in enumerate(whole.points[:3])
    ]
    (one,) = said(replace(whole, points=tuple(points)))
    assert "16.0" in one and "8KiB messages" in one


def test_nothing_is_said_of_what_was_not_measured() -> None:
    whole = made_summary.summary()
    workload = {**whole.workload, "settings": {"adaptive": True}}
    assert said(replace(whole, workload=workload)) == []
