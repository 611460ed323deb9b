"""Loss and wait of a port with few buffers against the offered load: measured, and the lines of theory."""

from __future__ import annotations

import math
from collections.abc import Callable

from iodyno.analysis.finite_buffer import FiniteBuffer, PortLoad
from iodyno.analysis.results import CampaignSummary
from iodyno.core.outcome import Estimate
from iodyno.report.figures.panel import Axis, Curve, CurvePanel, Figure, Mark, Series
from iodyno.report.numbers import between

_MOST = 1.2
"""Offered utilisation up to which it is drawn (chosen: beyond, every theory says the same, 1 - 1 / rho)."""
_LOSS_LEAST = 1e-4
"""Least loss that is drawn (chosen: less takes more frames than a campaign sends)."""


def figure(summary: CampaignSummary) -> Figure | None:
    """Two panels: frames lost, and how long the others waited. None where the experiment has no such port."""
    found = summary.finite_buffer
    if found is None:
        return None
    panels = tuple(panel for panel in (_lost(found), _waits(found)) if panel)
    if not panels:
        return None
    time = (
        "the time that the port was measured to take for a frame"
        if found.service.estimate
        else "the time of a frame"
    )
    caption = (
        f"Dots are measured, with 95 % intervals. Lines are M/D/1/K with {time}, and where 95 % of runs of this length lie by"
        " chance. Loads that lost fewer than 0.01 % have no dot there. Rules: where the source has a port full,"
        " as its mean queue is as long as there are buffers. Lower is better."
    )
    return Figure("A port with few buffers: measured, and by theory", caption, panels)


def _lost(found: FiniteBuffer) -> CurvePanel | None:
    def value(load: PortLoad) -> tuple[Estimate, float]:
        return load.loss, 0.01

    curves = [
        Curve(
            f"M/D/1/{line.buffers}",
            style,
            tuple(
                (rho, 100 * loss) for rho, loss, _ in line.line if rho <= _last(found) and loss >= _LOSS_LEAST
            ),
            tuple(
                (load.offered_ratio, max(100 * low, 100 * _LOSS_LEAST), 100 * high)
                for load in _drawn(found, line.buffers)
                for low, high in [load.theory.loss_spread]
                if high > _LOSS_LEAST
            ),
        )
        for style, line in enumerate(found.lines)
    ]
    series = _series(found, "loss_ratio", value)
    if not series:
        return None
    return CurvePanel(
        "frames lost", _x(found), Axis("% of the frames", "log"), series, _rules(found), tuple(curves)
    )


def _waits(found: FiniteBuffer) -> CurvePanel | None:
    def value(load: PortLoad) -> tuple[Estimate, float]:
        return load.wait, 1e6

    curves = [
        Curve(
            f"M/D/1/{line.buffers}",
            style,
            tuple((rho, wait / 1e6) for rho, _, wait in line.line if rho <= _last(found)),
            tuple(
                (load.offered_ratio, low / 1e6, high / 1e6)
                for load in _drawn(found, line.buffers)
                for low, high in [load.theory.wait_spread_ns]
            ),
        )
        for style, line in enumerate(found.lines)
    ]
    series = _series(found, "wait_ns", value)
    if not series:
        return None
    return CurvePanel(
        "mean wait of the others", _x(found), Axis("ms", "linear"), series, _rules(found), tuple(curves)
    )


def _series(
    found: FiniteBuffer, name: str, value: Callable[[PortLoad], tuple[Estimate, float]]
) -> tuple[Series, ...]:
    made = []
    for style, line in enumerate(found.lines):
        marks = []
        for load in _drawn(found, line.buffers):
            estimate, unit = value(load)
            if estimate.estimate is None or (name == "loss_ratio" and estimate.estimate < _LOSS_LEAST):
                continue
            low, high = (None if bound is None else bound / unit for bound in (estimate.low, estimate.high))
            hint = (
                f"{line.buffers} buffers, {100 * load.offered_ratio:.1f} % offered: {between(estimate, name)}"
            )
            marks.append(Mark(load.offered_ratio, estimate.estimate / unit, low, high, hint))
        if marks:
            made.append(Series(f"{line.buffers} buffers", style, tuple(marks)))
    return tuple(made)


def _drawn(found: FiniteBuffer, buffers: int) -> list[PortLoad]:
    return [load for load in found.loads if load.buffers == buffers and load.offered_ratio <= _MOST]


def _x(found: FiniteBuffer) -> Axis:
    first = min(load.offered_ratio for load in found.loads)
    steps = range(int(10 * first), round(10 * _last(found)) + 1)
    return Axis("offered utilisation", "linear", tuple((step / 10, f"{step / 10:g}") for step in steps))


def _last(found: FiniteBuffer) -> float:
    """Return the end of the axis: a tenth that has every load that is drawn, and the whole of what a port can carry."""
    drawn = [load.offered_ratio for load in found.loads if load.offered_ratio <= _MOST]
    return math.ceil(10 * max([1.0, *drawn]) - 1e-9) / 10


def _rules(found: FiniteBuffer) -> tuple[tuple[float, str], ...]:
    ends = [(limit.full_by_mean, f"{limit.buffers} full") for limit in found.limits]
    return tuple((at, f" | {text}" if place else f"{text} | ") for place, (at, text) in enumerate(ends))
