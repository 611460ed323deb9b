"""The design of a noise ladder: one point and its trials; a block of the design is one start of the agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from iodyno import designs
from iodyno.core.design import Design, PlannedTrial
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import DesignSpec, Experiment
from iodyno.core.noise import NoiseSpec
from iodyno.core.workload import Level


def of_point(experiment: Experiment, levels: Mapping[str, Level], spec: NoiseSpec) -> Experiment:
    """The experiment at one point only: the first at which the factors are at these levels.

    Raises ExperimentError when there is none.
    """
    factors = []
    for factor in experiment.factors:
        wanted = levels.get(factor.name, factor.levels[0])
        if wanted not in factor.levels:
            raise ExperimentError(
                f"{wanted!r} is no level of {factor.name}",
                where="--point",
                advice="`iodyno plan` names the points",
            )
        at = factor.levels.index(wanted)
        together = {name: (values[at],) for name, values in factor.together.items()}
        factors.append(replace(factor, levels=(wanted,), together=together))
    design = DesignSpec("full_factorial", spec.sessions * spec.trials, True, experiment.design.seed)
    return replace(
        experiment,
        factors=tuple(factors),
        design=design,
        until=None,
        search=None,
        prove=False,
        # What varies on one pair of machines; of many it is what their trials say.
        placement=(),
        noise=spec,
    )


def plan(experiment: Experiment) -> Design:
    """The trials of the ladder, in order; `block` numbers the starts of the agents."""
    spec = experiment.noise
    assert spec is not None
    (point,) = designs.plan(replace(experiment, design=replace(experiment.design, replicates=1))).points
    trials = tuple(
        PlannedTrial(order, order // spec.trials, order, point)
        for order in range(spec.sessions * spec.trials)
    )
    return Design("noise_ladder", experiment.design.seed, (point,), trials)
