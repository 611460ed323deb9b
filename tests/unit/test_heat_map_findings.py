"""What is found in a grid: planted truths are found, and plain noise holds nothing."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_grids import counted, drawn, linear, logarithmic

from iodyno.analysis.heat_map.bursts import find_bursts
from iodyno.analysis.heat_map.changes import find_changes
from iodyno.analysis.heat_map.columns import column_quantiles
from iodyno.analysis.heat_map.findings import examine
from iodyno.analysis.heat_map.modes import find_modes, find_movements, modes_of
from iodyno.analysis.heat_map.resolution import resolutions_of
from iodyno.analysis.heat_map.stripes import find_stripes
from iodyno.analysis.heat_map.taut_string import dip, peaks, taut_string
from iodyno.core.grid import Grid
from iodyno.report.heat_map.sentences import sentences

Value = Callable[[random.Random, float], float]


def usual(chance: random.Random, _at: float) -> float:
    return chance.lognormvariate(math.log(350e3), 0.25)


ONE_MODE: dict[str, Value] = {
    "lognormal": usual,
    "exponential": lambda chance, _at: chance.expovariate(1 / 300e3),
    "uniform": lambda chance, _at: chance.uniform(1e5, 9e5),
    "log-uniform": lambda chance, _at: 1e4 * 1000 ** chance.random(),
    "gamma": lambda chance, _at: chance.gammavariate(4, 1e5),
}


def test_noise_with_one_mode_holds_nothing() -> None:
    """Each of five finders has level 0.01, so that at most 5 in 100 grids may hold something."""
    found = looked = 0
    for number, value in enumerate(ONE_MODE.values()):
        for edges in (None, linear(1e6)):
            for seed in range(12):
                grid = drawn(value, events=3000, columns=48, seed=1000 * number + seed, edges=edges)
                seen = examine(grid)
                looked += 1
                found += bool(
                    len(seen.modes.found) > 1
                    or seen.movements
                    or seen.stripes
                    or seen.bursts.found
                    or seen.changes
                )
    assert looked == 120 and found <= 6


def test_stripes_are_said_to_be_absent_only_where_they_could_be_told() -> None:
    """A period shorter than two and a half columns cannot be told, and 1000 columns are looked at three by three."""
    for columns, shortest in ((100, "250 ms"), (1000, "750 ms")):
        cells = tuple((column, row, 10 - 9 * row) for column in range(columns) for row in (0, 1))
        none = (0,) * columns
        edges = (0.0, 10.0, 20.0)
        events = 11 * columns
        grid = Grid("latency", "us", 0, 10**8, columns, edges, "linear", cells, none, none, 0, events, 0, ())
        assert f"stripes (of a period of {shortest} or longer; shorter ones cannot be told)" in " ".join(
            sentences(grid, examine(grid))
        )


def test_one_mode_is_never_two_at_any_size() -> None:
    for events in (120, 1000, 20_000):
        for seed, value in enumerate(ONE_MODE.values()):
            grid = drawn(value, events=events, seed=seed)
            assert len(find_modes(grid.row_totals(), grid.edges).found) == 1


@pytest.mark.parametrize("edges", [logarithmic(1e4, 1e7, 80), linear(2e6)], ids=["log", "linear"])
def test_planted_modes_are_found_where_they_are(edges: tuple[float, ...]) -> None:
    grid = drawn(
        lambda chance, _at: chance.gauss(350e3, 20e3) if chance.random() < 0.7 else chance.gauss(650e3, 30e3),
        edges=edges,
    )
    modes = find_modes(grid.row_totals(), grid.edges)
    assert len(modes.found) == 2 and modes.p is not None and modes.p < 0.01
    height = max(b - a for a, b in itertools.pairwise(edges) if a < 700e3)
    for mode, (value, share) in zip(modes.found, ((350e3, 0.7), (650e3, 0.3)), strict=True):
        assert mode.value == pytest.approx(value, abs=height)
        assert mode.share == pytest.approx(share, abs=0.02)
        assert mode.low < value < mode.high
    assert "Two modes" in sentences(grid, examine(grid))[0]


@pytest.mark.parametrize("events", [3_000, 10_000, 100_000])
@pytest.mark.parametrize("reaches", [7, 12])
def test_exponential_times_have_one_mode_on_plain_rows_too(events: int, reaches: int) -> None:
    """Most of them lie in the first row, which begins at 0: squeezed onto a logarithmic axis, it looked like a mode by itself."""
    source = np.random.default_rng(20081217)
    edges = np.linspace(0, reaches * 1e5, 51)
    for _ in range(20):
        counts, _ = np.histogram(source.exponential(1e5, events), edges)
        found = find_modes([int(count) for count in counts], [float(edge) for edge in edges])
        assert len(found.found) == 1, (found.p, found.found)


def test_a_mode_in_the_first_plain_row_is_found_beside_another() -> None:
    source = np.random.default_rng(1)
    values = np.concatenate([source.normal(4e3, 5e2, 4_000), source.normal(3e5, 3e4, 6_000)])
    counts, edges = np.histogram(values, np.linspace(0, 5e5, 51))
    found = find_modes([int(count) for count in counts], [float(edge) for edge in edges])
    assert len(found.found) == 2 and found.p is not None and found.p < 0.01


def test_modes_do_not_depend_on_rows() -> None:
    """Half of all operations take 200 us and half 8 ms, in rows of 400 us: the first row is one of many values, and a mode."""
    for spread in (0.0, 0.05):
        grid = drawn(
            lambda chance, _at, spread=spread: (  # type: ignore[misc]
                chance.choice((200e3, 8e6)) * chance.lognormvariate(0, spread)
            ),
            edges=linear(20e6),
        )
        found = modes_of(grid)
        assert [mode.value for mode in found.found] == pytest.approx([200e3, 8e6], rel=0.01)
        assert [mode.share for mode in found.found] == pytest.approx([0.5, 0.5], abs=0.03)
        assert "Two modes: 200 us" in sentences(grid, examine(grid))[0]
    # And where most values lie above the rows, or below them.
    for edges in (linear(100e3), linear(20e6, low=10e6)):
        grid = drawn(lambda chance, _at: chance.choice((200e3, 8e6)), edges=edges)
        assert [mode.value for mode in modes_of(grid).found] == pytest.approx([200e3, 8e6], rel=0.01)
        assert "beyond the rows" not in sentences(grid, examine(grid))[0]


ROUNDED: dict[str, Callable[[float], float]] = {
    "as they are": lambda value: value,
    "whole us": lambda value: 1e3 * round(value / 1e3),
    "tens of us": lambda value: 1e4 * round(value / 1e4),
    "tenths of ms": lambda value: 1e5 * round(value / 1e5),
    # As a histogram of one digit has them: sixteen values an octave, each the last of its bucket.
    "one digit": lambda value: (value // 2 ** (int(math.log2(value)) - 4) + 1) * 2.0 ** (int(math.log2(value)) - 4) - 1,
}  # fmt: skip


@pytest.mark.parametrize("how", ROUNDED)
def test_values_that_were_rounded_have_no_more_modes(how: str) -> None:
    for seed, value in enumerate(ONE_MODE.values()):
        for events in (500, 20_000):
            grid = drawn(
                lambda chance, at, value=value: ROUNDED[how](max(1.0, value(chance, at))),  # type: ignore[misc]
                events=events,
                seed=seed,
            )
            assert len(modes_of(grid).found) == 1, (list(ONE_MODE)[seed], events, modes_of(grid))


def test_zeros_are_a_mode_at_zero() -> None:
    grid = drawn(
        lambda chance, _at: 0.0 if chance.random() < 0.4 else chance.gauss(8e6, 3e5), edges=linear(20e6)
    )
    zero, slow = modes_of(grid).found
    assert (
        zero.value == 0
        and zero.share == pytest.approx(0.4, abs=0.03)
        and slow.value == pytest.approx(8e6, rel=0.01)
    )
    # Of whole milliseconds 0 is what is below a half, and no mode beside 1.
    grid = drawn(lambda chance, _at: 1e6 * int(chance.expovariate(1 / 1.3)), edges=linear(20e6))
    assert len(modes_of(grid).found) == 1


def test_sizes_have_their_very_value() -> None:
    grid = drawn(lambda chance, _at: chance.choice((4096.0, 4096.0, 65536.0)), edges=linear(131072))
    assert [mode.value for mode in modes_of(grid).found] == [4096, 65536]


def test_four_modes() -> None:
    places = (50e3, 150e3, 450e3, 1350e3)
    grid = drawn(lambda chance, _at: chance.choice(places) * chance.lognormvariate(0, 0.05))
    found = find_modes(grid.row_totals(), grid.edges).found
    assert [mode.value for mode in found] == pytest.approx(places, rel=0.06)


def test_a_change_within_one_row_has_no_size() -> None:
    """Half of it in rows of 400 us, 100 us become 150 us: the rows say nothing of it, and between two rows their edges are."""
    for factor, expected in ((1.5, set()), (9.0, {"median", "p99"})):
        grid = drawn(
            lambda chance, at, factor=factor: chance.uniform(9e4, 11e4) * (factor if at >= 30 else 1),  # type: ignore[misc]
            edges=linear(20e6),
        )
        changes = find_changes(grid)
        assert {change.of for change in changes} == expected
        for change in changes:
            assert (change.before, change.after) == (400e3, 1200e3)
        if changes:
            said = " ".join(sentences(grid, examine(grid)))
            assert "The median changes at 30 s from <= 400 us to <= 1.2 ms" in said


@pytest.mark.parametrize(
    ("columns", "events", "said"),
    [
        (
            5,
            50_000,
            "a moving mode (5 columns, 7 are needed), stripes (5 columns, 24 are needed), change points (5 columns with",
        ),
        (20, 50_000, "Not looked for: stripes (20 columns, 24 are needed)."),
        (60, 100, "of the time with 200 events, 7 are needed), stripes (5 high values, 24 are needed)."),
        (60, 50_000, ""),
    ],
)
def test_what_cannot_be_found_is_not_said_to_be_absent(columns: int, events: int, said: str) -> None:
    grid = drawn(usual, columns=columns, events=events, seed=4)
    found = examine(grid)
    text = sentences(grid, found)
    absent = next(line for line in text if line.startswith("Looked for and not found"))
    assert "bursts of outliers" in absent
    assert ("stripes" in absent) == ("stripes" not in found.not_looked_for) == (not said)
    if said:
        assert text[-1].startswith("Not looked for: ") and said in text[-1]
    assert found.to_json()["not_looked_for"] == found.not_looked_for


def test_how_many_events_are_needed() -> None:
    def two(chance: random.Random, _at: float) -> float:
        return chance.lognormvariate(math.log(300e3 if chance.random() < 0.5 else 560e3), 0.2)

    few = find_modes(*_counts(drawn(two, events=300, seed=2)))
    assert len(few.found) == 1 and few.events_needed is not None and few.events_needed > 300
    many = find_modes(*_counts(drawn(two, events=40_000, seed=2)))
    assert len(many.found) == 2 and many.events_needed is None
    nothing = find_modes((0, 3, 4, 0), (1.0, 2.0, 3.0, 4.0, 5.0))
    assert nothing.found == () and nothing.p is None and nothing.events_needed == 100
    assert nothing.why_not is not None and "too few" in nothing.why_not


def _counts(grid: Grid) -> tuple[tuple[int, ...], tuple[float, ...]]:
    return grid.row_totals(), grid.edges


def test_whole_microseconds_are_no_modes() -> None:
    """Rows of a fifth of the step of the values: four of five are empty, and none of that is a valley."""
    chance = random.Random(3)
    values = [(chance.uniform(0, 10), 1000.0 * max(1, round(chance.gauss(12, 3)))) for _ in range(5000)]
    grid = counted(values, logarithmic(1000, 40_000, 120), 10)
    assert resolutions_of(*_counts(grid))[0].border(5200) == 5500
    assert len(find_modes(*_counts(grid)).found) == 1
    two = [(at, value if chance.random() < 0.5 else value + 20_000) for at, value in values]
    assert len(find_modes(*_counts(counted(two, logarithmic(1000, 80_000, 120), 10))).found) == 2


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 50)), min_size=1, max_size=30),
    st.sampled_from((0, 1)),
)
@example([(1, 50), (1, 1), (1, 1), (1, 1), (0, 1), (1, 2), (1, 1), (0, 1)], 1)
def test_resolutions_of_rows_at_small_whole_numbers_are_numbers(
    rows: list[tuple[int, int]], least: int
) -> None:
    """A lowest value of 1 may be one that was rounded up from next to nothing."""
    edges = tuple(itertools.accumulate((width for _, width in rows), initial=least))
    for found in resolutions_of([count for count, _ in rows], edges):
        assert all(math.isfinite(found.border(edge)) for edge in edges)


def test_a_mode_that_moves_is_followed_and_one_that_stays_is_not() -> None:
    grid = drawn(
        lambda chance, at: (
            chance.gauss(200e3, 8e3) if chance.random() < 0.5 else chance.gauss(500e3 + 5e3 * at, 20e3)
        ),
        events=12_000,
    )
    (moved,) = find_movements(grid)
    # Over the middles of the first and the last twelfth of 60 s.
    assert (moved.begin_s, moved.end_s) == (2.5, 57.5)
    assert moved.first == pytest.approx(512.5e3, rel=0.06) and moved.last == pytest.approx(787.5e3, rel=0.06)
    assert any("A mode moves" in line for line in sentences(grid, examine(grid)))


@pytest.mark.parametrize("period_s", [3.0, 5.0, 7.5])
def test_stripes_have_their_period(period_s: float) -> None:
    grid = drawn(
        lambda chance, at: (
            chance.uniform(1.5e6, 3e6)
            if at % period_s < period_s / 5 and chance.random() < 0.3
            else usual(chance, at)
        )
    )
    stripes = find_stripes(grid)
    assert stripes is not None and stripes.p < 0.01
    # Frequencies are tried in steps of a quarter of 1 / 60 s.
    assert stripes.period_s == pytest.approx(period_s, abs=period_s**2 / (4 * 60) + 0.01)
    assert stripes.contrast is None or stripes.contrast > 1.5


def test_a_drift_and_a_burst_are_no_stripes() -> None:
    assert find_stripes(drawn(lambda chance, at: usual(chance, at) * (1 + at / 60))) is None
    assert (
        find_stripes(
            drawn(lambda chance, at: 3e6 if 20 < at < 23 and chance.random() < 0.5 else usual(chance, at))
        )
        is None
    )


def test_several_bursts_are_no_stripes() -> None:
    for seed in range(8):
        grid = drawn(
            lambda chance, at: (
                3e6
                if (6 < at < 8 or 20 < at < 23 or 41 < at < 42.5) and chance.random() < 0.5
                else usual(chance, at)
            ),
            seed=seed,
        )
        assert find_stripes(grid) is None


def test_a_burst_has_its_time() -> None:
    grid = drawn(
        lambda chance, at: (
            chance.uniform(2e6, 5e6)
            if (20 <= at < 23 and chance.random() < 0.06) or chance.random() < 0.002
            else usual(chance, at)
        ),
        events=20_000,
    )
    (burst,) = find_bursts(grid).found
    assert (burst.begin_s, burst.end_s) == (20.0, 23.0)
    assert burst.outliers == pytest.approx(60, abs=20) and burst.expected < burst.outliers / 3


def test_a_step_has_its_time_and_a_drift_has_none() -> None:
    grid = drawn(lambda chance, at: usual(chance, at) * (1.4 if at >= 37 else 1.0))
    changes = find_changes(grid)
    assert {change.of for change in changes} == {"median", "p99"}
    for change in changes:
        assert change.at_s == pytest.approx(37, abs=1)
        assert change.after / change.before == pytest.approx(1.4, rel=0.1)
    drift = drawn(lambda chance, at: usual(chance, at) * (1 + at / 60))
    assert [change for change in find_changes(drift) if change.of != "rate"] == []


def test_a_rate_that_drops_is_a_change() -> None:
    chance = random.Random(5)
    times = [chance.uniform(0, 30) for _ in range(6000)] + [chance.uniform(30, 60) for _ in range(3000)]
    grid = counted([(at, usual(chance, at)) for at in times], logarithmic(1e4, 1e7, 80), 60)
    (change,) = find_changes(grid)
    assert change.of == "rate" and change.at_s == 30
    assert (change.before, change.after) == pytest.approx((200, 100), rel=0.1)


def test_odd_grids_are_looked_at_without_a_fault() -> None:
    edges = linear(10.0, 5)
    for events in ([], [(0.5, 3.0)], [(0.5, 3.0)] * 1000, [(0.5, 99.0)] * 500, [(0.1, 1.0), (59.9, 9.0)]):
        grid = counted(events, edges, 60)
        found = examine(grid)
        assert found.movements == () and found.stripes is None and found.changes == ()
        assert sentences(grid, found)
        found.to_json()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 30, exclude_max=True), st.floats(0, 12)), max_size=80),
    st.integers(1, 9),
)
def test_nothing_that_is_found_is_no_number(events: list[tuple[float, float]], rows: int) -> None:
    grid = counted(events, linear(10.0, rows), 30)

    def numbers(said: object) -> None:
        if isinstance(said, dict):
            for each in said.values():
                numbers(each)
        elif isinstance(said, list | tuple):
            for each in said:
                numbers(each)
        elif isinstance(said, float):
            assert math.isfinite(said)

    found = examine(grid)
    numbers(found.to_json())
    assert "nan" not in " ".join(sentences(grid, found))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 8, exclude_max=True), st.floats(-1, 12)), min_size=1, max_size=60))
def test_quantiles_are_bounds_by_the_row_of_the_event(events: list[tuple[float, float]]) -> None:
    edges = linear(10.0, 7)
    grid = counted(events, edges, 8)
    for share, found in zip(
        (0.1, 0.5, 0.99, 1.0), column_quantiles(grid, (0.1, 0.5, 0.99, 1.0)), strict=True
    ):
        for column, value in enumerate(found):
            mine = sorted(v for at, v in events if int(at) == column)
            if not mine:
                assert value is None
                continue
            true = mine[max(1, math.ceil(share * len(mine) - 1e-9)) - 1]
            assert value is not None
            if true < 0 or true > 10:
                assert value == math.copysign(math.inf, true)
            else:
                # The upper edge of the row that holds it.
                assert -1e-9 <= value - true <= 10 / 7 + 1e-9 and value in edges


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=2, max_size=30).filter(any), st.floats(0.001, 0.4))
def test_the_string_stays_in_its_tube_and_is_monotone(counts: list[int], radius: float) -> None:
    total, seen, share = sum(counts), 0, [0.0]
    for count in counts:
        seen += count
        share.append(seen / total)
    x = [float(at) for at in range(len(share))]
    string = taut_string(x, share, radius)
    height, at = 0.0, 0
    for piece in string:
        assert piece.slope >= -1e-12 and piece.first == at
        for knot in range(piece.first, piece.last + 1):
            assert abs(height + piece.slope * (x[knot] - x[piece.first]) - share[knot]) <= radius + 1e-9
        height += piece.slope * (x[piece.last] - x[piece.first])
        at = piece.last
    assert at == len(x) - 1 and height == pytest.approx(1)
    assert len(peaks(string)) <= len(peaks(taut_string(x, share, 0.0)))
    assert len(peaks(taut_string(x, share, dip(x, share) + 1e-6))) == 1
