"""A search as part of a campaign: who is asked for the next trial, and how what was tried is kept in its folder.

The campaign interprets nothing: it asks a seeker, which may look at the finished trials in the folder, for the next point,
executes it, and writes it down before it runs. A search that is taken up again goes on from the trials that it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from iodyno.core.design import Design, PlannedTrial, Point
from iodyno.core.errors import StoreError
from iodyno.core.experiment import Experiment
from iodyno.core.search import Found, Step


class Seeker(Protocol):
    """Who decides what is tried next."""

    def next(
        self, experiment: Experiment, design: Design, folder: Path, searched: Searched
    ) -> tuple[Step | None, Sequence[Found]]:
        """The next thing to try, None at the end of the search; and where the search of each point stands.

        Called in a thread of its own, after each trial.
        """


@dataclass
class Searched:
    """What a search has tried so far, in the order of time. `base`: the design's point of each point tried."""

    points: dict[str, Point] = field(default_factory=dict)
    base: dict[str, str] = field(default_factory=dict)
    trials: list[PlannedTrial] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)

    def add(self, step: Step, order: int) -> PlannedTrial:
        """The trial of the next step."""
        self.points.setdefault(step.point.id, step.point)
        self.base[step.point.id] = step.base
        replicate = sum(trial.point.id == step.point.id for trial in self.trials)
        planned = PlannedTrial(order, 0, replicate, self.points[step.point.id])
        self.trials.append(planned)
        return planned

    def as_json(self) -> dict[str, Any]:
        """As `campaign.json` holds it."""
        return {
            "points": [
                {"id": point.id, "levels": dict(point.levels), "base": self.base[point.id]}
                for point in self.points.values()
            ],
            "trials": [
                {"order": t.order, "block": t.block, "replicate": t.replicate, "point": t.point.id}
                for t in self.trials
            ],
            "found": [asdict(found) for found in self.found],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Searched:
        """The search that a campaign has. Raises StoreError when it cannot be read."""
        try:
            searched = cls(
                points={point["id"]: Point(point["id"], point["levels"]) for point in stored["points"]},
                base={point["id"]: point["base"] for point in stored["points"]},
                found=[Found(**found) for found in stored["found"]],
            )
            searched.trials = [
                PlannedTrial(t["order"], t["block"], t["replicate"], searched.points[t["point"]])
                for t in stored["trials"]
            ]
        except (KeyError, TypeError) as error:
            raise StoreError(
                f"its search cannot be read: {error}",
                where="campaign.json",
                advice="begin the search anew, with another --into",
            ) from error
        return searched
