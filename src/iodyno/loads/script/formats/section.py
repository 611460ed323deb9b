"""The key `profile` of the workload `script`, and the values of its variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.core.experiment import WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.formats.reading import Reading
from iodyno.loads.script.core.parameters import RESERVED, mixed
from iodyno.loads.script.core.values import Script
from iodyno.loads.script.uperf import script_of


def script_of_section(reading: Reading, written: Any) -> Script | None:
    """The profile of the workload `script`; None when it cannot be read, which is noted."""
    path = ("workload", "profile")
    if not isinstance(written.get("profile"), str):
        if "profile" not in written:
            reading.note_missing(("workload",), "profile", "the profile, as uperf has it")
        return None
    script, mistakes = script_of(written["profile"])
    for mistake in mistakes:
        reading.note(path, f"line {mistake.line} of it: {mistake}")
    if script is None:
        return None
    for variable in script.variables():
        if variable.name in RESERVED:
            text = f"the variable ${variable.name} (line {variable.line} of it) has a name that is taken here"
            reading.note(path, f"{text}; expected any but {', '.join(RESERVED)}")
            return None
    for variable in mixed(script):
        text = (
            f"the variable ${variable.name} (line {variable.line} of it) stands for values of different kinds"
        )
        reading.note(path, f"{text}; expected a variable for each")
    return script


def check_variables(reading: Reading, workload: WorkloadSpec, factors: Mapping[str, Factor]) -> None:
    """Every variable needs a value, but for hosts: one that nobody names is the receiver."""
    given = {*workload.settings, *(name for f in factors.values() for name in (f.name, *f.together))}
    assert workload.script is not None
    lines: dict[str, int] = {}
    for variable in workload.script.variables():
        lines.setdefault(variable.name, variable.line)
    for name, kind in workload.variables.items():
        if name not in given and kind != "host":
            text = f"the variable ${name} (line {lines[name]} of it) has no value"
            reading.note(("workload", "profile"), f"{text}; expected `{name}:` in workload or in factors")
