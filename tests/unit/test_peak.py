"""Where a rate peaks along the loads of a campaign: the level, and the levels that cannot be told from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import made_summary
import pytest

from iodyno.analysis.factors import FactorLevels
from iodyno.report.answer import answer
from iodyno.report.layout import layout_of
from iodyno.report.peak import peak_sentences
from iodyno.report.sentence import Sentence
from iodyno.report.sentences import sentences

THREADS = (1, 2, 4, 8)
# Gbit/s of a zone, and Mbit/s of a virtual machine, by threads: "Virtualization performance: zones, KVM, Xen" (2013).
ZONE = (2.75, 3.32, 4.54, 1.96)
GUEST = (0.400, 0.394, 0.388, 0.389)
RISING = (1.0, 2.0, 3.0, 4.0)


def campaign(
    lines: Mapping[str, tuple[float, ...]], factor: str = "connections"
) -> made_summary.CampaignSummary:
    """Goodput in Gbit/s by threads and path."""
    made = made_summary.summary()
    points = tuple(
        replace(
            made.points[0],
            id=f"{path}{threads}",
            levels={factor: threads, "path": path},
            labels={factor: str(threads), "path": path},
            outcomes={
                **made.points[0].outcomes,
                "goodput_bits_per_s": made_summary.around(rate * 1e9, "bit/s"),
            },
        )
        for path, rates in lines.items()
        for threads, rate in zip(THREADS, rates, strict=True)
    )
    factors = (FactorLevels(factor, THREADS, (), "", True), FactorLevels("path", tuple(lines), (), "", False))
    labels = {factor: tuple(map(str, THREADS)), "path": tuple(lines)}
    return replace(made, points=points, factors=factors, factor_labels=labels)


def told(made: made_summary.CampaignSummary) -> list[Sentence]:
    return list(peak_sentences(made, layout_of(made), "goodput_bits_per_s", "Goodput"))


def text(rates: tuple[float, ...]) -> str:
    """What is said of one line."""
    (sentence,) = told(campaign({"zone": rates}))
    return sentence.text


def test_the_number_of_threads_where_throughput_peaks_is_named() -> None:
    assert text(ZONE) == (
        "Goodput peaks at 4 connections, with 4.54 [4.40, 4.68] Gbit/s, and is 1.960 [1.901, 2.019] Gbit/s at 8 connections."
    )


def test_levels_that_cannot_be_told_from_the_peak_are_its_uncertainty() -> None:
    assert text((2.75, 4.5, 4.54, 1.96)) == (
        "Goodput peaks at 4 connections, with 4.54 [4.40, 4.68] Gbit/s (2 to 4 connections cannot be told apart), and is"
        " 1.960 [1.901, 2.019] Gbit/s at 8 connections."
    )


def test_a_rate_that_still_rises_may_peak_beyond_the_last_level() -> None:
    assert text(RISING) == (
        "Goodput is highest at 8 connections, with 4.00 [3.88, 4.12] Gbit/s; its peak may lie beyond 8 connections, the last"
        " level."
    )


def test_levels_that_are_all_alike_have_no_peak() -> None:
    (sentence,) = told(campaign({"guest": GUEST}))
    assert sentence.text == (
        "Goodput is highest at 1 connection, with 400 [388, 412] Mbit/s, but no level is surely less: where it peaks is not"
        " known."
    )
    assert sentence.about == "more"


def test_every_line_has_its_own_peak() -> None:
    (sentence,) = told(campaign({"zone": ZONE, "relay": RISING, "guest": GUEST}))
    assert sentence.text == (
        "Goodput peaks at 4 connections (zone); it is highest at 8 connections (relay), and may peak beyond the last level; it"
        " has no peak that can be told (guest)."
    )
    assert [detail.partition(":")[0] for detail in sentence.details] == ["zone", "relay", "guest"]
    assert sentence.about == "peak"


def test_of_many_lines_their_number_is_said() -> None:
    many: dict[str, tuple[float, ...]] = {**{f"a{number}": ZONE for number in range(4)}, "b": RISING}
    (sentence,) = told(campaign(many))
    assert sentence.text == (
        "Goodput peaks before the last level on 4 of 5 lines; it is highest at levels up to the last on 1 of 5 lines, and may"
        " peak beyond."
    )
    assert len(sentence.details) == 5


@pytest.mark.parametrize("factor", ["rate"])
def test_a_rate_that_is_offered_has_no_peak(factor: str) -> None:
    assert not told(campaign({"zone": ZONE}, factor))


def test_the_first_screen_tells_the_peak_instead_of_the_range() -> None:
    made = campaign({"zone": ZONE})
    said = sentences(made)
    first = [sentence.about for sentence in answer(made, said, ["rate"]).first]
    assert "peak" in first and "rate" not in first
    assert [sentence.about for sentence in said].count("rate") == 1
