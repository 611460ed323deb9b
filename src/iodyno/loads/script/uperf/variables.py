"""Values of a profile's variables, from the command line and the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.core.workload import Level
from iodyno.formats.mistakes import Mistake, error, nearest
from iodyno.loads.script.core.parameters import RESERVED, kinds_of, mixed
from iodyno.loads.script.core.values import OptionKind, Uniform, Variable
from iodyno.loads.script.uperf import bounds
from iodyno.loads.script.uperf.profile import Profile
from iodyno.loads.script.uperf.values import read_value

_MOST = 2**62


def values_of(
    profile: Profile, environment: Mapping[str, str], given: Mapping[str, str] | None = None
) -> dict[str, Level]:
    """The level of each variable of the profile: as given, else from the environment.

    uperf looks a variable up in lower case, however it is written: so is one that is not there as written. Hosts may
    stay without a value. Raises ExperimentError with every variable that has none, or a wrong one.
    """
    first: dict[str, Variable] = {}
    for variable in profile.script.variables():
        first.setdefault(variable.name, variable)
    kinds, given = kinds_of(profile.script.variables()), given or {}
    _refuse_names(profile, first, given)
    mistakes: list[Mistake] = []
    levels: dict[str, Level] = {}
    missing: list[str] = []
    texts: dict[str, str] = {}
    for name, kind in kinds.items():
        written = next(
            (
                source[key]
                for source in (given, environment)
                for key in (name, name.lower())
                if source.get(key)
            ),
            None,
        )
        if written is None:
            if kind != "host":
                missing.append(name)
                mistakes.append(Mistake(first[name].line, "", f"the variable ${name} has no value"))
            continue
        texts[name] = written
        try:
            levels[name] = _level(written, kind)
        except ValueError as problem:
            mistakes.append(Mistake(first[name].line, f"${name}", str(problem)))
    for name, (line, allowed) in bounds.refused(profile.script, levels).items():
        mistakes.append(Mistake(line, f"${name}", invalid(texts[name], allowed)))
    if mistakes:
        example = " ".join(f"{name}=..." for name in missing)
        options = " ".join(f"--set {name}=..." for name in missing)
        raise error(
            profile.file, mistakes, f"{example} iodyno run {profile.file}, or {options}" if missing else ""
        )
    return levels


def _level(written: str, kind: OptionKind) -> Level:
    """The level as written; what it may be where the variable stands is in `bounds`."""
    value = read_value(written.strip(), kind, 0, _MOST)
    return str(value) if isinstance(value, Uniform) else value


def _refuse_names(profile: Profile, first: Mapping[str, Variable], given: Mapping[str, str]) -> None:
    def refuse(line: int, text: str, advice: str = "") -> NoReturn:
        raise error(profile.file, [Mistake(line, "", text)], advice)

    for name, variable in first.items():
        if name in RESERVED:
            refuse(variable.line, f"the variable ${name} has a name that an experiment file has for something else",
                   f"give it another name than {', '.join(RESERVED)}")  # fmt: skip
    for variable in mixed(profile.script):
        refuse(variable.line, f"the variable ${variable.name} stands for values of different kinds",
               "use a variable for each")  # fmt: skip
    known = {*first, *(name.lower() for name in first)}
    for name in given:
        if name not in known:
            if re.search(rf"\$\{{?{re.escape(name)}\b", profile.text):
                raise ExperimentError(
                    invalid(
                        name, f"variables of values; {profile.file} has ${name} only in a name or a comment"
                    ),
                    where="--set",
                )
            allowed = ", ".join(first) or "none: the profile has no variable"
            raise ExperimentError(
                f"unknown variable ${name} of {profile.file}: expected {allowed}{nearest(name, first)}",
                where="--set",
            )
