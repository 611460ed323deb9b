"""Scatter-gather. Without it a packet is copied into one piece, and neither TSO nor GSO is possible."""

from __future__ import annotations

from iodyno.hosts.knobs.offload import Offload

KNOB = Offload("sg", ("tx-scatter-gather", "tx-scatter-gather-fraglist"))
