"""Periodic stripes: whether high values come back at a fixed time.

The share of high values a column is folded at many trial periods, and the period is that at which one box a period, high inside
and low outside, fits best (Kovacs, Zucker and Mazeh, Astronomy and Astrophysics 391 (2002) 369): at a multiple of the true period
the box misses every other stripe, and at a part of it it holds what lies between. A periodogram would spread narrow stripes over
harmonics. Whether there is a period at all is an analysis of variance of columns, box against the rest, and a binomial test of
events; the greater chance counts, times the number of boxes and periods tried. Most cycles must have the stripe, so that one
burst is none.

Columns are averages over their width: a period of less than two of them looks like a longer one. Such a false period has high
values in more than half of it (all columns but a few hold a stripe), or hardly more of them than between (each column holds one,
and some two): then nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from iodyno.analysis.chance import binomial_tail, f
from iodyno.analysis.heat_map.columns import columns_of
from iodyno.analysis.heat_map.modes import ALPHA
from iodyno.core.grid import Grid
from iodyno.core.quantity import counted

MOST_COLUMNS = 400
"""More columns are added up in groups first (chosen: the search takes columns squared, and must not be noticed)."""
LEAST_COLUMNS, LEAST_CYCLES = 24, 4
"""Columns that are needed at all; how often a stripe must come (chosen: three could be anything that came thrice)."""
CYCLES_SHARE, LEAST_EXCESS = 0.8, 0.3
"""So many of the cycles must have so much of the excess of the highest one (chosen: four of five; a burst is one)."""
LEAST_FILLED = 0.8
"""Share of the columns that must hold an event (chosen: what is empty says nothing of high values)."""
COARSE, FINE, FINER = 16, 48, 12
"""Bins of a period while periods are looked for and when one is refined; steps of its frequency then, to either side (chosen)."""
BOXES = 256
"""Boxes of a period that the chance is multiplied by (chosen: begins and widths that are a quarter of the width apart)."""
WIDTHS = (1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 21, 24, 27, 30, 36)
"""Bins that a box may be wide."""
TOPS = 6
"""Best periods that are refined (chosen)."""
MOST_FREQUENCY = 0.4
"""Periods a column at most (chosen: nearer to a half a period of less than two columns cannot be told from one of more)."""
MOST_WIDTH, LEAST_CONTRAST = 0.6, 2.5
"""Largest share of a period that a stripe may be, and least ratio of its high values to those outside: else it may be one of less
than two columns (simulated: tests/unit/test_stripes.py)."""
HIGH_SHARE = 0.10
"""Share of the events that are high: the upper tenth (chosen)."""


@dataclass(frozen=True)
class Stripes:
    """High values that come back every `period_s` for `length_s`: what they begin from, when in the trace first, how much of them
    is in phase.

    `contrast`: share of high values in the stripe over that outside it; None where outside there is none.
    """

    period_s: float
    length_s: float
    first_s: float
    above: float
    contrast: float | None
    p: float

    def hold(self, at_s: float) -> bool:
        """Tell whether a time lies in one of them."""
        return (at_s - self.first_s) % self.period_s < self.length_s


def find_stripes(grid: Grid, without: Collection[int] = (), share: float = HIGH_SHARE) -> Stripes | None:
    """The most significant period of the grid, when there is one. Columns in `without` are taken as usual ones: those of
    bursts. `share`: how many of the values are high."""
    counts = _counts(grid, without, share)
    if isinstance(counts, str):
        return None
    border, highs, alls = counts
    group = -(-grid.columns // MOST_COLUMNS)
    usual = sum(highs) / sum(alls)
    series = [h / n if n else usual for h, n in zip(highs, alls, strict=True)]
    best = _best_box(series)
    if best is None:
        return None
    box, p, trials = best
    inside, outside, p_of_events = _shares(highs, alls, box)
    p = max(p, min(1.0, p_of_events * trials))
    if p > ALPHA or inside < LEAST_CONTRAST * outside:
        return None
    column_s = group * grid.column_ns / 1e9
    return Stripes(
        column_s / box.frequency,
        column_s * box.width / box.frequency,
        grid.begin_ns / 1e9 + column_s * box.begin / box.frequency,
        grid.edges[border],
        inside / outside if outside else None,
        p,
    )


def why_no_stripes(grid: Grid) -> str:
    """Why no stripes are looked for in a grid; empty where they are."""
    counts = _counts(grid, (), HIGH_SHARE)
    return counts if isinstance(counts, str) else ""


def _counts(grid: Grid, without: Collection[int], share: float) -> tuple[int, list[int], list[int]] | str:
    """The row that high values begin at, how many of them (a group of) columns have, and how many events; or why not."""
    if grid.columns < LEAST_COLUMNS:
        return f"{counted(grid.columns, 'column')}, {LEAST_COLUMNS} are needed"
    border = high_row(grid, share)
    if border is None:
        return f"more than {share:.0%} of the events lie in the highest row"
    high = list(grid.over)
    for column, cells in enumerate(columns_of(grid)):
        high[column] += sum(count for row, count in cells if row >= border)
    totals = list(grid.column_totals())
    for column in without:
        high[column] = totals[column] = 0
    group = -(-grid.columns // MOST_COLUMNS)
    highs, alls = _grouped(high, group), _grouped(totals, group)
    if len(alls) < LEAST_COLUMNS or sum(highs) < LEAST_COLUMNS:
        return f"{counted(sum(highs), 'high value')}, {LEAST_COLUMNS} are needed"
    if sum(1 for n in alls if n) < LEAST_FILLED * len(alls):
        return f"more than {1 - LEAST_FILLED:.0%} of the columns are empty"
    return border, highs, alls


def periods_tried(grid: Grid) -> int:
    """Return the number of periods that a search tries."""
    return len(_frequencies(-(-grid.columns // -(-grid.columns // MOST_COLUMNS))))


def high_row(grid: Grid, share: float) -> int | None:
    """The lowest row that no more than `share` of the events lie in or above; None where there is none such."""
    totals = grid.row_totals()
    above, everything = sum(grid.over), sum(grid.column_totals())
    found = None
    for row in range(grid.rows - 1, -1, -1):
        above += totals[row]
        if above > share * everything:
            break
        if above:
            found = row
    return found


def _grouped(values: Sequence[int], group: int) -> list[int]:
    return [sum(values[at : at + group]) for at in range(0, len(values), group)]


def _without_trend(series: Sequence[float]) -> list[float]:
    """Less the mean over the longest period around: what drifts is no stripe, and what is shorter stays as it is."""
    half = max(1, round(len(series) / LEAST_CYCLES / 2))
    sums = [0.0, *accumulate(series)]
    n = len(series)
    flat = []
    for at, value in enumerate(series):
        first, last = max(0, at - half), min(n, at + half + 1)
        flat.append(value - (sums[last] - sums[first]) / (last - first))
    return flat


@dataclass(frozen=True)
class _Box:
    """Box of a search: the variance that it explains, its frequency in 1 / column, and its begin and width in periods."""

    explained: float
    frequency: float
    begin: float
    width: float

    def holds(self, column: int) -> bool:
        """Tell whether the middle of a column lies in it."""
        return ((column + 0.5) * self.frequency - self.begin) % 1.0 < self.width


def _best_box(series: Sequence[float]) -> tuple[_Box, float, int] | None:
    """The box that fits best, the chance of it, corrected for all that were tried, and how many these are."""
    n = len(series)
    # The root of a count has the same noise whatever the count is.
    roots = [math.sqrt(value) for value in series]
    flat = _without_trend(roots)
    mean = sum(flat) / n
    flat = [value - mean for value in flat]
    frequencies = _frequencies(n)
    coarse = [_box(flat, frequency, COARSE).explained for frequency in frequencies]
    tops = [
        at
        for at, value in enumerate(coarse)
        if value >= max(coarse[max(0, at - 1)], coarse[min(at + 1, len(coarse) - 1)])
    ]
    tops.sort(key=lambda at: -coarse[at])
    best = max(
        (_refined(flat, frequencies[at], 1 / (4 * n)) for at in tops[:TOPS]), key=lambda box: box.explained
    )
    unexplained = max(1 - best.explained, 1e-9)
    trials = len(frequencies) * BOXES
    p = min(1.0, f.sf(best.explained / unexplained * (n - 2), 1, n - 2) * trials)
    in_range = best.frequency <= MOST_FREQUENCY and best.width <= MOST_WIDTH
    return (best, p, trials) if in_range and p <= ALPHA and _most_cycles(roots, best) else None


def _frequencies(columns: int) -> list[float]:
    """Those that are tried, in 1 / column: a quarter of what so many columns tell apart, from each to the next."""
    step, least = 1 / (4 * columns), LEAST_CYCLES / columns
    return [least + step * number for number in range(math.floor((0.5 - least) / step + 1e-9) + 1)]


def _refined(values: Sequence[float], frequency: float, step: float) -> _Box:
    """The best box near a frequency: in the middle of those that fit as well, as the ends of a box lie between columns."""
    near = [
        _box(values, frequency + step * part / FINER, FINE)
        for part in range(-FINER, FINER + 1)
        if frequency + step * part / FINER > 0
    ]
    best = max(near, key=lambda box: box.explained)
    as_good = [box.frequency for box in near if box.explained >= 0.98 * best.explained]
    middle = _box(values, sum(as_good) / len(as_good), FINE)
    return middle if middle.explained >= 0.98 * best.explained else best


def _box(values: Sequence[float], frequency: float, bins: int) -> _Box:
    """The box that explains most at one frequency, its ends on `bins` bins of the period. `values` have a mean of zero."""
    sums, numbers = [0.0] * bins, [0] * bins
    phase = frequency / 2
    for value in values:
        at = int(phase % 1.0 * bins)
        sums[at] += value
        numbers[at] += 1
        phase += frequency
    n, total = len(values), sum(value * value for value in values)
    below, counted = [0.0, *accumulate(sums + sums)], [0, *accumulate(numbers + numbers)]
    best, begin, width = 0.0, 0, 1
    for wide in WIDTHS:
        if wide > bins * 0.75:
            break
        for at in range(bins):
            inside = below[at + wide] - below[at]
            if inside > 0:
                m = counted[at + wide] - counted[at]
                fit = inside * inside / (m * (n - m)) if m < n else 0.0
                if fit > best:
                    best, begin, width = fit, at, wide
    return _Box(best * n / total if total else 0.0, frequency, begin / bins, width / bins)


def _most_cycles(values: Sequence[float], box: _Box) -> bool:
    """Tell whether the box of most cycles has a good part of what the highest one has: a burst is in one of them."""
    by_cycle: dict[int, list[float]] = {}
    outside = []
    for column, value in enumerate(values):
        if box.holds(column):
            by_cycle.setdefault(math.floor((column + 0.5) * box.frequency - box.begin), []).append(value)
        else:
            outside.append(value)
    means = [sum(each) / len(each) for each in by_cycle.values()]
    usual = sum(outside) / len(outside) if outside else 0.0
    least = usual + LEAST_EXCESS * (max(means, default=usual) - usual)
    # Of a box that is narrower than a column many cycles have none in it: they have no stripe that is seen.
    return sum(mean > least for mean in means) >= CYCLES_SHARE * math.floor(len(values) * box.frequency)


def _shares(highs: Sequence[int], alls: Sequence[int], box: _Box) -> tuple[float, float, float]:
    """Share of high values inside and outside of the box, and the chance that so many of them are inside: binomial."""
    high, everything = [0, 0], [0, 0]
    for column, (h, n) in enumerate(zip(highs, alls, strict=True)):
        side = 0 if box.holds(column) else 1
        high[side] += h
        everything[side] += n
    inside, outside = (h / n if n else 0.0 for h, n in zip(high, everything, strict=True))
    return inside, outside, binomial_tail(high[0], sum(high), everything[0] / max(1, sum(everything)))
