"""How many packets a receive queue holds until the host looks."""

from __future__ import annotations

from iodyno.hosts.knobs.settings_table import TableNumber

KNOB = TableNumber("ring_receive", "-g", "-G", (("RX", "rx"),))
