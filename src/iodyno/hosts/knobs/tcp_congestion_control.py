"""The congestion control that new sockets get; the load can ask for one itself (congestion_control)."""

from __future__ import annotations

from iodyno.hosts.knobs.sysctl import Sysctl

KNOB = Sysctl("tcp_congestion_control", "net/ipv4/tcp_congestion_control", kind=str)
