"""Receive and transmit queues of the device: how many CPUs can work on packets without steering (MSI-X)."""

from __future__ import annotations

from iodyno.hosts.knobs.settings_table import TableNumber

KNOB = TableNumber("queues", "-l", "-L", (("Combined", "combined"), ("RX", "rx"), ("TX", "tx")))
