"""How many packets may wait for a CPU that they were steered to; more are dropped."""

from __future__ import annotations

from iodyno.hosts.knobs.sysctl import Sysctl

KNOB = Sysctl("netdev_max_backlog", "net/core/netdev_max_backlog", scope="machine")
