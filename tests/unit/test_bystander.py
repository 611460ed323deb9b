"""Who gains and who pays when two workloads share a path: contrasts with a known answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from iodyno.analysis.bystander import Trade, trades
from iodyno.analysis.results import CampaignSummary
from iodyno.core.outcome import Estimate
from iodyno.loads.base.analysis import load_of
from iodyno.report.answer import answer
from iodyno.report.bystander import bystander_columns, bystander_sentences, sentence
from iodyno.report.sentence import Sentence

FELT = load_of({"kind": "stream"}).felt, load_of({"kind": "request_response"}).felt


def about(value: float, half: float, unit: str = "1/s") -> Estimate:
    return Estimate(value, value - half, value + half, 5, unit, "made")


def found(goodput: tuple[float, float], rate: tuple[float, float]) -> Trade:
    """The contrast of GRO off and on: goodput of the workload, rate of the bystander, half-width 5 % each."""
    points = [
        (
            {"server.gro": level, "connections": 4},
            {"server.gro": "on" if level else "off", "connections": "4"},
            {
                "goodput_bits_per_s": about(bits, 0.05 * bits, "bit/s"),
                "bystander.operations_per_s": about(per_s, 0.05 * per_s),
            },
        )
        for level, bits, per_s in ((False, goodput[0], rate[0]), (True, goodput[1], rate[1]))
    ]
    (trade,) = trades(points, {"server.gro": (False, True)}, FELT)
    return trade


def test_a_gain_at_the_others_cost_is_said_with_both_changes() -> None:
    trade = found((5e9, 8e9), (1000, 600))
    assert trade.at_its_cost
    assert sentence(trade) == (
        "From server.gro off to on, the workload is better off (its goodput goes from 5.00 [4.75, 5.25] Gbit/s to"
        " 8.00 [7.60, 8.40] Gbit/s), and the bystander is worse off (its rate goes from 1.000 [0.950, 1.050] k/s to"
        " 600 [570, 630] /s): one is favoured at the other's cost."
    )


def test_the_other_way_round_counts_too() -> None:
    assert found((8e9, 5e9), (600, 1000)).at_its_cost


def test_what_is_good_for_both_or_undecided_is_no_trade() -> None:
    assert not found((5e9, 8e9), (600, 1000)).at_its_cost
    assert not found((5e9, 8e9), (1000, 980)).at_its_cost
    assert not found((5e9, 5.1e9), (1000, 600)).at_its_cost


def test_only_neighbouring_levels_at_the_same_others_are_contrasted() -> None:
    points = [
        ({"rate": rate, "connections": n}, {"rate": str(rate), "connections": str(n)}, {})
        for rate in (1, 2, 3)
        for n in (1, 8)
        if (rate, n) != (2, 8)
    ]
    levels = {"rate": (1, 2, 3), "connections": (1, 8)}
    told = [(t.factor, t.before, t.after, dict(t.others)) for t in trades(points, levels, FELT[:1] * 2)]
    assert told == [
        ("rate", "1", "2", {"connections": "1"}),
        ("rate", "2", "3", {"connections": "1"}),
        ("connections", "1", "8", {"rate": "1"}),
        ("connections", "1", "8", {"rate": "3"}),
    ]


def campaign(*told: Trade) -> CampaignSummary:
    """As much of a campaign as what is said of a bystander needs."""
    outcomes = {"bystander.operations_per_s": about(1000, 5), "bystander.goodput_bits_per_s": about(1e6, 5e3)}
    points = (
        SimpleNamespace(outcomes=outcomes, limiter=SimpleNamespace(verdict=SimpleNamespace(trials=()))),
    )
    return cast(
        "CampaignSummary",
        SimpleNamespace(trades=told, points=points, question="Who pays?", asked=(), workload={}, factors=()),
    )


def test_the_costliest_contrast_stands_on_the_first_screen_with_its_interval() -> None:
    summary = campaign(found((5e9, 8e9), (1000, 950)), found((5e9, 6e9), (1000, 600)))
    said = list(bystander_sentences(summary))
    first = answer(summary, said, ()).first[0]
    # 600 [570, 630] of 1000 [950, 1050].
    assert (
        "the bystander's rate goes from 1.000 [0.950, 1.050] k/s to 600 [570, 630] /s (-40 % [-46 %, -34 %])"
        in first.text
    )
    assert (
        "the workload's goodput goes from 5.00 [4.75, 5.25] Gbit/s to 6.00 [5.70, 6.30] Gbit/s (+20 %"
        in first.text
    )
    assert "at the other's cost" in first.text
    # The contrast of 1000 and 950 is undecided.
    assert len(said) == 2


def test_bounds_are_in_the_form_of_what_they_are_bounds_of() -> None:
    trade = found((1e9, 2.05e9), (1000, 600))
    (said, *_) = bystander_sentences(campaign(trade))
    # 2.05 times, and less than the double at the least.
    assert "(×2.0 [×1.9, ×2.3])" in said.text or "(×2.1 [×1.9, ×2.3])" in said.text


def test_what_averages_hide_does_not_drive_it_out() -> None:
    summary = campaign(found((5e9, 8e9), (1000, 600)))
    others = [Sentence("a", about="cost"), Sentence("b", about="change"), Sentence("c", about="hidden")]
    first = answer(summary, [*others, *bystander_sentences(summary)], ()).first
    assert {sentence.about for sentence in first} == {"cost", "hidden", "beside"}


def test_a_question_a_cost_and_a_bystander_leave_room_for_what_averages_hide() -> None:
    summary = campaign(found((5e9, 8e9), (1000, 600)))
    others = [Sentence("a", about="fit"), Sentence("b", about="cost"), Sentence("c", about="hidden")]
    first = answer(summary, [*others, *bystander_sentences(summary)], ()).first
    assert len(first) == 3 and {"fit", "hidden"} < {sentence.about for sentence in first}


def test_where_nobody_pays_the_first_screen_says_what_changed_most() -> None:
    summary = campaign(found((5e9, 5e9), (1000, 990)), found((5e9, 5.1e9), (1000, 950)))
    (said,) = bystander_sentences(summary)
    assert "to 950 [902, 998] /s (-5 % [-14 %, +5 %], undecided)" in said.text
    assert "In 2 contrasts neither of the two is better off at the other's cost" in said.text
    assert said in answer(summary, [said], ()).first


def test_trials_with_few_operations_are_told_by_their_median() -> None:
    points = [
        (
            {"rate": rate},
            {"rate": str(rate)},
            {
                "goodput_bits_per_s": about(5e9, 1e8, "bit/s"),
                "bystander.latency_from_schedule_p99_ns": Estimate(
                    None, None, None, 0, "ns", "none", missing="too few"
                ),
                "bystander.latency_from_schedule_p50_ns": about(median, 1e4, "ns"),
            },
        )
        for rate, median in ((1, 1e6), (2, 2e6))
    ]
    (trade,) = trades(points, {"rate": (1, 2)}, FELT)
    assert [(felt.outcome, felt.better) for felt in trade.bystander] == [
        ("bystander.latency_from_schedule_p50_ns", False)
    ]


def test_the_table_has_the_rate_of_the_bystander_once() -> None:
    assert list(bystander_columns(campaign())) == ["bystander.operations_per_s"]


def test_each_of_several_bystanders_is_named() -> None:
    points = [
        (
            {"server.gro": level},
            {"server.gro": "on" if level else "off"},
            {
                "goodput_bits_per_s": about(bits, 0.05 * bits, "bit/s"),
                "bystander-1.operations_per_s": about(1000, 50),
                "bystander-2.operations_per_s": about(per_s, 0.05 * per_s),
            },
        )
        for level, bits, per_s in ((False, 5e9, 1000), (True, 8e9, 600))
    ]
    levels = {"server.gro": (False, True)}
    told = [trade for name in ("bystander-1", "bystander-2") for trade in trades(points, levels, FELT, name)]
    assert [trade.at_its_cost for trade in told] == [False, True]
    (said, *_) = bystander_sentences(campaign(*told))
    assert "the workload's goodput goes from" in said.text and "bystander-2's rate goes from" in said.text
    outcomes = {name: found for _, _, each in points for name, found in each.items()}
    shown = cast(CampaignSummary, SimpleNamespace(points=(SimpleNamespace(outcomes=outcomes),)))
    assert list(bystander_columns(shown)) == ["bystander-1.operations_per_s", "bystander-2.operations_per_s"]
