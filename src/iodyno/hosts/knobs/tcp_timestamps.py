"""TCP timestamps, agreed on when a connection is made; 12 bytes of each segment."""

from __future__ import annotations

from iodyno.hosts.knobs.sysctl import Sysctl

KNOB = Sysctl("tcp_timestamps", "net/ipv4/tcp_timestamps", kind=bool)
