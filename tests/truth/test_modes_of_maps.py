"""Modes of simulated maps whose number of modes is known, told by clocks and histograms of every resolution.

A mode is judged at the resolution of what tells it: that a histogram has eight buckets an octave, or a clock ticks, is no mode.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from made_maps import ONE, SEVERAL, TOLD, by_its_bins, by_its_values, drawn_values
from made_times import times

from iodyno.analysis.heat_map.modes import find_movements, modes_of
from iodyno.analysis.heat_map.stored import Range, edges_for, grid_of
from iodyno.analysis.histogram import bounds_of
from iodyno.loads.disk.analysis import block_times

SIZES = (500, 5_000, 60_000)
COARSE = (1, 2, 4, 8, 32)
"""Buckets an octave of histograms: biolatency has one, the block sensor 32."""


@pytest.mark.parametrize("how", TOLD)
def test_one_mode_is_one_however_it_is_told(how: str) -> None:
    found = Counter(
        (shape, n, len(modes_of(by_its_values(TOLD[how](drawn_values(draw, n, number)))).found))
        for number, (shape, draw) in enumerate(ONE.items())
        for n in SIZES
    )
    assert [each for each in found if each[2] != 1] == []


@pytest.mark.parametrize("parts", COARSE)
def test_one_mode_is_one_in_buckets_with_their_ends(parts: int) -> None:
    found = Counter(
        (shape, n, len(modes_of(by_its_bins(drawn_values(draw, n, number), parts)).found))
        for number, (shape, draw) in enumerate(ONE.items())
        for n in SIZES
    )
    assert [each for each in found if each[2] != 1] == []


NEAR = {"two, near", "two, narrow and near", "three, near"}
"""Modes nearer to each other than a coarse resolution can tell."""
FINE_ENOUGH = {
    "whole ns", "whole us", "4.096 us", "a clock of 24 MHz", "a clock of 3.58 MHz", "sixteen an octave, upper ends",
    "the block sensor", "fio", "128 an octave", "three hundred a decade", "three decimal digits",
}  # fmt: skip


@pytest.mark.parametrize("how", TOLD)
def test_modes_that_the_resolution_shows_are_found(how: str) -> None:
    for case, (expected, draw) in SEVERAL.items():
        if case in NEAR and how not in FINE_ENOUGH:
            continue
        for n in SIZES[1:]:
            found = modes_of(by_its_values(TOLD[how](drawn_values(draw, n, 7)))).found
            assert len(found) == expected, (case, n, found)


@pytest.mark.parametrize("parts", COARSE)
def test_modes_that_lie_buckets_apart_are_found(parts: int) -> None:
    for case, (expected, draw) in SEVERAL.items():
        if case not in NEAR:
            found = modes_of(by_its_bins(drawn_values(draw, 60_000, 7), parts)).found
            assert len(found) == expected, (case, found)


def test_maps_of_a_device_are_drawn_in_its_buckets() -> None:
    """The sensor tells the middles of 32 buckets an octave: finer rows would be full and empty by turns."""
    for number, draw in enumerate(ONE.values()):
        values = TOLD["the block sensor"](drawn_values(draw, 20_000, number))
        columns = [[int(value) for value in part] for part in np.array_split(values, 20)]
        counted = replace(times(columns), sub_bits=block_times.SUB_BITS)
        grid = grid_of(counted, edges_for([counted], Range()), "log")
        assert sum(count for _, _, count in grid.by_value) == len(values)
        for low, high, _ in grid.by_value:
            assert high - low == max(1, 2 ** (int(low).bit_length() - 6)) and low % (high - low) == 0
        borders = {bounds_of(bucket, 5)[0] for bucket in range(4000)}
        assert {int(edge) for edge in grid.edges} <= borders
        assert len(modes_of(grid).found) == 1
        assert find_movements(grid) == ()
