"""The figures of a report. To add one: one file, and one line in `FIGURES`.

A figure takes a summary and gives panels, which are values and can be tested; `draw` makes them SVG.
"""

from collections.abc import Callable
from dataclasses import dataclass

from iodyno.analysis.summary import CampaignSummary
from iodyno.report.figures import axes, cost_by_class, cost_vs_factor, rate_vs_factor, stacks
from iodyno.report.figures.panel import Figure
from iodyno.report.figures.stacks import StackFigure


@dataclass(frozen=True)
class FigureEntry:
    """A figure: its name, and what makes it; None when the campaign has nothing to show in it."""

    name: str
    make: Callable[[CampaignSummary], Figure | StackFigure | None]


FIGURES = (
    FigureEntry("cost", cost_vs_factor.figure),
    FigureEntry("classes", cost_by_class.figure),
    FigureEntry("rate", rate_vs_factor.figure),
)
"""Every figure over the points, in the order of the report. A trial's own picture is in `trial_series`."""


def draw(figure: Figure | StackFigure) -> list[str]:
    """An SVG for each panel of the figure."""
    return stacks.draw(figure) if isinstance(figure, StackFigure) else axes.draw(figure)


def cut(figure: Figure | StackFigure) -> bool:
    """Whether an interval goes on beyond the axis of its panel."""
    return stacks.cut(figure) if isinstance(figure, StackFigure) else axes.cut(figure)
