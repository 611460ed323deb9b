"""Sensors of an agent: those of the level that the experiment asks for, less what another agent on the same CPUs reads."""

from __future__ import annotations

from collections.abc import Mapping

from iodyno.core.experiment import SensorLevel
from iodyno.core.workload import Level

_COUNTED = ("application", "arrivals", "both_ways", "connects", "datagram", "server", "zerocopy")
OF_LOAD = (*_COUNTED, "parts")
"""Those that hand on what the load itself counts, and cost nothing: of the level `off`."""

_LIGHT = (
    *OF_LOAD,
    "cpu_exact",
    "cpu_times",
    "cycles",
    "process",
    "threads",
    "roles",
    "cgroup_cpu",
    "pressure",
)
_LIGHT_OF_CONNECTIONS = ("tcp_info", "net_devices", "qdisc")
FILE_SYSTEMS = ("nfs_operations", "nfsd_operations", "zfs_cache", "ceph_requests")
_LIGHT_OF_STORAGE = ("disks", "waits", *FILE_SYSTEMS)
_LIGHT_OF_DATAGRAMS = ("tcp_ip",)
"""Of the level `light`: what rates, costs and the rules of the limiter are made of, by what the load is on. chosen: with ten
readings a second they take half of what all take. What is lost of datagrams is counted by the protocols alone."""

OPTIONAL = ("cycles", "numa", "nfs_slots", *FILE_SYSTEMS)
"""Sensors that most hosts lack, and no number is worse for it: without a hardware counter cycles are reckoned from busy time,
and every number names that tier; many machines have one NUMA node; without NFS nothing waits for its slots."""

_OF_ONE_AGENT = (*_COUNTED, "process", "threads")
"""Those that say something else on each host of one machine."""
_OF_ONE_SENDER = ("tcp_info", "cgroup_cpu")
"""The same where the load is on connections."""
_OF_A_NAMESPACE = ("net_devices", "tcp_ip", "qdisc")
"""The same where each host has a network of its own."""


def of_level(level: SensorLevel, *, storage: bool, settings: Mapping[str, Level]) -> tuple[str, ...] | None:
    """Return the sensors of a level; None: all that the host has. `storage`: the load is on files or devices alone."""
    if level == "full":
        return None
    if level == "off":
        return OF_LOAD
    datagrams = _LIGHT_OF_DATAGRAMS if settings.get("transport") == "udp" else ()
    return (*_LIGHT, *(_LIGHT_OF_STORAGE if storage else (*_LIGHT_OF_CONNECTIONS, *datagrams)))


_RECORDED = (
    *("cpu_times", "context_switches", "memory", "pressure", "writeback", "net_devices", "softnet"),
    *("disks", "block_times", *FILE_SYSTEMS),
)
_RECORDED_IN_FULL = ("softirqs", "interrupts", "tcp_ip", "reclaim", "cpu_exact")
"""What a recording has of a machine. chosen: the first take some tenths of a millisecond a reading together, the others as much
again, and the exact account of CPU time costs each switch of tasks.
"""
_OF_CALLS = "syscall_times"


def recorded(level: SensorLevel, *, syscalls: bool = False) -> tuple[str, ...]:
    """Return the sensors of a recording, with that of system calls where it is wanted."""
    named = (_OF_CALLS,) if syscalls else ()
    return (*_RECORDED, *named, *(_RECORDED_IN_FULL if level == "full" else ()))


def of_follower(*, alone: bool, own_network: bool) -> tuple[str, ...]:
    """Return the sensors of a host whose CPUs another agent reads. `alone`: its load needs no other end."""
    own = _OF_ONE_AGENT if alone else (*_OF_ONE_AGENT, *_OF_ONE_SENDER)
    return (*own, *_OF_A_NAMESPACE) if own_network else own
