"""Tunables in an experiment file: the section `tunables`, factors such as `server.mtu`, and the factor `variant`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import Field, create_model

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.factor import VARIANT, Factor
from iodyno.core.invalid import invalid
from iodyno.core.tunable import ALL, TUNABLES, hosts_of, named, numbered
from iodyno.core.workload import Level, Parameter, Workload
from iodyno.formats import experiment_model as model
from iodyno.formats import section_values as values
from iodyno.formats.mistakes import Path, unknown
from iodyno.loads.base.workloads import WORKLOADS

_VARIANT = Parameter(VARIANT, "word", "A name for what is set together: one level of each for every name.")

Note = Callable[[Path, str], None]


def parameters_of(workload: Workload, hosts: tuple[str, ...]) -> dict[str, Parameter]:
    """Whatever can be a factor: parameters of the workload, tunables of each host, of several and of all, and a name."""
    whose = (ALL, *numbered(hosts), *hosts)
    tunables = {f"{host}.{name}": tunable for host in whose for name, tunable in TUNABLES.items()}
    return {**{p.name: p for p in workload.parameters}, **tunables, VARIANT: _VARIANT}


def unknown_factor(kind: str, name: str, parameters: Mapping[str, Any]) -> str:
    """Return the sentence about a factor that is none of the `parameters_of` a workload of this kind."""
    if "." in name:
        host, _, tunable = name.partition(".")
        hosts = tuple(dict.fromkeys(n.partition(".")[0] for n in parameters if "." in n))
        if host not in hosts:
            return unknown(host, hosts, "host")
        of_host = [each.partition(".")[2] for each in parameters if each.startswith(f"{host}.")]
        return unknown(tunable, of_host, "tunable of a host")
    return unknown(name, [n for n in parameters if "." not in n], f"parameter of the workload {kind}")


def refuse_unknown(experiment: Experiment) -> None:
    """Raises ExperimentError where a factor that was made in Python is none that a file could have."""
    workload = experiment.workload.workload
    known = parameters_of(workload, tuple(experiment.hosts))
    for factor in experiment.factors:
        for name in (factor.name, *factor.together):
            if name not in known:
                where = f"factors.{factor.name}" + (f".together.{name}" if name != factor.name else "")
                raise ExperimentError(unknown_factor(workload.name, name, known), where=where)


def factor_section(workload: Workload, name: str, entry: Any, hosts: tuple[str, ...]) -> Any:
    """Return the type of a factor of that name; with tunables of these hosts where the entry speaks of any."""
    together_names = entry.get("together") if isinstance(entry, dict) else None
    dotted = isinstance(together_names, dict) and any("." in str(other) for other in together_names)
    known = model.sections_of(workload)[1].model_fields
    if name in known and not dotted:
        return known[name].annotation
    parameter = parameters_of(workload, hosts)[name]
    together: Any = _together_section(workload, hosts)
    section: Any = create_model(
        f"{name}_factor",
        __base__=values.FactorSection,
        __doc__=parameter.help,
        levels=(
            values.levels_of(parameter),
            Field(description="What the factor is set to, one after the other."),
        ),
        together=(together, Field(None, description="What changes with the factor.")),
    )
    return section


@functools.cache
def _together_section(workload: Workload, hosts: tuple[str, ...]) -> Any:
    fields: dict[str, Any] = {
        name: (values.levels_of(parameter), Field(None, description=parameter.help))
        for name, parameter in parameters_of(workload, hosts).items()
        if name != VARIANT
    }
    return create_model("together", __base__=values.Section, **fields)


def read_tunables(written: Any, hosts: tuple[str, ...], note: Note) -> dict[str, Level]:
    """The section `tunables`: what holds in every trial, by names such as `server.mtu`. What cannot be read is noted."""
    settings: dict[str, Level] = {}
    known = (ALL, *numbered(hosts), *hosts)
    for host, entry in _mapping(written, ("tunables",), "hosts, or all, with their tunables", note):
        if host not in known:
            note(("tunables", host), unknown(host, known))
            continue
        for name, level in _mapping(entry, ("tunables", host), "tunables with one level each", note):
            here = ("tunables", host, name)
            if name not in TUNABLES:
                note(here, unknown(name, TUNABLES, "tunable"))
                continue
            try:
                settings[f"{host}.{name}"] = values.value_of(TUNABLES[name]).read(level)
            except ValueError as problem:
                note(here, str(problem))
    return settings


def check_tunables(
    tunables: Mapping[str, Level],
    factors: Mapping[str, Factor],
    hosts: tuple[str, ...],
    note: Note,
    path: Path,
) -> None:
    """That no tunable of a host is set twice, by its own name and by one of several hosts, or by a setting and a factor."""
    set_by: dict[str, str] = {}
    names = [(name, f"tunables: {name}", ("tunables", *(named(name) or ()))) for name in tunables]
    for factor in factors.values():
        names += [(factor.name, f"the factor {factor.name}", (*path, factor.name))]
        names += [
            (other, f"the factor {factor.name}", (*path, factor.name, "together", other))
            for other in factor.together
        ]
    for name, by, where in names:
        for target in _targets(name, hosts):
            if set_by.get(target, by) != by or (target in set_by and name not in factors):
                note(where, f"duplicate setting {target}: {set_by[target]} sets it already")
                break
            set_by[target] = by


def check_variant(entry: Any, held: Mapping[str, Any], path: Path, note: Note) -> None:
    """That a name stands for something."""
    if not held:
        note(path, invalid(entry, "levels, and together with what each of them stands for"))


def schema_of_tunables() -> dict[str, Any]:
    """The section `tunables`, for the JSON Schema."""
    properties = {
        name: values.value_of(tunable).schema | {"description": tunable.help}
        for name, tunable in TUNABLES.items()
    }
    return {
        "type": "object",
        "propertyNames": {"pattern": f"^{values.HOST_NAME}$"},
        "additionalProperties": {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
        },
    }


def add_to_schema(definitions: dict[str, Any]) -> None:
    """Adds tunables and `variant` to what may be a factor, and to what may be set together with one."""
    for kind in WORKLOADS:
        together = {"$ref": f"#/$defs/{kind}_together"}
        levels = {_pattern(name): _list_schema(tunable) for name, tunable in TUNABLES.items()}
        definitions[f"{kind}_together"]["patternProperties"] = levels
        factors = definitions[f"{kind}_factors"]
        factors["patternProperties"] = {
            pattern: {"anyOf": [list_, values.RANGE_SCHEMA, _object_schema(list_, together)]}
            for pattern, list_ in levels.items()
        }
        factors["properties"][VARIANT] = _object_schema(_list_schema(_VARIANT), together, "together")


def _pattern(tunable: str) -> str:
    return rf"^{values.HOST_NAME}\.{re.escape(tunable)}$"


def _list_schema(parameter: Parameter) -> dict[str, Any]:
    return {
        "type": "array",
        "minItems": 1,
        "maxItems": values.MAX_LEVELS,
        "items": values.value_of(parameter).schema,
        "description": parameter.help,
    }


def _object_schema(levels: Any, together: Any, *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"levels": levels, "together": together},
        "required": ["levels", *required],
        "additionalProperties": False,
    }


def _targets(name: str, hosts: tuple[str, ...]) -> list[str]:
    found_ = named(name)
    if found_ is None:
        return []
    return [f"{host}.{found_[1]}" for host in hosts_of(found_[0], hosts)]


def _mapping(written: Any, path: Path, allowed: str, note: Note) -> Iterator[tuple[str, Any]]:
    if not isinstance(written, dict):
        note(path, invalid(written, allowed))
        return
    yield from written.items()
