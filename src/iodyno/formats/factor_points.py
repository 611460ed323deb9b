"""The points that a file has for certain, before its design is planned; and where it says what a point is told."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice, product

from iodyno.core.factor import Factor
from iodyno.core.workload import Level
from iodyno.formats.mistakes import Path
from iodyno.formats.reading import Reading

MOST_POINTS = 20_000
"""Points that are looked at here (chosen: a second of work); those after them are looked at on the hosts."""


def points(
    reading: Reading, factors: Mapping[str, Factor], concerned: Collection[str]
) -> Iterator[dict[str, Level]]:
    """The levels of the points, as far as they concern these parameters; what is searched for is at some level too.

    None where the design alone says which levels meet: these are looked at when it is planned (`planned_points`).
    """
    search, design = (reading.plain.get(name) for name in ("search", "design"))
    searched: dict[str, Level] = {"rate": 1} if isinstance(search, dict) else {}
    varied = [
        factor
        for factor in factors.values()
        if {factor.name, *factor.together} & {*concerned} and factor.levels
    ]
    kind = design.get("kind", "full_factorial") if isinstance(design, dict) else "full_factorial"
    if kind != "full_factorial" and sum(len(factor.levels) > 1 for factor in varied) > 1:
        return
    for indices in islice(product(*(range(len(factor.levels)) for factor in varied)), MOST_POINTS):
        levels: dict[str, Level] = dict(searched)
        for factor, index in zip(varied, indices, strict=True):
            levels |= {
                name: each[index]
                for name, each in ((factor.name, factor.levels), *factor.together.items())
                if index < len(each)
            }
        yield levels


def varied_at(factors: Mapping[str, Factor]) -> dict[str, Path]:
    """Return the place in the file of the levels of each parameter that is varied."""
    places: dict[str, Path] = {}
    for factor in factors.values():
        places |= {name: ("factors", factor.name, "together", name) for name in factor.together}
        places[factor.name] = ("factors", factor.name)
    return places
