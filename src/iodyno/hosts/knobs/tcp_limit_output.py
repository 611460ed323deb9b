"""TCP small queues: what of a flow may lie in the queues below TCP."""

from __future__ import annotations

from iodyno.hosts.knobs.sysctl import Sysctl

KNOB = Sysctl("tcp_limit_output", "net/ipv4/tcp_limit_output_bytes")
