"""Figures and tables of many lines and of points that fill a space: lines stay apart, tables have a row for each point."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

from made_summary import around, summary

from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.results import CampaignSummary
from iodyno.report.figures import axes, cost_vs_factor, scatter
from iodyno.report.figures.panel import Axis, Figure, Mark, Panel, Series
from iodyno.report.figures.scatter import Dot, Limit, ScatterFigure, ScatterPanel
from iodyno.report.figures.spans import colour, dash, marker
from iodyno.report.tables import source_tables
from iodyno.report.terminal import tier_note


def lines(count: int) -> Figure:
    marks = tuple(Mark(x, x + 1.0, None, None, "") for x in (0.0, 1.0))
    series = tuple(Series(f"line {number}", number, marks) for number in range(count))
    x = Axis("x", "linear", ((0.0, "0"), (1.0, "1")))
    return Figure("many", "", (Panel("host", x, Axis("y", "linear"), series),))


def test_lines_of_one_panel_look_different() -> None:
    for first in range(0, 98, axes.SERIES_MOST):
        styles = range(first, first + axes.SERIES_MOST)
        assert len({(colour(style), marker(style, 0, 0)) for style in styles}) == axes.SERIES_MOST
        assert len({(colour(style), dash(style)) for style in styles}) == axes.SERIES_MOST


def test_more_lines_than_can_be_told_apart_take_further_panels() -> None:
    drawn = axes.draw(lines(30))
    assert len(drawn) == 3
    assert [re.findall(r'class="head">([^<]*)<', svg)[0] for svg in drawn] == [
        "host: 1 to 14 of 30",
        "host: 15 to 28 of 30",
        "host: 29 to 30 of 30",
    ]
    assert "".join(drawn).count("<polyline") == 30
    assert len(axes.draw(lines(8))) == 1
    # No mark leaves the axes, which begin at 62.
    assert min(float(x) for x in re.findall(r'class="hit" cx="([\d.]+)"', drawn[0])) >= 62


def test_a_cost_of_nothing_at_one_of_the_points_is_drawn() -> None:
    """Beside costs that are a thousandfold of each other: no logarithm of it is asked for."""
    known = summary()
    points = tuple(
        replace(point, outcomes={"sut.cycles_per_kib": around(number and 10.0 ** (number % 4), "cycles/KiB")})
        for number, point in enumerate(known.points)
    )
    drawn = cost_vs_factor.figure(replace(known, points=points))
    assert drawn is not None and all(panel.y.kind == "linear" for panel in drawn.panels)
    assert "nan" not in "".join(axes.draw(drawn))


def scattered() -> CampaignSummary:
    """Each of the points of a campaign at a message size and a number of connections of its own."""
    known = summary()
    points = tuple(
        replace(
            point,
            levels={"connections": number + 1, "size": 1000 + 7 * number, "nagle": number % 2 == 0},
            labels={
                "connections": str(number + 1),
                "size": f"{1000 + 7 * number}B",
                "nagle": "off" if number % 2 else "on",
            },
        )
        for number, point in enumerate(known.points[:6])
    )
    sizes = (500, *(int(point.levels["size"]) for point in points), 2000)
    connections = tuple(range(1, 7))
    return replace(
        known,
        points=points,
        factors=(
            FactorLevels("connections", connections, (), "", True),
            FactorLevels("size", sizes, (), "", True),
            FactorLevels("nagle", (True, False), (), "", False),
        ),
        factor_labels={
            "connections": tuple(map(str, connections)),
            "size": tuple(f"{size}B" for size in sizes),
            "nagle": ("on", "off"),
        },
    )


def test_points_that_fill_a_space_stand_in_one_table() -> None:
    (table,) = source_tables(scattered())
    assert len(table.rows) == 6
    heads = [column.title for column in table.columns]
    assert heads[:3] == ["size", "nagle", "#conn"]
    assert [row[0].text for row in table.rows] == [f"{1000 + 7 * number}B" for number in range(6)]


def test_points_that_fill_a_space_are_not_joined() -> None:
    figure = cost_vs_factor.figure(scattered())
    assert figure is not None
    assert [len(series.marks) for series in figure.panels[0].series] == [3, 3]
    assert "No line joins the points, as they differ in message size, too." in figure.caption
    assert "<polyline" not in "".join(axes.draw(figure))


def test_levels_that_points_share_make_sections_as_before() -> None:
    assert len(source_tables(summary())) == 3


def test_names_beside_points_keep_clear_of_all_else() -> None:
    # The largest effects of a screen lie close together, some at a limit.
    names = [
        "server.coalesce_receive",
        "client.tso",
        "size",
        "connections",
        "client.tso:size",
        "engine",
        "nagle",
        "window",
    ]
    dots = tuple(
        Dot(1.5 + 0.05 * place, 20.0 + 0.4 * place, "", name=name) for place, name in enumerate(names)
    )
    panel = ScatterPanel("effects", "quantile", "size", dots, (Limit(20.0, "ME"), Limit(23.0, "SME")))
    (drawn,) = scatter.draw(ScatterFigure("", "", (panel,)))
    boxes = []
    for x, y, kind, text in re.findall(
        r'<text x="([\d.]+)" y="([\d.]+)" class="((?:end )?tick)">([^<]+)</text>', drawn
    ):
        if text in names:
            wide = 6.6 * len(text)
            start = float(x) - wide if kind.startswith("end") else float(x)
            boxes.append((start, float(y) - 11, start + wide, float(y) + 3))
    assert len(boxes) == len(names)
    boxes += [
        (float(x) - 4, float(y) - 4, float(x) + 4, float(y) + 4)
        for x, y in re.findall(r'class="hit" cx="([\d.]+)" cy="([\d.]+)"', drawn)
    ]
    for one, other in itertools.combinations(boxes, 2):
        assert one[0] >= other[2] or other[0] >= one[2] or one[1] >= other[3] or other[1] >= one[3]
    assert all(box[0] >= 0 and box[2] <= 560 and box[3] <= 370 for box in boxes)


def test_cycles_are_told_of_where_some_are_shown() -> None:
    assert "Cycles are" in tier_note(summary())
    disks = replace(
        summary(), workload={"kind": "disk", "hosts": ["sut"]}, asked=("iops", "sut.cpu_us_per_io")
    )
    assert "Cycles" not in tier_note(disks)
    assert "Cycles are" in tier_note(replace(disks, asked=("sut.cycles_per_kib",)))
