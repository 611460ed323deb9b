"""TCP segmentation offload in hardware (LSO), or where the device is virtual, none of it at all."""

from __future__ import annotations

from iodyno.hosts.knobs.offload import Offload

# What `ethtool -K DEVICE tso` stands for (ETHTOOL_FLAG_TSO: all features of NETIF_F_ALL_TSO).
KNOB = Offload(
    "tso",
    (
        "tx-tcp-segmentation",
        "tx-tcp6-segmentation",
        "tx-tcp-ecn-segmentation",
        "tx-tcp-mangleid-segmentation",
        "tx-tcp-accecn-segmentation",
    ),
)
