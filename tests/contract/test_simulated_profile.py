"""The profile that the simulated agent sends is one that a real agent could have sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from iodyno.session import simulated_profile
from iodyno.session.simulated import Truth

SCHEMA = Path(__file__).parents[2] / "schema" / "message.schema.json"


@pytest.mark.parametrize("role", ["send", "receive", "idle"])
def test_it_keeps_to_the_schema_of_the_wire(role: str) -> None:
    costs = {} if role == "idle" else Truth().function_ns_per_kib(4, 1024, role)
    made = simulated_profile.profile(
        role, 997, 2, 10**9, {name: cost * 1e6 for name, cost in costs.items()}, 1e7, "seed"
    )
    message = {"type": "profile", "trial": "00001-1", "begin_ns": 0, "end_ns": 10**9, **made}
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(message)
    assert sum(stack["count"] for stack in made["stacks"]) == made["samples"] > 0
