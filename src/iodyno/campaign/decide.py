"""A rule for stopping as part of a campaign: who is asked after every block, and how the answer is kept in its folder.

The campaign interprets nothing: it executes the blocks of the design one after the other and asks a decider, which may
look at the finished trials in the folder, whether that is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from iodyno.core.decision import Standing
from iodyno.core.design import Design, PlannedTrial
from iodyno.core.errors import StoreError
from iodyno.core.experiment import Experiment


class Decider(Protocol):
    """Who says whether the blocks so far are enough."""

    def look(
        self, experiment: Experiment, design: Design, folder: Path, blocks: int, before: Standing | None
    ) -> Standing:
        """Where the decision stands after so many blocks; `before`: where it stood at the last look.

        Called in a thread of its own, after each block.
        """


def blocks_of(design: Design) -> list[list[PlannedTrial]]:
    """The trials of the design block by block, in their order."""
    return [list(trials) for _, trials in groupby(design.trials, key=lambda trial: trial.block)]


def as_json(standing: Standing) -> dict[str, Any]:
    """As `campaign.json` holds it."""
    return asdict(standing)


def from_json(stored: Mapping[str, Any]) -> Standing:
    """The decision that a campaign has. Raises StoreError when it cannot be read."""
    try:
        return Standing.from_json(stored)
    except (KeyError, TypeError) as error:
        raise StoreError(
            f"its decision cannot be read: {error}",
            where="campaign.json",
            advice="remove `until` from it; it is then made anew from the trials",
        ) from error
