"""Modes of a grid's values: how many there must be, where, and whether they move.

The values are taken on a logarithmic axis. The string through a tube of half width `radius` around the distribution
function has the
fewest modes that the data allow (`taut_string`); the radius is what the uniform distribution, the least favourable one
with a single
mode, stays within in 99 of 100 samples of this size. So of data with one mode at most 1 in 100 is said to have more.
Below `LEAST_SHARE`
the radius does not go: with millions of events everything is significant, and not everything is worth a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise

from iodyno.analysis.chance import kendall_p
from iodyno.analysis.heat_map.columns import columns_of, median
from iodyno.analysis.heat_map.resolution import Resolution, resolutions_of
from iodyno.analysis.heat_map.taut_string import Piece, dip, peaks, taut_string
from iodyno.core.grid import Grid
from iodyno.core.quantity import counted

Resolutions = Callable[[], Sequence[Resolution]]
ALPHA = 0.01
"""Level of every finder (chosen: five of them look at a grid, so that one in twenty of plain grids has a false finding)."""
CRITICAL = ((0.5, 0.42), (0.2, 0.54), (0.1, 0.61), (0.05, 0.67), (0.01, 0.81), (0.001, 0.97))
"""(chance, sqrt(n) x dip) of the uniform distribution, ends held: Brownian bridges of 800 (500 draws) and 200 knots
(4000), the greater of both."""
LEAST_SHARE = 0.005
"""Half of the share of events that a mode must stand out with (chosen: 1 in 100 is what a person calls a mode, not a tail)."""
LEAST_EVENTS = 100
"""Fewer events are not tested (chosen: two equal modes far apart are found from some 60 on)."""
WINDOWS, LEAST_WINDOWS, WINDOW_EVENTS = 12, 7, 200
"""Parts of the time in which modes are looked for anew; what a trend needs; events in one (chosen: with 7 the exact test
reaches 1 in 2500)."""
FINEST = 128
"""Rows by value an octave, as the reducer and the agents have them."""
DIP_WITHIN = 0.002
"""Precision of a dip, as a part of it (chosen: its chance is printed with two digits)."""
TICK = 0.3
"""Part of a row's events that may belong to the next one (chosen: half a tick, where a row has some two of them)."""
FINE_ROW = 1 / 50
"""Height of such rows, as a part of their values (chosen: above the 1.6 % of rows by value that are joined in pairs)."""
MOST_ROWS = 512
"""Rows by value that modes are looked for in (chosen: a string through them is pulled in a few milliseconds)."""
LEAST_MOVE_RATIO = 1.1
"""A mode that moves by less over the whole time does not move (chosen: what is seen in a picture)."""


@dataclass(frozen=True)
class Mode:
    """A place where values are frequent: the median of the events at its top, from where to where it reaches, and its
    share of all."""

    value: float
    low: float
    high: float
    share: float


@dataclass(frozen=True)
class Modes:
    """Findings on the modes. `p` is the chance of such a dip under one mode (None: not tested, and `why_not` says why).

    `dip`: the least radius with one mode, or one that tells nothing where the least is below it. `events_needed`: how many
    events would make the dip that is there significant; None where it is, or there is none.
    """

    found: tuple[Mode, ...]
    p: float | None
    dip: float | None
    events: int
    events_needed: int | None
    why_not: str | None = None


@dataclass(frozen=True)
class Movement:
    """A mode that moves: from one value to another over the time looked at, with the chance of such a trend without one."""

    begin_s: float
    end_s: float
    first: float
    last: float
    p: float


def find_modes(
    counts: Sequence[int],
    edges: Sequence[float],
    *,
    log: bool = True,
    resolutions: Resolutions | None = None,
    tested: bool = True,
) -> Modes:
    """The modes of counts a row, with the rows' edges; on a plain axis where `log` is off. Values below zero are not
    taken on a logarithmic axis, but as they are. `resolutions`: those that the values may have, where rows do not show them.
    `tested`: the chance of such modes is asked for, too."""
    total = sum(counts)
    rows = [row for row, count in enumerate(counts) if count]
    if len(rows) == 0:
        return Modes((), None, None, 0, None, "there is no event")
    if len(rows) == 1:
        low, high = edges[rows[0]], edges[rows[0] + 1]
        only = Mode((low + high) / 2, low, high, 1.0)
        return Modes((only,), None, None, total, None, "all events are in one row")
    if total < LEAST_EVENTS:
        return Modes(
            (),
            None,
            None,
            total,
            LEAST_EVENTS,
            f"{total} events are too few, at least {LEAST_EVENTS} are needed",
        )
    radius = max(_critical(ALPHA) / math.sqrt(total), LEAST_SHARE)

    def pulled(
        resolution: Resolution | None,
    ) -> tuple[list[float], list[float], list[float], list[Piece], list[float]]:
        knots, share = _knots(counts, edges, rows, resolution)
        x = _axis(knots, share) if log else list(knots)
        least = [] if resolution is not None else _unseen(knots, share)
        return knots, share, x, taut_string(x, share, radius, least), least

    knots, share, x, string, least = pulled(None)
    if len(peaks(string)) > 1:
        # There are no more modes than are left when what a resolution explains is taken away.
        # Of as many, those of values that are known exactly are taken.
        each = [
            (pulled(resolution), not resolution.known_step)
            for resolution in (resolutions() if resolutions else resolutions_of(counts, edges))
        ]
        plain = (knots, share, x, string, least), True
        knots, share, x, string, least = min([plain, *each], key=lambda one: (len(peaks(one[0][3])), one[1]))[
            0
        ]
    tops = peaks(string)
    borders = [0]
    for left, right in pairwise(tops):
        valley = min(string[left + 1 : right], key=lambda piece: piece.slope)
        borders.append(_middle(valley.first, valley.last, x))
    borders.append(len(knots) - 1)
    modes = tuple(
        Mode(
            _top(knots, x, share, string[top], first, last),
            knots[first],
            knots[last],
            share[last] - share[first],
        )
        for top, (first, last) in zip(tops, pairwise(borders), strict=True)
    )
    if not tested:
        return Modes(modes, None, None, total, None, "not tested")
    # Below the first of the table the chance is the same.
    found = dip(x, share, least, within=DIP_WITHIN, enough=CRITICAL[0][1] / math.sqrt(total))
    needed = None
    if len(modes) == 1 and found > LEAST_SHARE:
        needed = math.ceil((_critical(ALPHA) / found) ** 2)
    return Modes(modes, p_of_dip(found, total), found, total, needed)


def modes_of(grid: Grid, resolutions: Resolutions | None = None) -> Modes:
    """The modes of a grid: of its events by value where that is known, whatever the rows are, else of its rows.

    Rows by value are 128 an octave, and fewer where they are too many, or where most of them lie alone and no resolution says
    why: values that were rounded to fewer digits are no modes.
    """
    if grid.sub_second or not grid.by_value:
        return find_modes(grid.row_totals(), grid.edges, log=not grid.sub_second)
    an_octave = FINEST
    counts, edges = _rows_by_value(grid.by_value, an_octave)
    resolutions = resolutions or resolutions_in(grid)
    while an_octave > 8:
        occupied = sum(1 for count in counts if count)
        alone = 3 * occupied < 2 * len(counts) and sum(counts) >= 5 * occupied
        if len(counts) <= MOST_ROWS and (not alone or (resolutions and resolutions())):
            break
        an_octave //= 2
        counts, edges = _rows_by_value(grid.by_value, an_octave)
    modes = find_modes(counts, edges, resolutions=resolutions)
    zeros = counts[0] if edges[0] == 0 else 0
    if modes.found and 2 * zeros > modes.found[0].share * modes.events:
        # Its row is as high as the axis asks for, and holds zeros alone.
        return replace(modes, found=(replace(modes.found[0], value=0.0), *modes.found[1:]))
    return modes


def resolutions_in(grid: Grid) -> Resolutions | None:
    """The resolutions that the values of a grid may have, by their finest rows; found when asked for first."""
    return cache(lambda: resolutions_of(*_rows_by_value(grid.by_value, FINEST))) if grid.by_value else None


@lru_cache(maxsize=4)
def _rows_by_value(
    parts: tuple[tuple[float, float, int], ...], an_octave: int
) -> tuple[Sequence[int], Sequence[float]]:
    """Counts and edges of rows that hold the parts, so many equal ones from a power of two to the next, with an empty row where
    two do not touch. A part that is wider has a row of its own. From the least value to the greatest.

    >>> _rows_by_value(((0.0, 0.0, 5), (8.5, 8.53, 2), (9.0, 9.03, 3), (16.0, 16.0, 1)), 8)
    ([5, 0, 2, 3, 0, 1], [0.0, 4.0, 8.0, 9.0, 10.0, 15.96875, 16.03125])
    """
    cells: dict[tuple[float, float], int] = {}
    begin, end, cell = 0.0, 0.0, (0.0, 0.0)
    for low, high, count in parts:
        if begin <= low < end and high <= end and cell == (begin, end):
            cells[cell] += count  # as the part before it
            continue
        mantissa, exponent = math.frexp(low)
        place = math.floor(mantissa * 2 * an_octave)
        begin = math.ldexp(place / (2 * an_octave), exponent)
        end = math.ldexp((place + 1) / (2 * an_octave), exponent)
        cell = (low, high) if high > end else (begin, end)
        cells[cell] = cells.get(cell, 0) + count
    least, greatest = parts[0][0], parts[-1][1]
    rows = [(max(low, least), min(high, greatest), count) for (low, high), count in cells.items()]
    if least == 0 and len(rows) > 1:
        rows[0] = (0.0, rows[1][0] / 2, rows[0][2])
    low, high, count = rows[-1]
    if low == high:
        # The greatest value is the least of its row: it lies in the middle of one of any height, or in the row below.
        rows.pop()
        if rows and rows[-1][1] == low:
            rows[-1] = (rows[-1][0], high, rows[-1][2] + count)
        else:
            rows.append((low * (1 - 1 / 512), high * (1 + 1 / 512), count))
    counts: list[int] = []
    edges = [rows[0][0]]
    for low, high, count in rows:
        if low > edges[-1]:
            counts.append(0)
            edges.append(low)
        counts.append(count)
        edges.append(high)
    return counts, edges


def find_movements(grid: Grid, resolutions: Resolutions | None = None) -> tuple[Movement, ...]:
    """Modes that move over time: the trend of each over parts of the time, by Mann and Kendall's test.

    Mann, Econometrica 13 (1945) 245; the slope is the median of all pairs (Sen, JASA 63 (1968) 1379). Modes are those that most
    parts have in the same number, in ascending order.
    """
    resolutions = resolutions or resolutions_in(grid)
    windows = _parts(grid)
    if len(windows) < LEAST_WINDOWS:
        return ()
    parts = [
        (middle, find_modes(counts, grid.edges, resolutions=resolutions, tested=False).found)
        for middle, counts in windows
    ]
    usual = sorted(len(modes) for _, modes in parts)[len(parts) // 2]
    same = [(at, modes) for at, modes in parts if len(modes) == usual]
    if len(same) < LEAST_WINDOWS or usual == 0:
        return ()
    found = []
    second = grid.column_ns / 1e9
    for number in range(usual):
        track = [(at, modes[number].value) for at, modes in same if modes[number].value > 0]
        if len(track) < LEAST_WINDOWS:
            continue
        pairs = [(a, b) for n, a in enumerate(track) for b in track[n + 1 :]]
        s = sum((b[1] > a[1]) - (b[1] < a[1]) for a, b in pairs)
        p = min(1.0, usual * kendall_p(s, len(track)))
        slope = median(math.log(b[1] / a[1]) / (b[0] - a[0]) for a, b in pairs)
        centre = median(math.log(value) - slope * at for at, value in track)
        first_value, last_value = (math.exp(centre + slope * at) for at in (track[0][0], track[-1][0]))
        height = _row_height(grid.edges, first_value)
        if p <= ALPHA and abs(last_value - first_value) > height:
            ratio = max(first_value / last_value, last_value / first_value)
            if ratio >= LEAST_MOVE_RATIO:
                begin = grid.begin_ns / 1e9
                found.append(
                    Movement(
                        begin + track[0][0] * second,
                        begin + track[-1][0] * second,
                        first_value,
                        last_value,
                        p,
                    )
                )
    return tuple(found)


def _parts(grid: Grid) -> list[tuple[float, list[int]]]:
    """The parts of the time with enough events: the middle of each in columns, and how many events each row has in it."""
    parts = []
    columns = columns_of(grid)
    width = grid.columns / WINDOWS
    for part in range(WINDOWS if grid.columns >= WINDOWS else grid.columns):
        first, last = (
            (round(part * width), round((part + 1) * width)) if grid.columns >= WINDOWS else (part, part + 1)
        )
        counts = [0] * grid.rows
        for cells in columns[first:last]:
            for row, count in cells:
                counts[row] += count
        if sum(counts) >= WINDOW_EVENTS:
            parts.append(((first + last) / 2, counts))
    return parts


def why_no_movements(grid: Grid) -> str:
    """Why no modes that move are looked for in a grid; empty where they are."""
    if grid.columns < LEAST_WINDOWS:
        return f"{counted(grid.columns, 'column')}, {LEAST_WINDOWS} are needed"
    parts = len(_parts(grid))
    if parts >= LEAST_WINDOWS:
        return ""
    return f"{counted(parts, 'part')} of the time with {WINDOW_EVENTS} events, {LEAST_WINDOWS} are needed"


def p_of_dip(found: float, events: int) -> float:
    """The chance of a dip of at least `found` in `events` of the uniform distribution; from the table, between its ends."""
    scaled = found * math.sqrt(events)
    if scaled <= CRITICAL[0][1]:
        return 0.5
    for (chance, low), (less, high) in pairwise(CRITICAL):
        if scaled <= high:
            return float(chance * (less / chance) ** ((scaled - low) / (high - low)))
    return CRITICAL[-1][0]


def _critical(chance: float) -> float:
    return next(value for level, value in CRITICAL if level == chance)


def _knots(
    counts: Sequence[int], edges: Sequence[float], rows: Sequence[int], resolution: Resolution | None
) -> tuple[list[float], list[float]]:
    """Edges of the occupied rows with the share of events below each.

    Where values have a resolution, the edges are put on the borders of its buckets, with as many events below: the empty rows
    between two values are no valleys, and of two rows as wide as a bucket and a half one holds one of them and one two.
    """
    first, last = rows[0], rows[-1] + 1
    knots = list(edges[first : last + 1])
    if resolution is not None:
        # A row of zeros keeps its lower edge. What equals an edge is above it, but for the last one of all.
        closed = last == len(edges) - 1
        knots = [
            knots[0] if knots[0] <= 0 else resolution.bottom(knots[0]),
            *(resolution.border(edge) for edge in knots[1:-1]),
            resolution.top(knots[-1]) if closed else resolution.border(knots[-1]),
        ]
    total, seen = sum(counts), 0
    below = [0.0]
    for count in counts[first:last]:
        seen += count
        below.append(seen / total)
    # Of edges that fell together the last has the share below.
    share = dict(zip(knots, below, strict=True))
    return list(share), list(share.values())


def _unseen(knots: Sequence[float], share: Sequence[float]) -> list[float]:
    """Return the error of shares at the edges of fine rows: a clock whose ticks are nearer than the rows are high, so that they
    are not seen, puts one more or less of them into a row. Wider rows are known by their ends."""
    parts = [
        TICK * (high - low) if b - a <= FINE_ROW * b else 0.0
        for (a, b), (low, high) in zip(pairwise(knots), pairwise(share), strict=True)
    ]
    return [max(below, above) for below, above in pairwise([0.0, *parts, 0.0])]


def _axis(knots: Sequence[float], share: Sequence[float]) -> list[float]:
    """The knots on a logarithmic axis. Rows that begin at 0 have no first place there: the row is given as much room as makes
    it no denser than the one above it. How its events lie in it is not known; squeezed together, they would be a mode that
    nobody has seen, as of exponential times, of which most lie in the first plain row.
    """
    if knots[0] < 0:
        return list(knots)
    if knots[0] > 0:
        return [math.log(knot) for knot in knots]
    x = [math.log(knot) for knot in knots[1:]]
    first = x[0] - math.log(2)
    if len(x) > 1 and share[2] > share[1]:
        first = min(first, x[0] - (share[1] - share[0]) * (x[1] - x[0]) / (share[2] - share[1]))
    return [first, *x]


def _middle(first: int, last: int, x: Sequence[float]) -> int:
    """The knot that is nearest to halfway between two."""
    wanted = (x[first] + x[last]) / 2
    return min(range(first, last + 1), key=lambda knot: abs(x[knot] - wanted))


def _top(
    knots: Sequence[float], x: Sequence[float], share: Sequence[float], piece: Piece, first: int, last: int
) -> float:
    """The median of the events where a mode is more than half as dense as at its steepest piece, within its borders.

    The piece alone would be one row, and a mode on the border of two rows would be put into the middle of one.
    """

    def dense(at: int) -> bool:
        return (share[at + 1] - share[at]) / (x[at + 1] - x[at]) >= piece.slope / 2

    low, high = piece.first, piece.last
    while low > first and dense(low - 1):
        low -= 1
    while high < last and dense(high):
        high += 1
    return _median(knots, share, low, high)


def _median(knots: Sequence[float], share: Sequence[float], first: int, last: int) -> float:
    """The median of the events between two knots."""
    wanted = (share[first] + share[last]) / 2
    for at in range(first, last):
        if share[at + 1] >= wanted and share[at + 1] > share[at]:
            part = (wanted - share[at]) / (share[at + 1] - share[at])
            return knots[at] + (knots[at + 1] - knots[at]) * part
    return (knots[first] + knots[last]) / 2


def _row_height(edges: Sequence[float], value: float) -> float:
    for low, high in pairwise(edges):
        if low <= value <= high:
            return high - low
    return edges[-1] - edges[-2]
