"""How many packets one round of receive processing takes before others have their turn."""

from __future__ import annotations

from iodyno.hosts.knobs.sysctl import Sysctl

KNOB = Sysctl("netdev_budget", "net/core/netdev_budget", scope="machine")
