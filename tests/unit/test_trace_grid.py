"""A grid counts every event once, is read back as it was written, and is merged exactly."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_grids import by_value

from iodyno.core.grid import Grid


def grid_of(values: list[tuple[int, int]], rows: int = 4, columns: int = 3) -> Grid:
    """(time, value) counted by hand: columns of 10 ns, rows of 5."""
    cells: dict[tuple[int, int], int] = {}
    under, over = [0] * columns, [0] * columns
    for time, value in values:
        column = time // 10
        if value < 0:
            under[column] += 1
        elif value > rows * 5:
            over[column] += 1
        else:
            row = min(value // 5, rows - 1)
            cells[column, row] = cells.get((column, row), 0) + 1
    return Grid(
        "latency",
        "ns",
        0,
        10,
        columns,
        tuple(5.0 * row for row in range(rows + 1)),
        "linear",
        tuple((c, r, n) for (c, r), n in sorted(cells.items())),
        tuple(under),
        tuple(over),
        0,
        len(values),
        0,
        (),
    )


events = st.lists(st.tuples(st.integers(0, 29), st.integers(-3, 25)), max_size=60)


@given(events, events)
def test_merging_two_grids_is_counting_their_events_together(first, second):
    merged = grid_of(first).merged(grid_of(second))
    assert merged == grid_of(first + second)
    merged.check()


@given(events, events)
def test_the_difference_is_what_must_be_added(first, second):
    counts = {(c, r): n for c, r, n in grid_of(second).cells}
    for column, row, difference in grid_of(first).minus(grid_of(second)):
        assert difference
        counts[column, row] = counts.get((column, row), 0) + difference
    assert {at: n for at, n in counts.items() if n} == {(c, r): n for c, r, n in grid_of(first).cells}


@given(events)
def test_it_is_read_back_as_it_was_written(values):
    grid = grid_of(values)
    assert Grid.from_json(json.loads(json.dumps(grid.to_json()))) == grid
    assert sum(grid.column_totals()) == len(values)


@given(events, events)
def test_values_of_two_grids_are_merged_without_loss(first, second):
    parts = [[abs(value) + 1.0 for _, value in each] for each in (first, second)]
    one, two = (
        replace(grid_of(each), by_value=by_value(values))
        for each, values in zip((first, second), parts, strict=True)
    )
    merged = one.merged(two)
    merged.check()
    whole = by_value(parts[0] + parts[1])
    assert [(low, count) for low, _, count in merged.by_value] == [(low, count) for low, _, count in whole]
    assert merged.greatest == (max(parts[0] + parts[1]) if whole else None)


def test_a_lost_event_is_noticed():
    said = grid_of([(0, 1), (5, 7)]).to_json()
    said["events"] = 3
    with pytest.raises(ValueError, match="3 events went in, but 2 are counted"):
        Grid.from_json(said)


def test_grids_of_other_frames_are_not_added():
    with pytest.raises(ValueError, match="the same ranges"):
        grid_of([(0, 1)]).merged(grid_of([(0, 1)], rows=5))
