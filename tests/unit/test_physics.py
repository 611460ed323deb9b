"""Laws that the numbers of a trial are held against: a healthy trial breaks none, whatever its load is."""

from __future__ import annotations

from typing import Any

import pytest

from iodyno.analysis import physics
from iodyno.analysis.cost import CostBasis
from iodyno.analysis.cpu_classes import Accounting
from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial
from iodyno.core.warnings import WarningCode

MS = 1_000_000
HZ = 1_000_000_000


def host(name: str, role: str, manifest: dict[str, Any], records: list[tuple[str, int, int]]) -> HostData:
    """`records`: window, payload bytes, bytes that came in by the device; 100 ms each."""
    found = HostData(name, role, (0,), manifest)
    for index, (window, moved, wire) in enumerate(records):
        found.records.append(Record(index, window, index * 100 * MS, (index + 1) * 100 * MS, moved, 1, 1, 0))
        values = {("net.rx_bytes", "dev=veth0"): wire, ("net.tx_bytes", "dev=veth0"): 0}
        found.readings.setdefault("net_devices", {})[index] = Reading(100 * MS, 0, None, values)
    return found


def trial(client: HostData, server: HostData) -> Trial:
    return Trial(
        "00000-1", 0, 1, 0, 0, "p01", {}, {"connections": 1}, "finished", None, "", {},
        hosts={"client": client, "server": server},
    )  # fmt: skip


def script(operations: list[dict[str, Any]], protocol: str = "tcp") -> dict[str, Any]:
    """What an end says that followed a script."""
    told = [{"begin_ns": 0, "end_ns": 100 * MS, "operations": 10, **operation} for operation in operations]
    transactions = [
        {"begin_ns": 0, "end_ns": 100 * MS, "iterations": 1, "missed_iterations": 0, "operations": told}
    ]
    asked = [{"transactions": [{"operations": [{"protocol": protocol}]}]}]
    account = {"groups": [{"name": "group 1", "threads": 1, "transactions": transactions}]}
    moved = sum(operation["bytes"] for operation in operations)
    return {"job": {"script": {"groups": asked}}, "result": {"bytes": moved, "script": account}}


def texts(made: Trial) -> list[str]:
    warnings = physics.check_trial(made, {}, Accounting())
    return [
        warning.text
        for warning in warnings
        if warning.code is WarningCode.PHYSICS and "bytes" in warning.text
    ]


def paced() -> Trial:
    """1 MiB moved in the first 100 ms of a script whose trial lasts 200."""
    sends = script([{"call": "write", "bytes": 1 << 20}])
    takes = script([{"call": "read", "bytes": 1 << 20}])
    records = [("measured", 1 << 20, 1 << 20), ("measured", 0, 0)]
    return trial(host("client", "send", sends, records), host("server", "receive", takes, records))


@pytest.mark.parametrize(("lies", "warns"), [(1.0, False), (2.0, True)])
def test_cycles_and_bytes_of_a_script_are_over_the_same_time(lies: float, warns: bool) -> None:
    """A tenth of 200 ms of one CPU at 1 GHz for 1024 KiB: 19 531 cycles a KiB; 10 240 KiB/s while it worked, 5120 in all."""
    measured = {
        "goodput_bits_per_s": Measured(10_240 * 8192),
        "client.cycles_per_kib": Measured(lies * 0.1 * HZ / 5120),
        "client.cpu_busy_ratio": Measured(0.1),
        "server.cycles_per_kib": missing("the host took no more than on its own"),
        "server.cpu_busy_ratio": Measured(0.0),
    }
    found = physics.check_cost(paced(), measured, CostBasis(tsc_hz={"client": HZ, "server": HZ}))
    assert [warning.where for warning in found] == (["00000-1"] if warns else [])


@pytest.mark.parametrize(
    ("protocol", "taken", "warns"), [("tcp", 1000, False), ("tcp", 1001, True), ("udp", 1500, False)]
)
def test_what_is_taken_of_a_script_is_held_against_what_was_sent_that_way(
    protocol: str, taken: int, warns: bool
) -> None:
    """Of a dialogue whose answers are lost one end moves more than the other; of datagrams a path may carry two for one."""
    client = script([{"call": "write", "bytes": 1000}, {"call": "read", "bytes": 0}], protocol)
    server = script([{"call": "read", "bytes": taken}, {"call": "write", "bytes": 2000}], protocol)
    records = [("measured", 3000, 10_000)]
    found = texts(trial(host("client", "send", client, records), host("server", "receive", server, records)))
    assert bool(found) is warns, found


def test_of_datagrams_whose_answers_are_lost_more_came_than_were_answered() -> None:
    asks = {"job": {"transport": "udp", "workload": "request_response"}, "result": {"bytes": 900}}
    answers = {"job": asks["job"], "result": {"bytes": 1000}}
    records = [("measured", 1000, 10_000)]
    assert not texts(
        trial(host("client", "send", asks, records), host("server", "receive", answers, records))
    )


@pytest.mark.parametrize(("before", "warns"), [(40 << 20, False), (10 << 20, True)])
def test_what_lay_in_buffers_when_the_window_began_was_on_the_wire_before(before: int, warns: bool) -> None:
    """The kernel lets a receive buffer grow to 32 MiB, from the 128 KiB that it had at the start."""
    ready = {"connections": 1, "socket": {"receive_buffer_bytes": 131_072}}
    told = {"job": {}, "result": {"bytes": 110 << 20}, "ready": ready}
    records = [("warm_up", 10 << 20, before), ("measured", 100 << 20, 71 << 20)]
    made = trial(host("client", "send", told, records), host("server", "receive", told, records))
    found = texts(made)
    assert any("fewer than" in text for text in found) is warns, found


@pytest.mark.parametrize(("transport", "warns"), [("tcp", True), ("unix", False), ("vsock", False)])
def test_what_no_network_device_carries_is_not_held_against_one(transport: str, warns: bool) -> None:
    told = {"job": {"transport": transport}, "result": {"bytes": 100 << 20}}
    records = [("measured", 100 << 20, 160)]
    found = texts(trial(host("client", "send", told, records), host("server", "receive", told, records)))
    assert any("fewer than" in text for text in found) is warns, found
