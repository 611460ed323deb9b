"""The tunables: settings of a host that a trial may change, with unit and range. Any of them can be a factor.

In an experiment a tunable is written with its host before it (`server.mtu`), with the name of hosts that are numbered
(`client.mtu` of client-1 and client-2), or with `all` for every host. How a tunable is read, set and restored is in
`iodyno.hosts.tunables`; what a host cannot do is asked of the host, before the first trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iodyno.core.mount import checked_mount
from iodyno.core.workload import Level, Parameter

ALL = "all"
"""In place of a host: every host."""

_FILE_MOST = 2**31 - 1

TUNABLES: Mapping[str, Parameter] = {
    tunable.name: tunable
    for tunable in (
        # of the device that carries the data
        Parameter("mtu", "count", "Largest packet of the device, in bytes.", low=68, high=65_536),
        Parameter("queues", "count", "Receive and transmit queues in use, each (ethtool -L).", high=4096),
        Parameter("transmit_queues", "count", "Transmit queues in use, by themselves (ethtool -L tx).", high=4096),
        Parameter("ring_receive", "count", "Receive descriptors of a queue (ethtool -G).", high=2**20),
        Parameter("ring_transmit", "count", "Transmit descriptors of a queue (ethtool -G).", high=2**20),
        Parameter("coalesce_adaptive", "switch", "The adapter chooses by itself how long it holds interrupts back (ethtool -C)."),
        Parameter("coalesce_receive", "duration", "The adapter holds a receive interrupt back so long (ethtool -C).",
                  low=0, high=10**9),
        Parameter("coalesce_transmit", "duration", "The same of what was sent.", low=0, high=10**9),
        Parameter("rss_queues", "count", "Queues over which received packets are spread (ethtool -X equal).", high=4096),
        Parameter("rss_fields_tcp", "word", "What of a TCP packet chooses its queue (ethtool -N rx-flow-hash).",
                  words=("addresses", "ports")),
        Parameter("rss_fields_udp", "word", "The same of UDP.", words=("addresses", "ports")),
        Parameter("flow_control", "switch", "Pause frames: a receiver has the sender wait (ethtool -A)."),
        Parameter("sg", "switch", "Scatter-gather: a packet may lie in several pieces of memory."),
        Parameter("tx_checksum", "switch", "The device writes checksums, not the kernel."),
        Parameter("tso", "switch", "TCP segmentation offload: the device cuts large segments (LSO)."),
        Parameter("gso", "switch", "Generic segmentation offload: large segments are cut just before the device."),
        Parameter("gro", "switch", "Generic receive offload: packets of a flow are joined before the protocols."),
        Parameter("lro", "switch", "Large receive offload: the adapter joins packets of a flow."),
        Parameter("gso_max_size", "size", "Largest segment that is handed to the device: the size of LSO.",
                  low=1, high=2**20),
        Parameter("gso_max_segs", "count", "Most packets of a segment that is handed to the device.", high=65_535),
        Parameter("irqbalance", "switch", "The service that moves interrupts between CPUs runs."),
        Parameter("irq_affinity", "word", "To which CPUs the device's interrupts go: those of the host, or one CPU after the"
                  " other.", words=("own", "others", "all", "spread")),
        Parameter("rps", "word", "Receive packet steering (soft rings): off, or to which CPUs; own: those of the host.",
                  words=("off", "own", "others", "all")),
        Parameter("xps", "word", "Transmit packet steering: off, or one CPU after the other for each queue.",
                  words=("off", "spread")),
        Parameter("threaded", "switch", "Receive processing in kernel threads on the host's CPUs, not in soft"
                  " interrupts."),
        Parameter("blanking", "duration", "Interrupts are held back so long for more packets to come"
                  " (gro_flush_timeout with napi_defer_hard_irqs).", low=0, high=10**8),
        Parameter("qdisc", "word", "Queue before the device: default, or pfifo-N (packets) or bfifo-N (bytes)."),
        Parameter("shaper_rate", "bit_rate", "Rate of a queue that somebody has set there (tc-tbf, tc-htb); all of them by"
                  " the same.", low=1000, high=10**15),
        # of the host's agent
        Parameter("cpu_limit", "count", "CPU time that a control group of somebody else's leaves the host's agent, in"
                  " percent of one CPU.", high=100_000),
        Parameter("disk_limit", "count", "Operations, or bytes, a second that such a group leaves it of disks; all limits by the"
                  " same.", high=10**15),
        # of TCP on the host
        Parameter("tcp_rmem_max", "size", "Most that TCP lets a receive buffer grow to by itself.", low=4096,
                  high=_FILE_MOST),
        Parameter("tcp_wmem_max", "size", "Most that TCP lets a send buffer grow to by itself.", low=4096,
                  high=_FILE_MOST),
        Parameter("tcp_notsent_lowat", "size", "A socket counts as writable below so much unsent data.", low=1,
                  high=_FILE_MOST),
        Parameter("tcp_limit_output", "size", "Most of a flow that queues below TCP (tcp_limit_output_bytes).",
                  low=4096, high=_FILE_MOST),
        Parameter("tcp_autocorking", "switch", "Small writes wait while an earlier packet is on its way out."),
        Parameter("tcp_sack", "switch", "Selective acknowledgements."),
        Parameter("tcp_timestamps", "switch", "TCP timestamps."),
        Parameter("tcp_ecn", "count", "Explicit congestion notification: not at all (0), asked for (1), where the other end asks"
                  " (2); kernels from 6.18 on take more (ip-sysctl).", low=0, high=5),
        Parameter("tcp_congestion_control", "word", "Congestion control of sockets that name none."),
        # of the whole machine
        Parameter("busy_poll", "duration", "poll and select look at the device for so long (net.core.busy_poll).",
                  low=0, high=10**9),
        Parameter("busy_read", "duration", "Reading looks at the device for so long (net.core.busy_read).",
                  low=0, high=10**9),
        Parameter("netdev_max_backlog", "count", "Packets that wait for a CPU they were steered to.", high=10**7),
        Parameter("netdev_budget", "count", "Packets of one round of receive processing.", high=10**6),
        # of the disks under the host's targets
        Parameter("poll_queues", "count", "Queues of NVMe disks that are polled (parameter of nvme, which has one from its"
                  " start); for iopoll.", high=1024),
        Parameter("io_scheduler", "word", "Scheduler of the disk's requests: none, mq-deadline, kyber, bfq."),
        Parameter("nr_requests", "count", "Requests of each queue of the disk that wait at most.", high=10**6),
        Parameter("read_ahead", "size", "Most that the page cache reads ahead (read_ahead_kb).", low=0, high=2**30),
        Parameter("max_sectors", "size", "Largest request that the kernel makes (max_sectors_kb).", low=1024, high=2**30),
        Parameter("rq_affinity", "count", "A request ends where its interrupt is (0), near the CPU that asked (1), or on it"
                  " (2).", low=0, high=2),
        Parameter("nomerges", "count", "Neighbouring requests are joined always (0), where that is cheap (1), or never (2).",
                  low=0, high=2),
        Parameter("wbt_latency", "duration", "Writing back is throttled where reads take longer (wbt_lat_usec); 0: it is not.",
                  low=0, high=10**10),
        Parameter("power_latency", "duration", "Slowest wake-up of the power states that an NVMe disk goes into by itself; 0: of"
                  " none.", low=0, high=10**10),
        # of a mounted file system
        Parameter("mount", "word", "Options of the file system that is mounted on a folder: `/data noatime,sync`,"
                  " `/mnt rsize=64KiB,nconnect=4` (NFS is mounted anew for such), `/tank recordsize=16KiB` (ZFS).",
                  form=checked_mount),
        # of the whole machine
        Parameter("dirty_bytes", "size", "Pages that wait to be written back, from which on writers wait.", low=8192, high=2**50),
        Parameter("dirty_ratio", "count", "The same in percent of the memory.", low=0, high=100),
        Parameter("dirty_background_bytes", "size", "Pages that wait, from which on the kernel writes back.", low=4096,
                  high=2**50),
        Parameter("dirty_background_ratio", "count", "The same in percent of the memory.", low=0, high=100),
        Parameter("dirty_expire", "duration", "Age at which a page is written back.", low=0, high=10**13),
        Parameter("dirty_writeback", "duration", "Time between looks for such pages; 0: never.", low=0, high=10**13),
        Parameter("swappiness", "count", "How readily memory of programs is swapped out, not the page cache.", low=0, high=200),
    )
}  # fmt: skip
"""Every tunable, by name."""


OF_A_DEVICE = tuple(TUNABLES)[: tuple(TUNABLES).index("cpu_limit")]
"""Those of the device that carries the data of a host."""


def named(name: str) -> tuple[str, str] | None:
    """Host (or several, or `all`) and tunable of a name with a dot; None: it is no name of a tunable."""
    host, dot, tunable = name.rpartition(".")
    return (host, tunable) if dot and tunable in TUNABLES else None


def tunable_of(name: str) -> Parameter | None:
    """The tunable that `server.mtu` or `all.mtu` names."""
    found = named(name)
    return TUNABLES[found[1]] if found else None


def numbered(hosts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return hosts that are numbered, by the name that they have together.

    >>> numbered(["client-1", "client-2", "server"])
    {'client': ('client-1', 'client-2')}
    """
    names, found = tuple(hosts), dict[str, tuple[str, ...]]()
    for host in names:
        together, _, number = host.rpartition("-")
        if together not in ("", ALL, *names) and number.isdecimal():
            found[together] = (*found.get(together, ()), host)
    return found


def hosts_of(whose: str, hosts: Iterable[str]) -> tuple[str, ...]:
    """Return the hosts that the name before the dot stands for: one, several that are numbered, or all."""
    return tuple(hosts) if whose == ALL else numbered(hosts).get(whose, (whose,))


def asked_of(settings: Mapping[str, Level], hosts: Iterable[str]) -> dict[str, dict[str, Level]]:
    """Return for each of the hosts the tunables that the settings of a trial set, by their own names."""
    asked: dict[str, dict[str, Level]] = {host: {} for host in hosts}
    for name, level in settings.items():
        whose, tunable = named(name) or ("", "")
        for host in hosts_of(whose, asked):
            if host in asked:
                asked[host][tunable] = level
    return asked
