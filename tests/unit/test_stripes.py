"""Periodic stripes: simulated traces whose period and phase are known, and periods that columns cannot tell."""

from __future__ import annotations

import math
import random

import pytest
from draws import draws
from made_grids import counted, logarithmic

from iodyno.analysis.heat_map.findings import examine
from iodyno.analysis.heat_map.stripes import MOST_FREQUENCY, find_stripes
from iodyno.core.grid import Grid

COLUMNS, A_COLUMN = 120, 60


def striped(period_s: float, duty: float, column_s: float, *, phase_s: float = 0.0, seed: int = 1) -> Grid:
    """Slow operations for a part `duty` of each period, from `phase_s` on; seven of ten are slow then."""
    chance = random.Random(seed)
    events = []
    for _ in range(COLUMNS * A_COLUMN):
        at = chance.uniform(0, COLUMNS * column_s)
        slow = ((at - phase_s) / period_s) % 1.0 < duty and chance.random() < 0.7
        value = chance.uniform(1.5e6, 3e6) if slow else chance.lognormvariate(math.log(350e3), 0.25)
        events.append((at, value))
    return counted(events, logarithmic(1e4, 1e7, 80), COLUMNS, column_s)


@pytest.mark.parametrize("period_s", [0.1, 0.73, 3.3, 10.0])
@pytest.mark.parametrize("duty", [0.05, 0.1, 0.2, 0.35, 0.5])
def test_period_and_begin_are_right_where_anything_is_said(period_s: float, duty: float) -> None:
    """Periods of 2.7 to 28 columns, none a multiple: no harmonic, no part of it, and not its double."""
    said = 0
    ratios = (2.7, 3.35, 4.6, 6.1, 9.7, 17.3, 27.7)
    for seed, ratio in enumerate(ratios):
        phase_s = random.Random(seed).uniform(0, period_s)
        found = find_stripes(striped(period_s, duty, period_s / ratio, phase_s=phase_s, seed=seed))
        if found is None:
            continue
        said += 1
        assert found.period_s == pytest.approx(period_s, rel=0.02), (ratio, found)
        away = ((found.first_s - phase_s) / period_s + 0.5) % 1.0 - 0.5
        assert abs(away) * ratio <= 1.0 or abs(away) <= 0.1, (ratio, away, found)
        assert 0 <= found.first_s < found.period_s
    assert said >= len(ratios) - 2


@pytest.mark.parametrize("duty", [0.05, 0.2, 0.5])
def test_of_periods_that_are_too_short_for_the_columns_nothing_is_said(duty: float) -> None:
    """They would look like longer ones: a stripe every 0.9 columns like one every nine."""
    assert 1 / MOST_FREQUENCY > 2
    for seed, ratio in enumerate((0.27, 0.45, 0.6, 0.77, 0.9, 1.1, 1.3, 1.55, 1.7, 1.9)):
        assert find_stripes(striped(1.0, duty, 1.0 / ratio, seed=seed)) is None, ratio


def periodic(period_s: float, length_s: float, share: float, *, seed: int = 1, burst: bool = False) -> Grid:
    """Slow operations among others for `length_s` of each period; `burst`: some more for a second between two of them."""
    chance = random.Random(seed)
    events = []
    for _ in range(COLUMNS * 200):
        at = chance.uniform(0, COLUMNS)
        slow = (at - 3) % period_s < length_s and chance.random() < share
        slow = slow or (burst and 68 <= at < 69 and chance.random() < 0.3)
        value = chance.uniform(1.5e6, 3e6) if slow else chance.lognormvariate(math.log(350e3), 0.25)
        events.append((at, value))
    return counted(events, logarithmic(1e4, 1e7, 80), COLUMNS)


@pytest.mark.parametrize(("length_s", "share"), [(0.2, 0.5), (0.2, 1.0), (1.0, 0.2), (1.0, 0.5), (1.0, 1.0)])
def test_stripes_of_few_operations_are_a_period_and_no_bursts(length_s: float, share: float) -> None:
    """A second in ten with every other operation slow was twelve bursts, ten seconds apart."""
    found = examine(periodic(10, length_s, share))
    assert found.stripes is not None and found.stripes.period_s == pytest.approx(10, rel=0.01)
    assert found.stripes.length_s <= 2 and found.bursts.found == ()


def test_a_burst_between_stripes_is_a_burst() -> None:
    found = examine(periodic(10, 1.0, 0.2, burst=True))
    assert found.stripes is not None and found.stripes.period_s == pytest.approx(10, rel=0.01)
    assert [round(burst.begin_s) for burst in found.bursts.found] == [68]


def test_bursts_at_any_times_are_no_stripes() -> None:
    said = 0
    for seed in range(draws(60)):
        chance = random.Random(seed)
        bursts = [(chance.uniform(0, 118), chance.uniform(0.5, 2.5)) for _ in range(chance.randint(3, 9))]
        events = []
        for _ in range(8000):
            at = chance.uniform(0, COLUMNS)
            slow = any(begin <= at < begin + length for begin, length in bursts) and chance.random() < 0.3
            value = chance.uniform(1.5e6, 3e6) if slow else chance.lognormvariate(math.log(350e3), 0.25)
            events.append((at, value))
        said += examine(counted(events, logarithmic(1e4, 1e7, 80), COLUMNS)).stripes is not None
    assert said <= 1
