"""The golden messages keep to the schemas that the agent's types generate, and only they do."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

SCHEMA = Path(__file__).parents[2] / "schema"
KINDS = ("command", "message")


@cache
def schema(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMA / f"{kind}.schema.json").read_text())
    return found


@cache
def validator(kind: str) -> Draft202012Validator:
    Draft202012Validator.check_schema(schema(kind))
    return Draft202012Validator(schema(kind))


def examples(kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SCHEMA / "golden" / f"{kind}s.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_every_golden_message_keeps_to_the_schema(kind: str) -> None:
    for example in examples(kind):
        validator(kind).validate(example)


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_refuses_what_the_agent_refuses(kind: str) -> None:
    for example in examples(kind):
        assert not validator(kind).is_valid({**example, "type": "dance"})
        named = {branch["properties"]["type"]["const"]: branch for branch in schema(kind)["oneOf"]}
        for key in named[example["type"]].get("required", []):
            assert not validator(kind).is_valid({k: v for k, v in example.items() if k != key}), key


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_an_example_of_every_kind(kind: str) -> None:
    known = {branch["properties"]["type"]["const"] for branch in schema(kind)["oneOf"]}
    assert {example["type"] for example in examples(kind)} == known
