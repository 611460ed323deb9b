"""A trial from start to end: goodput, busy CPUs of both hosts, retransmissions, one strip each."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from iodyno.analysis.summary import TrialSummary
from iodyno.analysis.timeline import Line, Timeline
from iodyno.report.figures.axes import DASHES, Span, linear_ticks, short
from iodyno.report.numbers import digits, scale_of

WIDTH, STRIP, GAP, LEFT, RIGHT = 500, 70, 46, 46, 62
INTERVALS_MOST = 150
"""More intervals than this are joined before they are drawn (chosen: a pixel or three each)."""


def draw(trial: TrialSummary) -> str:
    """The SVG of a trial; empty when it has no records."""
    shown = trial.timeline
    if shown is None:
        return ""
    strips = list(_strips(shown))
    end = max((line.seconds[-1] for _, _, lines in strips for line in lines if line.seconds), default=0.0)
    if not strips or end <= 0:
        return ""
    x = Span(0.0, end, LEFT, WIDTH - RIGHT)
    bottom = 20 + len(strips) * (STRIP + GAP)
    height = bottom + 26
    label = f"trial {trial.name}: " + ", ".join(title for title, _, _ in strips) + f" over {end:.3g} s"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label, quote=True)}" class="fig">'
    ]
    first, last = (x(second) for second in shown.measured)
    parts.append(
        f'<rect class="window" x="{first}" y="20" width="{last - first:.1f}" height="{bottom - 20}"/>'
    )
    parts.append(f'<text x="{(first + last) / 2:.0f}" y="13" class="small mid">measured window</text>')
    for number, (title, whole, lines) in enumerate(strips):
        parts += _strip(title, whole, lines, x, 20 + number * (STRIP + GAP))
    for tick in linear_ticks(0.0, end, 8):
        parts.append(f'<path class="base" d="M{x(tick)} {bottom}v4"/>')
        parts.append(f'<text x="{x(tick)}" y="{bottom + 17}" class="tick mid">{short(tick)}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT + 12}" y="{bottom + 17}" class="tick">seconds</text>')
    return "".join([*parts, "</svg>"])


def _strips(shown: Timeline) -> list[tuple[str, float, list[Line]]]:
    """Title, what one unit of it is, and lines of each strip."""
    found: list[tuple[str, float, list[Line]]] = []
    if shown.goodput_bits_per_s and shown.goodput_bits_per_s.values:
        scale = scale_of(max(shown.goodput_bits_per_s.values), "bit/s")
        found.append((f"goodput, {scale.unit}", scale.factor, [shown.goodput_bits_per_s]))
    if any(line.values for line in shown.busy_cpus):
        found.append(("busy CPUs", 1.0, [line for line in shown.busy_cpus if line.values]))
    if shown.retransmits and shown.retransmits.values:
        found.append(("segments retransmitted per interval", 1.0, [shown.retransmits]))
    return found


def _strip(title: str, whole: float, lines: Sequence[Line], x: Span, top: float) -> list[str]:
    base = top + GAP + STRIP
    high = max(max(line.values) for line in lines) / whole
    high = high * 1.1 if high > 0 else 1.0
    y = Span(0.0, high, base, base - STRIP)
    parts = [f'<text x="4" y="{top + 34}" class="axis">{escape(title)}</text>']
    for tick in linear_ticks(0.0, high, 3):
        rule = "base" if tick == 0 else "grid"
        parts.append(f'<path class="{rule}" d="M{LEFT} {y(tick)}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y(tick) + 4.5:.1f}" class="tick end">{short(tick)}</text>')
    ends = []
    for style, line in enumerate(lines):
        seconds, values = _joined(line)
        # A step for each interval: its value holds from the end of the one before to its own.
        begins = [0.0, *seconds[:-1]]
        path = "".join(
            f"{'M' if index == 0 else 'L'}{x(begin)} {y(value / whole)}H{x(end)}"
            for index, (begin, end, value) in enumerate(zip(begins, seconds, values, strict=True))
        )
        dash = f' stroke-dasharray="{DASHES[style % len(DASHES)]}"' if style else ""
        hint = f"{line.host}: {digits(min(values) / whole)} to {digits(max(values) / whole)}, {title}"
        parts.append(
            f'<g class="s{style % len(DASHES)}"><title>{escape(hint)}</title><path class="line" d="{path}"{dash}/></g>'
        )
        ends.append((y(values[-1] / whole), style, line.host))
    free = -100.0
    for at, style, host in sorted(ends) if len(lines) > 1 else ():
        free = max(at + 4.5, free + 15)
        parts.append(
            f'<g class="s{style}"><path class="line" d="M{WIDTH - RIGHT + 5} {free - 4.5:.1f}h9"/>'
            f'<text x="{WIDTH - RIGHT + 18}" y="{free:.1f}" class="small">{escape(host)}</text></g>'
        )
    return parts


def _joined(line: Line) -> tuple[list[float], list[float]]:
    """The line with neighbours joined, so that it has no more intervals than can be seen."""
    each = -(-len(line.values) // INTERVALS_MOST)
    seconds, values = [], []
    for start in range(0, len(line.values), each):
        part = line.values[start : start + each]
        values.append(sum(part) / len(part))
        seconds.append(line.seconds[start : start + each][-1])
    return seconds, values
