"""What `ethtool -S` prints for each driver, by names in common: lines as the drivers name them in the kernel's sources."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iodyno.core.metric_source import MetricValue
from iodyno.formats.nic_statistics import COMMON, NAMES, of_nic

ICE = """NIC statistics:
     rx_unicast: 9
     rx_dropped: 3
     tx_queue_0_packets: 11
     tx_queue_0_bytes: 110
     rx_queue_0_packets: 20
     rx_queue_0_bytes: 200
     rx_queue_1_packets: 5
     rx_queue_1_bytes: 50
     link_xon_rx.nic: 1
     link_xoff_rx.nic: 2
     link_xon_tx.nic: 3
     link_xoff_tx.nic: 4
     rx_dropped.nic: 7
"""
I40E = """NIC statistics:
     rx_dropped: 3
     tx-0.packets: 11
     tx-0.bytes: 110
     rx-0.packets: 20
     rx-0.bytes: 200
     rx-1.packets: 5
     rx-1.bytes: 50
     port.rx_dropped: 7
     port.link_xon_rx: 1
     port.link_xoff_rx: 2
     port.link_xon_tx: 3
     port.link_xoff_tx: 4
"""
IXGBE = """NIC statistics:
     rx_missed_errors: 7
     tx_flow_control_xon: 3
     rx_flow_control_xon: 1
     tx_flow_control_xoff: 4
     rx_flow_control_xoff: 2
     rx_no_dma_resources: 3
     tx_queue_0_packets: 11
     tx_queue_0_bytes: 110
     rx_queue_0_packets: 20
     rx_queue_0_bytes: 200
     rx_queue_1_packets: 5
     rx_queue_1_bytes: 50
"""
MLX5 = """NIC statistics:
     rx_packets: 99
     rx_out_of_buffer: 3
     rx_discards_phy: 7
     rx_pause_ctrl_phy: 3
     tx_pause_ctrl_phy: 7
     rx_prio0_discards: 1
     rx0_packets: 20
     rx0_bytes: 200
     rx0_xdp_drop: 4
     rx1_packets: 5
     rx1_bytes: 50
     tx0_packets: 11
     tx0_bytes: 110
"""
BNXT = """NIC statistics:
     [0]: rx_ucast_packets: 18
     [0]: rx_mcast_packets: 1
     [0]: rx_bcast_packets: 1
     [0]: rx_discards: 2
     [0]: rx_errors: 0
     [0]: rx_ucast_bytes: 180
     [0]: rx_mcast_bytes: 10
     [0]: rx_bcast_bytes: 10
     [0]: tx_ucast_packets: 11
     [0]: tx_ucast_bytes: 110
     [1]: rx_ucast_packets: 5
     [1]: rx_discards: 1
     [1]: rx_ucast_bytes: 50
     rx_total_ring_discards: 3
     rx_pause_frames: 3
     tx_pause_frames: 7
     rx_stat_discard: 7
"""
ENA = """NIC statistics:
     tx_timeout: 0
     rx_drops: 7
     queue_0_tx_cnt: 11
     queue_0_tx_bytes: 110
     queue_0_rx_cnt: 20
     queue_0_rx_bytes: 200
     queue_0_rx_page_alloc_fail: 3
     queue_1_rx_cnt: 5
     queue_1_rx_bytes: 50
"""
VIRTIO = """NIC statistics:
     rx_drops: 100
     rx_queue_0_packets: 20
     rx_queue_0_bytes: 200
     rx_queue_0_drops: 6
     rx_queue_0_xdp_packets: 1
     rx_queue_1_packets: 5
     rx_queue_1_bytes: 50
     rx_queue_1_drops: 1
     tx_queue_0_packets: 11
     tx_queue_0_bytes: 110
"""
VMXNET3 = """NIC statistics:
     Tx Queue#: 0
       TSO pkts tx: 1
       ucast pkts tx: 11
       ucast bytes tx: 110
     Rx Queue#: 0
       LRO pkts rx: 3
       ucast pkts rx: 19
       ucast bytes rx: 190
       bcast pkts rx: 1
       bcast bytes rx: 10
       pkts rx OOB: 3
       drv dropped rx total: 7
     Rx Queue#: 1
       ucast pkts rx: 5
       ucast bytes rx: 50
       pkts rx OOB: 0
     tx timeout count: 0
"""
GVE = """NIC statistics:
     rx_packets: 25
     rx_posted_desc[0]: 900
     rx_bytes[0]: 200
     rx_queue_drop_cnt[0]: 7
     rx_no_buffers_posted[0]: 3
     rx_bytes[1]: 50
     tx_bytes[0]: 110
"""
RECORDED = {
    "ice": (ICE, 3, 7),
    "i40e": (I40E, 3, 7),
    "ixgbe": (IXGBE, 3, 7),
    "mlx5_core": (MLX5, 3, 7),
    "bnxt_en": (BNXT, 3, 7),
    "ena": (ENA, None, None),
    "virtio_net": (VIRTIO, None, None),
    "vmxnet3": (VMXNET3, None, None),
    "gve": (GVE, None, None),
}


def told(text: str, driver: str, name: str, **labels: str) -> float | str:
    return of_nic(text, driver, {"it": MetricValue(name, "counter", labels=labels)})["it"]


@pytest.mark.parametrize("driver", RECORDED)
def test_drivers_tell_the_same_under_their_own_names(driver: str) -> None:
    text, rx_pause, tx_pause = RECORDED[driver]
    found = {name: told(text, driver, name) for name in COMMON}
    assert found["rx_drops"] == 7 and (found["rx_no_buffer"] == 3 or driver == "virtio_net")
    assert found["rx_bytes"] == 250 and found["tx_bytes"] == 110
    if driver != "gve":
        assert found["rx_packets"] == 25 and found["tx_packets"] == 11
        assert told(text, driver, "rx_packets", queue="1") == 5
    assert told(text, driver, "rx_bytes", queue="0") == 200
    assert "queue 7" in str(told(text, driver, "rx_bytes", queue="7"))
    for name, pause in (("rx_pause", rx_pause), ("tx_pause", tx_pause)):
        assert found[name] == (f"the driver {driver} tells no {name}" if pause is None else pause)


def test_a_name_of_the_driver_is_taken_as_it_is() -> None:
    assert told(MLX5, "mlx5_core", "rx_prio0_discards") == 1
    assert told(BNXT, "bnxt_en", "[1]: rx_discards") == 1
    assert "none of rx_prio9_discards" in str(told(MLX5, "mlx5_core", "rx_prio9_discards"))
    assert told(MLX5, "unheard_of", "rx_drops") == "the driver unheard_of tells no rx_drops"


def test_every_name_in_the_table_is_one_in_common() -> None:
    for names in NAMES.values():
        assert set(names) <= set(COMMON)


@pytest.mark.skipif(shutil.which("ethtool") is None, reason="needs ethtool")
def test_a_veth_pair_has_the_names_of_the_table() -> None:
    name = f"nic{os.getpid()}"
    made = subprocess.run(
        ["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"], capture_output=True
    )
    if made.returncode:
        pytest.skip("needs root")
    try:
        shown = subprocess.run(["ethtool", "-S", name], capture_output=True, text=True).stdout
    finally:
        subprocess.run(["ip", "link", "del", name], check=True)
    assert told(shown, "veth", "rx_drops") == 0


@given(
    st.text(alphabet="rx_queu0123: []#.\n٣²\x1f\x0c", max_size=300),
    st.sampled_from(sorted(NAMES)),
    st.sampled_from(sorted(COMMON)),
)
def test_whatever_ethtool_prints_is_a_number_or_a_reason(text: str, driver: str, name: str) -> None:
    assert isinstance(told(text, driver, name), (float, str))
