"""A proof: the trials so far name suspects, and further ones change the resource of each a little."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from iodyno.campaign.strategy import Answer, Strategy
from iodyno.core.design import Design, PlannedTrial, ProofPlan
from iodyno.core.experiment import Experiment
from iodyno.designs import perturbation


class Prove(Strategy):
    """Tests the first two suspects of every point, when the trials of the design are done."""

    stage = "asking what limits"

    def __init__(self, experiment: Experiment, design: Design, folder: Path) -> None:
        self._experiment = experiment
        self._design = design
        self._folder = folder
        self._plan: ProofPlan | None = None
        if experiment.prove == "foreign":
            self.foreign = perturbation.FOREIGN

    def ask(self) -> Sequence[PlannedTrial]:
        """The trials of the proof, all at once; then none."""
        if self._plan is not None:
            return ()
        self._plan = self.plan()
        return self._plan.trials

    def answer(self) -> Answer | None:
        """The suspects that no setting can test; what the trials prove is for the analysis."""
        if self._plan is None:
            return None
        return Answer(
            "proof", {"untestable": {point: dict(why) for point, why in self._plan.untestable.items()}}
        )

    def plan(self) -> ProofPlan:
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

        dataset = read_dataset(self._folder)
        trials = [trial for trial in dataset.trials if trial.finished]
        suspicions = []
        for point in self._design.points:
            mine = [trial for trial in trials if trial.point == point.id]
            verdict = of_point([of_trial(trial) for trial in mine])
            names = tuple(suspect.name for suspect in verdict.ranked)
            suspicions.append(
                perturbation.Suspicion(
                    point, names, capacities(mine), device_capacities(mine), service_time(mine)
                )
            )
        return perturbation.plan(
            self._experiment, self._design, suspicions, dataset.header.get("foreign") or {}
        )
