"""What the server of a volume did for many clients: CPU time by role, and whether its page cache was as asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import made_summary
import pytest

from iodyno.analysis import physics
from iodyno.analysis.cost import CostBasis
from iodyno.analysis.cpu_classes import Accounting
from iodyno.analysis.host_data import ClassCounts, HostData
from iodyno.analysis.interval import estimate
from iodyno.analysis.limiter import storage_signals
from iodyno.analysis.limiter.signals import View
from iodyno.analysis.limiter.storage_rules import ALONE
from iodyno.analysis.limiter.verdict import of_trial
from iodyno.analysis.measured import Measured
from iodyno.analysis.outcomes import measure_named
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial
from iodyno.core.errors import ExperimentError
from iodyno.core.outcome import OUTCOMES
from iodyno.core.volume import VolumeKind
from iodyno.core.warnings import WarningCode
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.loads.disk.analysis import cache
from iodyno.loads.disk.report.served import served_table
from iodyno.report.layout import layout_of
from iodyno.report.method import method_rows

SPAN_NS = 10**9
INTERVALS = 4
IMAGE = 1 << 30
BASIS = CostBasis(accounting=Accounting("bpf"))
TRUTH_US = {"generator": 11.0, "server": 30.0, "client_daemon": 20.0, "rest": 9.0}
"""CPU time of an operation by role that readings are made from."""
OPERATIONS = (3000, 1000)
"""Of the client that reads the machine, and of another one, per interval."""


def reading(values: Mapping[tuple[str, str], int]) -> Reading:
    return Reading(SPAN_NS, 0, None, dict(values))


def client(name: str, operations: int, readings: dict[str, dict[int, Reading]]) -> HostData:
    moved = operations * 4096
    records = [
        Record(n, "measured", n * SPAN_NS, (n + 1) * SPAN_NS, moved, operations, 1, 0)
        for n in range(INTERVALS)
    ]
    counts = {n: ClassCounts(moved, operations, 0) for n in range(INTERVALS)}
    manifest: dict[str, Any] = {"result": {}}
    return HostData(
        name, "alone", (0, 1), manifest, records, readings=readings, classes={"read": counts}, machine="one"
    )


def machine(
    given: float = 1.0, asked: str = "any", resident: float = 0.0, settings: Mapping[str, Any] | None = None
) -> Trial:
    """A trial of two clients of one machine. `given`: bytes that the server's disk gave for each that was read."""
    own, other = OPERATIONS
    every = own + other
    ns = {role: round(1000 * us * every) for role, us in TRUTH_US.items()}
    mine = ns["generator"] * own // every
    labels = {role: f"role={role}" for role in ("server", "client_daemon", "generator")}
    roles = {
        ("role.cpu_ns", labels["server"]): ns["server"],
        ("role.cpu_ns", labels["client_daemon"]): ns["client_daemon"],
        ("role.cpu_ns", labels["generator"]): ns["generator"] - mine,
        ("role.read_bytes", labels["server"]): round(given * every * 4096),
        ("role.sent_bytes", labels["server"]): 700,
        ("role.received_bytes", labels["server"]): 300,
    }
    busy = sum(ns.values())
    exact = {}
    for cpu in (0, 1):
        # All that is not the first agent's own are other tasks and interrupts, half of it on each CPU.
        exact |= {
            ("exact.app_ns", f"cpu={cpu}"): mine // 2,
            ("exact.app_user_ns", f"cpu={cpu}"): mine // 4,
            ("exact.other_ns", f"cpu={cpu}"): (busy - mine) // 2,
            ("exact.hardirq_ns", f"cpu={cpu}"): 0,
            ("exact.idle_ns", f"cpu={cpu}"): SPAN_NS - busy // 2,
        }
    readings = {
        "roles": {n: reading(roles) for n in range(INTERVALS)},
        "cpu_exact": {n: reading(exact) for n in range(INTERVALS)},
    }
    first, second = client("client-1", own, readings), client("client-2", other, {})
    server = {"asked": asked, "size_bytes": IMAGE, "resident_before_bytes": round(resident * IMAGE)}
    told = {"server_cached": asked, "read": 10**6, **(settings or {})}
    return Trial(
        "00000-1", 0, 1, 0, 0, "p", {}, told, "finished", None, "",
        {"targets": {"client-1": {"device": None, "server": server}}},
        hosts={"client-1": first},
        clients={"client-1": first, "client-2": second},
    )  # fmt: skip


def value(trial: Trial, outcome: str) -> float | None:
    return measure_named(trial, outcome, BASIS).value


def test_cpu_time_by_role_is_that_of_the_operations_of_all_clients() -> None:
    trial = machine()
    found = {role: value(trial, f"client-1.cpu_{role}_us_per_io") for role in TRUTH_US}
    assert found == pytest.approx(TRUTH_US, rel=1e-3)
    assert value(trial, "client-1.cpu_us_per_io") == pytest.approx(sum(TRUTH_US.values()), rel=1e-3)
    without = measure_named(trial, "client-1.cpu_without_generator_us_per_io", BASIS)
    assert without.value == pytest.approx(sum(TRUTH_US.values()) - TRUTH_US["generator"], rel=1e-3)
    assert len(without.intervals) == INTERVALS, "what its interval comes from"


def test_what_a_server_keeps_busy_and_moves_is_that_of_a_second() -> None:
    trial = machine(given=0.5)
    every = sum(OPERATIONS)
    assert value(trial, "client-1.server_cpus_busy") == pytest.approx(TRUTH_US["server"] * every / 1e6)
    assert value(trial, "client-1.server_disk_read_bytes_per_s") == pytest.approx(0.5 * every * 4096)
    assert value(trial, "client-1.server_network_bytes_per_s") == pytest.approx(1000)
    assert value(trial, "server_cached_ratio") == pytest.approx(0.5)
    assert measure_named(trial, "client-2.server_cpus_busy", BASIS).value is None


@pytest.mark.parametrize(
    ("asked", "given", "resident", "why"),
    [
        ("no", 1.0, 0.0, None),
        ("no", 1.7, 0.0, None),  # it read ahead
        ("no", 0.9, 0.0, "10% of the bytes read came from the page cache of the server"),
        ("no", 1.0, 0.5, "50% of what the server serves was in its page cache"),
        ("yes", 0.0, 1.0, None),
        ("yes", 0.3, 1.0, "30% as many bytes came from the disk of the server"),
        ("yes", 0.0, 0.6, "60% of what the server serves was in its page cache"),
        ("any", 0.5, 0.5, None),
    ],
)  # fmt: skip
def test_a_server_whose_page_cache_was_not_as_asked_voids_the_trial(
    asked: str, given: float, resident: float, why: str | None
) -> None:
    (trial,) = cache.voided([machine(given, asked, resident)])
    assert trial.status == ("void" if why else "finished")
    assert why is None or why in str(trial.reason)


def test_what_a_volume_is_made_with_follows_the_settings() -> None:
    assert VolumeKind.of({}) is None
    cached = VolumeKind.of({"volume": "nbd", "server_cached": "yes", "work": "blocks"})
    assert (cached, str(cached)) == (VolumeKind("nbd"), "nbd")
    files = {"volume": "nbd", "work": "create_files"}
    assert VolumeKind.of(files) == VolumeKind("nbd", with_files=True)
    # Each is made by itself, and told from the others.
    other = [
        {"file_system": "xfs"},
        {"mount_options": "noatime"},
        {"file_system": "xfs", "mount_options": "noatime"},
    ]
    kinds = [VolumeKind.of({**files, **each}) for each in ({}, *other)]
    assert len(set(kinds)) == len(set(map(str, kinds))) == 4
    assert str(kinds[3]) == "nbd, with files, xfs, mounted noatime"


def asked(count: int, factors: Mapping[str, Any], **settings: Any) -> Any:
    keys = {
        "name": "served",
        "hosts": {"client": {"access": "netns", "count": count}},
        "workload": {"kind": "disk", "hosts": "client", "working_set": "8MiB", **settings},
        "factors": factors,
    }
    return parse_experiment(experiment_text(keys), environment={})


@pytest.mark.parametrize(
    ("count", "settings", "why"),
    [
        (
            2,
            {"volume": "loop"},
            "invalid value for workload.volume: loop with 2 hosts; expected iscsi, nbd, nfs, or one host",
        ),
        (
            1,
            {"target": "file.dat", "server_cached": "no"},
            "invalid value for workload.volume: none with server_cached: no; expected iscsi, nbd, nfs",
        ),
        (
            1,
            {"volume": "loop", "server_cached": "yes"},
            "invalid value for workload.volume: loop with server_cached: yes",
        ),
        (
            1,
            {"volume": "loop", "work": "create_files"},
            "invalid value for workload.volume: loop with work: create_files",
        ),
        (1, {"target": "file.dat", "work": "create_files"}, "what create_files makes files on"),
        (
            1,
            {"volume": "nbd", "file_system": "xfs"},
            "can only be used with work create_files, not with blocks",
        ),
        (
            1,
            {"volume": "nbd", "work": "create_files", "mount_options": "sync;ro"},
            "expected options such as noatime,sync",
        ),
    ],
)
def test_what_a_volume_cannot_be_is_one_error(count: int, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ExperimentError) as refused:
        asked(count, {"queue_depth": [1]}, **settings)
    assert why in str(refused.value), str(refused.value)


def test_several_clients_of_a_server_are_read() -> None:
    found = asked(3, {"server_cached": ["no", "yes"]}, volume="nbd")
    assert [found.factors[0].levels, len(found.workload.hosts)] == [("no", "yes"), 3]


def test_what_a_foreign_file_is_read_as_stands_in_the_method() -> None:
    notes = ("a.f:3: cached= of older versions: left as it is", "a.f:9: system is not carried out")
    rows = dict(method_rows(replace(made_summary.single(), notes=notes)))
    assert rows["Read as"] == "; ".join(notes)
    assert "Read as" not in dict(method_rows(made_summary.single()))


def test_the_table_of_a_server_has_a_row_for_each_point_in_the_words_of_its_page_cache() -> None:
    """Read ahead is no share of less than nothing, and is seen beside the rate of the disk."""
    clients = ("client-1", "client-2")
    workload = {"kind": "disk", "hosts": list(clients), "settings": {"volume": "nbd", "workers": 20}}
    base = made_summary.single()
    told = {
        "client-1.server_cpus_busy": made_summary.around(0.5, "CPUs"),
        "server_cached_ratio": made_summary.around(-0.66, "1"),
        "client-1.server_network_bytes_per_s": made_summary.around(2e8, "B/s"),
    }
    point = replace(base.points[0], outcomes={**base.points[0].outcomes, **told})
    summary = replace(base, workload=workload, points=(point,))
    table = served_table(summary, layout_of(summary), "client-1")
    assert table is not None and "2 clients" in table.title
    (row,) = table.rows
    shown = dict(zip([column.title for column in table.columns], (cell.text for cell in row), strict=True))
    assert (shown["threads"], shown["from cache"]) == ("40", "none, 166% read")
    assert shown["network"].startswith("200") and "MB/s" in shown["network"]
    assert served_table(base, layout_of(base), "client-1") is None


@pytest.mark.parametrize("operations", [0, 400])
def test_of_a_volume_a_device_that_did_nothing_is_idle_and_not_unseen(operations: int) -> None:
    trial = machine()
    host = trial.hosts["client-1"]
    names = (
        "read_bytes",
        "write_bytes",
        "read_operations",
        "write_operations",
        "busy_ns",
        "read_ns",
        "write_ns",
    )
    worth = {"read_bytes": 8192 * operations, "read_operations": operations, "busy_ns": 10**6 * operations}
    disks = {(f"disk.{name}", "dev=vda"): worth.get(name, 0) for name in names}
    host.readings["disks"] = {n: reading(disks) for n in range(INTERVALS)}
    view = View.of(trial, ALONE)
    assert view is not None
    busy, size = storage_signals.device_busy(view), storage_signals.device_bytes(view)
    assert set(busy.values.values()) == {operations * 1e6 / SPAN_NS}
    if operations:
        assert set(size.values.values()) == {8192.0}
    else:
        assert not size.values and size.missing == "the device did nothing"
    assert not [text for text in of_trial(trial).unseen if "did nothing" in text or "sensor disks" in text]


def test_a_flush_is_under_way_once_though_the_block_layer_counts_it_as_a_write_and_as_a_flush() -> None:
    trial = machine()
    host = trial.hosts["client-1"]
    # One operation at a time, half of them a write and half the flush behind it.
    worth = {"read_bytes": 0, "write_bytes": 4096, "write_ns": SPAN_NS, "read_ns": 0, "busy_ns": SPAN_NS}
    worth["in_flight_ns"] = SPAN_NS * 3 // 2
    host.readings["disks"] = {
        n: reading({(f"disk.{name}", "dev=vda"): value for name, value in worth.items()})
        for n in range(INTERVALS)
    }
    view = View.of(trial, ALONE)
    assert view is not None
    assert measure_named(trial, "client-1.device_depth", CostBasis()).value == 1.0
    assert set(storage_signals.device_depth(view).values.values()) == {1.0}


def test_the_target_null_keeps_no_device_busy() -> None:
    trial = machine()
    disks = {("disk.read_bytes", "dev=vda"): 4096, ("disk.write_bytes", "dev=vda"): 0}
    disks[("disk.busy_ns", "dev=vda")] = SPAN_NS // 2
    trial.hosts["client-1"].readings["disks"] = {n: reading(disks) for n in range(INTERVALS)}
    trial = replace(trial, settings={**trial.settings, "target": "null"})
    found = measure_named(trial, "client-1.device_busy_ratio", CostBasis())
    assert (found.value, found.missing) == (None, "the target null uses no device")


@pytest.mark.parametrize(
    ("busy_ns", "share", "warns"),
    [(SPAN_NS // 2, 0.5, False), (SPAN_NS + 2 * 10**6, 1.0, False), (SPAN_NS * 3 // 2, 1.5, True)],
)
def test_a_device_is_busy_all_the_time_at_most_and_what_a_tick_does_not_explain_is_warned_of(
    busy_ns: int, share: float, warns: bool
) -> None:
    trial = machine()
    disks = {("disk.read_bytes", "dev=vda"): 4096, ("disk.write_bytes", "dev=vda"): 0}
    disks[("disk.busy_ns", "dev=vda")] = busy_ns
    trial.hosts["client-1"].readings["disks"] = {n: reading(disks) for n in range(INTERVALS)}
    name = "client-1.device_busy_ratio"
    found = measure_named(trial, name, CostBasis())
    assert found.value == share
    warnings = physics.check_shares(trial, {name: found})
    assert [warning.code for warning in warnings] == [WarningCode.PHYSICS] * warns
    assert not warns or "150.0%" in warnings[0].text


@pytest.mark.parametrize(
    "name", ["read_from_cache_ratio", "server_cached_ratio", "client.load_from_cache_ratio"]
)
def test_no_more_than_all_comes_from_a_cache_and_storage_may_give_more_than_was_read(name: str) -> None:
    possible = OUTCOMES[name.rpartition(".")[2]].possible
    nearly_all = estimate([Measured(0.99), Measured(0.9)], "1", possible=possible)
    assert nearly_all.high == 1.0 and (nearly_all.low or 0.0) < 0.9
    ahead = estimate([Measured(-0.6), Measured(0.1)], "1", possible=possible)
    assert ahead.estimate == pytest.approx(-0.25) and (ahead.low or 0.0) < -0.6


@pytest.mark.parametrize(
    ("at_work", "in_lock", "share"), [(5, 0, 0.0), (4, 0, None), (6, 3, None), (7, 3, 0.3)]
)
def test_few_looks_tell_that_none_waits_for_a_lock_and_no_share(
    at_work: int, in_lock: int, share: float | None
) -> None:
    trial = machine()
    host = trial.hosts["client-1"]
    host = replace(host, manifest={**host.manifest, "ready": {"workers": 2}})
    trial = replace(trial, hosts={"client-1": host}, clients={**trial.clients, "client-1": host})
    looks = {("waits.threads", "role=generator,at=work"): at_work}
    looks[("waits.threads", "role=generator,at=lock")] = in_lock
    trial.hosts["client-1"].readings["waits"] = {n: reading(looks) for n in range(INTERVALS)}
    view = View.of(trial, ALONE)
    assert view is not None
    found = storage_signals.in_lock(view)
    assert set(found.values.values()) == (set() if share is None else {share})
    assert share is not None or "looks at threads" in str(found.missing)
