"""The structure of an experiment file: which keys there are, and what each may hold.

Made from the tables of `iodyno.core`, so that a new parameter, access or outcome is known here at once. The
same models check a file and publish its JSON Schema. What several keys mean together is checked in
`iodyno.formats.experiment_file`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from iodyno.core import quantity
from iodyno.core.access import ACCESSES, AccessKind, AccessOption
from iodyno.core.design import DESIGN_KINDS
from iodyno.core.outcome import OUTCOMES
from iodyno.core.workload import WORKLOADS, Parameter, Workload
from iodyno.formats.mistakes import found, nearest, unknown

MAX_LEVELS = 1000
HOUR_NS = 3600 * 10**9
HOST_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,31}"
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

Json = dict[str, Any]


class Section(BaseModel):
    """A mapping of the file with known keys."""

    model_config = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True)
class _Reads:
    """How the value of a key is read, by a function of ours so that its errors are ours, and its schema."""

    read: Callable[[Any], Any]
    schema: Json

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        variable = {"type": "string", "pattern": r"\$\{"}  # an environment variable may stand anywhere
        return {"anyOf": [self.schema, variable]}


def _quantity_schema(kind: quantity.Kind, low: int, high: int) -> Json:
    whole = {"type": "integer", "minimum": low, "maximum": high}
    if kind == "count":
        return whole
    names = "|".join(re.escape(unit) for unit in quantity.units(kind) if unit)
    optional = "?" if "" in quantity.units(kind) else ""
    written = {"type": "string", "pattern": rf"^\s*\+?(\d+\.?\d*|\.\d+)\s*({names}){optional}\s*$"}
    return {"anyOf": [written, whole]} if optional else written


def _quantity(kind: Literal["size", "duration", "count"], *, low: int, high: int) -> _Reads:
    read = Parameter("", kind, "", low=low, high=high).parse
    return _Reads(_bounded(read), _quantity_schema(kind, low, high))


def _bounded(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Refuses a text too long to be a quantity or a word before it is looked at."""

    def bounded(written: Any) -> Any:
        if isinstance(written, str) and len(written) > 200:
            raise ValueError(f"found a text of {len(written)} characters, allowed: 200")
        if written is None or isinstance(written, (list, dict)):
            raise ValueError(f"found {found(written)}, allowed: one value")
        try:
            return read(written)
        except ValueError as problem:
            unit = re.search(r"unknown unit '([^']+)'.*?, allowed units: (.*)", str(problem))
            near = nearest(unit.group(1), unit.group(2).split(", ")) if unit else ""
            raise ValueError(f"{problem}{near}") from None

    return bounded


def _word(words: Mapping[str, str] | tuple[str, ...]) -> _Reads:
    def read(written: Any) -> str:
        if not isinstance(written, str) or written not in words:
            raise ValueError(unknown(written if isinstance(written, str) else found(written), words))
        return written

    return _Reads(read, {"enum": list(words)})


def _text(pattern: str, allowed: str) -> _Reads:
    def read(written: Any) -> str:
        if not isinstance(written, str) or not re.fullmatch(pattern, written):
            raise ValueError(f"found {found(written)}, allowed: {allowed}")
        return written

    return _Reads(read, {"type": "string", "pattern": f"^{pattern}$"})


def _switch() -> _Reads:
    return _Reads(
        _bounded(Parameter("", "switch", "").parse), {"enum": [True, False, "on", "off", "yes", "no"]}
    )


def _share(written: Any) -> float:
    if isinstance(written, str) and (match := re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*%\s*", written)):
        share: Any = float(match.group(1)) / 100
    else:
        share = written
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise ValueError(f"found {found(written)}, allowed: a share such as 5% or 0.05")
    return float(share)


_NAME = _text(NAME, "letters, digits, dots, dashes and underscores, 64 at most, a letter or a digit first")
_HOST_NAME = _text(HOST_NAME, "a name of letters, digits, dashes and underscores, 32 at most, a letter first")
_LINE = _text(r"[^\x00-\x1f]{1,200}", "a text of one line, 200 characters at most")
_PROSE = _text(r"[\s\S]{1,4000}", "a text of 4000 characters at most")
_CPU = _quantity("count", low=0, high=8191)
_SHARE = _Reads(
    _share, {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": "%"}]}
)


def _duration(low: int, high: int = 7 * 24 * HOUR_NS) -> _Reads:
    return _quantity("duration", low=low, high=high)


class WindowsSection(Section):
    """Lengths of the windows of a trial and of an interval record."""

    warm_up: Annotated[Any, _duration(0)] = Field(
        10**9, description="Load is on, nothing counts yet; may be 0s."
    )
    measured: Annotated[Any, _duration(10**7)] = Field(10 * 10**9, description="Load is on and counts.")
    drain: Annotated[Any, _duration(0)] = Field(
        10**8, description="Load stays on, so that no end sees the other stop early."
    )
    interval: Annotated[Any, _duration(10**7, HOUR_NS)] = Field(
        10**9, description="Length of an interval record; 10ms or more."
    )


class DesignSection(Section):
    """Which points are visited, how often and in which order."""

    kind: Annotated[Any, _word(DESIGN_KINDS)] = Field(
        "full_factorial", description="; ".join(f"{k}: {t}" for k, t in DESIGN_KINDS.items())
    )
    replicates: Annotated[Any, _quantity("count", low=1, high=1000)] = Field(
        3, description="How often each point is visited."
    )
    blocks: Annotated[Any, _switch()] = Field(
        True, description="Whether every point is visited once before any is visited again."
    )
    seed: Annotated[Any, _quantity("count", low=0, high=2**63 - 1)] = Field(
        1, description="Seed of the random order."
    )


class LimitsSection(Section):
    """What a trial may take before it is retried or marked."""

    retries: Annotated[Any, _quantity("count", low=0, high=10)] = Field(
        1, description="How often a failed trial is tried again."
    )
    start_skew: Annotated[Any, _duration(0, HOUR_NS)] = Field(
        10**6, description="Start skew above which a trial is marked."
    )
    background: Annotated[float, _SHARE] = Field(
        0.05, description="Busy share of an idle host above which the campaign is marked."
    )
    background_window: Annotated[Any, _duration(10**7, HOUR_NS)] = Field(
        10**9, description="How long the background is measured."
    )


def _parameter(parameter: Parameter) -> _Reads:
    def read(written: Any) -> Any:
        if parameter.words and isinstance(written, str) and written not in parameter.words:
            raise ValueError(unknown(written, parameter.words))
        if parameter.kind == "word" and not parameter.words:
            if not isinstance(written, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", written):
                raise ValueError(f"found {found(written)}, allowed: one word")
            return written
        return parameter.parse(written)

    if parameter.kind == "switch":
        schema: Json = {"enum": [True, False, "on", "off", "yes", "no"]}
    elif parameter.kind == "word":
        schema = {"enum": list(parameter.words)} if parameter.words else {"type": "string"}
    else:
        schema = _quantity_schema(parameter.kind, parameter.low, parameter.high)
    return _Reads(_bounded(read), schema)


def _option(option: AccessOption) -> _Reads:
    if option.kind == "mapping":
        return _Reads(option.parse, {"type": "object"})
    schema: Json = {"type": "string"}
    if option.kind != "text":
        schema = _quantity_schema(option.kind, option.low, option.high)
    return _Reads(_bounded(option.parse), schema)


def _host_section(access: AccessKind) -> type[Section]:
    fields: dict[str, Any] = {
        "access": (
            Annotated[str, _word((access.name,))],
            Field(description=f"How the lab reaches the host. {access.help}"),
        ),
        "cpus": (
            list[Annotated[int, _CPU]],
            Field([], description="CPUs to use there; left out: the lab chooses."),
        ),
        "address": (
            Annotated[str, _LINE],
            Field(None, description="Where the other hosts reach it with data."),
        ),
        "data_port": (
            Annotated[int, _quantity("count", low=0, high=65535)],
            Field(0, description="Port of the load; 0: any."),
        ),
    }
    for option in access.options:
        fields[option.name] = (
            Annotated[Any, _option(option)],
            Field(... if option.required else None, description=option.help),
        )
    return create_model(f"{access.name}_host", __base__=Section, __doc__=access.help, **fields)


def _workload_section(workload: Workload) -> type[Section]:
    fields: dict[str, Any] = {
        "kind": (
            Annotated[str, _word((workload.name,))],
            Field(description=f"Which workload runs. {workload.help}"),
        ),
        "sender": (Annotated[str, _HOST_NAME], Field(description="The host that sends.")),
        "receiver": (Annotated[str, _HOST_NAME], Field(description="The host that receives.")),
    }
    for parameter in workload.parameters:
        fields[parameter.name] = (
            Annotated[Any, _parameter(parameter)],
            Field(parameter.default, description=parameter.help),
        )
    return create_model(f"{workload.name}_workload", __base__=Section, __doc__=workload.help, **fields)


class _FactorSection(Section):
    """The levels of a factor; a list alone is short for `levels`."""

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, written: Any) -> Any:
        return {"levels": written} if isinstance(written, list) else written


def _levels(parameter: Parameter) -> Any:
    return Annotated[list[Annotated[Any, _parameter(parameter)]], Field(min_length=1, max_length=MAX_LEVELS)]


def _factors_section(workload: Workload) -> type[Section]:
    together: dict[str, Any] = {
        p.name: (_levels(p), Field(None, description=p.help)) for p in workload.parameters
    }
    together_section: Any = create_model(
        f"{workload.name}_together",
        __base__=Section,
        __doc__="Parameters that are set along: one level of each for every level of the factor.",
        **together,
    )
    fields: dict[str, Any] = {}
    for parameter in workload.parameters:
        levels: Any = _levels(parameter)
        section: Any = create_model(
            f"{workload.name}_{parameter.name}_factor",
            __base__=_FactorSection,
            __doc__=parameter.help,
            levels=(levels, Field(description="What the factor is set to, one after the other.")),
            together=(together_section, Field(None, description="Parameters that change with the factor.")),
        )
        fields[parameter.name] = (section, Field(None, description=parameter.help))
    return create_model(
        f"{workload.name}_factors", __base__=Section, __doc__="Parameters that are varied.", **fields
    )


HOST_SECTIONS: Mapping[str, type[Section]] = {name: _host_section(kind) for name, kind in ACCESSES.items()}
WORKLOAD_SECTIONS: Mapping[str, type[Section]] = {n: _workload_section(w) for n, w in WORKLOADS.items()}
FACTOR_SECTIONS: Mapping[str, type[Section]] = {n: _factors_section(w) for n, w in WORKLOADS.items()}


class TopSection(Section):
    """The keys at the top of the file that hold one value, and those whose sections are read on their own."""

    name: Annotated[str, _NAME] = Field(
        description="Name of the experiment; begins the name of its campaigns' folders."
    )
    question: Annotated[str, _PROSE] = Field("", description="The question that the experiment answers.")
    hosts: Any = Field(description="The hosts by name.")
    workload: Any = Field(description="What runs between which hosts.")
    factors: Any = Field(None, description="Parameters of the workload that are varied.")
    design: Any = Field(None, description="Which points are visited, how often and in which order.")
    windows: Any = Field(None, description="Lengths of the windows of a trial.")
    outcomes: list[Annotated[str, _LINE]] = Field(
        [],
        description="Outcomes to show; `HOST.` before those that each host has. Left out: rate and cost.",
    )
    limits: Any = Field(None, description="What a trial may take before it is retried or marked.")
    prove: Annotated[Any, _switch()] = Field(
        False, description="Whether extra trials test what limits the rate at each point."
    )
    profile: Annotated[Any, _switch()] = Field(
        True, description="Whether call stacks are sampled, to tell which functions the cost is of."
    )
    quick: Any = Field(None, description="What `--quick` replaces, key by key.")


class QuickSection(Section):
    """What `--quick` replaces: factors by name, design and windows key by key."""

    factors: Any = Field(None, description="Factors that are replaced, by name.")
    design: Any = Field(None, description="Keys of the design that are replaced.")
    windows: Any = Field(None, description="Windows that are replaced.")


def experiment_schema() -> Json:
    """The JSON Schema (draft 2020-12) of an experiment file, with a description of every key."""
    definitions: Json = {}

    def reference(section: type[BaseModel]) -> Json:
        schema = section.model_json_schema(ref_template="#/$defs/{model}")
        definitions.update(schema.pop("$defs", {}))
        definitions[section.__name__] = schema
        return {"$ref": f"#/$defs/{section.__name__}"}

    def any_of(sections: Mapping[str, type[Section]]) -> Json:
        """Any, not one: factors that several workloads have fit the sections of each."""
        references = [reference(section) for section in sections.values()]
        return references[0] if len(references) == 1 else {"anyOf": references}

    def by_access() -> Json:
        chosen = [
            {
                "if": {"properties": {"access": {"const": name}}, "required": ["access"]},
                "then": reference(section),
            }
            for name, section in HOST_SECTIONS.items()
        ]
        return {
            "type": "object",
            "required": ["access"],
            "properties": {
                "access": {"enum": list(HOST_SECTIONS), "description": "How the lab reaches the host."}
            },
            "allOf": chosen,
        }

    factors = any_of(FACTOR_SECTIONS)
    for name in FACTOR_SECTIONS:
        for definition in list(definitions):
            if definition.startswith(f"{name}_") and definition.endswith("_factor"):
                section = definitions[definition]
                definitions[definition] = {
                    "description": section["description"],
                    "anyOf": [section["properties"]["levels"], section],
                }
    outcomes = [kind.name for kind in OUTCOMES.values() if kind.of_trial or not kind.per_host]
    per_host = "|".join(kind.name for kind in OUTCOMES.values() if kind.per_host)
    sections: dict[str, Json] = {
        "hosts": {
            "type": "object",
            "propertyNames": {"pattern": f"^{HOST_NAME}$"},
            "additionalProperties": by_access(),
        },
        "workload": any_of(WORKLOAD_SECTIONS),
        "factors": factors,
        "design": reference(DesignSection),
        "windows": reference(WindowsSection),
        "limits": reference(LimitsSection),
        "outcomes": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "anyOf": [{"enum": outcomes}, {"type": "string", "pattern": rf"^{HOST_NAME}\.({per_host})$"}]
            },
        },
    }
    quick = QuickSection.model_json_schema()
    top = TopSection.model_json_schema()
    for schema in (quick, top):
        for key, section in sections.items():
            if key in schema["properties"]:
                schema["properties"][key] = section | {
                    "description": schema["properties"][key]["description"]
                }
    definitions["quick"] = quick
    top["properties"]["quick"] = {
        "$ref": "#/$defs/quick",
        "description": top["properties"]["quick"]["description"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:iodyno:experiment",
        **top,
        "title": "iodyno experiment",
        "description": "The question as one file: hosts, workload, factors, outcomes, design.",
        "$defs": dict(sorted(definitions.items())),
    }
