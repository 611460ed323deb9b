"""Levels that are names are no quantities: no line joins them, none is left out, and each stands where its value is."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import made_summary
import pytest

from iodyno.report.figures import FIGURES, draw
from iodyno.report.figures.panel import Figure
from iodyno.report.figures.spans import linear_ticks, log_ticks
from iodyno.report.figures.stacks import StackFigure
from iodyno.report.layout import figure_layout, layout_of, line_name
from iodyno.report.sentences import sentences

NAMES = (
    "recvmsg", "recvmmsg", "v3-adaptive", "v3 with 64 packets a block and more than fits", "<b>&\"xdp\"",
    "relay_offload", "sandbox", "guest",
)  # fmt: skip
ALONE = made_summary.named(NAMES)


def only_names() -> made_summary.CampaignSummary:
    """The variant alone: one message size."""
    points = tuple(point for point in ALONE.points if point.levels["size"] == 65536)
    factors = (ALONE.factors[0], replace(ALONE.factors[1], levels=(65536,)))
    labels = {"variant": NAMES, "size": ("64KiB",)}
    return replace(ALONE, points=points, factors=factors, factor_labels=labels)


@pytest.mark.parametrize("name", ["cost", "classes", "rate"])
@pytest.mark.parametrize("made", [ALONE, only_names()], ids=["with sizes", "alone"])
def test_names_are_rows_or_bars_and_no_line_joins_them(name: str, made: made_summary.CampaignSummary) -> None:
    figure = next(entry.make for entry in FIGURES if entry.name == name)(made)
    assert figure is not None
    drawn = draw(figure)
    assert drawn
    for svg in drawn:
        assert "polyline" not in svg
        assert 'class="line"' not in svg
        assert "<b>" not in svg
        found = [unescape(text) for text in re.findall(r"<g><title>([^<]*)</title><text", svg)]
        assert found == list(NAMES), "every name is there, in the order given"


def test_a_name_without_a_value_has_no_row_and_the_caption_says_why() -> None:
    made = only_names()
    gone = {name: f"skipped: there is no {name}" for name in NAMES[-2:]}
    points = tuple(
        replace(
            point,
            skipped=gone[name].removeprefix("skipped: "),
            outcomes={
                outcome: replace(found, estimate=None, low=None, high=None, missing=gone[name])
                for outcome, found in point.outcomes.items()
            },
        )
        if (name := str(point.levels["variant"])) in gone
        else point
        for point in made.points
    )
    for entry in FIGURES:
        figure = entry.make(replace(made, points=points)) if entry.name in ("cost", "rate") else None
        if figure is None:
            continue
        assert isinstance(figure, Figure)
        for panel in figure.panels:
            assert [name for _, name in panel.x.places] == list(NAMES[:-2])
        for name, why in gone.items():
            assert f"Without a row: {name} ({why})." in figure.caption


def test_a_dot_stands_where_its_value_is() -> None:
    figure = next(entry.make for entry in FIGURES if entry.name == "cost")(only_names())
    assert isinstance(figure, Figure)
    (panel,) = figure.panels
    (svg,) = draw(figure)
    places = [float(x) for x in re.findall(r'class="hit" cx="([\d.]+)"', svg)]
    values = [mark.y for mark in panel.series[0].marks]
    assert len(places) == len(values) == len(NAMES)
    zero, scale = (places[0] * values[1] - places[1] * values[0]) / (values[1] - values[0]), 0.0
    scale = (places[1] - zero) / values[1]
    assert places == pytest.approx([zero + scale * value for value in values], abs=0.2)
    heights = [float(y) for y in re.findall(r'class="hit" cx="[\d.]+" cy="([\d.]+)"', svg)]
    assert heights == sorted(heights)
    bars = [
        (float(low), float(high))
        for low, high in re.findall(r'class="bar" d="M([\d.]+) [\d.]+H([\d.]+)', svg)
    ]
    assert all(low < at < high for (low, high), at in zip(bars, places, strict=True))


def test_many_lines_of_names_become_rows() -> None:
    """Eight variants at three sizes: lines over the size could not be told apart, rows of three dots can."""
    assert layout_of(ALONE).along is not None
    assert layout_of(ALONE).along.name == "size"  # type: ignore[union-attr]
    layout = figure_layout(ALONE)
    assert layout.along is not None
    assert layout.along.name == "variant"
    assert {line_name(layout, point) for point in ALONE.points} == {"64KiB", "8KiB", "1KiB"}
    few = made_summary.named(NAMES[:3])
    assert figure_layout(few) == layout_of(few)
    numbers = made_summary.summary()
    assert figure_layout(numbers) == layout_of(numbers)


def test_panels_of_bars_have_a_bar_for_every_name() -> None:
    figure = next(entry.make for entry in FIGURES if entry.name == "classes")(ALONE)
    assert isinstance(figure, StackFigure)
    assert [len(panel.stacks) for panel in figure.panels] == [8, 8, 8]


def test_a_sentence_sets_one_name_in_the_place_of_another() -> None:
    said = " ".join(sentence.text for sentence in sentences(only_names()))
    assert f"With variant {NAMES[-1]} in the place of {NAMES[0]}" in said
    assert "In between it is lower" not in said
    assert "From variant" not in said


@pytest.mark.parametrize(("low", "high"), [(1e-9, 3e-9), (0.3, 40.0), (1.0, 1e12), (5.0, 6.0)])
def test_ticks_are_round_and_within(low: float, high: float) -> None:
    for ticks in (linear_ticks(low, high), log_ticks(low, high)):
        assert ticks == sorted(set(ticks))
        assert all(low - 1e-8 * high <= tick <= high * (1 + 1e-8) for tick in ticks)
        assert all(float(f"{tick:.2g}") == pytest.approx(tick) for tick in ticks)  # round
    assert len(linear_ticks(low, high)) >= 2
    assert len(log_ticks(low, high)) <= 12
