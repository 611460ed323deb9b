"""Findings in a grid, in sentences; every number with its unit and every finding with its chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iodyno.analysis.heat_map.bursts import Burst
from iodyno.analysis.heat_map.changes import Change
from iodyno.analysis.heat_map.findings import Findings
from iodyno.analysis.heat_map.modes import ALPHA, LEAST_SHARE, Modes, Movement
from iodyno.analysis.heat_map.stripes import MOST_COLUMNS, MOST_FREQUENCY, Stripes
from iodyno.core.grid import Grid
from iodyno.core.quantity import counted
from iodyno.report.heat_map.axis import at_most, show, unit_of, whole, with_unit, zero_of

if TYPE_CHECKING:
    # What reads a store is heavy, and the heat map of a trace needs none of it.
    from iodyno.analysis.heat_map.points import Worst

_BURSTS, _CHANGES = 4, 4
"""Of each, so many are said one by one (chosen: a paragraph)."""


def sentences(grid: Grid, found: Findings, *, zero_ns: int | None = None, absent: bool = True) -> list[str]:
    """State the findings, the most telling first; unless `absent` is off, the last sentence says what was looked for and not
    found, and how many events it would have taken to tell.

    Times count from `zero_ns` of the grid's clock (None: as its time axis does).
    """
    when = _Clock(grid, zero_ns)
    named = ", all in the JSON" if absent else ""
    said = [_modes(grid, found.modes, absent=absent)]
    said += [movement_sentence(grid, movement, when) for movement in found.movements]
    if found.stripes is not None:
        said.append(stripes_sentence(grid, found.stripes, when))
    above = found.bursts.above or 0.0
    said += [burst_sentence(grid, burst, above, when) for burst in found.bursts.found[:_BURSTS]]
    if len(found.bursts.found) > _BURSTS:
        said.append(f"And {counted(len(found.bursts.found) - _BURSTS, 'more such burst')}{named}.")
    said += [change_sentence(grid, change, when) for change in found.changes[:_CHANGES]]
    if len(found.changes) > _CHANGES:
        said.append(f"And {counted(len(found.changes) - _CHANGES, 'more change point')}{named}.")
    # The search for stripes ends at so many (groups of) columns a period: what is shorter is not said to be absent.
    shortest = with_unit(-(-grid.columns // MOST_COLUMNS) * grid.column_ns / MOST_FREQUENCY, "ns")
    missing, untold = [], []
    for key, name, more, there in (
        ("moving_modes", "a moving mode", "", found.movements),
        (
            "stripes",
            "stripes",
            f" (of a period of {shortest} or longer; shorter ones cannot be told)",
            found.stripes,
        ),
        ("bursts", "bursts of outliers", "", found.bursts.found),
        ("change_points", "change points", "", found.changes),
    ):
        if key in found.not_looked_for:
            untold.append(f"{name} ({found.not_looked_for[key]})")
        elif not there:
            missing.append(name + more)
    if missing and absent:
        said.append(f"Looked for and not found (level {ALPHA}): {', '.join(missing)}.")
    if untold and absent:
        said.append(f"Not looked for: {', '.join(untold)}.")
    return said


class _Clock:
    """Says times of a grid as its time axis does, or from another zero."""

    def __init__(self, grid: Grid, zero_ns: int | None = None) -> None:
        span = grid.columns * grid.column_ns
        self._zero_ns = zero_of(grid.begin_ns, span) if zero_ns is None else zero_ns
        self._unit = unit_of("ns", span)

    def __call__(self, at_s: float) -> str:
        return f"{show(at_s * 1e9 - self._zero_ns, self._unit, 4)} {self._unit.name}"


def movement_sentence(grid: Grid, movement: Movement, when: Callable[[float], str]) -> str:
    """`A mode moves: at 0.9 ms at 5 s, at 1.5 ms at 115 s (p < 0.001).` `when` says a time in seconds."""
    first, last = with_unit(movement.first, grid.unit), with_unit(movement.last, grid.unit)
    return f"A mode moves: at {first} at {when(movement.begin_s)}, at {last} at {when(movement.end_s)} ({_p(movement.p)})."


def stripes_sentence(grid: Grid, stripes: Stripes, when: Callable[[float], str]) -> str:
    """`Values above 2 ms come back every 5 s, ...`"""
    times = f", {stripes.contrast:.2g} times as often as between" if stripes.contrast is not None else ""
    return (
        f"Values above {with_unit(stripes.above, grid.unit)} come back every {with_unit(stripes.period_s * 1e9, 'ns')}{times},"
        f" first at about {when(stripes.first_s)} ({_p(stripes.p)})."
    )


def burst_sentence(grid: Grid, burst: Burst, above: float, when: Callable[[float], str]) -> str:
    """`A burst from 3 s to 4 s: 90 events above 2 ms, where 1.5 were to be expected (p < 0.001).`"""
    return (
        f"A burst from {when(burst.begin_s)} to {when(burst.end_s)}: {whole(burst.outliers)} events above"
        f" {with_unit(above, grid.unit)}, where {_expected(burst.expected)} were to be expected ({_p(burst.p)})."
    )


def change_sentence(grid: Grid, change: Change, when: Callable[[float], str]) -> str:
    """`The p99 changes at 3 s from 1 ms to 2 ms (p < 0.001).`"""
    before, after = (
        f"{with_unit(value, '')} events/s" if change.of == "rate" else at_most(value, grid.edges, grid.unit)
        for value in (change.before, change.after)
    )
    return f"The {change.of} changes at {when(change.at_s)} from {before} to {after} ({_p(change.p)})."


def worst_sentence(worst: Worst, place: str) -> str:
    """The finding that matters most of a campaign, at the point called `place` ("" where there is one), in seconds since the
    trials began."""
    of, grid, found = worst.of, worst.of.grid, worst.of.found
    when = _Clock(grid, 0)
    texts = {
        "changes": lambda: change_sentence(grid, found.changes[worst.place], when),
        "movements": lambda: movement_sentence(grid, found.movements[worst.place], when),
        "bursts": lambda: burst_sentence(
            grid, found.bursts.found[worst.place], found.bursts.above or 0.0, when
        ),
        "stripes": lambda: stripes_sentence(grid, found.stripes, when) if found.stripes else "",
        "modes": lambda: _modes(grid, found.modes),
    }
    text = texts[worst.kind]()
    where = f", at {place}" if place else ""
    whose = f"the {of.beside}'s " if of.beside else ""
    return (
        f"Averages hide this of {whose}{of.operation} ({of.clock} time{where}): {text[0].lower()}{text[1:]}"
    )


def _modes(grid: Grid, modes: Modes, *, absent: bool = True) -> str:
    if modes.why_not is not None:
        return f"Modes: not tested, {modes.why_not}."
    if not absent and len(modes.found) == 1:
        return f"One mode, at {with_unit(modes.found[0].value, grid.unit)}."
    beyond = 0 if grid.by_value and not grid.sub_second else sum(grid.over) + sum(grid.under)
    beside = f" (without the {whole(beyond)} beyond the rows)" if beyond else ""
    if len(modes.found) <= 1:
        at = f" at {with_unit(modes.found[0].value, grid.unit)}" if modes.found else ""
        needed = (
            f"; {whole(modes.events_needed)} events would be needed for the dip that is there to tell"
            if modes.events_needed is not None
            else ""
        )
        return f"One mode{at}: {whole(modes.events)} events{beside} show no second one with 1 % of them or more{needed}."
    parts = [f"{with_unit(mode.value, grid.unit)} ({mode.share:.0%} of events)" for mode in modes.found]
    p = "" if modes.p is None else f"; one mode alone: {_p(modes.p)}, dip test"
    return f"{_NUMBERS.get(len(parts), str(len(parts)))} modes: {', '.join(parts[:-1])} and {parts[-1]}{p}{beside}."


_NUMBERS = {2: "Two", 3: "Three", 4: "Four", 5: "Five", 6: "Six"}
assert LEAST_SHARE * 2 == 0.01, "the sentence of one mode says 1 %"


def _expected(count: float) -> str:
    return f"{count:.2g}" if count < 100 else whole(round(count))


def _p(chance: float) -> str:
    return "p < 0.001" if chance < 0.001 else f"p = {chance:.2g}" if chance > 0.001 else "p <= 0.001"
