"""Central composite designs: a two-level design, the middle, and each factor alone on its axis.

Box and Wilson 1951, "On the experimental attainment of optimum conditions"; Montgomery, chapter 11. The two-level part is the
smallest fraction of resolution V. On the axes the points are at the ends of the range (faced, distance 1), or as far
from the middle as makes the variance of a prediction depend on the distance only (rotatable, the fourth root of the
number of two-level points): within the range (inscribed) or beyond it (circumscribed).
"""

from __future__ import annotations

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.quantity import counted
from iodyno.designs import ranges, two_level
from iodyno.designs.runs import Runs, of_levels

CENTRE_POINTS = 3
"""Visits of the middle in a replicate where the file does not say how many (Montgomery: 3 to 5)."""
MOST_FACTORS = 10
"""Chosen: 128 two-level points."""


def points(experiment: Experiment) -> Runs:
    """Two-level points, then those on the axes; the middle is added by `plan`. Raises ExperimentError."""
    coding = ranges.numbers_only(experiment)
    count = len(coding)
    if not 2 <= count <= MOST_FACTORS:
        raise ExperimentError(
            f"invalid value: {counted(count, 'factor')}; expected 2 to {MOST_FACTORS} in the design central_composite",
            where="factors",
            advice="use full_factorial with three levels for one factor",
        )
    coded = coded_points(count, experiment.design.axial)
    return of_levels(ranges.rows_of(experiment, coded, coding))


def coded_points(count: int, axial: str) -> list[list[float]]:
    """The points for that many factors on the coded scale.

    >>> len(coded_points(3, "faced")), max(map(max, coded_points(2, "circumscribed")))
    (14, 1.4142135623730951)
    """
    corners = [[float(value) for value in row] for row in two_level.smallest(count, 5).rows()]
    distance = 1.0 if axial == "faced" else len(corners) ** 0.25
    axes = [
        [sign * distance if index == own else 0.0 for index in range(count)]
        for own in range(count)
        for sign in (-1, 1)
    ]
    scale = 1 / distance if axial == "inscribed" else 1.0
    corners = [[value * scale for value in row] for row in corners]
    # Set, not scaled: the ends are those of the file exactly.
    axes = [[float(round(v * scale)) if axial == "inscribed" else v for v in row] for row in axes]
    return corners + axes
