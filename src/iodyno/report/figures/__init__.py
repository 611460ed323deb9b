"""The figures of a report. To add one: one file, and one line in `FIGURES`.

A figure takes a summary and gives panels, which are values and can be tested; `draw` makes them SVG.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from iodyno.analysis.results import CampaignSummary
from iodyno.loads.base.report import load_of
from iodyno.report.figures import (
    axes,
    cost_by_class,
    cost_vs_factor,
    decision,
    disk_rate,
    disk_times,
    effects,
    finite_buffer,
    fit,
    half_normal,
    latency,
    predicted,
    rate_vs_factor,
    scatter,
    stacks,
)
from iodyno.report.figures.panel import Figure
from iodyno.report.figures.scatter import ScatterFigure
from iodyno.report.figures.stacks import StackFigure

AnyFigure = Figure | StackFigure | ScatterFigure


@dataclass(frozen=True)
class FigureEntry:
    """A figure: its name, what makes it of a campaign whose load it is for, and the section it stands in."""

    name: str
    draws: Callable[[CampaignSummary], AnyFigure | None]
    section: Literal["cost", "load", "effects"]

    def make(self, summary: CampaignSummary) -> AnyFigure | None:
        """Return the figure of a campaign; None where it has nothing to show in it."""
        return None if self.name in load_of(summary).not_drawn else self.draws(summary)


FIGURES = (
    FigureEntry("finite-buffer", finite_buffer.figure, "load"),
    FigureEntry("cost", cost_vs_factor.figure, "cost"),
    FigureEntry("classes", cost_by_class.figure, "cost"),
    FigureEntry("rate", rate_vs_factor.figure, "load"),
    FigureEntry("latency", latency.figure, "load"),
    FigureEntry("disk-rate", disk_rate.figure, "load"),
    FigureEntry("disk-times", disk_times.figure, "load"),
    FigureEntry("fit", fit.figure, "load"),
    FigureEntry("decision", decision.figure, "load"),
    FigureEntry("half-normal", half_normal.figure, "effects"),
    FigureEntry("effects", effects.figure, "effects"),
    FigureEntry("predicted", predicted.figure, "effects"),
)
"""Every figure over the points, in the order of the report. A trial's own pictures are in `trial_panels`."""


def draw(figure: AnyFigure) -> list[str]:
    """An SVG for each panel of the figure."""
    if isinstance(figure, ScatterFigure):
        return scatter.draw(figure)
    return stacks.draw(figure) if isinstance(figure, StackFigure) else axes.draw(figure)


def cut(figure: AnyFigure) -> bool:
    """Tell whether an interval goes on beyond the axis of its panel."""
    if isinstance(figure, ScatterFigure):
        return scatter.cut(figure)
    return stacks.cut(figure) if isinstance(figure, StackFigure) else axes.cut(figure)
