"""Checksums of what is sent. Without them neither scatter-gather nor TSO is possible on most devices."""

from __future__ import annotations

from iodyno.hosts.knobs.offload import Offload

# A device has the generic one, or one for each protocol (Documentation/networking/checksum-offloads.rst).
KNOB = Offload("tx_checksum", ("tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"), any_of=True)
