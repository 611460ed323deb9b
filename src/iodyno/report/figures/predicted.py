"""Does the model fit? What it says of each point against what was measured there."""

from __future__ import annotations

from iodyno.analysis.results import CampaignSummary
from iodyno.report.cost_model import outcome_words, unit_scale
from iodyno.report.figures.scatter import Dot, ScatterFigure, ScatterPanel
from iodyno.report.numbers import digits


def figure(summary: CampaignSummary) -> ScatterFigure | None:
    """A point for each point of the design; None without a model."""
    study = summary.costs
    if study is None:
        return None
    scale = unit_scale(study)
    dots = []
    for point in study.points:
        said = (point.predicted.estimate or 0.0) / scale.factor
        measured = point.measured / scale.factor
        low, high = (None if one is None else one / scale.factor for one in (point.low, point.high))
        half = (high - low) / 2 or None if low is not None and high is not None else None
        hint = f"{point.text}: measured {digits(measured, half)} (n = {point.n}), model {digits(said, half)} {scale.unit}"
        dots.append(Dot(said, measured, hint, 0, low, high))
    caption = (
        f"Means over the trials of each of the {len(dots)} points with 95 % t intervals, against the model; on the dotted"
        " line both agree. Each point's interval stands alone, so that one in twenty misses the line by chance."
    )
    panel = ScatterPanel(
        "Measured and predicted",
        f"the model's mean, {scale.unit}",
        f"measured, {scale.unit}",
        tuple(dots),
        diagonal=True,
    )
    return ScatterFigure(f"Does the model fit {outcome_words(study)}?", caption, (panel,))
