"""Designs: which points a campaign visits, and in which order.

To add a design: one file that makes the points, one line in `POINTS`, and its word in `core.design`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iodyno.core.design import Design, Point
from iodyno.core.experiment import Experiment
from iodyno.designs import full_factorial, order

__all__ = ["POINTS", "plan"]

POINTS: Mapping[str, Callable[[Experiment], tuple[Point, ...]]] = {
    "full_factorial": full_factorial.points,
}
"""What makes the points of a design, by its word in an experiment file."""


def plan(experiment: Experiment) -> Design:
    """The design of the experiment. The same experiment gives the same design, everywhere and always."""
    spec = experiment.design
    points = POINTS[spec.kind](experiment)
    return Design(spec.kind, spec.seed, points, order.trials(points, spec))
