"""What is found in a grid, in sentences; every number with its unit and every finding with its chance."""

from __future__ import annotations

from iodyno.analysis.heat_map.findings import Findings
from iodyno.analysis.heat_map.modes import ALPHA, LEAST_SHARE, Modes
from iodyno.core.grid import Grid
from iodyno.report.heat_map.axis import show, unit_of, whole, with_unit, zero_of

_BURSTS, _CHANGES = 4, 4
"""Of each, so many are said one by one (chosen: a paragraph)."""


def sentences(grid: Grid, found: Findings) -> list[str]:
    """What is found, the most telling first; what was looked for and not found in the last one."""
    said = [_modes(grid, found.modes)]
    for movement in found.movements:
        first, last = with_unit(movement.first, grid.unit), with_unit(movement.last, grid.unit)
        begin, end = _time(grid, movement.begin_s), _time(grid, movement.end_s)
        said.append(f"A mode moves: at {first} at {begin}, at {last} at {end} ({_p(movement.p)}).")
    if found.stripes is not None:
        stripes = found.stripes
        times = f", {stripes.contrast:.2g} times as often as between" if stripes.contrast is not None else ""
        said.append(
            f"Values above {with_unit(stripes.above, grid.unit)} come back every"
            f" {with_unit(stripes.period_s * 1e9, 'ns')}{times},"
            f" first at about {_time(grid, stripes.first_s)} ({_p(stripes.p)})."
        )
    for burst in found.bursts.found[:_BURSTS]:
        said.append(
            f"A burst from {_time(grid, burst.begin_s)} to {_time(grid, burst.end_s)}: {whole(burst.outliers)} events above"
            f" {with_unit(found.bursts.above or 0.0, grid.unit)}, where {burst.expected:.2g} were to be expected ({_p(burst.p)})."
        )
    if len(found.bursts.found) > _BURSTS:
        said.append(f"{len(found.bursts.found) - _BURSTS} more bursts are in the JSON.")
    for change in found.changes[:_CHANGES]:
        unit = grid.unit if change.of != "rate" else ""
        per = " events/s" if change.of == "rate" else ""
        before, after = (f"{with_unit(value, unit)}{per}" for value in (change.before, change.after))
        said.append(
            f"The {change.of} changes at {_time(grid, change.at_s)} from {before} to {after} ({_p(change.p)})."
        )
    if len(found.changes) > _CHANGES:
        said.append(f"{len(found.changes) - _CHANGES} more change points are in the JSON.")
    missing = [
        name
        for name, there in (
            ("a moving mode", found.movements),
            ("stripes", found.stripes),
            ("bursts of outliers", found.bursts.found),
            ("change points", found.changes),
        )
        if not there
    ]
    if missing:
        said.append(f"Looked for and not found (level {ALPHA}): {', '.join(missing)}.")
    return said


def _modes(grid: Grid, modes: Modes) -> str:
    if modes.why_not is not None:
        return f"Modes: not tested, {modes.why_not}."
    beyond = sum(grid.over) + sum(grid.under)
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


def _time(grid: Grid, at_s: float) -> str:
    span = grid.columns * grid.column_ns
    unit = unit_of("ns", span)
    return f"{show(at_s * 1e9 - zero_of(grid.begin_ns, span), unit, 4)} {unit.name}"


def _p(chance: float) -> str:
    return "p < 0.001" if chance < 0.001 else f"p = {chance:.2g}" if chance > 0.001 else "p <= 0.001"
