"""What a host has not got is said before anything is measured: CPUs, protocols of a profile, and a way for data."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from places import PROGRAM, experiment, run

from iodyno.campaign.ledger import manifests
from iodyno.campaign.preflight import _way_of_data
from iodyno.core.errors import PreflightError, TrialError
from iodyno.core.experiment import HostSpec
from iodyno.core.factor import Factor
from iodyno.hosts.access import LAB_CPUS, cpus_here
from iodyno.loads.script.campaign.preflight import _without
from iodyno.session import simulated

ABSENT = max(cpus_here()) + 5


@pytest.mark.parametrize("cpus", [(ABSENT,), (min(LAB_CPUS), ABSENT)])
def test_cpus_that_a_host_has_not_got_are_refused(cpus: tuple[int, ...], tmp_path: Path) -> None:
    hosts = {"client": HostSpec("client", "local", cpus=cpus), "server": HostSpec("server", "local")}
    with pytest.raises(PreflightError) as refused:
        asyncio.run(run(experiment(hosts=hosts), tmp_path))
    have = ", ".join(map(str, sorted(cpus_here())))
    assert refused.value.where == "host client" and "`cpus`" in refused.value.advice
    assert f" {have}; `cpus` asks for {ABSENT}" in refused.value.what
    assert frozenset(os.sched_getaffinity(0)) == LAB_CPUS


def test_cpus_of_a_host_elsewhere_are_held_against_what_its_agent_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iodyno.campaign.testbed._ON_THIS_MACHINE", ())
    monkeypatch.setattr("iodyno.session.simulated._hello", _with_two_cpus)
    hosts = {
        "client": HostSpec("client", "simulated", cpus=(0, 7)),
        "server": HostSpec("server", "simulated"),
    }
    with pytest.raises(PreflightError, match="it has CPUs 0, 1; `cpus` asks for 7"):
        asyncio.run(run(experiment(hosts=hosts), tmp_path, program=PROGRAM))


def _placed(placed: str, into: Path) -> dict[str, Any]:
    """The client of a trial as its manifest has it, with the notes of it."""
    hosts = {
        "client": HostSpec("client", "simulated", placed=placed),
        "server": HostSpec("server", "simulated"),
    }
    asked = experiment(hosts=hosts, factors=(Factor("connections", (1,)),))
    outcome = asyncio.run(run(asked, into, program=PROGRAM))
    notes = json.loads((outcome.folder / "campaign.json").read_text())["hosts"]["client"]["notes"]
    (manifest,) = manifests(outcome.folder)
    return {**manifest["hosts"]["client"], "notes": notes}


@pytest.mark.parametrize(
    ("placed", "node", "cpus"), [("near eth0", 1, [2]), ("near nvme0n1", 0, [0, 1]), ("far eth0", 0, [0, 1])]
)
def test_a_load_is_placed_on_the_node_of_a_device(
    placed: str, node: int, cpus: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iodyno.session.simulated._hello", _with_two_nodes)
    found = _placed(placed, tmp_path)
    assert (found["cpus"], found["job"]["cpus"], found["job"]["memory_node"]) == (cpus, cpus, node)
    assert any(f"NUMA node {node}" in note for note in found["notes"])
    with pytest.raises(PreflightError, match=r"no NUMA node is known of veth0; it is of nvme0n1, eth0"):
        _placed("near veth0", tmp_path)


def test_where_there_is_one_node_nothing_is_placed_and_that_is_said(tmp_path: Path) -> None:
    found = _placed("near eth0", tmp_path)
    assert "memory_node" not in found["job"] and any("one NUMA node" in note for note in found["notes"])


_HELLO = simulated._hello


def _with_two_nodes(host: Any, program: Any) -> Any:
    hello = _HELLO(host, program)
    nodes = ((0, [0, 1], ["nvme0n1"]), (1, [2, 3], ["eth0"]))
    told = [{"node": node, "cpus": cpus, "devices": devices} for node, cpus, devices in nodes]
    hello["host"] |= {"cpus_allowed": [0, 1, 2], "numa_nodes": told}
    return hello


def _with_two_cpus(host: Any, program: Any) -> Any:
    hello = _HELLO(host, program)
    hello["host"]["cpus_allowed"] = [0, 1]
    return hello


@pytest.mark.parametrize(
    ("what", "address", "advice"),
    [
        (
            "cannot connect: Connection refused (os error 111)",
            None,
            "the address at which ssh reached host server",
        ),
        (
            "cannot listen: Cannot assign requested address (os error 99)",
            None,
            "give host server an `address:`",
        ),
        ("cannot connect: No route to host (os error 113)", "192.0.2.1", "the `address` of host server"),
        ("cannot listen: Address already in use (os error 98)", None, "the agent's own"),
        ("something else", None, "the agent's own"),
    ],
)
def test_ends_that_do_not_meet_over_ssh_are_advised_of_the_address(
    what: str, address: str | None, advice: str
) -> None:
    hosts = {name: HostSpec(name, "ssh", address=address) for name in ("client", "server")}
    opened = SimpleNamespace(data_address=lambda of, seen_from: "192.0.2.1")
    testbed: Any = SimpleNamespace(experiment=experiment(hosts=hosts), hosts=opened)
    found = _way_of_data(testbed, {}, TrialError(what, advice="the agent's own", code="address"))
    assert advice in found


def test_protocols_that_a_kernel_lacks_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks = {"name": "transport.vsock", "available": False, "reason": "no vsock here"}
    session = SimpleNamespace(hello={"capabilities": [lacks]})
    testbed: Any = SimpleNamespace(sessions={"server": session}, on_this_machine=lambda host: True)
    assert _without(testbed, "server", "vsock") == "no vsock here"
    assert _without(testbed, "server", "tcp") is None
    lacks["available"] = True
    assert _without(testbed, "server", "vsock") is None

    def refuse(*_: object) -> socket.socket:
        raise OSError(93, "Protocol not supported")

    monkeypatch.setattr(socket, "socket", refuse)
    assert _without(testbed, "server", "sctp") == "the kernel has no SCTP: Protocol not supported"
    testbed.on_this_machine = lambda host: False
    assert _without(testbed, "server", "sctp") is None, "its agent tells when it opens one"
