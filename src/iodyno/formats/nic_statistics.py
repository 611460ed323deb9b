"""Statistics of network adapters as `ethtool -S` prints them, by names that are the same for every driver.

Names of drivers: `*_ethtool.c` of each in the kernel's `drivers/net`. `#` stands for the number of a queue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from iodyno.core.metric_source import MetricValue

COMMON: Mapping[str, str] = {
    "rx_drops": "Packets that arrived and were dropped, by adapter or driver.",
    "rx_no_buffer": "Packets for which the receive ring had no buffer.",
    "rx_pause": "Pause frames received, of those that end a pause too.",
    "tx_pause": "Pause frames sent, of those that end a pause too.",
    "rx_packets": "Packets that the receive queues got.",
    "rx_bytes": "Bytes that they got.",
    "tx_packets": "Packets that the transmit queues sent.",
    "tx_bytes": "Bytes that they sent.",
}
"""Statistics that drivers have in common, and call differently."""


def _queues(packets: str, length: str = "") -> dict[str, tuple[str, ...]]:
    """Names of queues that differ by the direction alone, `{}`."""
    found: dict[str, tuple[str, ...]] = {}
    for way in ("rx", "tx"):
        found[f"{way}_packets"] = (packets.format(way),) if packets else ()
        found[f"{way}_bytes"] = ((length or packets.replace("packets", "bytes")).format(way),)
    return found


_INTEL_OLDER: Mapping[str, tuple[str, ...]] = {
    "rx_drops": ("rx_missed_errors",),
    "rx_pause": ("rx_flow_control_xon", "rx_flow_control_xoff"),
    "tx_pause": ("tx_flow_control_xon", "tx_flow_control_xoff"),
}
NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "ice": {
        "rx_drops": ("rx_dropped.nic",),
        "rx_no_buffer": ("rx_dropped",),
        "rx_pause": ("link_xon_rx.nic", "link_xoff_rx.nic"),
        "tx_pause": ("link_xon_tx.nic", "link_xoff_tx.nic"),
        **_queues("{}_queue_#_packets"),
    },
    "i40e": {
        "rx_drops": ("port.rx_dropped",),
        "rx_no_buffer": ("rx_dropped",),
        "rx_pause": ("port.link_xon_rx", "port.link_xoff_rx"),
        "tx_pause": ("port.link_xon_tx", "port.link_xoff_tx"),
        **_queues("{}-#.packets"),
    },
    "ixgbe": {**_INTEL_OLDER, "rx_no_buffer": ("rx_no_dma_resources",), **_queues("{}_queue_#_packets")},
    "igb": {**_INTEL_OLDER, "rx_no_buffer": ("rx_no_buffer_count",), **_queues("{}_queue_#_packets")},
    "igc": {**_INTEL_OLDER, "rx_no_buffer": ("rx_no_buffer_count",), **_queues("{}_queue_#_packets")},
    "e1000e": {**_INTEL_OLDER, "rx_no_buffer": ("rx_no_buffer_count",)},
    "mlx5_core": {
        "rx_drops": ("rx_discards_phy",),
        "rx_no_buffer": ("rx_out_of_buffer",),
        "rx_pause": ("rx_pause_ctrl_phy",),
        "tx_pause": ("tx_pause_ctrl_phy",),
        **_queues("{}#_packets"),
    },
    "bnxt_en": {
        "rx_drops": ("rx_stat_discard",),
        # The ring's own count, which the sum of all queues replaced.
        "rx_no_buffer": ("[#]: rx_discards",),
        "rx_pause": ("rx_pause_frames",),
        "tx_pause": ("tx_pause_frames",),
        **{
            f"{way}_{what}": tuple(f"[#]: {way}_{cast}_{what}" for cast in ("ucast", "mcast", "bcast"))
            for way in ("rx", "tx")
            for what in ("packets", "bytes")
        },
    },
    "ena": {
        "rx_drops": ("rx_drops",),
        "rx_no_buffer": ("queue_#_rx_page_alloc_fail",),
        **_queues("queue_#_{}_cnt", "queue_#_{}_bytes"),
    },
    "virtio_net": {"rx_drops": ("rx_queue_#_drops",), **_queues("{}_queue_#_packets")},
    "vmxnet3": {
        "rx_drops": ("drv dropped rx total",),
        "rx_no_buffer": ("pkts rx OOB",),
        **{
            f"{way}_{what}": tuple(f"{cast} {unit} {way}" for cast in ("ucast", "mcast", "bcast"))
            for way in ("rx", "tx")
            for what, unit in (("packets", "pkts"), ("bytes", "bytes"))
        },
    },
    "veth": {"rx_drops": ("rx_queue_#_drops",)},
    "gve": {
        "rx_drops": ("rx_queue_drop_cnt[#]",),
        "rx_no_buffer": ("rx_no_buffers_posted[#]",),
        **_queues("", "{}_bytes[#]"),
    },
}
"""By driver, what it calls each of `COMMON`; several names, and all queues, are added up."""
_QUEUE_BEGINS = ("Rx Queue#", "Tx Queue#")
"""Of vmxnet3: what follows is of that queue, under names that all queues have."""


def of_nic(text: str, driver: str, values: Mapping[str, MetricValue]) -> dict[str, float | str]:
    """The value of each metric by its name in common, or by that of the driver; with the label `queue`, of that queue alone."""
    rows = list(_rows(text))
    return {name: _value(rows, driver, value) for name, value in values.items()}


def _rows(text: str) -> Iterator[tuple[str, str, int]]:
    """Each name with its value, and the queue that the lines before it name."""
    queue = ""
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.rpartition(":"))
        if not value.isdecimal() or len(value) > 30:
            continue
        if name in _QUEUE_BEGINS:
            queue = value
        yield name, queue, int(value)


def _value(rows: list[tuple[str, str, int]], driver: str, value: MetricValue) -> float | str:
    names = NAMES.get(driver, {}).get(value.name) if value.name in COMMON else (value.name,)
    if not names:
        return f"the driver {driver} tells no {value.name}"
    queue, found = value.labels.get("queue"), []
    for pattern in map(_compiled, names):
        for name, section, count in rows:
            if (match := pattern.fullmatch(name)) is None:
                continue
            if queue is None or queue == (match["queue"] if "queue" in pattern.groupindex else section):
                found.append(count)
    of_queue = "" if queue is None else f" of the queue {queue}"
    return float(sum(found)) if found else f"`ethtool -S` has none of {', '.join(names)}{of_queue}"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\#", r"(?P<queue>\d{1,5})"))
