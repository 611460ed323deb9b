"""Third number of tcp_rmem. A receive buffer that a program set itself is not bound by it."""

from __future__ import annotations

from iodyno.hosts.knobs.sysctl import Sysctl

KNOB = Sysctl("tcp_rmem_max", "net/ipv4/tcp_rmem", field=2)
