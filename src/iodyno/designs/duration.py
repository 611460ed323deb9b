"""Duration of a campaign: its windows, which are known, and the time around them, which is estimated."""

from __future__ import annotations

from dataclasses import dataclass

from iodyno.core.design import Design
from iodyno.core.experiment import Experiment

TRIAL_OVERHEAD_NS = 600_000_000
CONNECTION_OVERHEAD_NS = 400_000
"""Chosen from trials on a machine of two cores: clock probes, arming, closing and storing of a trial, and the
opening and closing of each of its connections."""


@dataclass(frozen=True)
class Duration:
    """Time in nanoseconds under load, around the trials, and for the background before and after."""

    load_ns: int
    overhead_ns: int
    background_ns: int

    @property
    def total_ns(self) -> int:
        """All of it."""
        return self.load_ns + self.overhead_ns + self.background_ns


def estimate(experiment: Experiment, design: Design) -> Duration:
    """Estimate how long the design takes when no trial fails."""
    connections = sum(
        int(experiment.settings(trial.point.levels).get("connections", 1)) for trial in design.trials
    )
    return Duration(
        load_ns=len(design.trials) * experiment.windows.load_ns,
        overhead_ns=len(design.trials) * (TRIAL_OVERHEAD_NS + experiment.limits.rest_ns)
        + connections * CONNECTION_OVERHEAD_NS,
        background_ns=2 * experiment.limits.background_ns,
    )
