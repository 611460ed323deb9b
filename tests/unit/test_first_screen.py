"""The first screen: it tells of the rate that was asked for, and has one picture beside the sentences."""

from __future__ import annotations

import re
from dataclasses import replace

import made_summary
import pytest
from markupsafe import Markup

from iodyno.core.search import Bound, GoalResult, SearchSpec, parse_goal
from iodyno.report import html
from iodyno.report.figures import rate_vs_factor
from iodyno.report.figures.panel import Figure
from iodyno.report.headline import hosts_of
from iodyno.report.sentences import sentences

NAMES = ("loopback", "zone", "relay", "guest")


def of_messages() -> made_summary.CampaignSummary:
    """The tables of 2008, whose experiment asks for messages first: as many as a second has KiB."""
    made = made_summary.summary()
    points = tuple(
        replace(
            point,
            outcomes={
                **point.outcomes,
                "messages_per_s": made_summary.around(
                    (point.outcomes["goodput_bits_per_s"].estimate or 0.0) / 8192, "1/s"
                ),
            },
        )
        for point in made.points
    )
    return replace(made, points=points, asked=("messages_per_s", "goodput_bits_per_s"))


def test_sentences_tiles_and_figure_tell_of_the_rate_that_is_asked_for_first() -> None:
    made = of_messages()
    (said,) = [sentence.text for sentence in sentences(made) if sentence.about == "rate"]
    assert said.startswith("The rate of messages is 109.4 [106.1, 112.7] k/s at the least (1 connection")
    assert [tile.what for tile in html.tiles(made)][-1] == "Highest rate of messages"
    figure = rate_vs_factor.figure(made)
    assert isinstance(figure, Figure)
    assert figure.title == "Rate of messages, and how busy the sender was"
    assert figure.panels[0].series[0].marks[0].y == pytest.approx(
        (made.points[0].outcomes["messages_per_s"].estimate or 0.0) / 1e6
    )


def test_what_was_asked_for_and_not_had_is_told_as_goodput() -> None:
    made = replace(made_summary.summary(), asked=("operations_per_s",))
    (said,) = [sentence.text for sentence in sentences(made) if sentence.about == "rate"]
    assert said.startswith("Goodput is ")


def test_the_first_line_names_the_machine_behind_ssh() -> None:
    made = made_summary.summary()
    here, there = (replace(host, access=way) for host, way in zip(made.hosts, ("local", "ssh"), strict=True))
    named = replace(there, facts={**there.facts, "hostname": "db1"})
    assert hosts_of(replace(made, hosts=(here, named))).endswith(f"({there.name}: db1 by ssh)")
    nameless = replace(there, facts={})
    assert hosts_of(replace(made, hosts=(here, nameless))).endswith(f"({there.name} ssh)")


def test_each_name_is_held_against_the_first_but_those_that_were_skipped() -> None:
    made = made_summary.named(NAMES)
    points = tuple(
        replace(
            point,
            skipped="there is no guest",
            outcomes={
                name: replace(found, estimate=None, low=None, high=None, missing="skipped")
                for name, found in point.outcomes.items()
            },
        )
        if point.levels["variant"] == "guest"
        else point
        for point in made.points
    )
    said = [sentence.text for sentence in sentences(replace(made, points=points))]
    for name in NAMES[1:]:
        # What a KiB costs, and the rate.
        found = [text for text in said if text.startswith(f"With variant {name} in the place of loopback, ")]
        assert len(found) == (0 if name == "guest" else 2), said
    assert not [text for text in said if "guest" in text]


def test_a_line_that_a_figure_has_not_is_named_with_its_reason() -> None:
    made = made_summary.summary()
    points = tuple(
        replace(
            point,
            outcomes={
                name: replace(found, estimate=None, low=None, high=None, missing="there is no such host")
                for name, found in point.outcomes.items()
            },
        )
        if point.levels["size"] == 8192
        else point
        for point in made.points
    )
    figure = rate_vs_factor.figure(replace(made, points=points))
    assert isinstance(figure, Figure)
    assert "Without a line: 8KiB (there is no such host)." in figure.caption
    whole = rate_vs_factor.figure(made)
    assert isinstance(whole, Figure) and "Without" not in whole.caption


@pytest.mark.parametrize("panels", [1, 3, 8])
def test_one_panel_is_on_the_first_screen_and_the_others_are_folded(
    monkeypatch: pytest.MonkeyPatch, panels: int
) -> None:
    drawn = [Markup(f"<svg id=p{number}></svg>") for number in range(panels)]
    monkeypatch.setattr(html, "draw", lambda figure: drawn)
    figure = re.search(r"<figure.*?</figure>", html.page(made_summary.summary()), re.DOTALL)
    assert figure is not None
    shown, *folded = figure[0].split("<details")
    assert [shown.count("<svg"), *(each.count("<svg") for each in folded)] == [1, panels - 1][
        : min(panels, 2)
    ]


def searched() -> made_summary.CampaignSummary:
    """Of the tables of 2008 the number of connections with 1KiB messages was searched for, and 400 found."""
    made = made_summary.summary()
    points = tuple(point for point in made.points if point.labels["size"] == "1KiB")
    found = GoalResult(
        "p",
        {},
        "loss = 0",
        Bound(400, 3, 4),
        Bound(1000, 1, 4),
        True,
        400.0,
        500.0,
        350.0,
        900.0,
        20,
        0,
        "regular",
    )
    spec = SearchSpec((parse_goal("loss = 0"),), factor="connections")
    return replace(made, points=points, search=spec, goal_results=(found,))


def test_what_a_search_found_is_the_first_tile_and_the_others_are_measured_there() -> None:
    first, *others = html.tiles(searched())
    assert (first.what, first.value) == ("Largest connections with loss = 0", "400")
    assert (first.interval, first.place) == (
        "",
        "3 of 4 trials met it there, 1 of 4 at 1000; conditional throughput 400",
    )
    assert others and all(tile.place.startswith("400 connections") for tile in others)


def test_the_plot_of_a_search_marks_what_was_found() -> None:
    figure = rate_vs_factor.figure(searched())
    assert figure is not None
    assert all((400.0, "loss = 0 met | not met") in panel.notes for panel in figure.panels)


def test_one_way_streams_answer_nothing() -> None:
    made = made_summary.summary()
    points = tuple(
        replace(p, outcomes={**p.outcomes, "operations_per_s": made_summary.around(1e5, "1/s")})
        for p in made.points
    )
    figure = rate_vs_factor.figure(replace(made, points=points, asked=("operations_per_s",)))
    assert figure is not None and figure.panels[0].title == "completed"


@pytest.mark.parametrize(("count", "shown"), [(2, "client-1 -> client-2"), (18, "client-1 to client-18")])
def test_many_hosts_are_named_by_the_first_and_the_last(count: int, shown: str) -> None:
    made = made_summary.summary()
    host = made.hosts[0]
    clients = tuple(replace(host, name=f"client-{n}", access="netns") for n in range(1, count + 1))
    assert hosts_of(replace(made, hosts=clients)) == f", {shown} ({count} namespaces of this machine)"
