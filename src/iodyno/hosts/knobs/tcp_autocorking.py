"""Small writes are joined while an earlier packet of the flow waits in a queue below TCP."""

from __future__ import annotations

from iodyno.hosts.knobs.sysctl import Sysctl

KNOB = Sysctl("tcp_autocorking", "net/ipv4/tcp_autocorking", kind=bool)
