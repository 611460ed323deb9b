"""Third number of tcp_wmem. A send buffer that a program set itself is not bound by it."""

from __future__ import annotations

from iodyno.hosts.knobs.sysctl import Sysctl

KNOB = Sysctl("tcp_wmem_max", "net/ipv4/tcp_wmem", field=2)
