"""Listener of a running campaign: stages, trials, progress and warnings as they come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from iodyno.campaign.strategy import Answer
from iodyno.core.design import PlannedTrial
from iodyno.core.warnings import Warning


class Watcher(Protocol):
    """Observer of a campaign: progress, numbers, time left."""

    def on_stage(self, text: str) -> None:
        """A stage of the campaign begins."""

    def on_trial_start(self, planned: PlannedTrial, attempt: int) -> None:
        """A trial begins."""

    def on_progress(self, host: str, progress: Mapping[str, Any]) -> None:
        """A host has gone through an interval, of which this is the wire's `progress` message."""

    def on_trial_end(self, planned: PlannedTrial, manifest: Mapping[str, Any]) -> None:
        """A trial has finished or failed."""

    def on_warning(self, warning: Warning) -> None:
        """A warning has come up that is about the campaign, not about one trial."""

    def on_time_left(self, time_left_ns: int) -> None:
        """Take the time that the rest of the campaign needs."""

    def on_answer(self, answer: Answer, time_left_ns: int) -> None:
        """A strategy knows more than before; and how long the rest takes at most."""
