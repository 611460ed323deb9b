"""Transmit queues of the device by themselves (transmit rings): how many CPUs can hand packets down side by side."""

from __future__ import annotations

from iodyno.hosts.knobs.settings_table import TableNumber

KNOB = TableNumber("transmit_queues", "-l", "-L", (("TX", "tx"),))
