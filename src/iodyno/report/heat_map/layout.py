"""Layout of a heat map: plot, axes, histogram of the rows, strip of the columns, legend.

Drawn on 900 units by default. Text of 13 units is 6 pixels on a phone, so the SVG makes it larger there and leaves out every
other tick (`spare`): the places are the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from iodyno.core.grid import Grid
from iodyno.report.heat_map import axis, colour
from iodyno.report.heat_map.picture import Box, Cells, Overlay, Picture, Stroke, Toggle, Words

OVERLAYS = ("p50", "p99", "p99.9", "max")
"""Lines that can lie over a map, with the style of each in this order."""
_DECADES = 1000
"""Ratio of a logarithmic axis from which on its ticks name their units (chosen: two units are in it then)."""
_LETTER = 0.53
"""Width of a letter in parts of the font's size (chosen: a bit more than system fonts have)."""


@dataclass(frozen=True)
class Look:
    """Contents and size of a picture. Sizes in units of the drawing.

    `box`: a cell's side; None: as the width leaves. `shown`: overlays that are on at first. `marginal`: the histogram beside
    the plot. `strip`: events a column below it. `grid`: lines at the ticks.
    """

    title: str = ""
    label: str = ""
    width: float = 900
    plot_height: float = 380
    box: float | None = None
    colour_scale: str = "log"
    grid: bool = False
    marginal: bool = True
    strip: bool = True
    legend: bool = True
    shown: tuple[str, ...] = ("p50", "p99")
    time_label: str = "time"


@dataclass(frozen=True)
class Frame:
    """Rows as they are drawn: an underflow row below when there is one, then the grid's, then an overflow row when there
    is one."""

    rows: int
    first: int
    """Drawn row of the grid's row 0."""
    over: int | None
    under: int | None


def frame_of(grid: Grid, other: Grid | None = None) -> Frame:
    """The drawn rows of a grid (of both, in a difference)."""
    under = any(grid.under) or (other is not None and any(other.under))
    over = any(grid.over) or (other is not None and any(other.over))
    first = 1 if under else 0
    rows = first + grid.rows + (1 if over else 0)
    return Frame(rows, first, rows - 1 if over else None, 0 if under else None)


def cell_counts(grid: Grid, frame: Frame) -> dict[tuple[int, int], int]:
    """Counts by (column, drawn row), those below and above the rows too."""
    counts = {(column, row + frame.first): count for column, row, count in grid.cells}
    for row, totals in ((frame.under, grid.under), (frame.over, grid.over)):
        if row is not None:
            counts |= {(column, row): count for column, count in enumerate(totals) if count}
    return counts


def place_of(value: float, grid: Grid, frame: Frame) -> float:
    """Return the place of a value in drawn rows from the bottom; beyond the rows in the middle of the row for what is beyond."""
    if value < grid.edges[0]:
        return frame.first - 0.5 if frame.under is not None else float(frame.first)
    if value > grid.edges[-1]:
        return frame.first + grid.rows + (0.5 if frame.over is not None else 0.0)
    low, high = 0, grid.rows
    while high - low > 1:
        middle = (low + high) // 2
        if grid.edges[middle] <= value:
            low = middle
        else:
            high = middle
    bottom, top = grid.edges[low], grid.edges[low + 1]
    return frame.first + low + (value - bottom) / (top - bottom)


def overlays_of(
    grid: Grid, frame: Frame, quantiles: Mapping[str, Sequence[float | None]], shown: Sequence[str]
) -> tuple[Overlay, ...]:
    """Lines of the quantiles (a value a column), each column's at its middle; broken where a column has no event."""
    found = []
    for name, values in quantiles.items():
        runs: list[list[tuple[float, float]]] = [[]]
        for column, value in enumerate(values):
            if value is None:
                runs.append([])
            else:
                runs[-1].append((column, round(place_of(value, grid, frame), 2)))
        style = OVERLAYS.index(name) if name in OVERLAYS else len(OVERLAYS)
        kept = tuple(tuple(run) for run in runs if run)
        found.append(Overlay(name, kept, style, name in shown))
    return tuple(found)


def lay_out(
    grid: Grid,
    quantiles: Mapping[str, Sequence[float | None]],
    look: Look,
    *,
    description: str = "",
    ordered: Sequence[int] | None = None,
) -> Picture:
    """The whole picture of one grid, with the quantiles of `analysis.heat_map.columns.column_quantiles` by name.

    `ordered`: counts of the cells of all maps that share a scale of colours, ascending; None: of this one.
    """
    frame = frame_of(grid)
    counts = cell_counts(grid, frame)
    ordered = sorted(counts.values()) if ordered is None else ordered
    ordered = ordered or [0]
    levels = {
        place: level
        for place, count in counts.items()
        if (level := colour.level_of(count, ordered, look.colour_scale)) is not None
    }
    unit = axis.unit_of(grid.unit, max(abs(grid.edges[0]), abs(grid.edges[-1])))
    said = where_events_are(grid, unit)
    picture, plot = lay_out_axes(grid, frame, look, levels, said, description or summary(grid, unit))
    plot = replace(plot, overlays=overlays_of(grid, frame, quantiles, look.shown))
    picture.shapes.append(plot)
    bottom = picture.height
    if look.marginal:
        _marginal(picture, plot, counts)
    if look.strip:
        bottom = _strip(picture, plot, grid, bottom)
    if look.legend:
        bottom = _legend(picture, plot, ordered, look, bottom)
    picture.height = bottom + 8
    return picture


def lay_out_axes(
    grid: Grid,
    frame: Frame,
    look: Look,
    levels: dict[tuple[int, int], int],
    said: str,
    description: str = "",
) -> tuple[Picture, Cells]:
    """Headings, plate and axes, and the plot of cells that belongs on them, which is not yet drawn; `said` is the second line."""
    right = 132.0 if look.marginal else 18.0
    columns = max(1, grid.columns)
    unit = axis.unit_of(grid.unit, max(abs(grid.edges[0]), abs(grid.edges[-1])))
    # `> 1000` in the letters of a phone.
    left = 84.0 if frame.over is None or len(axis.show(grid.edges[-1], unit)) < 4 else 104.0
    width = look.width - left - right if look.box is None else look.box * columns
    height = look.plot_height if look.box is None else look.box * frame.rows
    total = max(width + left + right, 420.0)
    title = readable(look.title) or default_title(grid)
    picture = Picture(total, 0.0, title, readable(description or said))
    top = _headings(picture, look, grid, unit, said) + 8
    plot = Cells(left, top, width, height, columns, frame.rows, levels)
    picture.shapes.append(Box(left, top, width, height, "plate"))
    rules = _value_axis(picture, plot, grid, frame, unit)
    picture.height = _time_axis(picture, plot, grid, look, rules)
    return picture, plot


def default_title(grid: Grid) -> str:
    """Return the title of a picture that nobody named."""
    return (
        "Events by offset within the second"
        if grid.sub_second
        else f"{(grid.quantity or 'value').capitalize()} heat map"
    )


def summary(grid: Grid, unit: axis.Unit) -> str:
    """One sentence for who cannot see the picture: what is shown, and where every event went."""
    seconds = grid.columns * grid.column_ns / 1e9
    low, high = axis.show(grid.edges[0], unit), axis.show(grid.edges[-1], unit)
    return (
        f"{grid.quantity or 'values'} of {axis.whole(sum(grid.column_totals()))} events over {seconds:.6g} s, in {grid.columns}"
        f" columns and {grid.rows} rows from {low} to {high} {unit.name}; {where_events_are(grid, unit)}"
    )


def where_events_are(grid: Grid, unit: axis.Unit) -> str:
    """State where every event went: `1 000 events: 990 in cells, 10 above 2 ms, none unreadable`."""
    high, low = axis.show(grid.edges[-1], unit), axis.show(grid.edges[0], unit)
    parts = [f"{axis.whole(grid.in_cells())} in cells"]
    if sum(grid.over):
        above = f"{axis.whole(sum(grid.over))} above {high} {unit.name}".rstrip()
        most = grid.greatest
        greatest = f" (up to {axis.with_unit(most, grid.unit)})" if most is not None else ""
        parts.append(above + greatest)
    if sum(grid.under):
        parts.append(f"{axis.whole(sum(grid.under))} below {low} {unit.name}".rstrip())
    if grid.outside:
        parts.append(f"{axis.whole(grid.outside)} outside of the time")
    parts.append(f"{axis.whole(grid.unreadable)} unreadable" if grid.unreadable else "none unreadable")
    events = "1 event" if grid.events == 1 else f"{axis.whole(grid.events)} events"
    return f"{events}: {', '.join(parts)}"


def quantile_of_all(value: float | None, grid: Grid) -> str:
    """A quantile of all events, as `analysis.heat_map.columns.quantile_of_all` has it, with its unit: `350 us`, and where
    values are known by their rows alone `<= 400 us`."""
    if value is None:
        return "–"
    if math.isinf(value):
        return f"{'>' if value > 0 else '<'} {axis.with_unit(grid.edges[-1 if value > 0 else 0], grid.unit)}"
    return axis.with_unit(value, grid.unit) if grid.by_value else axis.at_most(value, grid.edges, grid.unit)


def readable(text: str) -> str:
    """The text on one line, without what no picture can show: control characters, half characters, marks that turn it round."""
    signs = (sign if sign.isprintable() or sign == axis.APART else " " for sign in text)
    return re.sub(" +", " ", "".join(signs)).strip(" ")


def wrapped(text: str, letters: int, most: int) -> list[str]:
    """The text in at most `most` lines of `letters` letters, cut with an ellipsis; long words are broken."""
    lines: list[str] = []
    rest = readable(text)
    while rest and len(lines) < most:
        if len(rest) <= letters:
            lines.append(rest)
            break
        cut = rest.rfind(" ", letters // 2, letters + 1)
        cut = cut if cut > 0 else letters
        lines.append(rest[:cut])
        rest = rest[cut:].lstrip()
        if len(lines) == most:
            lines[-1] = lines[-1][: letters - 1] + "…"
    return lines


def _headings(picture: Picture, look: Look, grid: Grid, unit: axis.Unit, said: str) -> float:
    y, total = 6.0, picture.width
    for line in wrapped(picture.title, int(total / 14.5), 3):
        y += 22
        picture.shapes.append(Words(12, y, line, "head"))
    for line in wrapped(said, int(total / 11.7), 3):
        y += 20
        picture.shapes.append(Words(12, y, line, "soft"))
    y += 24
    label = look.label or ("offset in the second" if grid.sub_second else grid.quantity or "value")
    scale = " (log)" if grid.scale == "log" else ""
    name = f", {unit.name}" if unit.name and not own_units(grid) else ""
    for line in wrapped(f"{label}{name}{scale}", int(total / 14.5), 1):
        picture.shapes.append(Words(12, y, line, "axis", name="value-label"))
    return y


def _value_axis(picture: Picture, plot: Cells, grid: Grid, frame: Frame, unit: axis.Unit) -> list[Stroke]:
    rules = []
    most = max(2, int(plot.height / 44))
    beyond = _beyond(picture, plot, grid, frame, unit)
    for number, tick in enumerate(axis.ticks(grid.edges[0], grid.edges[-1], unit, grid.scale, most)):
        y = plot.y + plot.height * (1 - place_of(tick, grid, frame) / plot.rows)
        picture.shapes.append(Stroke(((plot.x - 5, y), (plot.x, y)), "tick"))
        rules.append(Stroke(((plot.x, y), (plot.x + plot.width, y)), "rule"))
        if all(abs(y - other) > 16 for other in beyond):
            text = axis.with_unit(tick, grid.unit) if own_units(grid) else axis.show(tick, unit)
            picture.shapes.append(
                Words(plot.x - 8, y + 4.5, text, "tick", "end", spare=number % 2 == 1, name="value-tick")
            )
    return rules


def own_units(grid: Grid) -> bool:
    """Tell whether each tick names its own unit: on an axis over decades, where `0.001 ms` would be a microsecond."""
    return (
        grid.scale == "log"
        and grid.unit in ("ns", "bytes")
        and grid.edges[-1] > _DECADES * max(grid.edges[0], 1.0)
    )


def _beyond(picture: Picture, plot: Cells, grid: Grid, frame: Frame, unit: axis.Unit) -> list[float]:
    """The rows for what is below and above the others: a border and a label. Where the labels are."""
    cell, places = plot.height / plot.rows, []
    for row, sign, edge in ((frame.over, ">", grid.edges[-1]), (frame.under, "<", grid.edges[0])):
        if row is None:
            continue
        middle = plot.y + plot.height - (row + 0.5) * cell
        border = middle + (cell / 2 if sign == ">" else -cell / 2)
        picture.shapes.append(Stroke(((plot.x, border), (plot.x + plot.width, border)), "border"))
        shown = axis.with_unit(edge, grid.unit) if own_units(grid) else axis.show(edge, unit)
        text = f"{sign} {shown}"
        picture.shapes.append(Words(plot.x - 8, middle + 4.5, text, "tick", "end", name="value-tick"))
        places.append(middle)
    return places


def _time_axis(picture: Picture, plot: Cells, grid: Grid, look: Look, rules: list[Stroke]) -> float:
    span = grid.columns * grid.column_ns
    begin = grid.begin_ns - axis.zero_of(grid.begin_ns, span)
    end = begin + span
    unit = axis.unit_of("ns", span)
    bottom = plot.y + plot.height
    ticks = axis.ticks(begin, end, unit, "linear", max(2, int(plot.width / 80)))
    for number, tick in enumerate(ticks):
        x = plot.x + plot.width * (tick - begin) / max(1, end - begin)
        picture.shapes.append(Stroke(((x, bottom), (x, bottom + 5)), "tick"))
        picture.shapes.append(
            Words(
                x,
                bottom + 21,
                axis.show(tick, unit, 10),
                "tick",
                "middle",
                spare=number % 2 == 1,
                name="time-tick",
            )
        )
        rules.append(Stroke(((x, plot.y), (x, bottom)), "rule"))
    if look.grid:
        picture.shapes += rules
    picture.shapes.append(
        Words(
            plot.x + plot.width,
            bottom + 44,
            axis.time_title(grid.begin_ns, span, unit.name, look.time_label),
            "axis",
            "end",
            name="time-label",
        )
    )
    return bottom + 50


def _marginal(picture: Picture, plot: Cells, counts: Mapping[tuple[int, int], int]) -> None:
    totals = [0] * plot.rows
    for (_, row), count in counts.items():
        totals[row] += count
    most = max(totals, default=0)
    x, room, cell = plot.x + plot.width + 14, 100.0, plot.height / plot.rows
    picture.shapes.append(Box(x, plot.y, room, plot.height, "plate", "marginal-plate"))
    for row, count in enumerate(totals):
        if count:
            y = plot.y + plot.height - (row + 1) * cell
            picture.shapes.append(Box(x, y, max(1.5, room * count / most), cell, "bar", "marginal"))
    picture.shapes.append(Words(x + room, plot.y - 8, "events a row", "small", "end", name="marginal-label"))
    picture.shapes.append(
        Words(x + room, plot.y + plot.height + 21, compact(most), "tick", "end", name="marginal-most")
    )


def _strip(picture: Picture, plot: Cells, grid: Grid, top: float) -> float:
    totals, height = grid.column_totals(), 44.0
    most = max(totals, default=0)
    base = top + 6 + height
    each = plot.width / plot.columns
    path: list[tuple[float, float]] = [(plot.x, base)]
    for column, count in enumerate(totals):
        y = base - (height * count / most if most else 0.0)
        path += [(plot.x + column * each, y), (plot.x + (column + 1) * each, y)]
    path.append((plot.x + plot.width, base))
    picture.shapes.append(Words(plot.x, top - 6, "events a column", "axis", name="strip-label"))
    picture.shapes.append(Stroke(tuple(path), "strip"))
    picture.shapes.append(Stroke(((plot.x, base), (plot.x + plot.width, base)), "tick"))
    picture.shapes.append(Words(plot.x - 8, base - height + 9, compact(most), "tick", "end"))
    picture.shapes.append(Words(plot.x - 8, base + 4, "0", "tick", "end"))
    return base + 14


def _legend(picture: Picture, plot: Cells, ordered: Sequence[int], look: Look, top: float) -> float:
    """The ramp with counts below it, the empty cell, and the overlays to turn off and on."""
    room = min(300.0, plot.width * 0.55)
    y, step = top + 26, room / colour.LEVELS
    picture.shapes.append(Words(plot.x, y - 8, f"events in a cell ({look.colour_scale} scale)", "axis"))
    picture.shapes.append(Box(plot.x, y, 16, 14, "none"))
    picture.shapes.append(Words(plot.x + 6, y + 32, "0", "tick", "middle"))
    start = plot.x + 28
    for level in range(colour.LEVELS):
        picture.shapes.append(Box(start + level * step, y, step + 0.3, 14, f"h{level}"))
    marks = _marks(ordered, look.colour_scale)
    for number, (level, count) in enumerate(marks):
        x = start + (level + 0.5) * step
        # On a phone one between the ends has room, if it is not beside one of them.
        spare = 0 < number < len(marks) - 1 and (
            number != len(marks) // 2 or not 8 <= level < colour.LEVELS - 8
        )
        picture.shapes.append(Words(x, y + 32, compact(count), "tick", "middle", spare=spare))
    x, at = start + room + 36, y + 11
    if plot.overlays and x + 90 > picture.width:
        x, at = plot.x, y + 58
    for overlay in plot.overlays:
        size = 34 + 11.5 * len(overlay.name)
        if x + size > picture.width - 4:
            x, at = start + room + 36 if y + 24 > at else plot.x, at + 24
        picture.shapes.append(Toggle(x, at, overlay.name, overlay.name, overlay.style, overlay.shown))
        x += size + 14
    return max(y + 40, at + 12)


def _marks(ordered: Sequence[int], scale: str) -> list[tuple[int, int]]:
    """(step, count) pairs to write below the ramp: the least and the greatest count and some between, far enough apart."""
    if not ordered or ordered[-1] <= 0:
        return []
    distinct = sorted(set(ordered))
    if scale == "rank":
        wanted = [distinct[round(share * (len(distinct) - 1))] for share in (0, 0.25, 0.5, 0.75, 1)]
    elif scale == "linear":
        wanted = [max(1, round(distinct[-1] * share)) for share in (0, 0.25, 0.5, 0.75, 1)]
        wanted[0] = 1
    else:
        decades = range(int(math.log10(distinct[-1])) + 1)
        every = -(-len(decades) // 5)
        wanted = [1, *(10**power for power in decades[::every] if power), distinct[-1]]
    found: list[tuple[int, int]] = []
    for count in wanted:
        level = colour.level_of(count, ordered, scale)
        assert level is not None
        if found and level - found[-1][0] < 5:
            if count != distinct[-1] or len(found) == 1:
                continue
            found.pop()
        found.append((level, count))
    return found


def compact(count: int) -> str:
    """A count in few letters: `12.3k`; exact below ten thousand."""
    if count < 10_000:
        return str(count)
    for factor, suffix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= factor:
            return f"{count / factor:.3g}{suffix}"
    return str(count)
