"""Who plans the proofs of a campaign: reads the finished trials, and tests what the evidence suspects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from iodyno.core.design import Design, ProofPlan
from iodyno.core.experiment import Experiment
from iodyno.core.workload import Level


class SuspectedLimiters:
    """Tests the first two suspects of every point."""

    def plan(
        self, experiment: Experiment, design: Design, folder: Path, there: Mapping[str, Level]
    ) -> ProofPlan:
        """The trials that test what the verdicts on the finished trials name."""
        # Imported here: slow, and not needed while the load is on.
        from iodyno.analysis.dataset import read_dataset
        from iodyno.analysis.limiter.verdict import (
            capacities,
            device_capacities,
            of_point,
            of_trial,
            service_time,
        )
        from iodyno.designs import perturbation

        trials = [trial for trial in read_dataset(folder).trials if trial.finished]
        suspicions = []
        for point in design.points:
            mine = [trial for trial in trials if trial.point == point.id]
            verdict = of_point([of_trial(trial) for trial in mine])
            names = tuple(suspect.name for suspect in verdict.ranked)
            suspicions.append(
                perturbation.Suspicion(
                    point, names, capacities(mine), device_capacities(mine), service_time(mine)
                )
            )
        return perturbation.plan(experiment, design, suspicions, there)


def strategy(experiment: Experiment) -> SuspectedLimiters | None:
    """The strategy of the experiment; None when it asks for no proof."""
    return SuspectedLimiters() if experiment.prove else None
