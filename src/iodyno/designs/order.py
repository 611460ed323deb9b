"""The order of the trials: replicates, complete blocks in time, a random order inside each.

A block visits every point once, so that whatever drifts in hours (temperature, neighbours, page cache) falls
on all points alike and can be told apart from them (randomised complete block design; Montgomery, chapter 4). A
replicate may be divided into parts, which are blocks of their own, and a part into groups that stay together: the
whole plots of a split-plot design (Montgomery, chapter 14).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

from iodyno.core.design import PlannedTrial
from iodyno.core.experiment import DesignSpec
from iodyno.designs.runs import Group, Runs

_Thing = TypeVar("_Thing")


def trials(runs: Runs, spec: DesignSpec) -> tuple[PlannedTrial, ...]:
    """Every trial in its order.

    With `blocks`, block and replicate are the same number, unless a replicate has several parts. Without, all trials are one
    block (number 0) in a completely random order, and the replicates of a point are counted as they come.
    """
    source = random.Random(spec.seed)
    grouped = any(len(part) > 1 for part in runs.parts)
    counted: dict[str, int] = {}
    planned: list[PlannedTrial] = []
    plot = 0
    for block, groups in enumerate(_blocks(runs, spec, source, grouped)):
        for group in _any_order(groups, source, runs.ordered):
            keep = runs.ordered or runs.ordered_inside
            for visit in group if keep else shuffled(group, source):
                point = runs.points[visit]
                replicate = counted.get(point.id, 0)
                counted[point.id] = replicate + 1
                planned.append(
                    PlannedTrial(len(planned), block, replicate, point, plot=plot if grouped else None)
                )
            plot += 1
    return tuple(planned)


def _blocks(runs: Runs, spec: DesignSpec, source: random.Random, grouped: bool) -> Iterator[Sequence[Group]]:
    """The groups of each block. One after the other, so that a further replicate leaves those before it as they are."""
    if spec.blocks or len(runs.parts) > 1:
        for _ in range(spec.replicates):
            yield from _any_order(runs.parts, source, runs.ordered)
    else:
        groups = runs.parts[0]
        yield groups * spec.replicates if grouped or runs.ordered else [groups[0] * spec.replicates]


def _any_order(things: Sequence[_Thing], source: random.Random, ordered: bool) -> Sequence[_Thing]:
    """The things in a random order, unless theirs is the design's own. One thing draws nothing."""
    return things if ordered or len(things) < 2 else shuffled(things, source)


def shuffled(things: Sequence[_Thing], source: random.Random) -> list[_Thing]:
    """The things in a random order. Sorted by `random()`, the one sequence that Python promises to keep."""
    keys = [source.random() for _ in things]
    return [things[index] for index in sorted(range(len(things)), key=keys.__getitem__)]
