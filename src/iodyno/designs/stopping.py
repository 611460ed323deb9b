"""A design that goes on until a decision: blocks like those that were asked for, as many as the limit on trials allows.

Any kind of design: a further block is one replicate more. The blocks before stay as they are, as the order of a
design is drawn from its seed block by block.
"""

from __future__ import annotations

from dataclasses import replace

from iodyno import designs
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment


def extended(experiment: Experiment) -> Experiment:
    """The experiment with as many replicates, in blocks, as its rule may take; itself when it has no rule.

    Raises ExperimentError when the limit on trials is less than two replicates.
    """
    if experiment.until is None:
        return experiment
    if experiment.placement:
        raise ExperimentError(
            "cannot be used with a placement: a block has other pairs of machines than the one before",
            where="--until",
            advice="a number of replicates: as many as pairs, or a multiple",
        )
    once = replace(experiment, design=replace(experiment.design, replicates=1, blocks=True))
    each, most = len(designs.plan(once).trials), experiment.until.max_trials
    if most < 2 * each:
        raise ExperimentError(
            f"invalid value: {most} trials at most; expected {2 * each} or more, as visiting "
            f"every point once takes {each}",
            where="--max-trials",
            advice=f"--max-trials {2 * each}, or fewer levels",
        )
    return replace(once, design=replace(once.design, replicates=most // each))
