"""Designs: which points a campaign visits, and in which order.

To add a design: one file that makes the points, one line in `POINTS`, and its word in `core.design`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from iodyno.core.design import Design
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.designs import aliasing, order, placement, ranges, runs
from iodyno.designs.runs import Runs

__all__ = ["MAX_TRIALS", "POINTS", "plan"]

POINTS: Mapping[str, str] = {
    **{
        kind: kind
        for kind in (
            "full_factorial",
            "fractional",
            "plackett_burman",
            "definitive_screening",
            "central_composite",
            "box_behnken",
            "latin_hypercube",
            "sobol",
            "d_optimal",
            "one_factor",
        )
    },
    "ladder": "ramp",
    "csv": "design_file",
}
"""The module here whose `points` makes the points of a design, by the design's word in an experiment file. A module whose design
cannot tell curvature without visits of the middle says how many: `CENTRE_POINTS`.
"""

MAX_TRIALS = 99_999
"""A trial's folder is named by five digits."""


def plan(experiment: Experiment) -> Design:
    """The design of the experiment. The same experiment gives the same design, everywhere and always.

    Raises ExperimentError, whose place is a key of the file, for a design that these factors cannot have.
    """
    spec = experiment.design
    maker = import_module(f"{__name__}.{POINTS[spec.kind]}")
    made: Runs = maker.points(experiment)
    middle = getattr(maker, "CENTRE_POINTS", 0) if spec.centre_points is None else spec.centre_points
    if middle:
        made = runs.with_centre(made, ranges.centre(experiment), middle)
    if spec.slow:
        made = runs.grouped(made, spec.slow)
    if made.visits * spec.replicates > MAX_TRIALS:
        raise ExperimentError(
            f"invalid value: {made.visits * spec.replicates} trials in all; expected {MAX_TRIALS} at most",
            where="design",
            advice="fewer replicates, fewer levels, or a fraction",
        )
    # A search has trials of its own, at points that it finds as it goes.
    trials = () if experiment.search else order.trials(made, spec)
    return Design(
        spec.kind,
        spec.seed,
        made.points,
        placement.assigned(trials, experiment) if experiment.placement else trials,
        coding=ranges.codings(experiment),
        structure=made.structure,
        aliases=aliasing.classes(experiment, made),
        slow=spec.slow,
    )
