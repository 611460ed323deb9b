"""What the settings of a trial mean for each of its hosts: the job, as `agent/core/src/job.rs` has it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from iodyno.campaign import disk_job, drawn, file_job
from iodyno.campaign.scripted import load_settings, script_of
from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import PreflightError
from iodyno.core.experiment import Windows, WorkloadSpec
from iodyno.core.submission import CLIENTS, SERVERS, Submission
from iodyno.core.volume import CREATE_FILES, GENERATOR
from iodyno.core.workload import FILES, STREAM, Level

IDLE_SETTINGS: Mapping[str, Level] = {"connections": 1, "size": 1}
"""What a host with nothing to do is told."""


_ASKED = {"message": "size", "message_sizes": "sizes", "discards": "receive"}
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
    spec, workload = testbed.experiment.hosts[host], testbed.experiment.workload
    told: dict[str, Any] = {}
    if workload.hosts and role == "idle":
        settings = IDLE_SETTINGS
    elif workload.hosts:
        if testbed.volume is not None:
            settings = {**settings, "target": str(testbed.volume.target_of(host))}
        told, settings = _alone(
            workload, host, workload.settings_of(host, settings), zlib.crc32(name.encode())
        )
    # The end of the payload's way: in a stream back, the one that listens is the one that sends.
    end = _OTHER.get(role, role) if settings.get("direction") == "reverse" else role
    address, seed = None, zlib.crc32(name.encode())
    if role == "receive":
        address = with_port(testbed.hosts.data_address(host, workload.sender), spec.data_port, host)
    script = script_of(testbed.experiment, role, settings, host)
    settings = load_settings(testbed.experiment, settings) if script else settings
    greatest, message_sizes = drawn.sizes({"size": 1, **settings})
    return {
        "trial": name,
        "token": token,
        "role": role,
        # An idle host has nothing to do, of whatever kind.
        "workload": STREAM.name if role == "idle" else FILES.name if "files" in told else workload.kind,
        **told,
        **({"script": script} if script else {}),
        **_watched(testbed, host, role),
        **_calls(role, settings if role != "alone" else {"transport": settings["transport"]}),
        "connections": settings["connections"],
        "message_bytes": greatest,
        "message_sizes": message_sizes,
        "seed": seed,
        "answer_bytes": settings.get("answer", 1),
        "direction": settings.get("direction", "forward"),
        "cork": settings.get("cork", False) if _writes(role, settings) else False,
        **({"discards": True} if settings.get("receive") == "discard" else {}),
        "outstanding": settings.get("outstanding", 1),
        "multiplexed": settings.get("multiplexed", False),
        "burst": settings.get("burst", 1),
        "arrivals": drawn.arrivals(settings, seed) if role in ("send", "alone") else None,
        "answer_timeout_ns": settings.get("answer_timeout", 100_000_000),
        "retries": settings.get("retries", 0),
        "address": address,
        "socket": _socket(end, settings),
        "windows": asdict(windows),
        # An agent in a sandbox or a guest numbers its CPUs by itself, and has all that it sees.
        "cpus": [] if host in testbed.observers and role != "idle" else list(testbed.cpus[host]),
        "sensors": testbed.sensors_of(host),
        # A host that is only looked at may be the one that serves the files.
        **({"storage": True} if workload.hosts else {}),
        "compute_ns": settings.get({"send": "compute", "receive": "server_compute"}.get(end, ""), 0),
        "think_ns": settings.get({"send": "think", "receive": "reader_think"}.get(end, ""), 0),
        "serialised": settings.get("serialised", False) if end == "send" else False,
        "cpu_quota_percent": settings.get(
            {"send": "sender_quota", "receive": "receiver_quota", "alone": "quota"}.get(role, "")
        ),
        "profile_hz": testbed.experiment.profile_hz
        if role != "idle" and (role != "alone" or testbed.leads(host))
        else 0,
    }


def as_asked(where: str) -> str:
    """A place that an agent names by a key of its job, by that of the experiment.

    >>> as_asked("host server: message_bytes"), as_asked("host client: socket.send_buffer_bytes"), as_asked("host client")
    ('host server: size', 'host client: send_buffer', 'host client')
    """
    host, colon, key = where.rpartition(": ")
    if not colon:
        return where
    key = key.removeprefix("socket.").removesuffix("_bytes").removesuffix("_ns")
    return f"{host}: {_ASKED.get(key, key)}"


def _alone(
    workload: WorkloadSpec, host: str, settings: Mapping[str, Level], seed: int
) -> tuple[dict[str, Any], dict[str, Level]]:
    """The part of the job that a load without another end has, and its settings in the words of one with connections."""
    if workload.program is not None:
        return file_job.files_of(workload, host, settings, seed), file_job.load_settings(workload, settings)
    if settings.get("work") == CREATE_FILES:
        made, own = file_job.creation(workload, settings)
        return file_job.files_of(made, host, own, seed), file_job.load_settings(made, own)
    return disk_job.disk_of(host, settings, seed), disk_job.load_settings(settings)


def _watched(testbed: Testbed, host: str, role: str) -> dict[str, Any]:
    """The processes of the volume, whose CPU time is part of what an operation costs; and the agents of other clients on the
    machine, which the one that reads it would take for other tasks.
    """
    if testbed.volume is None or role != "alone":
        return {}
    watched = [{"role": name, "process_ids": list(ids)} for name, ids in testbed.volume.roles.items()]
    agents = [
        testbed.sessions[client].process_id for client in testbed.experiment.workload.hosts if client != host
    ]
    if others := [process_id for process_id in agents if process_id is not None]:
        watched.append({"role": GENERATOR, "process_ids": others})
    return {"watched": watched}


_OTHER = {"send": "receive", "receive": "send"}


def _writes(role: str, settings: Mapping[str, Level]) -> bool:
    """Whether the end with this role writes the payload of a stream, or the requests."""
    return (
        role
        in {"forward": ("send",), "reverse": ("receive",), "both": ("send", "receive")}[
            str(settings.get("direction", "forward"))
        ]
    )


def submission(role: str, settings: Mapping[str, Level]) -> Submission:
    """How the end with this role makes its calls: its own word (`client`, `server`), else that of both ends."""
    ways, word = {"send": (CLIENTS, "client"), "receive": (SERVERS, "server")}.get(role, ({}, ""))
    named = settings.get(word)
    if named is not None:
        return ways[str(named)]
    return Submission(
        "", str(settings.get("driver", "threads")), str(settings.get("interface", "read_write"))
    )


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
        "driver": way.driver,
        "interface": way.interface,
        "batch": settings.get("batch", 1) if way.takes_several(str(transport)) else 1,
        "ring": ring or None,
        # A program in the kernel waits for nothing.
        **({"spins": True} if settings.get("spins") and way.driver != "reflector" else {}),
        **(_tls(settings) if transport == "tls" else {}),
    }


def _tls(settings: Mapping[str, Level]) -> dict[str, Any]:
    return {
        "tls_cipher": settings.get("tls_cipher", "aes_128_gcm"),
        "tls_resumption": settings.get("tls_resumption", False),
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
