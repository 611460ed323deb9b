"""Busy polling of poll and select; a socket can ask for its own (busy_poll of the workload)."""

from __future__ import annotations

from iodyno.hosts.knobs.sysctl import Sysctl

KNOB = Sysctl("busy_poll", "net/core/busy_poll", scope="machine", unit=1000)
