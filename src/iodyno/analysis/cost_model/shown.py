"""Everything that is shown of a fitted model of a cost, as values."""

from __future__ import annotations

from dataclasses import dataclass

from iodyno.analysis.cost_model.checks import AtNoLoad, Check
from iodyno.analysis.cost_model.model import CostModel
from iodyno.analysis.cost_model.variation import EffectLine, HalfNormal, Variation
from iodyno.analysis.cost_model.written import Written
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import Warning


@dataclass(frozen=True)
class Coefficient:
    """A coefficient on the coded scale: how much the outcome changes from the middle of the range to its upper end."""

    name: str
    estimate: Estimate
    standard_error: float | None
    t: float | None


@dataclass(frozen=True)
class PointFit:
    """A point of the design: what was measured there (mean, 95 % interval, trials), and what the model says."""

    text: str
    measured: float
    low: float | None
    high: float | None
    n: int
    predicted: Estimate


@dataclass(frozen=True)
class CostStudy:
    """Everything that is shown of a fitted model."""

    outcome: str
    unit: str
    model: CostModel
    coefficients: tuple[Coefficient, ...]
    equation: Written
    variation: Variation
    half_normal: HalfNormal | None
    checks: tuple[Check, ...]
    main_effects: tuple[EffectLine, ...]
    interactions: tuple[tuple[str, tuple[EffectLine, ...]], ...]
    points: tuple[PointFit, ...]
    trials: int
    left_out: int
    no_load: AtNoLoad | None = None

    @property
    def warnings(self) -> tuple[Warning, ...]:
        """Warnings about the model."""
        found = [check.warning for check in self.checks if check.warning]
        if self.no_load and self.no_load.warning:
            found.append(self.no_load.warning)
        return tuple(found)
