"""The design of a noise ladder: one point and its trials; a block of the design is one start of the agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from iodyno import designs
from iodyno.core.design import Design, PlannedTrial
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import DesignSpec, Experiment
from iodyno.core.factor import parameter_of
from iodyno.core.invalid import for_key, invalid
from iodyno.core.noise import NoiseSpec
from iodyno.core.workload import Level


def levels_of(experiment: Experiment, written: str) -> dict[str, Level]:
    """Return levels by factor, from `size=1KiB,connections=8`. Raises ExperimentError."""
    factors = {factor.name: factor for factor in experiment.factors}
    found: dict[str, Level] = {}
    for part in filter(None, (part.strip() for part in written.split(","))):
        name, equals, text = (piece.strip() for piece in part.partition("="))
        parameter = parameter_of(experiment.workload.workload, name)
        if not equals or name not in factors:
            raise ExperimentError(
                invalid(part, f"levels of {', '.join(factors) or 'no factor, as nothing is varied'}"),
                where="--point",
                advice="such as --point 'size=1KiB'",
            )
        try:
            level: Level = parameter.parse(text) if parameter else text
        except ValueError as problem:
            raise ExperimentError(
                for_key(name, str(problem)), where="--point", advice="write a level of the file"
            ) from None
        if level not in factors[name].levels:
            shown = ", ".join(parameter.show(at) if parameter else str(at) for at in factors[name].levels)
            raise ExperimentError(
                f"unknown level {text!r} of {name}: expected {shown}",
                where="--point",
                advice="write one of these",
            )
        found[name] = level
    return found


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
