"""Designs as values: points, the order in which trials visit them, how levels are coded, what is aliased."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from iodyno.core.limiter import Perturbation
from iodyno.core.workload import Level


@dataclass(frozen=True)
class Point:
    """One combination of levels. `levels` holds the factors, and what is set together with them.

    `measured_ns`: the measured window of its trials, where a strategy asks for another one than the experiment's.
    """

    id: str
    levels: Mapping[str, Level]
    measured_ns: int | None = None


@dataclass(frozen=True)
class PlannedTrial:
    """One execution of a point: its place in time, its block and its replicate, all counted from 0.

    `perturbation`: what a trial of a proof changes; None in a trial of the design. `plot`: the whole plot, counted from
    0, of a design that keeps slow factors still for several trials; None in all others. `pair`: the pair of machines that it runs
    on, of a placement.
    """

    order: int
    block: int
    replicate: int
    point: Point
    perturbation: Perturbation | None = None
    plot: int | None = None
    pair: str | None = None


@dataclass(frozen=True)
class Coding:
    """Coding of the levels of a factor as numbers from -1 to 1, so that effects of all factors are in one measure.

    A number is coded by its range: `low` is -1, `high` is 1, both in the base unit; the middle lies between them, or
    between their logarithms (Box and Draper, Response Surfaces, chapter 2). Of words, `levels` are in the order of the file: two
    of them are -1 and 1, more of them are codes of their own (`columns`).
    """

    kind: Literal["number", "word"]
    low: Level
    high: Level
    centre: Level | None
    levels: tuple[Level, ...] = ()
    scale: Literal["linear", "log"] = "linear"

    def coded(self, level: Level) -> float:
        """The level on the scale from -1 (low) to 1 (high). Raises ValueError for a word that is neither.

        >>> Coding("number", 1024, 65536, None, scale="log").coded(8192), Coding("number", 1, 5, None).coded(4)
        (0.0, 0.5)
        """
        if self.kind == "word":
            if level not in (self.low, self.high) or len(self.levels) > 2:
                raise ValueError(f"{level!r} is no end of a range")
            return -1.0 if level == self.low else 1.0
        low, high, here = (self._measure(value) for value in (self.low, self.high, level))
        # A centre is 0, and not -0.
        return 0.0 if high == low else round((2 * here - low - high) / (high - low), 12) + 0.0

    def natural(self, coded: float) -> float:
        """The number that stands at a place of the scale, in the base unit and not rounded.

        >>> round(Coding("number", 1024, 65536, None, scale="log").natural(0))
        8192
        """
        low, high = self._measure(self.low), self._measure(self.high)
        measure = (low + high) / 2 + coded * (high - low) / 2
        return math.exp(measure) if self.scale == "log" else measure

    def columns(self, level: Level) -> tuple[float, ...]:
        """The codes of the level in a model: one number; of n > 2 words, n - 1 (1 where the level is that word, -1 in all
        of them where it is the last: effects are deviations from the mean).
        """
        if self.kind == "number" or len(self.levels) <= 2:
            return (self.coded(level),)
        if level == self.levels[-1]:
            return (-1.0,) * (len(self.levels) - 1)
        return tuple(1.0 if level == other else 0.0 for other in self.levels[:-1])

    def _measure(self, level: Level) -> float:
        return math.log(level) if self.scale == "log" else float(level)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Structure:
    """Structure of a two-level design, known from how it was made.

    Effects are written with the factors' names, `size:connections`. `generators`: what each added factor was set
    equal to. `words`: the defining relation, products that are constant. `confounded`: effects that differences
    between blocks hide. `resolution`: the length of the shortest word; None where there is none, of a full factorial.
    """

    generators: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    resolution: int | None = None
    confounded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Design:
    """Every point and every trial of a campaign. The same experiment and seed give the same design.

    `coding`: of every factor that varies, by name. `aliases`: effects of first and second order that this design
    cannot tell apart, a tuple each; of designs that alias partly, see `iodyno.designs.evaluation`.
    """

    kind: str
    seed: int
    points: tuple[Point, ...]
    trials: tuple[PlannedTrial, ...]
    coding: Mapping[str, Coding] = field(default_factory=dict)
    structure: Structure | None = None
    aliases: tuple[tuple[str, ...], ...] = ()
    slow: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProofPlan:
    """The trials that test what limits, after those of the design.

    `untestable`: by point, the suspected limiters that no setting of the lab can test, and why.
    """

    trials: tuple[PlannedTrial, ...]
    untestable: Mapping[str, Mapping[str, str]]


DIRECTIONS = ("up", "down", "up_down")
"""Ways along the levels of a ladder."""

DESIGN_KINDS: Mapping[str, str] = {
    "full_factorial": "Every combination of the factors' levels.",
    "fractional": "A part of the combinations of two levels each.",
    "plackett_burman": "Two levels each, a multiple of four trials.",
    "definitive_screening": "Three levels each, two trials a factor and one.",
    "central_composite": "Two levels each, the middle, the axes.",
    "box_behnken": "Three levels each, never all at their ends.",
    "latin_hypercube": "Points spread over the ranges.",
    "sobol": "Points of a Sobol sequence, a power of two of them.",
    "d_optimal": "The combinations that tell a stated model best.",
    "ladder": "The levels of one factor in order: a ramp.",
    "one_factor": "One factor at a time around a base point.",
    "csv": "The trials of a file, in its order.",
}
"""Every kind of design, with what it visits. What makes the points is registered in `iodyno.designs`."""
