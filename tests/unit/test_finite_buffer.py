"""A port with few buffers: theory, the source's claims, and how a campaign of known truth is reported."""

from __future__ import annotations

import json
from dataclasses import replace

import made_summary
import pytest

from iodyno.analysis import finite_buffer
from iodyno.analysis.finite_buffer import FiniteBuffer, PortLoad, Theory, TheoryLine
from iodyno.core.outcome import Estimate
from iodyno.paths.shaping import Shape, refused, shape_of
from iodyno.report import sentences
from iodyno.report.figures import finite_buffer as figure
from iodyno.report.figures.axes import draw
from iodyno.report.finite_buffer import buffer_tables, finite_buffer_json
from iodyno.report.text_table import plain


def test_the_limits_are_those_of_the_claims() -> None:
    # Claims 16 and 17 of the research: mean queue 8 at .89898, 32 at .97056; 1 % of M/M/1/K at .637 and .942.
    eight, thirty_two = finite_buffer.limit(8), finite_buffer.limit(32)
    assert eight.full_by_mean == pytest.approx(0.89898, abs=5e-6)
    assert thirty_two.full_by_mean == pytest.approx(0.97056, abs=5e-6)
    assert eight.lost_if_exponential == pytest.approx(0.637, abs=5e-4)
    assert thirty_two.lost_if_exponential == pytest.approx(0.942, abs=5e-4)
    # The right values, for frames of one length: between the source's and those.
    assert eight.lost_if_exponential < eight.lost_if_constant < eight.full_by_mean
    assert thirty_two.lost_if_constant > thirty_two.full_by_mean


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"link_frames": 7}, "link_frames is set without link_rate"),
        ({"link_burst": 1500}, "link_burst is set without link_rate"),
        ({"link_rate": 10**7, "link_queue": 8000, "link_frames": 7}, "leave one out"),
        ({"link_rate": 10**7, "link_burst": 1500, "link_frames": 7}, None),
        (
            {"link_rate": 10**7, "link_burst": 1499, "size": 1458},
            "a frame of this load has 1500: none would pass",
        ),
        ({"link_rate": 10**7, "link_burst": 1500, "size": 1458}, None),
        ({"link_rate": 10**7, "link_burst": 1600, "size": 65536}, None),
        ({"link_delay": 0}, None),
        ({}, None),
    ],
)
def test_what_a_path_cannot_be_shaped_to(settings: dict[str, int], why: str | None) -> None:
    found = refused(settings, has_path=True)
    assert found is None if why is None else why in (found or "")


def test_what_a_shape_asks() -> None:
    assert shape_of({"link_delay": 0, "size": 64}) is None
    asked = shape_of({"link_rate": 12_000_000, "link_burst": 1500, "link_frames": 7})
    assert asked == Shape(rate_bits_per_s=12_000_000, queue_frames=7, burst_bytes=1500)


def around(value: float, unit: str) -> Estimate:
    return Estimate(value, 0.9 * value, 1.1 * value, 4, unit, "t interval over 4 trials")


def port(service_ns: float | None = 1.04e6) -> FiniteBuffer:
    """Loads of a port of 1 ms a frame, measured as theory has it for 4 % more."""
    loads = []
    for rate in (100.0, 900.0, 1500.0):
        rho = rate / 1000
        theories = []
        for factor in (1.0, 1.04):
            loss, wait = finite_buffer.constant_station(rho * factor, 8)
            theories.append(
                Theory(loss, 1e6 * factor * wait, (0.9 * loss, 1.1 * loss), (9e5 * wait, 1.1e6 * wait))
            )
        loads.append(
            PortLoad(
                {"rate": int(rate)}, {"rate": f"{rate:.0f}/s"}, 8, rate, rho,
                around(theories[1].loss_ratio, "1"), around(theories[1].wait_ns, "ns"),
                theories[0], theories[1] if service_ns else None,
                finite_buffer.exponential_loss(rho, 8), rho**2 / (1 - rho) if rho < 1 else None,
            )
        )  # fmt: skip
    unknown = Estimate(
        None, None, None, 0, "ns", "none", missing="no point offers 1.4 times what the port takes"
    )
    line = tuple((x / 20, *finite_buffer.constant_station(x / 20, 8)) for x in range(2, 31))
    return FiniteBuffer(
        tuple(loads), (finite_buffer.limit(8),), (TheoryLine(8, line),), 1e6,
        around(service_ns, "ns") if service_ns else unknown, around(2e5, "ns"),
    )  # fmt: skip


def test_the_tables_have_theory_and_source_beside_what_was_measured() -> None:
    summary = replace(made_summary.single(), finite_buffer=port())
    lost, waits = buffer_tables(summary)
    assert lost.title == "A port with 8 buffers: frames lost"
    heads = [column.title for column in lost.columns]
    assert heads == ["offered", "lost", "M/D/1/K", "at D'", "M/M/1/K", "mean queue"]
    row = [cell.text for cell in lost.rows[1]]
    # M/D/1/8 and M/M/1/8 offered .9: 2.726 % and 7.03 %; the mean queue of M/M/1 is 8.1.
    assert row[0] == "90.0 %" and row[2].startswith("2.73 [") and row[4] == "7.03 %" and row[5] == "8.1 of 8"
    assert lost.rows[2][5].text == "without end"
    assert "2.45 [" in plain(waits)


def test_without_a_saturated_point_theory_has_the_nominal_time_and_says_so() -> None:
    summary = replace(made_summary.single(), finite_buffer=port(None))
    assert "at D'" not in [column.title for table in buffer_tables(summary) for column in table.columns]
    said = " ".join(each.text for each in sentences.sentences(summary))
    assert "Theory has the time of a frame at the rate of the link, 1.00 ms: no point offers" in said


def test_the_sentences_say_where_a_port_ends_and_why_it_is_not_that_of_theory() -> None:
    said = " ".join(
        each.text for each in sentences.sentences(replace(made_summary.single(), finite_buffer=port()))
    )
    for words in ("full at 89.9 % by the source", "1 % of its frames at 81.0 %", "at 63.7 %", "(4 % more)"):
        assert words in said


def test_the_figure_shows_dots_on_lines_and_the_sources_limit() -> None:
    made = figure.figure(replace(made_summary.single(), finite_buffer=port()))
    assert made is not None
    lost, waits = made.panels
    assert [mark.x for mark in lost.series[0].marks] == [0.9], "none lost at .1, and 1.5 is beyond the axis"
    assert [mark.x for mark in waits.series[0].marks] == [0.1, 0.9]
    assert lost.notes[0][0] == pytest.approx(0.899, abs=1e-3)
    assert lost.x.places[-1][0] == 1.0
    for panel in draw(made):
        assert "NaN" not in panel and "nan" not in panel and "8 full" in panel


def test_it_is_all_in_json_and_nothing_is_without_a_value_or_a_reason() -> None:
    values = json.loads(json.dumps(finite_buffer_json(port(None)), allow_nan=False))
    assert values["service_ns"]["missing"].startswith("no point offers")
    assert values["loads"][1]["theory_at_measured_service"] is None
    assert values["limits"][0]["lost_1_percent_constant_ratio"] == pytest.approx(0.8102, abs=1e-4)
    assert values["loads"][1]["theory"]["loss_ratio"] == pytest.approx(0.027264, abs=1e-6)
