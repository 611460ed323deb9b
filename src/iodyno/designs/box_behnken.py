"""Box-Behnken designs: three levels, of which no trial has all factors at their ends.

Box and Behnken 1960, "Some new three level designs for the study of quantitative variables": two or three factors at
a time are at all combinations of their ends, the others in the middle. (pyDOE takes pairs for six and seven factors
too: a third more trials.)
"""

from __future__ import annotations

import itertools

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.quantity import counted
from iodyno.designs import ranges
from iodyno.designs.runs import Runs, of_levels

CENTRE_POINTS = 3
"""Visits of the middle in a replicate where the file does not say how many (as in the paper's design of three factors)."""

_TOGETHER: dict[int, tuple[tuple[int, ...], ...]] = {
    count: tuple(itertools.combinations(range(count), 2)) for count in (3, 4, 5)
} | {
    # Every factor three times; the pairs (0, 3), (1, 4) and (2, 5) twice, all others once.
    6: ((0, 1, 3), (1, 2, 4), (2, 3, 5), (0, 3, 4), (1, 4, 5), (0, 2, 5)),
    # Every pair once: the lines of the plane of seven points.
    7: ((3, 4, 5), (0, 5, 6), (1, 4, 6), (0, 1, 3), (2, 3, 6), (0, 2, 4), (1, 2, 5)),
}
"""Which factors are at their ends together, by the number of factors."""


def points(experiment: Experiment) -> Runs:
    """The points at the ends of two or three factors; the middle is added by `plan`. Raises ExperimentError."""
    coding = ranges.numbers_only(experiment)
    count = len(coding)
    if count not in _TOGETHER:
        raise ExperimentError(
            f"invalid value: {counted(count, 'factor')}; expected 3 to {max(_TOGETHER)} in the design box_behnken",
            where="factors",
            advice="use central_composite",
        )
    coded = []
    for together in _TOGETHER[count]:
        for ends in itertools.product((-1.0, 1.0), repeat=len(together)):
            row = [0.0] * count
            for index, end in zip(together, ends, strict=True):
                row[index] = end
            coded.append(row)
    return of_levels(ranges.rows_of(experiment, coded, coding))
