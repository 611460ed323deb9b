"""Busy polling of reads; a socket can ask for its own (busy_poll of the workload)."""

from __future__ import annotations

from iodyno.hosts.knobs.sysctl import Sysctl

KNOB = Sysctl("busy_read", "net/core/busy_read", scope="machine", unit=1000)
