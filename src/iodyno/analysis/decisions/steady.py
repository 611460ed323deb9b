"""Steady state by rounds: SNIA, Solid State Storage Performance Test Specification 2.0.2, "steady state"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from iodyno.analysis.decisions.contrast import Observation
from iodyno.core.workload import Level

ROUNDS = 5
"""Rounds of the measurement window."""
MOST_RANGE = 0.20
"""Between the largest and the smallest of them, over their mean."""
MOST_SLOPE = 0.10
"""Between the ends of a straight line through them, over their mean."""


@dataclass(frozen=True)
class Steadiness:
    """The last rounds of the point that varies most: mean, least and greatest; `range_ratio` and `slope_ratio` over the mean."""

    mean: float
    least: float
    greatest: float
    range_ratio: float
    slope_ratio: float

    @property
    def is_steady(self) -> bool:
        """True where range and slope are both within their limits."""
        return self.range_ratio <= MOST_RANGE and self.slope_ratio <= MOST_SLOPE

    @property
    def _worst(self) -> float:
        return max(self.range_ratio / MOST_RANGE, self.slope_ratio / MOST_SLOPE)


def steadiness(observations: Sequence[Observation]) -> Steadiness | None:
    """Look at the last rounds of each point, a round being a block; None while a point has too few of them, or a mean of 0."""
    points: dict[tuple[tuple[str, Level], ...], dict[int, list[float]]] = {}
    for each in observations:
        rounds = points.setdefault(tuple(sorted(each.levels.items())), {})
        rounds.setdefault(each.block, []).append(each.value)
    found = [_of_point([fmean(values) for _, values in sorted(rounds.items())]) for rounds in points.values()]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    return max(known, key=lambda each: each._worst)


def _of_point(rounds: Sequence[float]) -> Steadiness | None:
    last = rounds[-ROUNDS:]
    mean = fmean(last)
    if len(last) < ROUNDS or mean == 0:
        return None
    middle = (ROUNDS - 1) / 2
    slope = sum((number - middle) * value for number, value in enumerate(last))
    slope /= sum((number - middle) ** 2 for number in range(ROUNDS))
    size = abs(mean)
    return Steadiness(
        mean, min(last), max(last), (max(last) - min(last)) / size, abs(slope) * (ROUNDS - 1) / size
    )
