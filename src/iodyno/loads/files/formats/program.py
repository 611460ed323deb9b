"""The key `program` of the workload `files`: a personality in a file beside the experiment, or in the experiment itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.tunable import named
from iodyno.core.volume import MOST_CLIENTS
from iodyno.core.workload import Level
from iodyno.formats.mistakes import Path
from iodyno.formats.reading import Reading
from iodyno.loads.files.core.parameters import RESERVED
from iodyno.loads.files.core.values import Personality

_VOLUME = "/volume"
"""Stands for where the lab mounts a file system that is not made yet."""
_MAX_POINTS = 64
"""Points that are bound before the run; chosen: all of a small design, and each level of a large one."""


def read(reading: Reading, written: Any, path: Path) -> Personality | None:
    """The personality; None when it cannot be read, which is noted."""
    from iodyno.loads.files.wml import parse_personality, read_personality

    source = written.get("program")
    here = (*path, "program")
    if not isinstance(source, str) or not source.strip():
        reading.note_missing(path, "program", "the file of a personality, or its text")
        return None
    try:
        if "\n" in source.strip():
            return parse_personality(source, file="program")
        return read_personality(reading.folder / source.strip())
    except ExperimentError as problem:
        reading.note(here, f"{problem.where}: {problem.what}" if problem.where else problem.what)
        return None


def check(reading: Reading, workload: WorkloadSpec, factors: Mapping[str, Factor]) -> None:
    """Check that the personality means something with the settings and with each level of each factor."""
    from iodyno.loads.files.core.binding import bound
    from iodyno.loads.files.core.wire import program as compiled

    assert workload.program is not None
    fixed = {**workload.settings}
    asked = {*fixed, *factors, *(name for factor in factors.values() for name in factor.together)}
    if {"volume", "target"} <= asked:
        reading.note(("workload", "target"), "cannot be used with volume, which is the target")
    if "volume" in asked and "volume_size" not in asked:
        reading.note_missing(
            ("workload",), "volume_size", "the size of each host's file system on the volume, such as 1GiB"
        )
    for name in sorted({"file_system", "mount_options"} & asked if "volume" not in asked else ()):
        reading.note(("workload", name), "can only be used with volume, on which iodyno makes a file system")
    if "volume" in asked and len(workload.hosts) > MOST_CLIENTS:
        reading.note(
            ("workload", "volume"),
            f"invalid value: {len(workload.hosts)} hosts; expected {MOST_CLIENTS} at most",
        )
    base = dict(fixed)
    for factor in factors.values():
        base |= _at(factor, 0)
    points = [base]
    for factor in factors.values():
        points += [{**base, **_at(factor, number)} for number in range(1, len(factor.levels))]
    for point in points[:_MAX_POINTS]:
        try:
            target = _VOLUME if "volume" in point else point.get("target")
            compiled(bound(workload.program, given(point)), target=str(target) if target else None)
        except ExperimentError as problem:
            advice = f" ({problem.advice})" if problem.advice else ""
            reading.note(("workload", "program"), f"{problem.where}: {problem.what}{advice}")
            return


def _at(factor: Factor, number: int) -> dict[str, Level]:
    """A level of a factor, and of each parameter that changes with it; one that has too few has been noted elsewhere."""
    each = ((factor.name, factor.levels), *factor.together.items())
    return {name: levels[number] for name, levels in each if number < len(levels)}


def given(settings: Mapping[str, Level]) -> dict[str, Level]:
    """The settings that are variables of the personality."""
    return {name: level for name, level in settings.items() if name not in RESERVED and not named(name)}
