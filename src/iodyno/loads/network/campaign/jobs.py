"""Connections of an end of a trial, made of the settings, as `agent/core/src/job.rs` has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.campaign import distributions
from iodyno.campaign.job import place_of
from iodyno.core.experiment import WorkloadSpec
from iodyno.core.submission import submission
from iodyno.core.workload import CONNECT_REQUEST_RESPONSE, SOCKET_NUMBERS, STREAM, Level


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
