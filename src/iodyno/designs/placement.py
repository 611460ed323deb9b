"""Which trial runs on which pair of machines: a random, balanced assignment, so that the machine can be told from the setting.

Pairs are blocks that cross the blocks in time. Where there are as many replicates as pairs, or a multiple, every point visits
every pair as often (a complete block design); with fewer the design is incomplete, and points share pairs as evenly as can be
(Montgomery, Design and Analysis of Experiments, chapter 4).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from iodyno.core.design import PlannedTrial
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment

_DRAWS = 100


def assigned(trials: Sequence[PlannedTrial], experiment: Experiment) -> tuple[PlannedTrial, ...]:
    """The trials, each with its pair. Raises ExperimentError where so few cannot tell the pairs from the points; not of the quick
    form, which is to show that all works.
    """
    pairs = [pair.name for pair in experiment.placement]
    source = random.Random(experiment.design.seed)
    for _ in range(_DRAWS):
        placed = _draw(trials, pairs, source)
        if told_apart(placed) or experiment.quick:
            return placed
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
    """One trial after the other has a pair that its point was on least; of these one that ran least, first of the replicate, then
    of all; then one whose points it met least; the rest is chance.
    """
    on: Counter[tuple[str, str]] = Counter()
    used: Counter[str] = Counter()
    in_replicate: Counter[tuple[int, str]] = Counter()
    met: Counter[tuple[str, str]] = Counter()
    placed = []
    for trial in trials:
        point = trial.point.id

        def rank(pair: str, point: str = point, replicate: int = trial.replicate) -> tuple[float, ...]:
            others = sum(met[point, other] for other in {o for o, p in on if p == pair})
            return on[point, pair], in_replicate[replicate, pair], used[pair], others, source.random()

        pair = min(pairs, key=rank)
        for other in {o for o, p in on if p == pair and o != point}:
            met[point, other] += 1
            met[other, point] += 1
        on[point, pair] += 1
        used[pair] += 1
        in_replicate[trial.replicate, pair] += 1
        placed.append(replace(trial, pair=pair))
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
