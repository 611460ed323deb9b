"""What limits a load on storage, by planted signals; the real thing is in tests/hosts/test_disks.py."""

from __future__ import annotations

import pytest

from iodyno.analysis.limiter.signals import Signal, absent
from iodyno.analysis.limiter.storage_rules import ALONE, RULES_OF_STORAGE
from iodyno.analysis.limiter.verdict import of_signals
from iodyno.core.limiter import LIMITERS, UNKNOWN

WINDOWS = 10


def verdict(**values: float) -> str:
    """The limiter that these signals of a client speak for; those that are not named cannot be had."""
    found = {}
    for rule in RULES_OF_STORAGE:
        for criterion in rule.criteria:
            value = values.get(criterion.name)
            found[f"client.{criterion.name}"] = (
                absent("sensor", "not there")
                if value is None
                else Signal(dict.fromkeys(range(WINDOWS), value), "1", "sensor")
            )
    return of_signals(found, {ALONE: "client"}, RULES_OF_STORAGE).name


FREE = {"load_ratio_of_busiest_cpu": 0.3, "idle_ratio_of_busiest_cpu": 0.6}
FULL = {"load_ratio_of_busiest_cpu": 0.99, "idle_ratio_of_busiest_cpu": 0.0}


@pytest.mark.parametrize(
    ("values", "limiter"),
    [
        ({**FREE, "outstanding": 1, "device_busy_ratio": 0.99, "device_depth": 1.0}, "concurrency"),
        ({**FREE, "outstanding": 32, "device_busy_ratio": 1.0, "device_depth": 31.0}, "client.disk"),
        ({**FREE, "outstanding": 32, "device_busy_ratio": 0.4, "device_depth": 0.6}, UNKNOWN),
        ({**FREE, "outstanding": 8, "device_busy_ratio": 0.2, "device_depth": 0.3, "device_limit_used": 0.99}, "client.disk"),
        ({**FREE, "outstanding": 8, "device_busy_ratio": 0.2, "device_depth": 0.3, "device_limit_used": 0.5}, UNKNOWN),
        ({**FREE, "achieved_over_offered": 1.0, "device_busy_ratio": 0.2, "device_depth": 0.2}, "offered_load"),
        ({**FREE, "achieved_over_offered": 0.6, "device_busy_ratio": 1.0, "device_depth": 40.0}, "client.disk"),
        ({**FULL, "outstanding": 32, "device_busy_ratio": 1.0, "device_depth": 31.0}, "client.cpu"),
        ({**FULL, "outstanding": 1, "busiest_thread_ratio": 0.98, "idle_ratio_of_idlest_cpu": 0.9}, "client.thread"),
        ({"own_code_ratio": 0.99, "asleep_ratio": 0.0, "outstanding": 1, **FULL}, "client.generator"),
        ({}, UNKNOWN),
    ],
)  # fmt: skip
def test_the_resource_that_the_signals_speak_for_is_named(values: dict[str, float], limiter: str) -> None:
    assert verdict(**values) == limiter


def test_every_rule_is_of_a_known_limiter_and_of_the_one_end() -> None:
    assert {rule.limiter for rule in RULES_OF_STORAGE} <= set(LIMITERS)
    assert all(rule.ends == (ALONE,) for rule in RULES_OF_STORAGE)
