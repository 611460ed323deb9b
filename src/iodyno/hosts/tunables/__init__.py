"""The tunables of a host: how each is read, set and brought back. To add one: an entry here and one in `iodyno.core.tunable`."""

from __future__ import annotations

from collections.abc import Mapping

from iodyno.hosts.tunables.blanking import Blanking
from iodyno.hosts.tunables.coalesce import CoalesceAdaptive, CoalesceTime
from iodyno.hosts.tunables.cpu_limit import CpuLimit
from iodyno.hosts.tunables.cpu_masks import INTERRUPTS, CpuMasks
from iodyno.hosts.tunables.dirty_limit import DirtyLimit
from iodyno.hosts.tunables.disk_limit import DiskLimit
from iodyno.hosts.tunables.disk_queue import DiskQueueFile
from iodyno.hosts.tunables.flow_control import FlowControl
from iodyno.hosts.tunables.irqbalance import Irqbalance
from iodyno.hosts.tunables.link import LinkAttribute
from iodyno.hosts.tunables.mount import MountOptions
from iodyno.hosts.tunables.offload import Offload
from iodyno.hosts.tunables.poll_queues import PollQueues
from iodyno.hosts.tunables.qdisc import QueueingDiscipline
from iodyno.hosts.tunables.receive_hash import HashedFields, HashedQueues
from iodyno.hosts.tunables.settings_table import TableNumber
from iodyno.hosts.tunables.shaper_rate import ShaperRate
from iodyno.hosts.tunables.sysctl import Sysctl
from iodyno.hosts.tunables.threaded import Threaded
from iodyno.hosts.tunables.tunable import Tunable

TURNED: Mapping[str, Tunable] = {
    tunable.name: tunable
    for tunable in (
        LinkAttribute("mtu", low="min_mtu", high="max_mtu"),
        TableNumber("ring_receive", "-g", "-G", ({"RX": "rx"},)),
        TableNumber("ring_transmit", "-g", "-G", ({"TX": "tx"},)),
        CoalesceAdaptive(),
        CoalesceTime("coalesce_receive", "rx"),
        CoalesceTime("coalesce_transmit", "tx"),
        TableNumber("queues", "-l", "-L", ({"Combined": "combined"}, {"RX": "rx", "TX": "tx"}), masks=True),
        TableNumber("transmit_queues", "-l", "-L", ({"TX": "tx"},), masks=True),
        HashedQueues(),
        HashedFields("rss_fields_tcp", "tcp4"),
        HashedFields("rss_fields_udp", "udp4"),
        FlowControl(),
        Offload("sg", ("tx-scatter-gather", "tx-scatter-gather-fraglist")),
        # A device has the generic one, or one for each protocol (Documentation/networking/checksum-offloads.rst).
        Offload(
            "tx_checksum", ("tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"), any_of=True
        ),
        # What `ethtool -K DEVICE tso` stands for (ETHTOOL_FLAG_TSO: all features of NETIF_F_ALL_TSO).
        Offload(
            "tso",
            (
                "tx-tcp-segmentation",
                "tx-tcp6-segmentation",
                "tx-tcp-ecn-segmentation",
                "tx-tcp-mangleid-segmentation",
                "tx-tcp-accecn-segmentation",
            ),
        ),
        Offload("gso", ("generic-segmentation-offload",)),
        # On a veth it is off from the start; turning it on gives the device a receive queue of its own (NAPI).
        Offload("gro", ("generic-receive-offload",)),
        Offload("lro", ("large-receive-offload",)),
        LinkAttribute("gso_max_size", high="tso_max_size"),
        LinkAttribute("gso_max_segs", high="tso_max_segs"),
        Irqbalance(),
        CpuMasks("irq_affinity", INTERRUPTS, "smp_affinity"),
        CpuMasks("rps", "rx", "rps_cpus"),
        CpuMasks("xps", "tx", "xps_cpus"),
        Threaded(),
        Blanking(),
        QueueingDiscipline(),
        ShaperRate(),
        CpuLimit(),
        DiskLimit(),
        # The last of three numbers. A buffer that a program set itself is not bound by it.
        Sysctl("tcp_rmem_max", "net/ipv4/tcp_rmem", field=2),
        Sysctl("tcp_wmem_max", "net/ipv4/tcp_wmem", field=2),
        Sysctl("tcp_notsent_lowat", "net/ipv4/tcp_notsent_lowat"),
        Sysctl("tcp_limit_output", "net/ipv4/tcp_limit_output_bytes"),
        Sysctl("tcp_autocorking", "net/ipv4/tcp_autocorking", kind=bool),
        # Agreed on when a connection is made, as timestamps are.
        Sysctl("tcp_ecn", "net/ipv4/tcp_ecn"),
        Sysctl("tcp_sack", "net/ipv4/tcp_sack", kind=bool),
        Sysctl("tcp_timestamps", "net/ipv4/tcp_timestamps", kind=bool),
        Sysctl("tcp_congestion_control", "net/ipv4/tcp_congestion_control", kind=str),
        Sysctl("busy_poll", "net/core/busy_poll", scope="machine", unit=1000),
        Sysctl("busy_read", "net/core/busy_read", scope="machine", unit=1000),
        Sysctl("netdev_max_backlog", "net/core/netdev_max_backlog", scope="machine"),
        Sysctl("netdev_budget", "net/core/netdev_budget", scope="machine"),
        PollQueues(),
        # `blk_mq_init_sched` and `wbt_enable_default`; `blk_apply_bdi_limits`.
        DiskQueueFile("io_scheduler", "scheduler", kind=str, moves=("nr_requests", "wbt_lat_usec")),
        DiskQueueFile("nr_requests", "nr_requests"),
        DiskQueueFile("max_sectors", "max_sectors_kb", unit=1024, moves=("read_ahead_kb",)),
        DiskQueueFile("read_ahead", "read_ahead_kb", unit=1024),
        DiskQueueFile("rq_affinity", "rq_affinity"),
        DiskQueueFile("nomerges", "nomerges"),
        DiskQueueFile("wbt_latency", "wbt_lat_usec", unit=1000),
        # Of the disk's controller (Documentation/ABI/testing/sysfs-devices-power); nvme's only.
        DiskQueueFile("power_latency", "../device/power/pm_qos_latency_tolerance_us", unit=1000),
        MountOptions(),
        DirtyLimit("dirty_bytes", "dirty_bytes", "dirty_ratio"),
        DirtyLimit("dirty_ratio", "dirty_ratio", "dirty_bytes"),
        DirtyLimit("dirty_background_bytes", "dirty_background_bytes", "dirty_background_ratio"),
        DirtyLimit("dirty_background_ratio", "dirty_background_ratio", "dirty_background_bytes"),
        Sysctl("dirty_expire", "vm/dirty_expire_centisecs", scope="machine", unit=10**7),
        Sysctl("dirty_writeback", "vm/dirty_writeback_centisecs", scope="machine", unit=10**7),
        Sysctl("swappiness", "vm/swappiness", scope="machine"),
    )
}
"""Every tunable, in the order in which they are set; they are restored in the opposite one.

What others build on comes first: queues before what steers to them, scatter-gather and checksums before segmentation,
GRO before what needs a receive queue.
"""
