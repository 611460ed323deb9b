"""A cost of which nothing is claimed, as the hypervisor took CPU time, is marked wherever it is shown, and ends no range."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import made_summary
import pytest
from made_campaign import Layout, Truth, make_campaign

from iodyno.analysis.compare import change, outcome_changes
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.decisions.sides import Pair, PairVerdicts
from iodyno.analysis.decisions.verdicts import Verdict
from iodyno.analysis.results import CampaignSummary
from iodyno.analysis.summary import analyse
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import Warning, WarningCode
from iodyno.report import html
from iodyno.report.answer import answer
from iodyno.report.csv import outcome_rows
from iodyno.report.figures import cost_by_class, cost_vs_factor, draw
from iodyno.report.form import csv_text, headline_lines
from iodyno.report.function_json import outcome_change_values
from iodyno.report.function_tables import outcome_change_table
from iodyno.report.headline import headline, point_shown
from iodyno.report.json import campaign
from iodyno.report.observer import observer_note
from iodyno.report.plain_numbers import Row, Value, figure_rows, table_rows
from iodyno.report.sentences import factor_of, sentences
from iodyno.report.tables import outcome_table, source_tables
from iodyno.report.verdicts import verdict_note, verdict_table, verdict_values
from iodyno.report.void import is_void


def void_at(*places: int) -> CampaignSummary:
    """The tables of 2008, with CPU time stolen from the sender at these points."""
    made = made_summary.summary()
    stolen = Warning(WarningCode.COST_VOID, "sut: with 2.0% of the CPUs stolen, nothing is claimed", "t")
    points = [
        replace(point, warnings=(*point.warnings, stolen)) if number in places else point
        for number, point in enumerate(made.points)
    ]
    return replace(made, points=tuple(points))


def place_of(value: float) -> int:
    """Where in the tables a KiB costs so many cycles."""
    points = made_summary.summary().points
    return next(n for n, p in enumerate(points) if p.outcomes["sut.cycles_per_kib"].estimate == value)


def test_the_tiles_are_the_ends_that_the_sentence_names() -> None:
    """40209 cycles are the most of all, 2793 the least; without them 40116 and 2815 are."""
    made = void_at(place_of(40209), place_of(2793))
    cheapest, costliest = html.tiles(made)[:2]
    assert (cheapest.what, cheapest.value) == ("Lowest cost per KiB, sut", "2815")
    assert (costliest.what, costliest.value) == ("Highest cost per KiB, sut", "40100")
    (said,) = [sentence.text for sentence in sentences(made) if sentence.about == "cost"][:1]
    assert "2815 [2731, 2899]" in said and "40100 [38900, 41300]" in said
    # They are not the ends of what the plot beside them shows: it has all of them, with a mark.
    points = len(made.points)
    of = f"the {points - 2} of {points} points whose cost is reliable"
    assert said.startswith(f"On sut, at {of}, a KiB costs ") and costliest.place.endswith(f"; of {of}")
    # A rate is claimed all the same.
    assert html.tiles(made)[2] == html.tiles(made_summary.summary())[2]


def test_a_cost_with_the_receivers_work_in_it_is_not_set_against_one_without() -> None:
    """Loopback charges the sender for what the receiver's kernel does: its cost is no end of a range and no side of a change."""
    made = made_summary.summary()
    at = [place_of(2793), place_of(40209)]
    text = (
        "the kernel does the receiver's protocol work on the sender's CPU: only the sum of both can be told"
    )
    shared = Warning(WarningCode.RECEIVE_ON_SENDER, text, "t")
    by_trial, by_path = list(made.points), list(made.points)
    for place in at:
        by_trial[place] = replace(by_trial[place], warnings=(*by_trial[place].warnings, shared))
        by_path[place] = replace(by_path[place], levels={**by_path[place].levels, "path": "loopback"})
    of_path = (*made.warnings, replace(shared, where="path loopback"))
    for some in (
        replace(made, points=tuple(by_trial)),
        replace(made, points=tuple(by_path), warnings=of_path),
    ):
        said = next(sentence.text for sentence in sentences(some) if sentence.about == "cost")
        assert "2815 [2731, 2899]" in said and "40100 [38900, 41300]" in said
        assert [tile.value for tile in html.tiles(some)[:2]] == ["2815", "40100"]
        assert not any("steal" in sentence.text for sentence in sentences(some))
    # Where all are charged so, they are alike.
    every = tuple(replace(point, warnings=(*point.warnings, shared)) for point in made.points)
    assert sentences(replace(made, points=every)) == sentences(made)


def test_where_every_cost_is_void_no_tile_shows_one() -> None:
    made = void_at(*range(len(made_summary.summary().points)))
    assert [tile.what for tile in html.tiles(made)] == ["Highest goodput"]
    # Nor does the report begin with what it has not: it is told after what it has.
    first = [sentence.text for sentence in answer(made, sentences(made), ()).first]
    assert first[-1] == "CPU cost of sut is unreliable at 30 of 30 points: steal time > 1 %."
    assert first[0].startswith("Goodput peaks at ")


def test_a_void_cost_has_its_mark_in_every_table() -> None:
    at = place_of(40209)
    made = void_at(at)
    for tables in (source_tables(made), [outcome_table(made)]):
        marked = [cell for table in tables for row in table.rows for cell in row if cell.text.endswith("?")]
        assert any(cell.text.startswith("40200") for cell in marked)
        assert all("unreliable" in cell.hint for cell in marked)
    goodput = [cell.text for table in source_tables(made) for row in table.rows for cell in row[-2:-1]]
    assert not any(text.endswith("?") for text in goodput)


def test_a_void_cost_is_told_where_programs_read_it() -> None:
    at = place_of(40209)
    made = void_at(at)
    point, other = campaign(made)["points"][at], campaign(made)["points"][at - 1]
    void = {name for name, found in point["outcomes"].items() if "void" in found}
    assert "sut.cycles_per_kib" in void and "goodput_bits_per_s" not in void
    assert not any("void" in found for found in other["outcomes"].values())
    rows = list(csv.DictReader(io.StringIO(csv_text(outcome_rows(made)))))
    told = {row["outcome"] for row in rows if row["void"] and row["point"] == point["id"]}
    assert told == void == {row["outcome"] for row in rows if row["void"]}
    (shown,) = point_shown(replace(made, points=(made.points[at],)), "saved", {}).values()["points"]
    assert {name for name, found in shown["outcomes"].items() if "void" in found} == void & {*made.asked}


def test_a_void_cost_has_its_mark_in_the_figure() -> None:
    def drawn(summary: CampaignSummary) -> tuple[int, str]:
        found = cost_vs_factor.figure(summary)
        assert found is not None
        return sum(text.count(">?</text>") for text in draw(found)), found.caption

    marks, caption = drawn(void_at(place_of(40209), place_of(2793)))
    assert marks == 2 and "?: steal time > 1 %" in caption
    marks, caption = drawn(made_summary.summary())
    assert marks == 0 and "steal" not in caption


def test_a_bar_of_a_void_cost_has_its_mark() -> None:
    def marks(summary: CampaignSummary) -> int:
        found = cost_by_class.figure(summary)
        assert found is not None
        return sum(text.count(">?</text>") for text in draw(found))

    assert (marks(void_at(place_of(40209))), marks(made_summary.summary())) == (1, 0)


def test_a_void_cost_has_its_reason_in_the_numbers_that_a_page_saves() -> None:
    made = void_at(place_of(40209))

    def reasons(rows: list[Row]) -> list[tuple[Row, Value]]:
        heads = [str(head) for head in rows[0]]
        return [
            (row, row[n])
            for n, head in enumerate(heads)
            if head.endswith("void")
            for row in rows[1:]
            if row[n]
        ]

    drawn = cost_vs_factor.figure(made)
    assert drawn is not None
    (at_plot,) = reasons(figure_rows(drawn))
    (in_table,) = [one for table in source_tables(made) for one in reasons(table_rows(table))]
    assert all("steal time > 1 %" in str(why) for _, why in (at_plot, in_table))
    assert 40209 in in_table[0]
    assert not [one for table in source_tables(made_summary.summary()) for one in reasons(table_rows(table))]


@pytest.mark.parametrize("steal", [0.0, 0.1])
def test_what_is_measured_right_now_has_the_mark(tmp_path: Path, steal: float) -> None:
    truth = Truth(steal=steal, exact=None)
    layout = Layout(outcomes=("goodput_bits_per_s", "client.cpu_ns_per_kib"))
    folder = make_campaign(tmp_path / "c", [({"connections": 1, "size": 1024}, truth)], layout=layout)
    header = json.loads((folder / "campaign.json").read_text())
    header["experiment"]["windows"] = {"measured_ns": 10_000_000_000}
    (folder / "campaign.json").write_text(json.dumps(header))
    summary = analyse(read_dataset(folder))
    rows = {line.split()[0]: line for line in headline_lines(headline(summary, "c"))}
    assert ("?" in rows["Sender"]) == (steal > 0)
    assert is_void(summary.points[0], "total_cpu_ns_per_kib") == (steal > 0)
    assert "?" not in rows["Throughput"]


def said_of_change(made: CampaignSummary, opening: str) -> str:
    """The one sentence on how the cost changes that begins so."""
    (text,) = [s.text for s in sentences(made) if s.about == "change" and s.text.startswith(opening)]
    return text


def test_what_holds_for_one_line_alone_is_not_said_of_all() -> None:
    """Of three message sizes, the costs of one are claimed at both ends: the sentence names it."""
    points = made_summary.summary().points
    assert "at all 3 message sizes, by" in said_of_change(made_summary.summary(), "From 1 to 6000")
    alone = void_at(*(n for n, p in enumerate(points) if p.labels["size"] != "8KiB"))
    assert said_of_change(alone, "From 1 to 6000").startswith(
        "From 1 to 6000 connections, and window from 256KiB to 32KiB with it, the cost of a KiB on sut rises at 8KiB"
    )


def test_of_some_that_are_left_it_is_said_that_they_are_some() -> None:
    points = made_summary.summary().points
    left = [n for n, p in enumerate(points) if p.labels["connections"] in ("1", "4")]
    made = void_at(*(n for n in range(len(points)) if n not in left))
    assert "at both numbers of connections that can be compared" in said_of_change(made, "From message size")
    one = void_at(*(n for n, p in enumerate(points) if p.labels["connections"] != "4"))
    assert " at 4 connections, by a factor of" in said_of_change(one, "From message size")


def test_a_factor_over_what_may_be_nothing_has_its_least() -> None:
    """1 [0, 2] to 8 [4, 12]: eight times as much, and twice at the least; nobody knows the most."""
    less = Estimate(1.0, 0.0, 2.0, 3, "cycles/KiB", "made up")
    more = Estimate(8.0, 4.0, 12.0, 3, "cycles/KiB", "made up")
    assert factor_of(change(less, more)) == "a factor of 8.00, 2.00 at the least"
    assert factor_of(change(more, less)) == "a factor of 8.00, 2.00 at the least"
    assert factor_of(change(more, more)) == "a factor of 1.00 [0.33, 3.00]"


def test_the_only_cost_that_is_claimed_has_its_place() -> None:
    points = made_summary.summary().points
    made = void_at(*(n for n in range(len(points)) if n != place_of(2793)))
    said = next(s.text for s in sentences(made) if s.about == "cost")
    assert said.startswith("On sut, a KiB costs 2793") and said.endswith("(32 connections, 64KiB messages).")


def test_a_change_along_connections_is_said_of_the_ends_that_are_claimed() -> None:
    """With the cost of one connection void everywhere it is not said to change from one connection on."""
    points = made_summary.summary().points
    first = [n for n, p in enumerate(points) if p.labels["connections"] == "1"]
    assert said_of_change(void_at(*first), "From 4 to 6000 connections").count("all 3 message sizes") == 1
    # Where it is void in one line alone, that line is not counted among those that begin at one connection.
    made = void_at(*(n for n in first if points[n].labels["size"] == "1KiB"))
    assert "at both message sizes that can be compared" in said_of_change(made, "From 1 to 6000 connections")
    (said,) = [
        s for s in sentences(made) if s.text.startswith("From 1 to 6000 connections") and s.about == "change"
    ]
    assert said.heading == "each of the 2 cases, and 1 case over another range"


def test_the_instrument_is_told_of_many_hosts_in_one_list() -> None:
    made = made_summary.summary()
    three = [replace(made.hosts[0], name=name, observer={"sensors": 0.01}) for name in ("a", "b", "c")]
    assert "of a CPU on a, 1 % of a CPU on b and 1 % of a CPU on c, which" in observer_note(
        replace(made, hosts=tuple(three))
    )


def test_a_picture_by_class_says_that_the_server_is_not_in_it() -> None:
    """Other tasks that gave way are left out of the classes; of a volume, its server and the daemons are such tasks."""
    gone = Estimate(None, None, None, 0, "us", "none", missing="other tasks gave way to the load: 1 %, 9 %")
    made = made_summary.summary()
    points = [replace(p, outcomes={**p.outcomes, "sut.cpu_other_ns_per_kib": gone}) for p in made.points]
    plain = cost_by_class.figure(replace(made, points=tuple(points)))
    assert plain is not None and plain.caption.count("left out") == 1 and "server" not in plain.caption
    served = [
        replace(p, outcomes={**p.outcomes, "sut.cpu_server_us_per_io": made_summary.around(300.0, "us/IO")})
        for p in points
    ]
    figure = cost_by_class.figure(replace(made, points=tuple(served)))
    assert (
        figure is not None and "left out, and with them the server and the clients' daemons" in figure.caption
    )


def test_nothing_is_claimed_of_a_void_cost_where_two_points_are_compared() -> None:
    at = place_of(40209)
    points = void_at(at).points
    two = (points[0], points[at])
    found = outcome_changes(two[0].outcomes, two[1].outcomes)
    rows = {row[0].hint: row for row in outcome_change_table("Outcomes", found, two).rows}
    cost, rate = rows["sut.cycles_per_kib"], rows["goodput_bits_per_s"]
    assert not cost[1].text.endswith("?") and cost[2].text.endswith("?") and cost[4].text == "–"
    assert not rate[2].text.endswith("?") and rate[4].text in ("rises", "falls")
    values = outcome_change_values(found, two)
    assert values["sut.cycles_per_kib"]["verdict"] is None and "steal" in values["sut.cycles_per_kib"]["void"]
    assert (
        values["goodput_bits_per_s"]["verdict"] == rate[4].text and "void" not in values["goodput_bits_per_s"]
    )


def test_a_verdict_on_a_void_cost_is_marked() -> None:
    """Two campaigns, of which the second had CPU time stolen: its cost is no worse by anything that is claimed."""
    at = place_of(40209)
    pair = Pair(
        "there", void_at().points[at], void_at(at).points[at], ("sut.cycles_per_kib", "goodput_bits_per_s")
    )
    verdicts = tuple(
        Verdict(name, answer, 1.2, 1.1, 1.3, 0.001, 0.002, "Holm", (3, 3), "made up")
        for name, answer in (("sut.cycles_per_kib", "worse"), ("goodput_bits_per_s", "better"))
    )
    found = PairVerdicts(pair, verdicts)
    cost, rate = verdict_table(found).rows
    assert not cost[1].text.endswith("?") and cost[2].text.endswith("?") and cost[4].text == "worse?"
    assert not rate[2].text.endswith("?") and rate[4].text == "better"
    values = verdict_values(found)
    assert "steal" in values["sut.cycles_per_kib"]["void"] and "void" not in values["goodput_bits_per_s"]
    assert verdict_note([found], 0.02, "holm").endswith(
        "steal time > 1 %: this cost is unreliable, and so is the verdict."
    )
