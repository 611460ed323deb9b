"""Job of each host of a trial, made of the settings, as `agent/core/src/job.rs` has it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from iodyno.campaign import distributions
from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import PreflightError
from iodyno.core.experiment import Experiment, Windows, WorkloadSpec
from iodyno.core.submission import CLIENTS, SERVERS, Submission
from iodyno.core.volume import GENERATOR
from iodyno.core.workload import CONNECT_REQUEST_RESPONSE, SOCKET_NUMBERS, STREAM, Level
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


def of_connections(
    workload: WorkloadSpec,
    host: str,
    role: str,
    settings: Mapping[str, Level],
    address: str | None,
    seed: int,
    traffic: str,
) -> dict[str, Any]:
    """The connections of an end, and what is done on them."""
    # The end of the payload's way: in a stream back, the one that listens is the one that sends.
    end = _OTHER[role] if settings.get("direction") == "reverse" else role
    greatest, message_sizes = distributions.sizes({"size": 1, **settings})
    return {
        "network": {
            **place_of(role, settings, address),
            "traffic": {traffic: _traffic(traffic, role, end, settings)},
            **_calls(role, settings),
            **_connections(workload, host, role, int(settings["connections"])),
            "message_bytes": greatest,
            "message_sizes": message_sizes,
            "seed": seed,
            "arrivals": distributions.arrivals(settings, seed, workload.place_among(host))
            if role == "send"
            else None,
            "socket": _socket(end, settings),
        }
    }


def _traffic(kind: str, role: str, end: str, settings: Mapping[str, Level]) -> dict[str, Any]:
    """Traffic on each connection, as far as it belongs to this kind."""
    answer = {"response_bytes": settings.get("response_size", 1)}
    if kind == CONNECT_REQUEST_RESPONSE.name:
        return {**answer, "tls_resumption": settings.get("tls_resumption", False)}
    application = {
        "compute_ns": settings.get({"send": "compute", "receive": "server_compute"}[end], 0),
        "think_ns": settings.get({"send": "think", "receive": "reader_think"}[end], 0),
        "serialised": settings.get("serialised", False) if end == "send" else False,
        "burst": settings.get("burst", 1),
    }
    if kind == STREAM.name:
        return {
            "direction": settings.get("direction", "forward"),
            "cork": settings.get("cork", False) if _writes(role, settings) else False,
            "discards": settings.get("receive") == "discard",
            "application": application,
        }
    # A program in the kernel waits for nothing.
    busy_wait = bool(settings.get("busy_wait")) and submission(role, settings).engine != "reflector"
    return {
        **answer,
        "queue_depth": settings.get("queue_depth", 1),
        "multiplexed": settings.get("multiplexed", False),
        "busy_wait": busy_wait,
        "retries": settings.get("retries", 0),
        "application": application,
    }


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


def _connections(workload: WorkloadSpec, host: str, role: str, each: int) -> dict[str, int]:
    """The connections of a host, `each` with every host of the other end that it has any with; of a sender, the number of the
    first of them at its receivers, which count those of all senders.
    """
    if role == "receive":
        return {"connections": each * len(workload.senders_to(host))}
    receivers = workload.receivers_of(host)
    before = workload.senders_to(receivers[0]).index(host)
    return {"connections": each * len(receivers), **({"first_connection": each * before} if before else {})}


_OTHER = {"send": "receive", "receive": "send"}


def _writes(role: str, settings: Mapping[str, Level]) -> bool:
    """Tell whether the end with this role writes the payload of a stream, or the requests."""
    return (
        role
        in {"forward": ("send",), "reverse": ("receive",), "both": ("send", "receive")}[
            str(settings.get("direction", "forward"))
        ]
    )


def submission(role: str, settings: Mapping[str, Level]) -> Submission:
    """Return how the end with this role makes its calls: by its own word (`client_engine`, ...), else by that of both."""
    ways, word = {"send": (CLIENTS, "client_engine"), "receive": (SERVERS, "server_engine")}.get(
        role, ({}, "")
    )
    named = settings.get(word)
    if named is not None:
        return ways[str(named)]
    return Submission("", str(settings.get("engine", "threads")), str(settings.get("syscalls", "read_write")))


def _calls(role: str, settings: Mapping[str, Level]) -> dict[str, Any]:
    way = submission(role, settings)
    ring = way.ring is not None and {
        "version": way.ring,
        "block_packets": settings.get("block_packets", 32),
        "block_timeout_ns": settings.get("block_timeout", 10_000_000),
        # A server's alone: it fits its blocks to the load.
        "adaptive": settings.get("adaptive", False) if role == "receive" else False,
    }
    transport = way.transport or settings.get("transport", "tcp")
    return {
        "transport": transport,
        "engine": way.engine,
        "syscalls": way.syscalls,
        "batch": settings.get("batch", 1) if way.takes_several(str(transport)) else 1,
        "ring": ring or None,
        "tls_cipher": settings.get("tls_cipher", "aes_128_gcm"),
    }


def _socket(role: str, settings: Mapping[str, Level]) -> dict[str, Any]:
    window = settings.get("window")
    over_tcp = settings.get("transport", "tcp") in ("tcp", "tls")
    return {
        "send_buffer_bytes": settings.get("send_buffer", window) if role == "send" else window,
        "receive_buffer_bytes": settings.get("receive_buffer", window) if role == "receive" else window,
        # Other transports have nothing that Nagle's algorithm would join.
        "nagle": settings.get("nagle") if over_tcp else None,
        "congestion_control": settings.get("congestion_control"),
        "busy_poll_ns": settings.get("busy_poll"),
        "receive_low_water_bytes": settings.get("receive_low_water"),
        "numbers": {each.name: int(settings[each.name]) for each in SOCKET_NUMBERS if each.name in settings},
    }


def with_port(address: str | None, port: int, host: str) -> str:
    """The data address of a host as a numeric address with port. Raises PreflightError where it is not known."""
    if address is None:
        raise PreflightError(
            "it is not known where the other hosts reach it with data",
            where=f"host {host}",
            advice="write its address into the experiment: `address:` of the host",
        )
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
