"""The figures of a report. To add one: one file, and one line in `FIGURES`.

A figure takes a summary and gives panels, which are values and can be tested; `axes.draw` makes them SVG.
"""

from collections.abc import Callable
from dataclasses import dataclass

from iodyno.analysis.summary import CampaignSummary
from iodyno.report.figures import cost_vs_factor, rate_vs_factor
from iodyno.report.figures.panel import Figure


@dataclass(frozen=True)
class FigureEntry:
    """A figure: its name, and what makes it; None when the campaign has nothing to show in it."""

    name: str
    make: Callable[[CampaignSummary], Figure | None]


FIGURES = (
    FigureEntry("cost", cost_vs_factor.figure),
    FigureEntry("rate", rate_vs_factor.figure),
)
"""Every figure over the points, in the order of the report. A trial's own picture is in `trial_series`."""
