"""The JSON Schema of an experiment file, from the models that check one."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from iodyno.core.outcome import BYSTANDER_NAME, OF_BYSTANDER, OUTCOMES
from iodyno.formats import explain_section, metrics_section, tunable_sections
from iodyno.formats.design_section import DesignSection
from iodyno.formats.experiment_model import (
    HOST_SECTIONS,
    LimitsSection,
    PlacementSection,
    QuickSection,
    SearchSection,
    TopSection,
    WindowsSection,
    sections_of,
)
from iodyno.formats.section_values import HOST_NAME, MAX_LEVELS, RANGE_SCHEMA, Json, Section
from iodyno.loads.base.formats import load_named
from iodyno.loads.base.workloads import WORKLOADS

_VARIABLE: Json = {
    "type": ["string", "number", "boolean"],
    "description": "A variable of the profile or personality.",
}
_LEVELS: Json = {"type": "array", "minItems": 1, "maxItems": MAX_LEVELS, "items": _VARIABLE}
_FACTOR: Json = {
    "anyOf": [
        _LEVELS,
        {
            "type": "object",
            "required": ["levels"],
            "properties": {
                "levels": _LEVELS,
                "together": {"type": "object", "additionalProperties": _LEVELS},
            },
            "additionalProperties": False,
        },
    ]
}


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
                "access": {"enum": list(HOST_SECTIONS), "description": "How iodyno reaches the host."}
            },
            "allOf": chosen,
        }

    # Of the workload that is read alone, where an experiment is read: all of them take 0.2 s to make.
    workload_sections = {name: sections_of(workload)[0] for name, workload in WORKLOADS.items()}
    factor_sections = {name: sections_of(workload)[1] for name, workload in WORKLOADS.items()}
    factors = any_of(factor_sections)
    loads = {name: load_named(name) for name in WORKLOADS}
    own = [name for name, load in loads.items() if load.own_names]
    known = any_of({n: section for n, section in factor_sections.items() if n not in own})
    workloads = any_of(workload_sections)
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
        "placement": reference(PlacementSection),
        "windows": reference(WindowsSection),
        "limits": reference(LimitsSection),
        "search": reference(SearchSection),
        "explain": explain_section.schema_of_explain(),
        "metrics": metrics_section.schema_of_metrics(),
        "outcomes": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "anyOf": [
                    {"enum": list(outcomes)},
                    {"type": "string", "pattern": rf"^{BYSTANDER_NAME.pattern}\.({'|'.join(OF_BYSTANDER)})$"},
                    {"type": "string", "pattern": rf"^{HOST_NAME}\.({per_host})$"},
                    {"type": "string", "pattern": rf"^{HOST_NAME}\.[a-z][a-z0-9_]*$"},
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
    for name in own:
        definitions[f"{name}_workload"]["additionalProperties"] = _VARIABLE
        definitions[f"{name}_factors"]["additionalProperties"] = _FACTOR
        definitions[f"{name}_together"]["additionalProperties"] = _LEVELS
    top["properties"]["quick"] = {
        "$ref": "#/$defs/quick",
        "description": top["properties"]["quick"]["description"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:iodyno:experiment",
        **top,
        "if": {"properties": {"workload": {"properties": {"kind": {"enum": own}}}}},
        "else": {"properties": {"factors": known}},
        "title": "iodyno experiment",
        "description": "The question as one file: hosts, workload, factors, outcomes, design.",
        "$defs": dict(sorted(definitions.items())),
    }
