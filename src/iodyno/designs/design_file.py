"""The trials of a design file, in its order: what another program planned."""

from __future__ import annotations

from iodyno.core.experiment import Experiment
from iodyno.designs import design_rows
from iodyno.designs.runs import Runs, of_levels


def points(experiment: Experiment) -> Runs:
    """The file's trials; equal lines are one point that is visited again. Raises ExperimentError with line and column."""
    made = design_rows.read(experiment, experiment.design.rows or "")
    return of_levels(made.rows, parts=made.blocks, ordered=True, names=made.points)
