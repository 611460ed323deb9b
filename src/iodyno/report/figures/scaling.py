"""A rate against the load: what was measured, the curve through it, and the band of a measurement anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iodyno.analysis.fitting.usl import Predicted, Scaling
from iodyno.core.outcome import Estimate
from iodyno.report.figures.panel import Axis, Curve, CurvePanel, Kind, Mark, Series
from iodyno.report.numbers import Scale, digits, scale_of

KNEES = {"crossing": "N*", "peak": "peak"}
"""Knees that are marked, with the word beside the rule."""
_LOG_FROM = 100
"""From this ratio of the greatest to the least load on, the axis is logarithmic (chosen: 1 to 64 shows the knee better as
it is, and 1 to 6000 does not).
"""


def panel(found: Scaling, *, load: str, rate: str, unit: str, title: str = "") -> CurvePanel:
    """The picture of a fitted law. `load`, `rate`: what the axes are called; `unit`: of the rate."""
    name = {"usl": "USL", "amdahl": "Amdahl"}[found.fit.model.name]
    return measured_and_predicted(
        found.points,
        (*found.curve, *(each for each in found.beyond if each.load > found.curve[-1].load)),
        load=load,
        rate=rate,
        unit=unit,
        title=title or f"{rate} against {load}",
        curve_name=name,
        knees=found.knees,
    )


def measured_and_predicted(
    points: Sequence[Predicted],
    curve: Sequence[Predicted],
    *,
    load: str,
    rate: str,
    unit: str,
    title: str,
    curve_name: str = "",
    knees: Mapping[str, Estimate] | None = None,
    held_out: Sequence[Predicted] = (),
) -> CurvePanel:
    """Points, a curve and its band on one pair of axes. `held_out`: points that the curve was not fitted to."""
    seen = [each for each in points if each.measured is not None]
    known = sorted((*seen, *(each for each in held_out if each.measured)), key=lambda each: each.load)
    scale = scale_of(max(each.measured or 0.0 for each in known), unit)
    places = tuple((each.load, _place(each.load)) for each in known)
    first, last = known[0].load, max(curve[-1].load, known[-1].load)
    kind: Kind = "log" if last / first >= _LOG_FROM else "linear"
    if last > known[-1].load:
        places += ((last, _place(last)),)
    series = [
        Series("fitted to" if held_out else "measured", 0, tuple(_mark(each, load, scale) for each in seen))
    ]
    if held_out:
        series.append(Series("held out", 2, tuple(_mark(each, load, scale) for each in held_out)))
    drawn = Curve(
        f"{curve_name}, and where 95 % of new measurements are expected",
        1,
        tuple((each.load, each.value / scale.factor) for each in curve),
        tuple((each.load, each.least / scale.factor, each.most / scale.factor) for each in curve),
    )
    shown = [scale.unit] if scale.unit else []
    words = ", ".join([rate, *shown])
    return CurvePanel(
        title,
        Axis(load + (" (logarithmic)" if kind == "log" else ""), kind, places),
        Axis(f"{words} · dots measured, line {curve_name}, band 95 % of a new one", "linear"),
        tuple(series),
        tuple(
            (at.estimate, f"{word} | {digits(at.estimate)}")
            for key, word in KNEES.items()
            if (at := (knees or {}).get(key)) and at.estimate is not None and first < at.estimate < last
        ),
        (drawn,),
    )


def _place(load: float) -> str:
    """A load at its axis: offered rates are measured, and have more digits than a reader wants."""
    return f"{load:g}" if load == int(load) else digits(load)


def _mark(point: Predicted, load: str, scale: Scale) -> Mark:
    assert point.measured is not None
    error = point.value / point.measured - 1
    hint = (
        f"{load} {point.load:g}: {digits(point.measured / scale.factor)} {scale.unit} measured,"
        f" {digits(point.value / scale.factor)} by the curve ({100 * error:+.1f} %)"
    )
    return Mark(point.load, point.measured / scale.factor, None, None, hint)
