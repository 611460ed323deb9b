"""The section `explain` of an experiment file: which two levels of a factor a report sets against each other, by functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.core.factor import Factor
from iodyno.core.invalid import found, invalid
from iodyno.core.workload import Level, Workload
from iodyno.formats.mistakes import unknown
from iodyno.formats.reading import Reading
from iodyno.formats.tunable_sections import parameters_of


def explained(
    reading: Reading, workload: Workload, factors: Mapping[str, Factor]
) -> dict[str, tuple[Level, Level]]:
    """The two levels of each factor that is named; what cannot be is noted."""
    written, path = reading.plain.get("explain"), ("explain",)
    if "explain" not in reading.plain or not reading.mapping(
        written, path, "factors with two levels of each"
    ):
        return {}
    parameters = parameters_of(workload, tuple(reading.host_names))
    pairs: dict[str, tuple[Level, Level]] = {}
    for name, content in written.items():
        here = (*path, name)
        if name not in factors and reading.has(("factors", name)):
            continue  # It cannot be read, which is a mistake of its own.
        if name not in factors:
            reading.note(here, unknown(name, factors, "factor of the experiment"))
            continue
        if not isinstance(content, list) or len(content) != 2:
            what = f"{len(content)} of them" if isinstance(content, list) else found(content)
            reading.note(here, f"invalid value: {what}; expected two levels of the factor")
            continue
        show = parameters[name].show
        levels: list[Level] = []
        for index, each in enumerate(content):
            try:
                level = parameters[name].parse(each)
            except ValueError as problem:
                reading.note((*here, index), str(problem))
                continue
            if level not in factors[name].levels:
                listed = ", ".join(map(show, factors[name].levels))
                reading.note((*here, index), invalid(show(level), f"a level of the factor: {listed}"))
            levels.append(level)
        if len(levels) == 2:
            reading.no_duplicates(levels, here, show)
            pairs[name] = (levels[0], levels[1])
    return pairs


def schema_of_explain() -> dict[str, Any]:
    """The JSON Schema of the section; which levels a factor has, a schema cannot say."""
    level = {"type": ["string", "number", "boolean"]}
    pair = {"type": "array", "minItems": 2, "maxItems": 2, "uniqueItems": True, "items": level}
    return {"type": "object", "additionalProperties": pair}
