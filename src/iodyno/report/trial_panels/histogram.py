"""Distribution of the times of a trial's operations: rows of its heat map, counted over a window."""

from __future__ import annotations

from html import escape
from math import ceil, log10

from iodyno.analysis.operation_times import OperationTimes, Rows
from iodyno.report.figures.spans import Span, short
from iodyno.report.trial_panels.frame import LEFT, RIGHT, WIDTH, Shared, time_ticks
from iodyno.report.trial_panels.heat import name_of

TOP, BOTTOM, HEIGHT = 24, 138, 162


def draw(times: OperationTimes, rows: Rows, number: int, shared: Shared, *, bare: bool = False) -> str:
    """The SVG of a histogram of the measured window; counts on a logarithmic axis, so that one slow operation is seen.

    `bare`: without the bars, which the script draws from the page's data.
    """
    within = times.within("measured")
    counts = rows.counts(within)
    most = max(counts.values(), default=1)
    decades = max(1, ceil(log10(most) + 0.05))
    y = Span(0.5, 10.0**decades, BOTTOM, TOP, log=True)
    title = f"{name_of(times)}: operations per row"
    label = f"histogram of the measured window, {name_of(times)}: {within.count} operations"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label, quote=True)}" class="fig" '
        f'data-histogram="{number}" data-axis="{LEFT} {RIGHT} {TOP} {BOTTOM} {decades}">',
        f'<text x="4" y="14" class="axis">{escape(title)}</text>',
    ]
    powers = [10.0**power for power in range(0, decades + 1, max(1, decades // 3))]
    grid = "".join(f"M{LEFT} {y(power):.0f}H{RIGHT}" for power in powers)
    axis = f'<path class="grid" d="{grid}"/>'
    axis += "".join(
        f'<text class="end" x="{LEFT - 6}" y="{y(power) + 4.3:.0f}">{short(power)}</text>' for power in powers
    )
    axis += f'<path d="M{LEFT} {BOTTOM}H{RIGHT}"/>'
    axis += "".join(
        f'<text x="{at:.0f}" y="{BOTTOM + 16}">{text}</text>' for at, text in time_ticks(rows, LEFT, RIGHT)
    )
    bars = "" if bare else f' d="{_bars(counts, rows, y)}"'
    return "".join([*parts, shared.use(axis), f'<path class="counts"{bars}/></svg>'])


def _bars(counts: dict[int, int], rows: Rows, y: Span) -> str:
    wide = (RIGHT - LEFT) / rows.count
    path = ""
    for row in range(rows.count):
        if row not in counts:
            continue
        left, right = round(LEFT + row * wide), round(LEFT + (row + 1) * wide)
        # Neighbours are one outline.
        path += "" if row - 1 in counts else f"M{left} {BOTTOM}"
        path += f"V{y(counts[row]):.0f}H{right}" + ("" if row + 1 in counts else f"V{BOTTOM}")
    return path
