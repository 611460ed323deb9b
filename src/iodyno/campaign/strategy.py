"""The protocol of a strategy: what runs next, given what the trials so far have told.

A search, a rule for stopping, a proof, a noise ladder and a plain design are all this. A strategy stores nothing: a campaign
that is taken up again makes its strategy anew, which asks again, and is told what is stored before anything runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from iodyno.core.design import PlannedTrial, Point


@dataclass(frozen=True)
class TrialResult:
    """Result of a trial that was asked for: `reason` why it failed or was skipped, `folder` what is stored of it."""

    planned: PlannedTrial
    status: Literal["finished", "failed", "skipped"]
    reason: str | None
    folder: Path | None


@dataclass(frozen=True)
class Answer:
    """Answer of a strategy so far.

    `content` stands in `campaign.json` under the key `section`; `shown` is for who watches. Until the end it takes
    `further_trials` beside those asked for, or, of a strategy that has a time of its own, `left_ns` at most.
    """

    section: str
    content: Any
    shown: object = None
    further_trials: int = 0
    left_ns: int | None = None


class Strategy:
    """Strategy that decides what a campaign runs. `stage`: what a user is told when it begins; `foreign`: tunables that others
    may have set, whose values `campaign.json` holds under that key when it is asked.

    Asking and telling happens in a thread of its own and may take a while.
    """

    stage: str = ""
    foreign: Sequence[str] = ()

    def ask(self) -> Sequence[Point | PlannedTrial]:
        """Return the points or trials to run next; empty: done. All that was asked for before has been told.

        The same results give the same points. One that is asked for again is run again; trials whose place in time is planned
        are asked for as such.
        """
        raise NotImplementedError

    def tell(self, trial: TrialResult) -> None:
        """Take the result of a trial that was asked for."""

    def answer(self) -> Answer | None:
        """Return the answer so far; None where there is nothing to say beside the trials themselves."""
        return None

    def pause_ns(self, last: PlannedTrial, planned: PlannedTrial) -> int | None:
        """Return the time without agents between two trials that follow each other; None: the agents stay."""
        return None
