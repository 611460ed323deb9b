"""Designs as values: points, and the order in which trials visit them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iodyno.core.limiter import Perturbation
from iodyno.core.workload import Level


@dataclass(frozen=True)
class Point:
    """One combination of levels. `levels` holds the factors, and what is set together with them."""

    id: str
    levels: Mapping[str, Level]


@dataclass(frozen=True)
class PlannedTrial:
    """One execution of a point: its place in time, its block and its replicate, all counted from 0.

    `perturbation`: what a trial of a proof changes; None in a trial of the design.
    """

    order: int
    block: int
    replicate: int
    point: Point
    perturbation: Perturbation | None = None


@dataclass(frozen=True)
class Design:
    """Every point and every trial of a campaign. The same experiment and seed give the same design."""

    kind: str
    seed: int
    points: tuple[Point, ...]
    trials: tuple[PlannedTrial, ...]


@dataclass(frozen=True)
class ProofPlan:
    """The trials that test what limits, after those of the design.

    `untestable`: by point, the suspected limiters that no setting of the lab can test, and why.
    """

    trials: tuple[PlannedTrial, ...]
    untestable: Mapping[str, Mapping[str, str]]


DESIGN_KINDS: Mapping[str, str] = {
    "full_factorial": "Every combination of the factors' levels.",
}
"""Every kind of design, with what it visits. What makes the points is registered in `iodyno.designs`."""
