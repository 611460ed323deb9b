"""Which trial runs on which pair of machines: a random, balanced assignment, so that the machine can be told from the setting.

Pairs are blocks that cross the blocks in time. Where there are as many replicates as pairs, or a multiple, every point visits
every pair as often (a complete block design); with fewer the design is incomplete and cyclic (Montgomery, Design and Analysis of
Experiments, chapter 4; John and Williams, Cyclic and Computer Generated Designs, 1995).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from iodyno.core.design import PlannedTrial
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.designs.order import shuffled

_DRAWS = 100
"""Assignments that are drawn (chosen: one of them is as even as can be); the first that is even is taken."""


def assigned(trials: Sequence[PlannedTrial], experiment: Experiment) -> tuple[PlannedTrial, ...]:
    """The trials, each with its pair. Raises ExperimentError where so few cannot tell the pairs from the points; not of the quick
    form, which is to show that all works.
    """
    pairs = [pair.name for pair in experiment.placement]
    source = random.Random(experiment.design.seed)
    chosen: tuple[PlannedTrial, ...] = ()
    least = len(trials) + 1
    for _ in range(_DRAWS):
        placed = _draw(trials, pairs, source)
        used = Counter(trial.pair for trial in placed)
        uneven = max(used.values()) - min(used[pair] for pair in pairs)
        if uneven < least and (told_apart(placed) or experiment.quick):
            chosen, least = placed, uneven
        if least <= 1:
            return chosen
    if chosen:
        return chosen
    points = len({trial.point.id for trial in trials})
    raise ExperimentError(
        f"invalid value {len(pairs)}: {len(trials)} trials of {points} points on {len(pairs)} pairs do not tell the machine "
        "from the setting; expected fewer pairs, or more replicates",
        where="placement.pairs",
        advice="as many replicates as pairs, so that every point runs on every pair",
    )


def _draw(
    trials: Sequence[PlannedTrial], pairs: Sequence[str], source: random.Random
) -> tuple[PlannedTrial, ...]:
    """Latin squares, one after the other: a point goes round all pairs from its own on, and in a replicate the points divide
    them; the order of points, replicates and pairs is chance in each.
    """
    points = list(dict.fromkeys(trial.point.id for trial in trials))
    squares: dict[int, tuple[list[str], list[int], list[str]]] = {}
    placed = []
    for trial in trials:
        square, turn = divmod(trial.replicate, len(pairs))
        if square not in squares:
            squares[square] = (
                shuffled(points, source),
                shuffled(range(len(pairs)), source),
                shuffled(pairs, source),
            )
        of_points, turns, of_pairs = squares[square]
        place = (of_points.index(trial.point.id) + turns[turn]) % len(pairs)
        placed.append(replace(trial, pair=of_pairs[place]))
    return tuple(placed)


def told_apart(trials: Sequence[PlannedTrial]) -> bool:
    """Tell whether differences of points are known beside those of pairs: each point is joined to each other by pairs that both
    were on, and trials are left to tell the error.

    >>> from iodyno.core.design import Point
    >>> a, b = Point("a", {}), Point("b", {})
    >>> plan = lambda *where: [PlannedTrial(0, 0, 0, point, pair=pair) for point, pair in where]
    >>> told_apart(plan((a, "1"), (b, "2"))), told_apart(plan((a, "1"), (b, "1"), (a, "2"), (b, "2")))
    (False, True)
    """
    joined: dict[str, set[str]] = {}
    for trial in trials:
        both = joined.setdefault(f"point {trial.point.id}", {f"point {trial.point.id}"})
        both |= joined.get(f"pair {trial.pair}", {f"pair {trial.pair}"})
        for one in both:
            joined[one] = both
    return len({id(group) for group in joined.values()}) == 1 and len(trials) >= len(joined)
