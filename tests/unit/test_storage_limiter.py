"""What limits a load on storage, by planted signals; the real thing is in tests/hosts/test_disks.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from iodyno.analysis.host_data import HostData
from iodyno.analysis.limiter.signals import Signal, View, absent
from iodyno.analysis.limiter.storage_rules import ALONE, RULES_OF_STORAGE
from iodyno.analysis.limiter.storage_signals import device_limit_used
from iodyno.analysis.limiter.verdict import of_signals
from iodyno.analysis.observer import cost_ratio
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial
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


FREE = {
    "load_ratio_of_busiest_cpu": 0.3,
    "idle_ratio_of_busiest_cpu": 0.6,
    "load_ratio_of_cpus": 0.3,
    "idle_ratio_of_cpus": 0.6,
}
FULL = {"load_ratio_of_busiest_cpu": 0.99, "idle_ratio_of_busiest_cpu": 0.0, "load_ratio_of_cpus": 0.99}
NEVER_IDLE = {"device_busy_ratio": 1.0, "device_depth": 8}
CPU_IDLES = {"idle_ratio_of_idlest_cpu": 0.5}
SERVED = {"load_ratio_of_busiest_cpu": 0.2, "idle_ratio_of_busiest_cpu": 0.1}
SERVED_FREE = {
    **SERVED,
    "load_and_servers_ratio_of_cpus": 0.6,
    "load_ratio_of_cpus": 0.6,
    "idle_ratio_of_cpus": 0.4,
}
SERVED_FULL = {
    **SERVED,
    "load_and_servers_ratio_of_cpus": 0.9,
    "load_ratio_of_cpus": 0.9,
    "idle_ratio_of_cpus": 0.02,
}
"""Of a load with a server and daemons on the same machine."""


@pytest.mark.parametrize(
    ("values", "limiter"),
    [
        ({**FREE, "queue_depth": 1, "device_busy_ratio": 0.99, "device_depth": 1.0}, "concurrency"),
        ({**FREE, "queue_depth": 32, "device_busy_ratio": 1.0, "device_depth": 31.0}, "client.disk"),
        ({**FREE, "queue_depth": 32, "device_busy_ratio": 0.4, "device_depth": 0.6}, UNKNOWN),
        ({**FREE, "queue_depth": 8, "device_busy_ratio": 0.2, "device_depth": 0.3, "device_limit_used": 0.99}, "client.disk"),
        ({**FREE, "queue_depth": 8, "device_busy_ratio": 0.2, "device_depth": 0.3, "device_limit_used": 0.5}, UNKNOWN),
        ({**FREE, "queue_depth": 8, "device_busy_ratio": 0.1, "in_device_ratio": 0.02, "asleep_ratio": 0.9}, "client.disk"),
        ({**FREE, "queue_depth": 8, "device_busy_ratio": 0.5, "in_device_ratio": 0.7, "asleep_ratio": 0.9}, UNKNOWN),
        ({**FULL, "queue_depth": 8, "in_device_ratio": 0.02, "asleep_ratio": 0.1}, "client.cpu"),
        ({**FREE, "achieved_over_offered": 1.0, "device_busy_ratio": 0.2, "device_depth": 0.2}, "offered_load"),
        ({**FREE, "achieved_over_offered": 0.6, "device_busy_ratio": 1.0, "device_depth": 40.0}, "client.disk"),
        ({**FULL, "queue_depth": 32, "device_busy_ratio": 1.0, "device_depth": 31.0}, "client.cpu"),
        ({**FULL, "queue_depth": 1, "busiest_thread_ratio": 0.98, "idle_ratio_of_idlest_cpu": 0.9}, "client.thread"),
        ({"own_code_ratio": 0.99, "asleep_ratio": 0.0, "queue_depth": 1, **FULL}, "client.generator"),
        ({**FREE, **NEVER_IDLE, "queue_depth": 8, "bytes_of_device_operation": 131072}, "client.disk_bandwidth"),
        ({**SERVED_FULL, "queue_depth": 20}, "client.cpu"),
        ({**SERVED_FULL, "queue_depth": 20, "workers_in_lock_ratio": 0.9}, "client.cpu"),
        ({**SERVED_FULL, "queue_depth": 20, "observer_ratio_of_cpus": 0.06}, "client.cpu"),
        ({**SERVED_FREE, "queue_depth": 20, "workers_in_lock_ratio": 0.9, "busiest_station_ratio": 0.6}, "client.lock"),
        ({**SERVED_FREE, "idle_ratio_of_cpus": 0.2, "queue_depth": 20, "workers_in_lock_ratio": 0.9}, "client.lock"),
        ({"idle_ratio_of_cpus": 0.05, "queue_depth": 20, "observer_ratio_of_cpus": 0.2}, "client.observer"),
        ({"idle_ratio_of_cpus": 0.2, "queue_depth": 20, "observer_ratio_of_cpus": 0.2}, UNKNOWN),
        ({**SERVED_FREE, "queue_depth": 4, "workers_in_lock_ratio": 0.0, "busiest_station_ratio": 0.6}, "concurrency"),
        ({**SERVED_FREE, "queue_depth": 4, "workers_in_lock_ratio": 0.0, "busiest_station_ratio": 0.95}, UNKNOWN),
        ({**SERVED_FREE, **CPU_IDLES, "queue_depth": 20, "busiest_thread_ratio_of_server": 0.97}, "server_thread"),
        ({**SERVED_FREE, **CPU_IDLES, "queue_depth": 20, "busiest_thread_ratio_of_client_daemon": 0.97}, "client_daemon_thread"),
        # Either side of a tenth of the CPUs that idles.
        ({**FREE, "observer_ratio_of_cpus": 0.2, "idle_ratio_of_cpus": 0.08}, "client.observer"),
        ({**FREE, "observer_ratio_of_cpus": 0.2, "idle_ratio_of_cpus": 0.125}, UNKNOWN),
        ({**FREE, "workers_in_lock_ratio": 0.9, "idle_ratio_of_cpus": 0.08}, UNKNOWN),
        ({**FREE, "workers_in_lock_ratio": 0.9, "idle_ratio_of_cpus": 0.125}, "client.lock"),
        ({}, UNKNOWN),
    ],
)  # fmt: skip
def test_the_resource_that_the_signals_speak_for_is_named(values: dict[str, float], limiter: str) -> None:
    assert verdict(**values) == limiter


def test_every_rule_is_of_a_known_limiter_and_of_the_one_end() -> None:
    assert {rule.limiter for rule in RULES_OF_STORAGE} <= set(LIMITERS)
    assert all(rule.ends == (ALONE,) for rule in RULES_OF_STORAGE)


def test_a_look_after_the_end_of_a_load_is_no_share_of_the_time_that_the_load_had() -> None:
    """A load of 0.4 ms was looked at after 30 ms: readings of 1 ms took 3 % of a CPU, and not three CPUs."""
    sensor, own = Reading(30_000_000, 1_000_000, None), Reading(400_000, 0, None)
    assert observed(400_000, sensor, own) == pytest.approx(1 / 30)
    # In the middle of a load it is the record's time, though a sensor was left out the time before.
    sensors = Reading(9_990_000, 1_000, None), Reading(90_000_000, 1_000, None)
    assert observed(10_000_000, *sensors) == pytest.approx(2e-4)


def observed(span_ns: int, *readings: Reading) -> float | None:
    """Share of a CPU that these readings took at the end of a record that long."""
    record = Record(0, "measured", 0, span_ns, 0, 0, 0, 0)
    each = {str(number): {0: reading} for number, reading in enumerate(readings)}
    host = HostData("client", "alone", (0,), {}, records=[record], readings={**each})
    trial = Trial("t", 0, 1, 0, 0, "p01", {}, {}, "finished", None, "", {}, (), {"client": host})
    return cost_ratio(trial, "client").value


def test_a_device_limit_is_used_up_whatever_an_interval_has_of_its_slices() -> None:
    """The kernel lets 20 operations through each 0.1 s: an interval of 250 ms has two slices, and the next one three."""
    counts = [40, 60] * 4
    host = HostData("client", "alone", (0,), {})
    for index, count in enumerate(counts):
        at = index * 250_000_000
        host.records.append(Record(index, "measured", at, at + 250_000_000, 4096 * count, count, 1, 0))
    client = SimpleNamespace(
        classes={"read": {index: SimpleNamespace(operations=count) for index, count in enumerate(counts)}}
    )
    one = SimpleNamespace(settings={"device_limit": 200}, clients={"client": client})
    found = device_limit_used(View(one, host, host, host))  # type: ignore[arg-type]
    assert [*found.values.values()] == pytest.approx([1.0] * len(counts))
