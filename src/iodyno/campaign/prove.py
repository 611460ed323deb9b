"""The proof of a limiter as part of a campaign: who plans it, and how its plan is kept in the campaign's folder.

The campaign interprets nothing: it asks a strategy, which may look at the finished trials in the folder, for the trials
that test what limits, executes them as its own, and writes down which they are. A campaign that is taken up again
goes on with the plan that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from iodyno.core.design import Design, PlannedTrial, ProofPlan
from iodyno.core.errors import StoreError
from iodyno.core.experiment import Experiment
from iodyno.core.limiter import Perturbation
from iodyno.core.workload import Level


class Strategy(Protocol):
    """Who plans the trials of a proof."""

    def plan(
        self, experiment: Experiment, design: Design, folder: Path, there: Mapping[str, Level]
    ) -> ProofPlan:
        """The trials to do after those of the design, which are in the folder. Called once, in a thread of its own.

        `there`: settings of the hosts that others have made and that a trial may change, by names such as `server.shaper_rate`.
        """


def as_json(plan: ProofPlan) -> dict[str, Any]:
    """As `campaign.json` holds it."""
    return {
        "trials": [
            {
                "order": trial.order,
                "block": trial.block,
                "replicate": trial.replicate,
                "point": trial.point.id,
                "perturbation": asdict(trial.perturbation) if trial.perturbation else None,
            }
            for trial in plan.trials
        ],
        "untestable": {point: dict(limiters) for point, limiters in plan.untestable.items()},
    }


def from_json(stored: Mapping[str, Any], design: Design) -> ProofPlan:
    """The plan that a campaign has. Raises StoreError when it is none of this design."""
    points = {point.id: point for point in design.points}
    try:
        trials = tuple(
            PlannedTrial(
                trial["order"],
                trial["block"],
                trial["replicate"],
                points[trial["point"]],
                Perturbation(**trial["perturbation"]),
            )
            for trial in stored["trials"]
        )
        return ProofPlan(trials, stored["untestable"])
    except (KeyError, TypeError) as error:
        raise StoreError(
            f"its plan of a proof cannot be read: {error}",
            where="campaign.json",
            advice="remove `proof` from it; the proof is then planned anew",
        ) from error
