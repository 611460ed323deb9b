"""What heat maps of a campaign's points hold is said in its report: planted truths are found, and plain noise says nothing."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from made_summary import summary
from made_times import times

from iodyno.analysis.heat_map.columns import quantile_of_all
from iodyno.analysis.heat_map.curve import cumulative_curve
from iodyno.analysis.heat_map.points import examine_points, worst
from iodyno.analysis.operation_times import OperationTimes
from iodyno.core.grid import Grid
from iodyno.report.answer import answer
from iodyno.report.heat_map.distribution import outliers
from iodyno.report.heat_map.layout import Look
from iodyno.report.heat_map.sentences import sentences, worst_sentence
from iodyno.report.sentence import Sentence

COLUMNS = 40


def noise(seed: int, centre: float = 300e3) -> list[list[int]]:
    chance = random.Random(seed)
    return [[round(chance.lognormvariate(math.log(centre), 0.25)) for _ in range(60)] for _ in range(COLUMNS)]


def slower_from(column: int) -> OperationTimes:
    return times(
        [[3 * value if at >= column else value for value in each] for at, each in enumerate(noise(1))]
    )


def test_a_change_in_the_middle_is_the_worst_and_is_said_in_seconds_of_the_trial() -> None:
    chance = random.Random(7)
    two = [[v * (10 if chance.random() < 0.4 else 1) for v in column] for column in noise(2)]
    found = examine_points({"p00": (times(noise(3)),), "p01": (times(two),), "p02": (slower_from(20),)})
    most = worst(found)
    assert most is not None and (most.of.point, most.kind) == ("p02", "changes")
    text = worst_sentence(most, "1 connection")
    assert text.startswith("Averages hide this of write (service time, at 1 connection): the ")
    assert "changes at 20 s" in text
    (modes,) = [one for one in found if one.point == "p01"]
    assert len(modes.found.modes.found) == 2
    assert sentences(modes.grid, modes.found, zero_ns=0, absent=False)[0].startswith("Two modes: ")


def test_modes_matter_where_nothing_moves() -> None:
    chance = random.Random(7)
    two = [[v * (10 if chance.random() < 0.4 else 1) for v in column] for column in noise(2)]
    most = worst(examine_points({"p00": (times(two),)}))
    assert most is not None and most.kind == "modes"
    assert "two modes" in worst_sentence(most, "")


def test_noise_is_not_worth_a_sentence() -> None:
    found = examine_points({f"p{seed}": (times(noise(seed)),) for seed in range(12)})
    assert len(found) == 12 and worst(found) is None


def test_warm_up_and_drain_are_not_looked_at() -> None:
    slow = [[50 * value for value in column] for column in noise(4)[:10]]
    both = times(slow + noise(5) + slow, "w" * 10 + "m" * COLUMNS + "d" * 10)
    (found,) = examine_points({"p00": (both,)})
    assert found.grid.columns == COLUMNS and found.grid.begin_ns == 10 * 10**9
    assert worst([found]) is None


def test_too_few_operations_are_not_looked_at() -> None:
    assert examine_points({"p00": (times([[1000] * 4] * 5),), "p01": ()}) == ()


@pytest.mark.parametrize("known", [["cost", "change", "rate"], ["rate", "change", "cost"], ["cost"]])
def test_what_averages_hide_is_one_of_the_three_sentences(known: list[str]) -> None:
    said = [Sentence(name, about=name) for name in (*known, "more", "more")]  # type: ignore[arg-type]
    hidden = Sentence("averages hide", about="hidden")
    shown = answer(summary(), [*said, hidden], ())
    assert [each.text for each in shown.first][-1] == "averages hide" and len(shown.first) == 3
    assert shown.first[0].text == known[0] and "cost" in {each.text for each in shown.first}
    assert known[-1] == "cost" or known[-1] not in {each.text for each in shown.first}
    assert "hidden" not in {each.about for each in answer(summary(), said, ()).first}


@pytest.mark.parametrize(
    ("question", "asked", "first"),
    [
        ("What does it cost?", ("goodput_bits_per_s",), ["cost", "change", "hidden"]),
        ("What does it deliver, and what limits it?", ("iops",), ["rate", "limiter", "hidden"]),
        ("What does it cost, and what limits it?", ("client.cpu_us_per_io",), ["cost", "limiter", "hidden"]),
    ],
)
def test_what_is_asked_in_words_is_answered(question: str, asked: tuple[str, ...], first: list[str]) -> None:
    limited = summary()
    verdict = replace(limited.points[0].limiter.verdict, trials=3)
    points = tuple(replace(each, limiter=replace(each.limiter, verdict=verdict)) for each in limited.points)
    limited = replace(limited, question=question, asked=asked, points=points)
    said = [Sentence(name, about=name) for name in ("cost", "change", "rate", "hidden")]  # type: ignore[arg-type]
    assert [each.about for each in answer(limited, said, ()).first] == first


def test_a_cost_of_many_factors_is_shown_by_its_effects_where_lines_would_be_too_many() -> None:
    said = [Sentence("cost", about="cost")]
    assert answer(summary(), said, ("cost", "effects")).picture == "effects"
    assert answer(summary(), said, ("cost",)).picture == "cost"


def tailed(by_value: tuple[tuple[float, float, int], ...]) -> Grid:
    cells = ((0, 0, 900), (0, 1, 90))
    return Grid(
        "latency",
        "ns",
        0,
        10**9,
        1,
        (0.0, 1e3, 2e3),
        "linear",
        cells,
        (0,),
        (10,),
        0,
        1000,
        0,
        (),
        by_value=by_value,
    )


def test_what_lies_above_the_rows_is_known_by_value() -> None:
    # Four of the twelve between 1 990 and 2 005 lie above the upper edge, as the columns say.
    grid = tailed(
        ((300.0, 302.0, 900), (1.5e3, 1.51e3, 82), (1.99e3, 2.005e3, 12), (5e3, 5.04e3, 5), (9e3, 9.01e3, 1))
    )
    grid.check()
    assert grid.above == ((2e3, 2.005e3, 4), (5e3, 5.04e3, 5), (9e3, 9.01e3, 1))
    assert grid.greatest == quantile_of_all(grid, 1.0) == 9.01e3
    assert 5e3 <= (quantile_of_all(grid, 0.999) or 0) <= 5.04e3
    # And within the rows, which are wider by far.
    assert 300 <= (quantile_of_all(grid, 0.5) or 0) <= 302
    curve = cumulative_curve(grid)
    assert curve[-1] == (9.01e3, 1.0) and (302.0, 0.9) in curve and (1.5e3, 0.9) in curve
    assert outliers(grid, Look()) is not None
    both = grid.merged(grid)
    both.check()
    assert both.above == tuple((low, high, 2 * count) for low, high, count in grid.above)


def test_without_it_nothing_is_claimed() -> None:
    assert quantile_of_all(tailed(()), 1.0) == math.inf
    assert quantile_of_all(tailed(()), 0.5) == 1e3, "the row's upper edge: where in it is not known"
    assert cumulative_curve(tailed(()))[-1] == (2e3, 0.99)
    assert outliers(tailed(()), Look()) is None
    with pytest.raises(ValueError, match="not as many as"):
        tailed(((2e3, 3e3, 4),)).check()
