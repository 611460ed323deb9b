"""Which effects a two-level design cannot tell apart, from its points alone.

Two effects are aliased when their columns are equal in every run, or opposite in every run. A column is held as a
number with a bit for each run, so that the column of an interaction is the exclusive or of those of its factors.
"""

from __future__ import annotations

from collections.abc import Sequence

from iodyno.core import effect
from iodyno.core.design import Point
from iodyno.core.experiment import Experiment
from iodyno.designs import ranges
from iodyno.designs.runs import Runs


def classes(experiment: Experiment, runs: Runs) -> tuple[tuple[str, ...], ...]:
    """Main effects and two-factor interactions that are aliased with each other, a tuple each; `-` is before those that
    are opposite. Empty for a design that visits more than two levels of a factor, centre points aside.
    """
    names = [factor.name for factor in ranges.varied(experiment)]
    signs = of_points(experiment, runs.points)
    if not names or not signs:
        return ()
    return grouped(signs, names)


def of_points(experiment: Experiment, points: Sequence[Point]) -> list[tuple[int, ...]]:
    """The points as -1 and 1 in the factors that vary, without those at the middle; none where there are other levels."""
    factors = ranges.varied(experiment)
    coding = ranges.codings(experiment)
    rows = []
    for point in points:
        codes = []
        for factor in factors:
            own, level = coding[factor.name], point.levels[factor.name]
            if own.kind == "word" and len(factor.levels) > 2:
                return []
            codes.append(own.coded(level))
        if all(code in (-1.0, 1.0) for code in codes):
            rows.append(tuple(int(code) for code in codes))
        elif any(
            point.levels[factor.name] != coding[factor.name].centre
            for factor in factors
            if coding[factor.name].kind == "number"
        ):
            return []
    return rows


def grouped(rows: Sequence[Sequence[int]], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The aliased effects of rows of -1 and 1.

    >>> grouped([(-1, -1, 1), (-1, 1, -1), (1, -1, -1), (1, 1, 1)], ("a", "b", "c"))
    (('a', 'b:c'), ('b', 'a:c'), ('c', 'a:b'))
    """
    everything = (1 << len(rows)) - 1
    mains = [sum((row[index] > 0) << run for run, row in enumerate(rows)) for index in range(len(names))]
    found: dict[int, list[tuple[str, bool]]] = {}
    for mask in effect.up_to_second(len(names)):
        # A run is positive where an even number of the factors is negative.
        negative = 0
        for index, column in enumerate(mains):
            if mask >> index & 1:
                negative ^= everything ^ column
        column = everything ^ negative
        key = min(column, negative)
        found.setdefault(key, []).append((effect.name_of(mask, names), column == key))
    return tuple(
        tuple(("" if positive == entries[0][1] else "-") + name for name, positive in entries)
        for entries in found.values()
        if len(entries) > 1
    )
