"""How the connections of a load share what it carries: in the report where it was asked for, and where they do not share."""

from __future__ import annotations

from dataclasses import replace

import made_summary

from iodyno.analysis.factors import FactorLevels
from iodyno.core.outcome import Estimate
from iodyno.report.sentences import sentences
from iodyno.report.tables import source_tables

NAME = "connection_fairness"


def campaign(indices: dict[int, float | None], *asked: str) -> made_summary.CampaignSummary:
    """Jain's index by connections; None: it cannot be had."""
    made = made_summary.summary()
    points = tuple(
        replace(
            made.points[0],
            id=str(number),
            levels={"connections": number},
            labels={"connections": str(number)},
            outcomes={
                **made.points[0].outcomes,
                NAME: Estimate(index, index - 0.02, index + 0.02, 3, "1", "made")
                if index
                else made_summary.nothing("1"),
            },
        )
        for number, index in indices.items()
    )
    factors = (FactorLevels("connections", tuple(indices), (), "", True),)
    labels = {"connections": tuple(map(str, indices))}
    return replace(
        made,
        points=points,
        factors=factors,
        factor_labels=labels,
        asked=("goodput_bits_per_s", *asked),
        named=asked,
    )


def told(made: made_summary.CampaignSummary) -> list[str]:
    return [
        sentence.text
        for sentence in sentences(made)
        if "connections carry the same" in sentence.text.replace("do not ", "")
    ]


def column(made: made_summary.CampaignSummary) -> list[str]:
    """The cells under the heading; none without it."""
    (table,) = source_tables(made)
    places = [place for place, one in enumerate(table.columns) if one.title == "fairness"]
    return [row[place].text for place in places for row in table.rows]


def test_connections_that_do_not_share_alike_are_told_without_being_asked_for() -> None:
    made = campaign({1: None, 8: 0.95, 40: 0.45, 64: 0.8})
    assert told(made) == [
        "The connections do not carry the same at 2 of 3 points: Jain's index is 0.450 [0.430, 0.470] at the least (40"
        " connections), as if 18.0 of 40 had carried all of it."
    ]
    assert column(made) == ["–", "0.950 ±0.020", "0.450 ±0.020", "0.800 ±0.020"]


def test_connections_that_share_alike_are_told_where_that_was_asked() -> None:
    fair: dict[int, float | None] = {1: None, 8: 0.95, 40: 0.97}
    assert not told(campaign(fair)) and not column(campaign(fair))
    made = campaign(fair, NAME)
    assert told(made) == [
        "The connections carry the same: Jain's index is 0.950 [0.930, 0.970] at the least (8 connections)."
    ]
    assert len(column(made)) == 3


def test_one_connection_shares_with_nobody() -> None:
    made = campaign({1: None}, NAME)
    assert not told(made) and not column(made)
