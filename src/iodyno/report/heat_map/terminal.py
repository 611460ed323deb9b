"""A heat map in a terminal: a sign a cell, denser for more events, coloured too where there are colours.

The sign alone carries the meaning: a dot is one event, a block the densest cell. So the map survives a pipe, a mail and
a person who
sees no colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iodyno.core.grid import Grid
from iodyno.report.heat_map import axis, colour
from iodyno.report.heat_map.layout import (
    Look,
    cell_counts,
    compact,
    default_title,
    frame_of,
    quantile_of_all,
    where_events_are,
    wrapped,
)

SIGNS = "·:░▒▓█"
"""One event, and five densities."""
_BARS = " ▁▂▃▄▅▆▇█"
_ROWS, _LEFT = 24, 9


def rendered(
    grid: Grid,
    quantiles: Mapping[str, Sequence[float | None]],
    look: Look,
    *,
    width: int = 100,
    colours: bool = False,
    dark: bool = True,
) -> str:
    """The map in `width` signs a line, at most 24 rows; neighbouring rows and columns are added up to fit.

    `quantiles`: of the whole trace, one value each by name (`{"p50": (350000.0,)}`); shown as a line of text.
    """
    room = max(10, width - _LEFT - 9)
    across = -(-grid.columns // room)
    frame = frame_of(grid)
    up = -(-grid.rows // (_ROWS - 2))
    rows = -(-grid.rows // up)
    columns = -(-grid.columns // across)
    counts: dict[tuple[int, int], int] = {}
    for (column, row), count in cell_counts(grid, frame).items():
        at = rows if row == frame.over else -1 if row == frame.under else (row - frame.first) // up
        counts[column // across, at] = counts.get((column // across, at), 0) + count
    ordered = sorted(counts.values()) or [0]
    unit = axis.unit_of(grid.unit, max(abs(grid.edges[0]), abs(grid.edges[-1])))
    by_row: dict[int, int] = {}
    for (_, at), count in counts.items():
        by_row[at] = by_row.get(at, 0) + count
    most = max(by_row.values(), default=0)
    lines = wrapped(look.title, width, 2) or [default_title(grid)]
    lines += wrapped(where_events_are(grid, unit), width, 3)
    label = look.label or ("offset in the second" if grid.sub_second else grid.quantity or "value")
    lines.append(
        f"{label}, {unit.name}{' (log)' if grid.scale == 'log' else ''}".replace(",  ", " ").rstrip(", ")
    )
    top = rows if frame.over is not None else rows - 1
    for at in range(top, -2 if frame.under is not None else -1, -1):
        if at == rows:
            name = f"> {axis.show(grid.edges[-1], unit, 3)}"
        elif at == -1:
            name = f"< {axis.show(grid.edges[0], unit, 3)}"
        else:
            name = axis.show(grid.edges[at * up], unit, 3) if at % 3 == 0 or at == rows - 1 else ""
        cells = "".join(
            _sign(counts.get((column, at), 0), ordered, look.colour_scale, colours, dark)
            for column in range(columns)
        )
        bar = _bar(by_row.get(at, 0), most)
        lines.append(f"{name:>{_LEFT - 2}} │{cells}│{bar}".rstrip())
    lines.append(f"{'':>{_LEFT - 2}} └{'─' * columns}┘")
    lines += _time_line(grid, columns, across)
    totals = [0] * columns
    for column, total in enumerate(grid.column_totals()):
        totals[column // across] += total
    high = max(totals, default=0)
    strip = "".join(_BARS[0 if not total else max(1, round(8 * total / high))] for total in totals)
    each = axis.with_unit(grid.column_ns * across, "ns")
    lines.append(f"{'events':>{_LEFT - 2}}  {strip}")
    lines.append(f"{'':>{_LEFT}}at most {compact(high)} in {each}")
    shown = [
        f"{name} {quantile_of_all(values[0], grid)}"
        for name, values in quantiles.items()
        if values and values[0] is not None
    ]
    if shown:
        lines.append(f"{'':>{_LEFT}}{'  '.join(shown)}")
    lines += [
        f"{'':>{_LEFT}}{line}" for line in _key(ordered, look.colour_scale, colours, dark, width - _LEFT)
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _sign(count: int, ordered: Sequence[int], scale: str, colours: bool, dark: bool) -> str:
    level = colour.level_of(count, ordered, scale)
    if level is None:
        return " "
    sign = SIGNS[0] if count == 1 else SIGNS[1 + min(4, level * 5 // colour.LEVELS)]
    if not colours:
        return sign
    red, green, blue = (colour.DARK if dark else colour.LIGHT)[level]
    return f"\x1b[38;2;{red};{green};{blue}m{sign}\x1b[0m"


def _bar(count: int, most: int) -> str:
    if not count:
        return ""
    parts = " ▏▎▍▌▋▊▉█"
    eighths = max(1, round(count / most * 6 * 8))
    return "█" * (eighths // 8) + (parts[eighths % 8] if eighths % 8 else "")


def _time_line(grid: Grid, columns: int, across: int) -> list[str]:
    begin = grid.begin_ns - axis.zero_of(grid.begin_ns, grid.columns * grid.column_ns)
    end = begin + columns * across * grid.column_ns
    unit = axis.unit_of("ns", end - begin)
    line = [" "] * (columns + _LEFT + 12)
    free = 0
    for tick in axis.ticks(begin, end, unit, "linear", max(2, columns // 10)):
        text = axis.show(tick, unit, 10)
        at = _LEFT + round((tick - begin) / (end - begin) * columns) - len(text) // 2
        if at >= free and at + len(text) <= len(line):
            line[at : at + len(text)] = text
            free = at + len(text) + 1
    zero = axis.time_name(grid.begin_ns, grid.columns * grid.column_ns, "")
    return ["".join(line).rstrip() + f" {unit.name}{zero}"]


def _key(ordered: Sequence[int], scale: str, colours: bool, dark: bool, width: int) -> list[str]:
    """Which sign stands for which counts, in lines of `width` signs; the signs that are there alone."""
    ranges: dict[str, tuple[str, int, int]] = {}
    for count in ordered:
        if count > 0:
            sign = _sign(count, ordered, scale, False, dark)
            shown, low, high = ranges.get(sign, (_sign(count, ordered, scale, colours, dark), count, count))
            ranges[sign] = (shown, min(low, count), max(high, count))
    if not ranges:
        return ["no event"]
    lines = [f"events in a cell ({scale} scale):"]
    room = width - len(lines[0])
    for shown, low, high in ranges.values():
        text = str(low) if low == high else f"{compact(low)} to {compact(high)}"
        if room < len(text) + 4:
            lines.append("")
            room = width
        lines[-1] += f"{'  ' if lines[-1] else ''}{shown} {text}"
        room -= len(text) + 4
    return lines
