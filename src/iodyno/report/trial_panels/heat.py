"""A heat map of a trial: time along, how long operations took upwards, how many there were in colour.

The cells are a PNG of grey levels, some hundred bytes; the page has filters that make colours of them, one for paper and
one for the dark, so that no script and no second picture is needed. Colours are
those of every heat map of iodyno (`heat_map.colour`), so that one operation alone stands out from the ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from math import log

from iodyno.analysis.operation_times import Column, OperationTimes, Rows
from iodyno.report.heat_map import colour
from iodyno.report.heat_map.pixels import as_source, grey_png
from iodyno.report.numbers import quantity
from iodyno.report.trial_panels.frame import LEFT, RIGHT, Frame, Shared, place_of, time_ticks

TOP, BOTTOM, HEIGHT = 28, 208, 232
RATE_TOP, RATE_BOTTOM, RATE_HEIGHT = 238, 268, 284
"""Of the strip of operations a second below a map that has lines, and the height of both."""
LEVELS = 40
"""Grey levels in use (chosen: more than the eye tells apart, few enough to compress well)."""
_PIXELS_MOST = 480
_EVEN = 0.02
"""Ends of intervals may miss a pixel's border by this share of the shortest one (chosen: less than can be seen)."""


def name_of(times: OperationTimes) -> str:
    """`write of client, response time`."""
    beside = f"{times.beside}'s " if times.beside else ""
    return f"{beside}{times.operation} of {' and '.join(times.hosts)}, {times.clock} time"


def rates(columns: Sequence[Column], rows: Rows) -> list[dict[int, float]]:
    """Operations per second in each row of each column: columns of different length have comparable colours."""
    return [
        {row: count / column.span_s for row, count in rows.counts(column.times).items()} for column in columns
    ]


def extremes(each: Sequence[dict[int, float]]) -> tuple[float, float]:
    """The least and the greatest rate of a cell (1/s)."""
    known = [rate for column in each for rate in column.values()]
    return min(known), max(known)


def picture(columns: Sequence[Column], rows: Rows) -> str:
    """The cells as an image's source."""
    each = rates(columns, rows)
    low, high = extremes(each)
    lines = [bytearray() for _ in range(rows.count)]
    for column, width in zip(each, widths(columns), strict=True):
        empty = bytes(width)
        for row, line in enumerate(lines):
            rate = column.get(row)
            line.extend(bytes([level(rate, low, high)]) * width if rate else empty)
    return as_source(grey_png([bytes(line) for line in reversed(lines)]))


def level(rate: float, low: float, high: float) -> int:
    """Grey of a rate, 1 to 255 by its logarithm."""
    share = log(rate / low) / log(high / low) if high > low else 1.0
    return round(1 + 254 * round(share * LEVELS) / LEVELS)


def widths(columns: Sequence[Column]) -> list[int]:
    """Pixels of each column: as few in all as hold the lengths of the intervals."""
    begin, span = columns[0].begin_s, columns[-1].end_s - columns[0].begin_s
    ends = [column.end_s - begin for column in columns]
    miss = _EVEN * min(column.span_s for column in columns)
    pixels = len(columns)
    while pixels < _PIXELS_MOST:
        if all(abs(round(end / span * pixels) / pixels * span - end) <= miss for end in ends):
            break
        pixels += 1
    borders = [0, *(round(end / span * pixels) for end in ends)]
    return [max(1, after - before) for before, after in pairwise(borders)]


def draw(
    times: OperationTimes,
    rows: Rows,
    frame: Frame,
    *,
    number: int | None = None,
    of: str = "",
    lines: bool = False,
    bare: bool = False,
) -> str:
    """The SVG of a heat map. `number`: its place in the data for the script; `of`: what it is of, for those who hear it;
    `lines`: whether the median and the 99th percentile of each interval lie over it, and operations
    a second below it; `bare`: without cells, which the script draws from the page's data."""
    columns = times.columns
    low, high = extremes(rates(columns, rows))
    title = name_of(times)
    label = f"heat map, {of}{title}: {times.count} operations over {frame.end_s:.3g} s"
    which = "" if number is None else f' data-map="{number}"'
    first, last = frame.x(columns[0].begin_s), frame.x(min(columns[-1].end_s, frame.end_s))
    parts = [
        frame.opening(label, RATE_HEIGHT if lines else HEIGHT, TOP, BOTTOM),
        f'<text x="4" y="15" class="axis">{escape(title)}</text>',
        *_legend(low, high),
        f'<rect class="ground" x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT}" height="{BOTTOM - TOP}"/>',
        f'<g class="cells"{which}></g>'
        if bare
        else f'<image class="cells"{which} x="{first}" y="{TOP}" width="{last - first:.1f}" height="{BOTTOM - TOP}" '
        f'preserveAspectRatio="none" href="{picture(columns, rows)}"/>',
    ]
    if lines:
        parts += [_line(columns, rows, frame, share, name) for share, name in ((0.5, "p50"), (0.99, "p99"))]
        parts.append(_throughput(columns, frame))
    ticks = time_ticks(rows, BOTTOM, TOP)
    labels = "".join(
        f'<text class="end" x="{LEFT - 6}" y="{at + 4.3:.0f}">{text}</text>' for at, text in ticks
    )
    return "".join(
        [*parts, frame.shared.use(labels), frame.window(TOP, BOTTOM), frame.seconds(BOTTOM), "</svg>"]
    )


def _line(columns: Sequence[Column], rows: Rows, frame: Frame, share: float, name: str) -> str:
    """A quantile of each column over its width, in one path with a gap where a column has no operation."""
    path, last = "", None
    for column in columns:
        value = column.times.quantile(share)
        if value is None:
            last = None
            continue
        y = round(BOTTOM - (BOTTOM - TOP) * place_of(rows, value) / rows.count)
        begin, end = (round(frame.x(at)) for at in (column.begin_s, min(column.end_s, frame.end_s)))
        step = f"M{begin} {y}" if last is None else f"v{y - last}" if y != last else ""
        path += f"{step}H{end}"
        last = y
    return f'<path class="quantile {name}" d="{path}"/>'


def _throughput(columns: Sequence[Column], frame: Frame) -> str:
    """Operations a second of each column as one outline from zero, and the most of them."""
    each = [column.times.count / column.span_s for column in columns]
    most = max(each)
    path, up = f"M{round(frame.x(columns[0].begin_s))} {RATE_BOTTOM}", RATE_BOTTOM
    for column, rate in zip(columns, each, strict=True):
        y = round(RATE_BOTTOM - (RATE_BOTTOM - RATE_TOP) * rate / most)
        path += (f"v{y - up}" if y != up else "") + f"H{round(frame.x(min(column.end_s, frame.end_s)))}"
        up = y
    base = frame.shared.use(
        f'<path d="M{LEFT} {RATE_BOTTOM}H{RIGHT}"/><text class="end" x="{LEFT - 6}" y="{RATE_BOTTOM + 4}">0</text>'
    )
    return (
        f'<path class="counts" d="{path}V{RATE_BOTTOM}z"/>{base}'
        f'<text class="axis end" x="{LEFT - 6}" y="{RATE_TOP + 8}">{quantity(most, "1/s")}</text>'
    )


def _legend(low: float, high: float) -> list[str]:
    """Colours from the least to the greatest rate of a row."""
    if high <= low:
        return [f'<text x="{RIGHT}" y="15" class="small end">{quantity(high, "1/s")} in each cell</text>']
    text = quantity(high, "1/s")
    right = RIGHT - 6.4 * len(text) - 6
    return [
        f'<text x="{RIGHT}" y="15" class="small end">{text}</text>',
        f'<use href="#ramp" class="cells" x="{right - 64:.0f}" y="6"/>',
        f'<text x="{right - 70:.0f}" y="15" class="small end">{quantity(low, "1/s")}</text>',
    ]


def definitions(shared: Shared) -> str:
    """Return the shared definitions of all heat maps of a page: filters that make colours of grey, the legend's ramp, axes."""
    filters = "".join(
        f'<filter id="{name}" color-interpolation-filters="sRGB"><feComponentTransfer>'
        + "".join(
            f'<feFunc{channel} type="table" tableValues="{_table(ramp, place)}"/>'
            for place, channel in enumerate("RGB")
        )
        + "</feComponentTransfer></filter>"
        for name, ramp in (("on-paper", colour.LIGHT), ("on-dark", colour.DARK))
    )
    legend = as_source(grey_png([bytes(range(1, 256, 4))]))
    return (
        f'<svg class="shared" aria-hidden="true" width="0" height="0"><defs>{filters}'
        f'<image id="ramp" width="64" height="10" preserveAspectRatio="none" href="{legend}"/>{shared.definitions()}</defs></svg>'
    )


def _table(ramp: Sequence[colour.Colour], channel: int) -> str:
    """Values of a channel, 0 to 1, evenly spaced from level 0 to level 255."""
    return " ".join(f"{step[channel] / 255:.3f}".lstrip("0") for step in ramp)
