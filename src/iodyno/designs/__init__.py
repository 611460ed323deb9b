"""Designs: which points a campaign visits, and in which order.

To add a design: one file that makes the points, one line in `POINTS`, and its word in `core.design`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iodyno.core.design import Design
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.designs import (
    aliasing,
    box_behnken,
    central_composite,
    d_optimal,
    definitive_screening,
    design_file,
    fractional,
    full_factorial,
    latin_hypercube,
    one_factor,
    order,
    plackett_burman,
    ramp,
    ranges,
    runs,
    sobol,
)
from iodyno.designs.runs import Runs

__all__ = ["MAX_TRIALS", "POINTS", "plan"]

POINTS: Mapping[str, Callable[[Experiment], Runs]] = {
    "full_factorial": full_factorial.points,
    "fractional": fractional.points,
    "plackett_burman": plackett_burman.points,
    "definitive_screening": definitive_screening.points,
    "central_composite": central_composite.points,
    "box_behnken": box_behnken.points,
    "latin_hypercube": latin_hypercube.points,
    "sobol": sobol.points,
    "d_optimal": d_optimal.points,
    "ladder": ramp.points,
    "one_factor": one_factor.points,
    "csv": design_file.points,
}
"""What makes the points of a design, by its word in an experiment file."""

_CENTRE_POINTS = {
    "central_composite": central_composite.CENTRE_POINTS,
    "box_behnken": box_behnken.CENTRE_POINTS,
}
"""Visits of the middle in a replicate, of designs that cannot tell curvature without."""

MAX_TRIALS = 99_999
"""A trial's folder is named by five digits."""


def plan(experiment: Experiment) -> Design:
    """The design of the experiment. The same experiment gives the same design, everywhere and always.

    Raises ExperimentError, whose place is a key of the file, for a design that these factors cannot have.
    """
    spec = experiment.design
    made = POINTS[spec.kind](experiment)
    middle = _CENTRE_POINTS.get(spec.kind, 0) if spec.centre_points is None else spec.centre_points
    if middle:
        made = runs.with_centre(made, ranges.centre(experiment), middle)
    if spec.slow:
        made = runs.grouped(made, spec.slow)
    if made.visits * spec.replicates > MAX_TRIALS:
        raise ExperimentError(
            f"found {made.visits * spec.replicates} trials in all, allowed: {MAX_TRIALS}",
            where="design",
            advice="fewer replicates, fewer levels, or a fraction",
        )
    return Design(
        spec.kind,
        spec.seed,
        made.points,
        # A search has trials of its own, at points that it finds as it goes.
        () if experiment.search else order.trials(made, spec),
        coding=ranges.codings(experiment),
        structure=made.structure,
        aliases=aliasing.classes(experiment, made),
        slow=spec.slow,
    )
