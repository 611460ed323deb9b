"""Variation between trials of one point: the noise that a next design is planned with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iodyno.analysis.results import CampaignSummary
from iodyno.core.errors import ExperimentError, StoreError


@dataclass(frozen=True)
class Repeatability:
    """Coefficient of variation of trials of a point within a block, pooled, with its 95 % interval and degrees of freedom."""

    outcome: str
    noise_ratio: float
    low_ratio: float
    high_ratio: float
    degrees_of_freedom: int
    points: int


def pooled(outcome: str, trials: Sequence[tuple[str, int, float]]) -> Repeatability | None:
    """The noise in trials, each with its point, its block and its value; None when no trials are left to tell it, or a
    mean is not above 0.

    What is left of each value, relative to the mean of its point, when points and blocks are taken out by least squares (a
    plan takes them out too; Montgomery, section 4.1); the interval is that of a variance of normal values, by chi-square.
    """
    import numpy as np

    from iodyno.analysis.chance import chi2

    points, blocks = (sorted({trial[place] for trial in trials}) for place in (0, 1))
    if not trials:
        return None
    place_of = np.array([points.index(point) for point, _, _ in trials])
    values = np.array([value for _, _, value in trials], dtype=float)
    means = np.array([values[place_of == place].mean() for place in range(len(points))])
    if (means <= 0).any():
        return None
    relative = values / means[place_of]
    matrix = np.zeros((len(trials), len(points) + len(blocks)))
    matrix[np.arange(len(trials)), place_of] = 1.0
    matrix[np.arange(len(trials)), [len(points) + blocks.index(block) for _, block, _ in trials]] = 1.0
    coefficients, _, rank, _ = np.linalg.lstsq(matrix, relative, rcond=None)
    freedom = len(trials) - int(rank)
    if freedom < 1:
        return None
    squares = float(((relative - matrix @ coefficients) ** 2).sum())
    low, high = (math.sqrt(squares / float(chi2.ppf(share, freedom))) for share in (0.975, 0.025))
    return Repeatability(outcome, math.sqrt(squares / freedom), low, high, freedom, len(points))


def of_campaign(summary: CampaignSummary, outcome: str | None = None) -> Repeatability:
    """The noise of an outcome in a campaign, by default of the first that its experiment asks for.

    Raises ExperimentError for an outcome that it does not have, StoreError for one that it has from no point twice.
    """
    asked = outcome or next(iter(summary.asked), "goodput_bits_per_s")
    values: list[tuple[str, int, float]] = []
    known: Mapping[str, float | None] = {}
    for trial in summary.trials:
        known = {**known, **trial.outcomes}
        value = trial.outcomes.get(asked)
        if value is not None and trial.status == "finished":
            values.append((trial.point, trial.block, value))
    if asked not in known:
        raise ExperimentError(
            f"unknown outcome {asked!r}: expected {', '.join(known) or 'none, as nothing was measured'}",
            where=summary.folder,
            advice="--outcome with one of them",
        )
    found = pooled(asked, values)
    if found is None:
        raise StoreError(
            f"the finished trials with {asked} are too few to tell the noise from points and blocks, or not above 0",
            where=summary.folder,
            advice="run it with --replicates 3, or state the noise with --noise",
        )
    return found
