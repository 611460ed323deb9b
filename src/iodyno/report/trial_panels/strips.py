"""Lines of a trial over its time, one strip a quantity: rates, latencies, CPU time by class, signals of the limiter."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from iodyno.analysis.trial_views import Line, Strip
from iodyno.report.figures.cost_by_class import ORDER
from iodyno.report.figures.spans import Span, colour, dashed, linear_ticks, log_ticks, short
from iodyno.report.numbers import Scale, digits, scale_of
from iodyno.report.trial_panels.frame import LEFT, RIGHT, Frame

TOP, BOTTOM, HEIGHT = 24, 94, 116
INTERVALS_MOST = 150
"""More intervals than this are joined before they are drawn (chosen: three units each)."""
_CLASS_STYLES = {name: style for style, name in enumerate(ORDER)}
"""Colours as in the figure of cost by class."""


def scale_for(strip: Strip) -> Scale:
    """The unit that a strip is shown in."""
    most = max((max(line.values) for line in strip.lines if line.values), default=1.0)
    return (
        scale_of(most, strip.unit) if strip.unit in ("bit/s", "B/s", "1/s", "ns") else Scale(1.0, strip.unit)
    )


def draw(strip: Strip, frame: Frame) -> str:
    """The SVG of a strip."""
    scale = scale_for(strip)
    named = [
        (name, _joined(line)) for name, line in zip(strip.labels, strip.lines, strict=True) if line.values
    ]
    if strip.kind == "stack":
        named.sort(key=lambda pair: _CLASS_STYLES.get(pair[0], len(ORDER)))
    y = _axis(strip, [line for _, line in named], scale)
    spoken = "; ".join(
        f"{name} {digits(min(line.values) / scale.factor)} to {digits(max(line.values) / scale.factor)}"
        for name, line in named
    )
    unit = f", {scale.unit}" if scale.unit else ""
    parts = [
        frame.opening(f"{strip.title}{unit}, over {frame.end_s:.3g} s: {spoken}", HEIGHT, TOP, BOTTOM),
        f'<text x="4" y="14" class="axis">{escape(strip.title)}{unit}</text>',
    ]
    ticks = log_ticks(y.low, y.high) if y.log else linear_ticks(y.low, y.high, 3)
    every = max(1, -(-len(ticks) // 4))
    grid = "".join(f"M{LEFT} {y(tick):.0f}H{RIGHT}" for tick in ticks[::every])
    labels = "".join(
        f'<text class="end" x="{LEFT - 6}" y="{y(tick) + 4.3:.0f}">{short(tick)}</text>'
        for tick in ticks[::every]
    )
    parts.append(frame.shared.use(f'<path class="grid" d="{grid}"/>{labels}'))
    if strip.kind == "stack":
        parts += _stack(named, frame.x, y, scale)
    else:
        for number, (_, line) in enumerate(named):
            path = _steps(line, [value / scale.factor for value in line.values], frame.x, y)
            parts.append(f'<path class="line {colour(number)}" d="{path}"{dashed(number)}/>')
    if strip.threshold is not None and y.low <= strip.threshold <= y.high:
        parts.append(f'<path class="limit" d="M{LEFT} {y(strip.threshold)}H{RIGHT}"/>')
    if len(named) > 1:
        parts.append(frame.shared.use("".join(_key(strip, [name for name, _ in named]))))
    elif strip.threshold is not None:
        way = "at least" if strip.above else "at most"
        parts.append(
            f'<text x="{RIGHT}" y="14" class="small end">counts from {way} {strip.threshold:g}</text>'
        )
    return "".join([*parts, frame.window(TOP, BOTTOM), frame.seconds(BOTTOM), "</svg>"])


def _axis(strip: Strip, lines: Sequence[Line], scale: Scale) -> Span:
    values = [value / scale.factor for line in lines for value in line.values]
    if strip.kind == "log":
        positive = [value for value in values if value > 0] or [1.0]
        return Span(min(positive) * 0.8, max(positive) * 1.25, BOTTOM, TOP, log=True)
    high = max(values)
    if strip.kind == "stack":
        high = max(map(sum, zip(*(line.values for line in lines), strict=True))) / scale.factor
    if strip.threshold is not None:
        high = max(high, min(strip.threshold, 3 * high))
    return Span(0.0, high * 1.08 if high > 0 else 1.0, BOTTOM, TOP)


def _steps(line: Line, values: Sequence[float], x: Span, y: Span) -> str:
    """A step for each interval: its value holds from the end of the one before to its own."""
    at, up = round(x(_begin(line))), round(y(values[0]))
    path, along = f"M{at} {up}", 0
    for end, value in zip(line.seconds, values, strict=True):
        # Relative and whole: a page has thousands of these steps.
        right, level = round(x(end)), round(y(value))
        if level != up:
            path += (f"h{along}" if along else "") + f"v{level - up}"
            along, up = 0, level
        along, at = along + right - at, right
    return f"{path}h{along}"


def _begin(line: Line) -> float:
    """Return the start of the first interval of a line: lines of the measured window begin with it, not with the trial."""
    if len(line.seconds) < 2 or line.windows[0] != "measured":
        return 0.0
    return max(0.0, line.seconds[0] - (line.seconds[1] - line.seconds[0]))


def _stack(named: Sequence[tuple[str, Line]], x: Span, y: Span, scale: Scale) -> list[str]:
    """Classes on top of each other, the highest sum drawn first so that the others lie on it."""
    sums: list[list[float]] = []
    for _, line in named:
        below = sums[-1] if sums else [0.0] * len(line.values)
        sums.append([a + b / scale.factor for a, b in zip(below, line.values, strict=True)])
    parts = []
    for (name, line), top in reversed(list(zip(named, sums, strict=True))):
        style = _CLASS_STYLES.get(name, 5)
        path = _steps(line, top, x, y)
        parts.append(f'<path class="layer s{style}" d="{path}V{BOTTOM}H{x(_begin(line)):.0f}z"/>')
    return parts


def _key(strip: Strip, names: Sequence[str]) -> list[str]:
    """Names of the lines at the right end of the title's row, the first one leftmost."""
    parts: list[str] = []
    at = float(RIGHT)
    for number, name in reversed(list(enumerate(names))):
        width = 5.6 * len(name) + 9  # the widest of three letters, and no gap after seven
        style = _CLASS_STYLES.get(name, number) if strip.kind == "stack" else number
        parts.append(f'<text class="end" x="{at:.0f}" y="14">{escape(name)}</text>')
        at -= width + 16
        if strip.kind == "stack":
            parts.append(f'<path class="layer s{style}" d="M{at:.0f} 5h11v9h-11z"/>')
        else:
            look = f'class="line {colour(number)}"{dashed(number)}'
            parts.append(f'<path {look} d="M{at - 6:.0f} 10h17"/>')
        at -= 12
    return parts


def _joined(line: Line) -> Line:
    """The line with neighbours joined, so that it has no more intervals than can be seen."""
    every = -(-len(line.values) // INTERVALS_MOST)
    if every <= 1:
        return line
    starts = range(0, len(line.values), every)
    parts = [line.values[start : start + every] for start in starts]
    return Line(
        line.host,
        tuple(line.seconds[start : start + every][-1] for start in starts),
        tuple(sum(part) / len(part) for part in parts),
        tuple(line.windows[start] for start in starts),
    )
