"""The order of the trials: replicates, complete blocks in time, a random order inside each.

A block visits every point once, so that whatever drifts in hours (temperature, neighbours, page cache) falls
on all points alike and can be told apart from them (randomised complete block design; Montgomery, chapter 4).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from iodyno.core.design import PlannedTrial, Point
from iodyno.core.experiment import DesignSpec


def trials(points: Sequence[Point], spec: DesignSpec) -> tuple[PlannedTrial, ...]:
    """Every trial in its order.

    With `blocks`, block and replicate are the same number. Without, all trials are one block (number 0) in a
    completely random order, and the replicates of a point are counted as they come.
    """
    source = random.Random(spec.seed)
    if spec.blocks:
        visits = [(block, point) for block in range(spec.replicates) for point in _shuffled(points, source)]
    else:
        visits = [(0, point) for point in _shuffled(list(points) * spec.replicates, source)]
    counted: dict[str, int] = {}
    planned = []
    for order, (block, point) in enumerate(visits):
        replicate = counted.get(point.id, 0)
        counted[point.id] = replicate + 1
        planned.append(PlannedTrial(order, block, replicate, point))
    return tuple(planned)


def _shuffled(points: Sequence[Point], source: random.Random) -> list[Point]:
    """The points in a random order. Sorted by `random()`, the one sequence that Python promises to keep."""
    drawn = [source.random() for _ in points]
    return [points[index] for index in sorted(range(len(points)), key=drawn.__getitem__)]
