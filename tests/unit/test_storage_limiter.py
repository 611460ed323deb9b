"""What limits a load on storage, by planted signals; the real thing is in tests/hosts/test_disks.py."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from iodyno.analysis.histogram import Histogram
from iodyno.analysis.host_data import ClassCounts, HostData
from iodyno.analysis.limiter import storage_waits
from iodyno.analysis.limiter.elasticity import proof_by_design
from iodyno.analysis.limiter.signals import Signal, View, absent
from iodyno.analysis.limiter.storage_rules import ALONE, RULES_OF_STORAGE
from iodyno.analysis.limiter.storage_signals import device_limit_used
from iodyno.analysis.limiter.verdict import of_point, of_signals, service_time
from iodyno.analysis.observer import cost_ratio
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial
from iodyno.core.limiter import LIMITERS, UNKNOWN, Finding, Proof, Verdict

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
ASLEEP = {"asleep_ratio": 0.9}
ALL_THERE = {**ASLEEP, "queue_depth": 4, "in_flight_ratio": 0.97, "in_device_ratio": 0.8}
SHORT_QUEUE = {"queue_room": 4, "queue_filled_ratio": 0.95}
BESIDE = {"idle_ratio_of_cpus": 0.0, "load_ratio_of_cpus": 0.2, "others_cpu_ratio": 0.8}
"""Of a load beside others that fill the CPUs."""
NEVER_IDLE = {"device_busy_ratio": 1.0, "device_depth": 8}
CPU_IDLES = {"idle_ratio_of_idlest_cpu": 0.5}
SERVED = {"load_ratio_of_busiest_cpu": 0.2, "idle_ratio_of_busiest_cpu": 0.1}
NEARLY_FULL = {
    **SERVED,
    "load_ratio_of_cpus": 0.82,
    "load_and_servers_ratio_of_cpus": 0.82,
    "idle_ratio_of_cpus": 0.15,
    "load_beside_other_stations": 0.6,
    "busiest_station_ratio": 0.82,
    "workers_in_lock_ratio": 0.0,
}
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
        # The CPUs are the busiest of all that serves: more in flight gains a quarter at most.
        ({**NEARLY_FULL, "queue_depth": 20}, "client.cpu"),
        ({**NEARLY_FULL, "queue_depth": 1}, "concurrency"),
        ({**NEARLY_FULL, "queue_depth": 20, "load_beside_other_stations": 0.45}, UNKNOWN),
        ({**NEARLY_FULL, "queue_depth": 20, "workers_in_lock_ratio": 0.9}, "client.lock"),
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
        # Where operations wait above the device.
        ({**FREE, "group_limit_used": 0.97, "in_device_ratio": 0.1, "asleep_ratio": 0.9}, "client.disk_limit"),
        ({**FREE, "group_limit_used": 0.6, "in_device_ratio": 0.1, "asleep_ratio": 0.9}, "client.disk"),
        ({**FREE, **NEVER_IDLE, **ASLEEP, "in_scheduler_ratio": 0.8, "driver_filled_ratio": 0.01}, "client.io_scheduler"),
        ({**FREE, **NEVER_IDLE, **ASLEEP, "in_scheduler_ratio": 0.8, "driver_filled_ratio": 0.97}, "client.disk"),
        ({**FREE, **NEVER_IDLE, **ASLEEP, **SHORT_QUEUE, "queue_over_load": 0.25}, "client.disk_queue"),
        ({**FREE, **NEVER_IDLE, **ASLEEP, **SHORT_QUEUE, "queue_over_load": 1.0}, "client.disk"),
        ({**FREE, **NEVER_IDLE, **ASLEEP, **SHORT_QUEUE, "queue_room": 256, "queue_over_load": 0.25}, "client.disk"),
        ({**FREE, **ASLEEP, "device_busy_ratio": 0.5, "device_depth": 1.0, "dirty_ratio": 1.02}, "client.dirty_pages"),
        ({**FREE, **ASLEEP, **NEVER_IDLE, "dirty_ratio": 1.02}, "client.disk"),
        ({**FREE, "asleep_ratio": 0.1, "dirty_ratio": 1.02}, UNKNOWN),
        # What no machine of the tests has: slots of an NFS client, a volume with a bucket of tokens.
        ({**FREE, "queue_depth": 64, "waiting_for_slots": 7.0}, "client.nfs_slots"),
        ({**FREE, "queue_depth": 64, "waiting_for_slots": 0.1}, UNKNOWN),
        ({**FREE, **NEVER_IDLE, "queue_depth": 64, "bucket_fall_ratio": 0.75}, "client.token_bucket"),
        ({**FREE, **NEVER_IDLE, "queue_depth": 64, "bucket_fall_ratio": 0.0}, "client.disk"),
        # Who pauses, and who waits for one operation after the other.
        ({**FREE, **ASLEEP, "queue_depth": 4, "in_flight_ratio": 0.1, "device_busy_ratio": 0.1}, "client.application"),
        ({**FREE, **ALL_THERE, "device_busy_ratio": 0.7}, "concurrency"),
        ({**FREE, **ALL_THERE, "device_busy_ratio": 0.97}, UNKNOWN),
        ({**BESIDE, "waiting_for_cpu_ratio": 0.55, "device_busy_ratio": 0.4}, "client.run_queue"),
        ({**BESIDE, "waiting_for_cpu_ratio": 0.05, "device_busy_ratio": 0.4}, UNKNOWN),
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


def made_view(settings: dict[str, object], **readings: list[dict[tuple[str, str], int]]) -> View:
    """A view of a client with that many intervals of 0.1 s and these readings of sensors."""
    host = HostData("client", "alone", (0, 1), {})
    count = max(map(len, readings.values()))
    host.records = [Record(n, "measured", n * 10**8, (n + 1) * 10**8, 4096, 1, 1, 0) for n in range(count)]
    for sensor, each in readings.items():
        found = {n: Reading(10**8, 0, None) for n in range(count)}
        for number, values in enumerate(each):
            for key, value in values.items():
                found[number].values[key] = value
        host.readings[sensor] = found
    targets = {"client": {"device": "sda"}}
    trial = Trial(
        "t", 0, 1, 0, 0, "p", {}, settings, "finished", None, "", {"targets": targets}, (), {"client": host}
    )  # type: ignore[arg-type]
    return View(trial, host, host, host, 2)


def test_dirty_pages_count_against_the_level_from_which_the_kernel_holds_writers() -> None:
    """Half way between both limits (`dirty_freerun_ceiling`): 3 MiB dirty or under way, of 4 and 2 MiB."""
    pages = {
        "dirty_bytes": 1 << 20,
        "under_way_bytes": 2 << 20,
        "dirty_limit_bytes": 4 << 20,
        "background_limit_bytes": 2 << 20,
    }
    reading = {(f"writeback.{name}", ""): value for name, value in pages.items()}
    found = storage_waits.dirty(made_view({"read": 0}, writeback=[reading] * 3))
    assert [*found.values.values()] == pytest.approx([1.0] * 3)
    assert not storage_waits.dirty(made_view({"read": 0, "direct": True}, writeback=[reading])).values


def test_pages_that_are_written_again_and_again_are_dirty_once() -> None:
    """4 KiB in each interval, and room for 3 KiB: a working set of 1 KiB never fills it, one that grows does."""
    pages = {"writeback.dirty_limit_bytes": 4096, "writeback.background_limit_bytes": 2048}
    view = made_view({"read": 0}, writeback=[{(name, ""): value for name, value in pages.items()}] * 4)
    view.host.classes["write"] = {n: ClassCounts(4096, 1, 0) for n in range(4)}
    view = replace(view, trial=replace(view.trial, clients={"client": view.host}))
    assert [*storage_waits.written(view).values.values()] == pytest.approx([4 * 4096 / 3072] * 4)
    view.host.manifest["result"] = {"disk": {"targets": [{"size_bytes": 512}] * 2}}  # type: ignore[index]
    assert [*storage_waits.written(view).values.values()] == pytest.approx([1 / 3] * 4)
    view.host.manifest["job"] = {"disk": {"region": {"length_bytes": 256}}}  # type: ignore[index]
    assert [*storage_waits.written(view).values.values()] == pytest.approx([1 / 6] * 4)
    grows = {**view.trial.settings, "pattern": "append"}
    grown = replace(view, trial=replace(view.trial, settings=grows))
    assert storage_waits.written(grown).values[0] == pytest.approx(4 * 4096 / 3072)


def test_slots_of_the_nfs_client_count_by_the_mount_that_waits_most() -> None:
    one = {("nfs.requests", "mount=/a"): 100, ("nfs.waiting_for_slots", "mount=/a"): 5}
    two = {("nfs.requests", "mount=/b"): 10, ("nfs.waiting_for_slots", "mount=/b"): 70}
    found = storage_waits.waiting_for_slots(made_view({}, nfs_slots=[{**one, **two}]))
    assert [*found.values.values()] == [7.0]


def test_a_queue_has_room_in_as_many_hardware_queues_as_there_are_threads() -> None:
    disk = {"disk.queue_limit": 8, "disk.hardware_queues": 4, "disk.read_ns": 12 * 10**8, "disk.write_ns": 0}
    reading = {(name, "dev=sda"): value for name, value in disk.items()}
    view = made_view({}, disks=[reading])
    view.host.manifest["ready"] = {"workers": 2}  # type: ignore[index]
    assert [*storage_waits.queue_room(view).values.values()] == [16.0]
    assert [*storage_waits.queue_filled(view).values.values()] == pytest.approx([0.75])


@pytest.mark.parametrize("durable", ["fsync", "fdatasync", "msync"])
def test_who_waits_until_a_write_is_durable_has_it_in_flight(durable: str) -> None:
    """Writes of 2 ms and 78 ms of making them durable, one after the other: there is one in flight for 80 of 100 ms."""
    view = made_view({"workers": 1, "queue_depth": 1, "sync": durable}, disks=[{}] * 4)
    view.host.histograms = {n: Histogram(1, 2 * 10**6, (1,), (1,)) for n in range(4)}
    view.host.more_histograms = {f"io.{durable}": {n: Histogram(1, 78 * 10**6, (1,), (1,)) for n in range(4)}}
    view.host.classes = {name: {n: ClassCounts(0, 1, 0) for n in range(4)} for name in ("write", durable)}
    view = replace(view, trial=replace(view.trial, clients={"client": view.host}))
    assert [*storage_waits.allowed_in_flight(view).values.values()] == pytest.approx([0.8] * 4)
    assert service_time([view.trial]) == pytest.approx(80 * 10**6)
    # All operations of a file program hold those already.
    view.host.classes["append-1"] = {}
    assert service_time([view.trial]) == pytest.approx(2 * 10**6)


def at_depth(depth: int, block: int, per_s: float) -> Trial:
    """A trial of a design with that many operations in flight, which did `per_s`."""
    host = HostData("client", "alone", (0,), {})
    host.records = [Record(0, "measured", 0, 10**9, 4096, round(per_s), 1, 0)]
    levels = {"queue_depth": depth, "block": 4096}
    where = f"{depth}-{block}", 0, 1, block, 0, f"d{depth}"
    return Trial(*where, levels, levels, "finished", None, "", {}, clients={"client": host})


def test_a_design_of_several_depths_tells_whether_more_at_a_time_are_served() -> None:
    """At 1, twice as many are done by twice as many; at 4, no more: there it is the device."""
    per_s = {1: 1000.0, 2: 1980.0, 4: 3500.0, 8: 3520.0}
    design = [
        at_depth(depth, block, rate * (1 + 0.01 * block))
        for block in range(3)
        for depth, rate in per_s.items()
    ]

    def judged(depth: int) -> Proof | None:
        return proof_by_design(design, [trial for trial in design if trial.levels["queue_depth"] == depth])

    found = {depth: judged(depth) for depth in per_s}
    assert {depth: proof.verdict for depth, proof in found.items() if proof} == {
        1: "proved",
        2: "proved",
        4: "contradicted",
    }
    assert found[1] and found[1].why.startswith("more operations at a time: 0.99 % of rate per % of it")
    assert Finding(Verdict("client.disk"), (found[2],)).name == "concurrency"  # type: ignore[arg-type]
    assert Finding(Verdict("client.disk"), (found[4],)).name == "client.disk"  # type: ignore[arg-type]


def test_trials_that_differ_only_in_who_fills_the_cpus_are_short_of_cpu_time() -> None:
    own, others = Verdict("client.cpu"), Verdict("client.run_queue")
    assert of_point([own, others, others]).name == "client.run_queue"
    # Of trials near a bound some have a tenth of the CPUs free.
    assert of_point([own, own, Verdict("concurrency")]).name == "client.cpu"
    assert of_point([Verdict("concurrency"), Verdict("concurrency"), own]).name == "concurrency"
    assert of_point([own, others, Verdict(UNKNOWN)]).name == UNKNOWN
    assert of_point([own, others, Verdict("client.disk")]).name == UNKNOWN


def test_a_network_has_no_closed_loops_of_storage() -> None:
    """Both have limiters of one name, whose signals are drawn for each trial that was limited by it."""
    trial = SimpleNamespace(clients={}, settings={"queue_depth": 1}, manifest={})
    view = SimpleNamespace(trial=trial, host=SimpleNamespace(measured=[], name="client"))
    assert not storage_waits.allowed_in_flight(view).values  # type: ignore[arg-type]
