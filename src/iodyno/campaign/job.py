"""Job of each host of a trial, made of the settings, as `agent/core/src/job.rs` has it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import PreflightError
from iodyno.core.experiment import Experiment, Windows
from iodyno.core.volume import GENERATOR
from iodyno.core.workload import Level
from iodyno.loads.base.campaign import load_for

ALIKE = "alike"
"""Role of agents whose CPU time counts as the own one of the agent that reads their CPUs (`agent/sense/src/exact`)."""

_ASKED = {
    **{"message": "size", "message_sizes": "sizes", "response": "response_size", "discards": "receive"},
    **{"remote_addresses": "receiver", "first_connection": "sender"},
}
"""Keys of a job that experiments know by another word, besides units and what they belong to."""


def job_of(
    testbed: Testbed,
    name: str,
    token: str,
    host: str,
    role: str,
    settings: Mapping[str, Level],
    windows: Windows,
) -> dict[str, Any]:
    """The job of one host in the trial `name`; the address of the sender comes later."""
    quota = {"send": "sender_quota", "receive": "receiver_quota", "alone": "quota"}.get(role, "")
    idle, address = role == "idle", None
    if role == "alone":
        if testbed.volume is not None:
            settings = {**settings, "target": str(testbed.volume.target_of(host))}
        settings = testbed.experiment.workload.settings_of(host, settings)
    elif role == "receive":
        address = _listens_at(testbed, host)
    return {
        "trial": name,
        "token": token,
        "load": load_at(testbed.experiment, host, role, settings, address, zlib.crc32(name.encode())),
        **_watched(testbed, host, role),
        "windows": asdict(windows),
        # An agent in a sandbox or a guest numbers its CPUs by itself, and has all that it sees.
        "cpus": [] if host in testbed.observers and not idle else list(testbed.cpus[host]),
        **_memory(testbed, host),
        "sensors": testbed.sensors_of(host, settings, storage=load_for(testbed.experiment).stores),
        "cpu_quota_percent": settings.get(quota),
        "profile_hz": testbed.experiment.profile_hz if not idle and testbed.leads(host) else 0,
    }


def _memory(testbed: Testbed, host: str) -> dict[str, Any]:
    """Node of the memory; one with a kernel of its own numbers its nodes by itself."""
    node = testbed.nodes.get(host)
    placed = node and node.memory is not None and host not in testbed.observers
    return {"memory_node": node.memory} if node and placed else {}


def load_at(
    experiment: Experiment,
    host: str,
    role: str,
    settings: Mapping[str, Level],
    address: str | None,
    seed: int,
) -> dict[str, Any]:
    """Load of the host: one kind of it, with what belongs to that kind. `address`: where the ends meet, as far as known."""
    load = load_for(experiment)
    if role == "idle":
        # A host that is only looked at may be the one that serves the files.
        return {"idle": {"storage": load.stores}}
    return load.job(experiment, host, role, settings, address, seed)


def place_of(role: str, settings: Mapping[str, Level], address: str | None) -> dict[str, Any]:
    """Address of an end, and how long it waits for a datagram."""
    timeout_ns = settings.get("response_timeout", 100_000_000)
    return {"role": role, "address": address, "response_timeout_ns": timeout_ns}


def as_asked(where: str) -> str:
    """A place that an agent names by a key of its job, by that of the experiment.

    >>> as_asked("host server: message_bytes"), as_asked("host client: socket.send_buffer_bytes"), as_asked("host client")
    ('host server: size', 'host client: send_buffer', 'host client')
    """
    host, colon, key = where.rpartition(": ")
    if not colon:
        return where
    key = key.removeprefix("socket.").removeprefix("numbers.").removesuffix("_bytes").removesuffix("_ns")
    return f"{host}: {_ASKED.get(key, key)}"


def _watched(testbed: Testbed, host: str, role: str) -> dict[str, Any]:
    """The processes of the volume, whose CPU time is part of what an operation costs; and the agents of other hosts on the
    machine that do the same, which the one that reads it would take for other tasks.
    """
    if role in ("send", "receive") and testbed.leads(host):
        beside = [testbed.sessions[name].process_id for name in testbed.on_its_cpus(host)[1:]]
        alike = [process_id for process_id in beside if process_id is not None]
        return {"watched": [{"role": ALIKE, "process_ids": alike}]} if alike else {}
    if testbed.volume is None or role != "alone":
        return {}
    watched = [{"role": name, "process_ids": list(ids)} for name, ids in testbed.volume.roles.items()]
    agents = [
        testbed.sessions[client].process_id for client in testbed.experiment.workload.ends if client != host
    ]
    if others := [process_id for process_id in agents if process_id is not None]:
        watched.append({"role": GENERATOR, "process_ids": others})
    return {"watched": watched}


def _listens_at(testbed: Testbed, host: str) -> str:
    """Address at which a receiver listens: its own, or at all that it has where its senders know it by several."""
    seen = {
        testbed.hosts.data_address(host, sender) for sender in testbed.experiment.workload.senders_to(host)
    }
    address = seen.pop()
    if seen:
        address = "0.0.0.0" if all(":" not in str(one) for one in (address, *seen)) else "::"
    return with_port(address, testbed.experiment.hosts[host].data_port, host)


def with_port(address: str | None, port: int, host: str) -> str:
    """The data address of a host as a numeric address with port. Raises PreflightError where it is not known."""
    if address is None:
        raise PreflightError(
            "it is not known where the other hosts reach it with data",
            where=f"host {host}",
            advice="write its address into the experiment: `address:` of the host",
        )
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
