"""The structure of an experiment file: which keys there are, and what each may hold.

Made from the tables of `iodyno.core`: a new parameter is known here at once. The same models check a file and publish its JSON
Schema. What several keys mean together is checked in `iodyno.formats.experiment_file`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any, Literal, get_args

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
from iodyno.core.decision import MAX_TRIALS as UNTIL_TRIALS
from iodyno.core.decision import parse_rule
from iodyno.core.experiment import Between
from iodyno.core.invalid import found, invalid
from iodyno.core.outcome import BYSTANDER_NAME, OF_BYSTANDER, OUTCOMES
from iodyno.core.search import parse_goal
from iodyno.core.workload import Parameter, Workload
from iodyno.formats.mistakes import unknown
from iodyno.loads.base.formats import load_named
from iodyno.loads.base.workloads import WORKLOADS

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
    """Reader of the value of a key, a function of ours so that its errors are ours, and its schema."""

    read: Callable[[Any], Any]
    schema: Json
    allowed: str = ""
    """Allowed values, in words, where the schema says it less well (`docs/reference/reference.md`)."""

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


def _quantity(kind: Literal["size", "duration", "count", "share"], *, low: int, high: int) -> _Reads:
    read = Parameter("", kind, "", low=low, high=high).parse
    between = f"{quantity.show(kind, low)} to {quantity.show(kind, high)}"
    return _Reads(_bounded(read), _quantity_schema(kind, low, high), between)


def _bounded(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Refuses a text too long to be a quantity or a word before it is looked at."""

    def bounded(written: Any) -> Any:
        if isinstance(written, str) and len(written) > 200:
            raise ValueError(f"invalid value: a text of {len(written)} characters; expected 200 at most")
        if written is None or isinstance(written, (list, dict)):
            raise ValueError(invalid(written, "one value"))
        return read(written)

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
            raise ValueError(invalid(written, allowed))
        return written

    return _Reads(read, {"type": "string", "pattern": f"^{pattern}$"}, allowed)


def _switch(*more: str) -> _Reads:
    return _Reads(
        _bounded(Parameter("", "switch", "", words=more).parse),
        {"enum": [True, False, "on", "off", "yes", "no", *more]},
        ", ".join(("on", "off", *more)),
    )


def _share(written: Any) -> float:
    if isinstance(written, str) and (match := re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*%\s*", written)):
        share: Any = float(match.group(1)) / 100
    else:
        share = written
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise ValueError(invalid(written, "a share such as 5% or 0.05"))
    return float(share)


def _host_names(written: Any) -> Any:
    """The name of a host, or a list of such names, as they are."""
    for name in written if isinstance(written, list) and written else [written]:
        _HOST_NAME.read(name)
    return written


_NAME = _text(NAME, "letters, digits, dots, dashes and underscores, 64 at most, a letter or a digit first")
_HOST_NAME = _text(HOST_NAME, "a name of letters, digits, dashes and underscores, 32 at most, a letter first")
_HOST_NAMES = _Reads(
    _host_names, {"anyOf": [_HOST_NAME.schema, {"type": "array", "minItems": 1, "items": _HOST_NAME.schema}]}
)


def _address(written: Any) -> str:
    with suppress(ValueError):
        address = ip_address(written if isinstance(written, str) else "")
        # An address of a link means one only with the name of a device, which is another one at each host.
        zoned = address.version == 6 and (address.is_link_local or "%" in str(written))
        if not (zoned or address.is_unspecified or address.is_multicast):
            return str(written)
    raise ValueError(invalid(written, "the numeric address of a host, not of a link"))


_ADDRESS = _Reads(_address, {"type": "string"}, "a numeric address")
_LINE = _text(r"[^\x00-\x1f]{1,200}", "a text of one line, 200 characters at most")
_PROSE = _text(
    r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]{1,4000}",
    "a text of 4000 characters at most, without control characters",
)
PROGRAM = _text(r"[\s\S]+", "a file, or the text of a personality")
PROFILE = _text(r"[\s\S]+", "the text of a profile")
_CPU = _quantity("count", low=0, high=8191)
_SHARE = _Reads(
    _share,
    {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": "%"}]},
    "0% to 100%",
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


class LimitsSection(Section):
    """Limits of a trial before it is retried or marked."""

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
        10**9,
        description="How long the background is measured, before and after; where CPU time comes in ticks, as long as the "
        "measured window at least, up to 1 s.",
    )


def _parameter(parameter: Parameter) -> _Reads:
    def read(written: Any) -> Any:
        if parameter.form is not None and isinstance(written, str) and "(" in written:
            return parameter.parse(written)
        if parameter.words and isinstance(written, str) and written not in parameter.words:
            raise ValueError(unknown(written, parameter.words))
        if parameter.kind == "word" and not parameter.words and parameter.form is None:
            if not isinstance(written, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", written):
                raise ValueError(invalid(written, "one word"))
            return written
        return parameter.parse(written)

    if parameter.kind == "switch":
        schema: Json = {"enum": [True, False, "on", "off", "yes", "no"]}
    elif parameter.kind == "word":
        schema = {"enum": list(parameter.words)} if parameter.words else {"type": "string"}
        if parameter.words and parameter.form is not None:
            schema = {"anyOf": [schema, {"type": "string", "pattern": "\\("}]}
    elif parameter.kind == "text":
        schema = {"type": ["string", "integer"]}
    elif parameter.kind == "path":
        schema = {"type": "string"}
    else:
        schema = _quantity_schema(parameter.kind, parameter.low, parameter.high)
        if parameter.form is not None:
            schema = {"anyOf": [schema, {"type": "string", "pattern": "\\("}]}
    return _Reads(read if parameter.kind == "path" else _bounded(read), schema)


def _option(option: AccessOption) -> _Reads:
    if option.kind == "mapping":
        return _Reads(option.parse, {"type": "object"})
    if option.kind == "text":
        return _Reads(_bounded(option.parse), {"type": "string"}, "a text")
    between = f"{quantity.show(option.kind, option.low)} to {quantity.show(option.kind, option.high)}"
    return _Reads(_bounded(option.parse), _quantity_schema(option.kind, option.low, option.high), between)


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
            Annotated[str, _ADDRESS],
            Field(None, description="Where the other hosts reach it with data; a numeric address."),
        ),
        "count": (
            Annotated[int, _quantity("count", low=1, high=1000)],
            Field(1, description="How many such hosts: NAME-1, NAME-2, ...; {n} in `to` is the number."),
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


_ENDS: dict[str, Any] = {
    "sender": (
        Annotated[Any, _HOST_NAMES],
        Field(description="The host that sends, or several: those of a name with `count`, or a list."),
    ),
    "receiver": (Annotated[Any, _HOST_NAMES], Field(description="The host that receives, or several.")),
}
_EACH_WITH = "Of several: each sender with each receiver (all), or with the one at its place (pairs)."
BETWEEN: Any = (Annotated[str, _word(get_args(Between))], Field("all", description=_EACH_WITH))
_ALONE: dict[str, Any] = {
    "hosts": (
        Annotated[Any, _HOST_NAMES],
        Field(description="The host, the hosts of one name with `count`, or a list of hosts, that do it."),
    ),
}


def own_section(workload: Workload) -> type[Section]:
    """The settings of one host."""
    fields: dict[str, Any] = {
        parameter.name: (Annotated[Any, _parameter(parameter)], Field(None, description=parameter.help))
        for parameter in workload.parameters
        if parameter.name not in OF_ALL_HOSTS
    }
    return create_model(f"{workload.name}_own", __base__=Section, __doc__="Settings of one host.", **fields)


OF_ALL_HOSTS = ("volume", "server_cached", "clients", "on_client_loss", "verify")
"""Settings that one host cannot have of its own: they are about all of them, or about what is on a target they share."""


def workload_section(workload: Workload) -> type[Section]:
    """The section `workload` of an experiment with this workload."""
    fields: dict[str, Any] = {
        "kind": (
            Annotated[str, _word((workload.name,))],
            Field(description=f"Which workload runs. {workload.help}"),
        ),
        **(_ALONE if workload.alone else _ENDS),
        **load_named(workload.name).keys(workload),
    }
    for parameter in workload.parameters:
        fields[parameter.name] = (
            Annotated[Any, _parameter(parameter)],
            Field(parameter.default, description=parameter.help),
        )
    return create_model(f"{workload.name}_workload", __base__=Section, __doc__=workload.help, **fields)


RANGE_SCHEMA: Json = {"type": "string", "pattern": r"^[^.]+(\.[^.]+)?\s*\.\.\s*[^.]+(\.[^.]+)?$"}
"""The ends of a range, `1KiB..64KiB`, instead of a list of levels."""


def range_ends(written: Any) -> Any:
    """The two levels of a range such as `1KiB..64KiB`; anything else as it is."""
    if isinstance(written, str) and re.fullmatch(str(RANGE_SCHEMA["pattern"]), written):
        return [end.strip() for end in re.split(r"\s*\.\.\s*", written, maxsplit=1)]
    return written


class _FactorSection(Section):
    """The levels of a factor; a list alone is short for `levels`."""

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, written: Any) -> Any:
        return {"levels": written} if isinstance(written, list) else written


def _levels(parameter: Parameter) -> Any:
    return Annotated[list[Annotated[Any, _parameter(parameter)]], Field(min_length=1, max_length=MAX_LEVELS)]


def factors_section(workload: Workload) -> type[Section]:
    """The section `factors` of an experiment with this workload."""
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


@functools.cache
def sections_of(workload: Workload) -> tuple[type[Section], type[Section]]:
    """The sections `workload` and `factors` of an experiment with this workload."""
    return workload_section(workload), factors_section(workload)


class TopSection(Section):
    """The keys at the top of the file that hold one value, and those whose sections are read on their own."""

    name: Annotated[str, _NAME] = Field(
        description="Name of the experiment; begins the name of its campaigns' folders."
    )
    question: Annotated[str, _PROSE] = Field("", description="The question that the experiment answers.")
    hosts: Any = Field(description="The hosts by name.")
    workload: Any = Field(description="What runs between which hosts.")
    bystander: Any = Field(None, description="A workload that runs beside in every trial, or a list of them.")
    tunables: Any = Field(None, description="Tunables of hosts, by host or `all`, set in every trial.")
    factors: Any = Field(None, description="Parameters of the workload, and tunables, that are varied.")
    design: Any = Field(None, description="Which points are visited, how often and in which order.")
    windows: Any = Field(None, description="Lengths of the windows of a trial.")
    outcomes: list[Annotated[str, _LINE]] = Field(
        [], description="Outcomes to show; `HOST.` before those of each host. Left out: rate and cost."
    )
    limits: Any = Field(None, description="What a trial may take before it is retried or marked.")
    prove: Annotated[Any, _switch("foreign")] = Field(
        False,
        description="Whether trials test what limits; foreign: by what others have set on the hosts, too.",
    )
    profile: Annotated[Any, _switch()] = Field(
        True, description="Whether call stacks are sampled, to tell which functions the cost is of."
    )
    explain: Any = Field(
        None,
        description="Of a factor, the two levels whose difference in cost the report explains by functions.",
    )
    search: Any = Field(None, description="A search for the largest level of a parameter that meets a goal.")
    until: Annotated[Any, _Reads(parse_rule, {"type": "string"})] = Field(
        None,
        description="The rule that ends the campaign, such as `ratio(size=1KiB/size=64KiB) > 1.5`; it goes on block by block.",
    )
    max_trials: Annotated[Any, _quantity("count", low=2, high=99_999)] = Field(
        None, description=f"Trials after which it ends without an answer; left out: {UNTIL_TRIALS}."
    )
    quick: Any = Field(None, description="What `--quick` replaces, key by key.")


class SearchSection(Section):
    """A search at each point, instead of the design's trials: the largest rate that meets the goal."""

    goal: Annotated[Any, _Reads(_bounded(parse_goal), {"type": "string"})] = Field(
        description="What must hold: `loss = 0`, `loss <= 0.1 %`, or p50, p90, p99, p999 or mean `<=` a duration."
    )
    parameter: Annotated[str, _word(("rate", "connections", "queue_depth"))] = Field(
        "rate", description="The parameter whose largest level is looked for."
    )
    low: Annotated[int, _quantity("count", low=1, high=10**9)] = Field(100, description="Least level to try.")
    high: Annotated[int, _quantity("count", low=2, high=10**9)] = Field(
        10_000_000, description="Greatest level to try."
    )
    precision: Annotated[float, _SHARE] = Field(
        0.05,
        description="The search ends when the 95 % interval is narrower than this share of the level, 0.1% to 50%.",
    )
    time: Annotated[int, _quantity("duration", low=10**9, high=24 * HOUR_NS)] = Field(
        180 * 10**9, description="The search of a point ends after this time at the latest."
    )


class QuickSection(Section):
    """Replacements by `--quick`: factors by name, design and windows key by key."""

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

    # Of the workload that is read alone, where an experiment is read: all of them take 0.2 s to make.
    workload_sections = {name: sections_of(workload)[0] for name, workload in WORKLOADS.items()}
    factor_sections = {name: sections_of(workload)[1] for name, workload in WORKLOADS.items()}
    factors = any_of(factor_sections)
    loads = {name: load_named(name) for name in WORKLOADS}
    known = any_of({n: section for n, section in factor_sections.items() if not loads[n].extends_schema})
    workloads = any_of(workload_sections)
    (extends,) = (name for name, load in loads.items() if load.extends_schema)
    # Here, as that module is made of this one.
    from iodyno.formats import explain_section, tunable_sections
    from iodyno.formats.design_section import DesignSection

    tunable_sections.add_to_schema(definitions)
    for name in factor_sections:
        for definition in list(definitions):
            if definition.startswith(f"{name}_") and definition.endswith("_factor"):
                section = definitions[definition]
                definitions[definition] = {
                    "description": section["description"],
                    "anyOf": [section["properties"]["levels"], RANGE_SCHEMA, section],
                }
    outcomes = [kind.name for kind in OUTCOMES.values() if kind.of_trial or not kind.per_host]
    per_host = "|".join(kind.name for kind in OUTCOMES.values() if kind.per_host)
    named = {name: section for name, section in workload_sections.items() if loads[name].beside}
    beside = any_of(named)
    sections: dict[str, Json] = {
        "hosts": {
            "type": "object",
            "propertyNames": {"pattern": f"^{HOST_NAME}$"},
            "additionalProperties": by_access(),
        },
        "workload": workloads,
        "bystander": {"anyOf": [beside, {"type": "array", "items": beside, "minItems": 1}]},
        "tunables": tunable_sections.schema_of_tunables(),
        "factors": factors,
        "design": reference(DesignSection),
        "windows": reference(WindowsSection),
        "limits": reference(LimitsSection),
        "search": reference(SearchSection),
        "explain": explain_section.schema_of_explain(),
        "outcomes": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "anyOf": [
                    {"enum": list(outcomes)},
                    {"type": "string", "pattern": rf"^{BYSTANDER_NAME.pattern}\.({'|'.join(OF_BYSTANDER)})$"},
                    {"type": "string", "pattern": rf"^{HOST_NAME}\.({per_host})$"},
                ]
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
    for load in loads.values():
        load.add_to_schema(definitions)
    top["properties"]["quick"] = {
        "$ref": "#/$defs/quick",
        "description": top["properties"]["quick"]["description"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:iodyno:experiment",
        **top,
        "if": {"properties": {"workload": {"properties": {"kind": {"const": extends}}}}},
        "else": {"properties": {"factors": known}},
        "title": "iodyno experiment",
        "description": "The question as one file: hosts, workload, factors, outcomes, design.",
        "$defs": dict(sorted(definitions.items())),
    }
