"""How many packets a transmit queue holds until the adapter has sent them."""

from __future__ import annotations

from iodyno.hosts.knobs.settings_table import TableNumber

KNOB = TableNumber("ring_transmit", "-g", "-G", (("TX", "tx"),))
