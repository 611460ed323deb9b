"""Strategies: what a campaign runs next, given what its trials have told; one file a strategy."""

from __future__ import annotations

from pathlib import Path

from iodyno.campaign.strategy import Strategy
from iodyno.core.design import Design
from iodyno.core.experiment import Experiment
from iodyno.strategies.fixed import Fixed
from iodyno.strategies.noise import Noise
from iodyno.strategies.prove import Prove
from iodyno.strategies.search import Search
from iodyno.strategies.until import Until


def of_experiment(experiment: Experiment, design: Design, folder: Path) -> list[Strategy]:
    """The strategies that an experiment asks for, one after the other; `folder`: of its campaign."""
    first: Strategy = Fixed(design)
    if experiment.noise:
        first = Noise(design, experiment.noise)
    elif experiment.until:
        first = Until(experiment.until, design, folder)
    elif experiment.search:
        first = Search(experiment.search, design, folder)
    return [first, Prove(experiment, design, folder)] if experiment.prove else [first]
