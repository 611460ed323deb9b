"""Measured rate and response time against the load, with the fitted curve and the band of a measurement anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iodyno.analysis.fitting.campaign import LineFit
from iodyno.analysis.fitting.usl import Predicted
from iodyno.analysis.results import CampaignSummary
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import counted
from iodyno.report.figures.panel import CurvePanel, Figure
from iodyno.report.figures.scaling import measured_and_predicted
from iodyno.report.fit import load_name
from iodyno.report.scaling import model_name

MOST = 4
"""Lines that are drawn (chosen: two panels each, and a reader compares few)."""


def figure(summary: CampaignSummary) -> Figure | None:
    """Of every line that a model is fitted to; None where none is."""
    fitted = [each for each in summary.fits if each.chosen is not None]
    shown_panels = tuple(panel for each in fitted[:MOST] for panel in panels(each))
    if not shown_panels:
        return None
    more = f" {counted(len(fitted) - MOST, 'more line')} left out." if len(fitted) > MOST else ""
    caption = (
        "Dots are medians over the trials of a load. The line is the model that predicts each load best from the others;"
        " the band holds 95 % of loads measured anew (parametric bootstrap), if the model is true."
        f" Response times of a closed loop follow by Little's law.{more}"
    )
    return Figure("Measured and predicted", caption, shown_panels)


def panels(found: LineFit) -> tuple[CurvePanel, ...]:
    """Rate and response time of one line; empty where no model is fitted."""
    if found.chosen is None:
        return ()
    name = model_name(found.chosen.model.name)
    where = f"{found.line.title}: " if found.line.title else ""
    if found.line.is_open:
        title = f"{where}response time, {name}"
        return (_panel(found, found.points, found.curve, "s", title, "response", held_out=found.held_out),)
    rate = {"1/s": "operations", "bit/s": "goodput"}.get(found.unit, found.outcome)
    knees = {key: each for key, each in found.derived.items() if each.unit == "1"}
    title = f"{where}rate, {name}"
    first = _panel(
        found, found.points, found.curve, found.unit, title, rate, knees=knees, held_out=found.held_out
    )
    if not (found.responses and found.response_curve):
        return (first,)
    title = f"{where}response time"
    return first, _panel(found, found.responses, found.response_curve, "s", title, "response")


def _panel(
    found: LineFit,
    points: Sequence[Predicted],
    curve: Sequence[Predicted],
    unit: str,
    title: str,
    value: str,
    *,
    knees: Mapping[str, Estimate] | None = None,
    held_out: Sequence[Predicted] = (),
) -> CurvePanel:
    factor, base = (1e9, "ns") if unit == "s" else (1.0, unit)
    return measured_and_predicted(
        [_times(each, factor) for each in points],
        [_times(each, factor) for each in curve],
        load=load_name(found),
        rate=value,
        unit=base,
        title=title,
        curve_name="model",
        knees=knees,
        held_out=[_times(each, factor) for each in held_out],
    )


def _times(each: Predicted, factor: float) -> Predicted:
    value, low, high, least, most = (
        factor * part for part in (each.value, each.low, each.high, each.least, each.most)
    )
    measured = None if each.measured is None else factor * each.measured
    return Predicted(each.load, value, low, high, least, most, measured)
