"""The outcomes of loads on disks. Where a rate or a time also stands after a host, it is that of one client."""

from __future__ import annotations

from iodyno.core.outcome_kind import OutcomeKind

_QUANTILES = (
    ("p50", "Median"),
    ("p90", "90th percentile"),
    ("p99", "99th percentile"),
    ("p999", "99.9th percentile"),
)
CPU_CLASSES = (
    ("usr", "user code of the load"),
    ("sys", "system code of the load"),
    ("irq", "hard interrupts"),
    ("softirq", "soft interrupts"),
    ("other", "other tasks, such as threads of the kernel and servers on this machine"),
)

SERVER_BYTES = (("disk_read", "read"), ("received", "received"), ("sent", "sent"))
"""Bytes of a volume's server, as outcomes name them and as the sensor `roles` does."""

_EVERY = (
    OutcomeKind(
        "iops",
        "1/s",
        "Reads and writes completed, of all clients.",
        per_host=True,
        of_trial=True,
        better="higher",
    ),
    *(
        OutcomeKind(
            f"{name}_iops", "1/s", f"{name.capitalize()}s completed.", per_host=True, of_trial=True, better="higher"
        )
        for name in ("read", "write")
    ),
    OutcomeKind(
        "fsyncs_per_s", "1/s", "Calls of fsync or fdatasync completed.", better="higher"
    ),
    OutcomeKind(
        "bytes_per_s",
        "B/s",
        "Bytes read and written, of all clients.",
        per_host=True,
        of_trial=True,
        better="higher",
    ),
    *(
        OutcomeKind(
            f"{name}_bytes_per_s",
            "B/s",
            f"Bytes of {name}s.",
            per_host=True,
            of_trial=True,
            better="higher",
        )
        for name in ("read", "write")
    ),
    OutcomeKind(
        "service_time_mean_ns",
        "ns",
        "Mean time from when an operation is handed to the kernel to its end.",
        per_host=True,
        of_trial=True,
        better="lower",
    ),
    *(
        OutcomeKind(
            f"service_time_{name}_ns", "ns", f"{what} of the same.", per_host=True, of_trial=True, better="lower"
        )
        for name, what in _QUANTILES
    ),
    *(
        OutcomeKind(
            f"{kind}_service_time_mean_ns", "ns", f"Mean service time of a {kind}.", better="lower"
        )
        for kind in ("read", "write", "fsync")
    ),
    *(
        OutcomeKind(
            f"{kind}_service_time_{name}_ns", "ns", f"{what} of the service time of a {kind}.", better="lower"
        )
        for kind in ("read", "write", "fsync")
        for name, what in _QUANTILES
    ),
    *(
        OutcomeKind(
            f"{kind}_response_time_{name}_ns",
            "ns",
            f"{what} of the time from when a {kind} was due to its end (open loops).",
            better="lower",
        )
        for kind in ("read", "write")
        for name, what in _QUANTILES
    ),
    OutcomeKind("errors_per_s", "1/s", "Operations that failed.", better="lower"),
    OutcomeKind(
        "fairness",
        "1",
        "Jain's index of the clients' rates: 1 when all have the same, 1/n when one has all.",
        better="higher",
    ),
    OutcomeKind("slowest_client_ratio", "1", "Rate of the slowest client over the mean of all.", better="higher"),
    OutcomeKind(
        "cpu_us_per_io",
        "us/IO",
        "CPU time of the host's machine, less the background, per read or write of its clients; without clients: of all.",
        per_host=True,
        better="lower",
    ),
    *(
        OutcomeKind(
            f"cpu_{role}_us_per_io",
            "us/IO",
            f"Part of cpu_us_per_io that is {whose}.",
            per_host=True,
            better="lower",
        )
        for role, whose in (
            ("generator", "the load generator's, with its system calls"),
            ("client_daemon", "the client daemon's of a volume"),
            ("server", "the server's of a volume on this machine"),
            ("rest", "nobody's of these: kernel threads, interrupts, other tasks"),
            ("without_generator", "not the load generator's"),
        )
    ),
    *(
        OutcomeKind(
            f"cpu_{name}_ns_per_operation",
            "ns/operation",
            f"Part of cpu_ns_per_operation in {where}"
            f"{'; below 0 where they had less under load' if name == 'other' else ''}.",
            per_host=True,
            better="lower",
        )
        for name, where in CPU_CLASSES
    ),
    *(
        OutcomeKind(f"{role}_cpus_busy", "CPUs", f"CPUs that {whose} keeps busy.", per_host=True, better="lower")
        for role, whose in (
            ("server", "a server of a volume"),
            ("client_daemon", "the clients' daemon of a volume"),
        )
    ),
    *(
        OutcomeKind(f"server_{name}_bytes_per_s", "B/s", f"Bytes that a volume's server {what}.", per_host=True)
        for name, what in (
            ("disk_read", "got from its disk"),
            ("received", "received, with all headers"),
            ("sent", "sent, with all headers"),
            ("network", "sent and received"),
        )
    ),
    OutcomeKind(
        "server_cached_ratio", "1", "Share of the bytes read that the disk of a volume's server did not give."
    ),
    OutcomeKind(
        "device_busy_ratio", "1", "Share of the time with an operation in flight at the device.", per_host=True
    ),
    OutcomeKind(
        "device_depth", "1", "Reads and writes in flight at the device on average, a flush as one write.", per_host=True
    ),
    *(
        OutcomeKind(f"device_{name}_bytes_per_s", "B/s", f"Bytes of {name}s at the device.", per_host=True)
        for name in ("read", "write")
    ),
    OutcomeKind(
        "device_operations_per_s", "1/s", "Operations of every kind that ended at the device.", per_host=True
    ),
    OutcomeKind(
        "device_errors_per_s", "1/s", "Operations at the device that failed.", per_host=True, better="lower"
    ),
    OutcomeKind(
        "device_slow_operations_per_s",
        "1/s",
        "Operations at the device that took more than 20 ms, queue included.",
        per_host=True,
        better="lower",
    ),
    OutcomeKind(
        "device_merged_ratio",
        "1",
        "Share of the reads and writes that joined one in the queue.",
        per_host=True,
    ),
    *(
        OutcomeKind(
            f"device_{kind}service_time_{name}_ns",
            "ns",
            f"{what} time from when {whose} is handed to the device to its completion.",
            per_host=True,
            better="lower",
        )
        for kind, whose in (("", "a read or write"), ("read_", "a read"), ("write_", "a write"))
        for name, what in (("mean", "Mean"), *_QUANTILES)
    ),
    *(
        OutcomeKind(
            f"device_queue_time_{name}_ns",
            "ns",
            f"{what} time from when the kernel makes a read or write to when the device has it.",
            per_host=True,
            better="lower",
        )
        for name, what in (("mean", "Mean"), ("p99", "99th percentile"))
    ),
    OutcomeKind(
        "cpu_block_softirq_us_per_io",
        "us/IO",
        "Part of cpu_us_per_io in soft interrupts of the block layer.",
        per_host=True,
        better="lower",
    ),
    OutcomeKind(
        "cpu_irq_us_per_io",
        "us/IO",
        "Part of cpu_us_per_io in hard interrupts.",
        per_host=True,
        better="lower",
    ),
    *(
        OutcomeKind(f"{name}_bytes_per_s", "B/s", f"{what}, of the whole machine.", per_host=True)
        for name, what in (
            ("dirtied", "Bytes that became dirty in the page cache"),
            ("written_back", "Bytes written back from it"),
        )
    ),
    *(
        OutcomeKind(
            f"{whose}_from_cache_ratio",
            "1",
            f"Share of the bytes that {what} from the page cache.",
            per_host=True,
        )
        for whose, what in (
            ("load", "the host's load read"),
            ("server", "a volume's server read"),
            ("client_daemon", "a volume's client daemons read"),
        )
    ),
    OutcomeKind(
        "read_from_cache_ratio",
        "1",
        "Share of the bytes read that the device did not give; below 0 where it gave more, ahead or to others.",
    ),
)  # fmt: skip
_OF_NETWORKS_TOO = tuple(f"write_service_time_{name}_ns" for name in ("mean", "p50", "p99", "p999"))
"""Of a disk they are those of a write."""

OF_DISKS = tuple(kind for kind in _EVERY if kind.name not in _OF_NETWORKS_TOO)
"""Outcomes that only loads on disks have."""

_SHARED = (
    *_OF_NETWORKS_TOO,
    *("operations_per_s", "offered_operations_per_s", "achieved_operations_per_s", "missed_arrivals_ratio"),
    *(f"response_time_{name}_ns" for name in ("mean", "p50", "p90", "p99", "p999")),
    *("lateness_p50_ns", "longest_gap_ns", "start_skew_ns", "observer_cost_ratio"),
    *("cpu_ns_per_kib", "cpu_ns_per_operation", "cycles_per_kib", "bytes_per_cycle"),
    *("cpu_busy_ratio", "cpu_idle_ratio", "cpu_intr_ratio", "cpu_steal_ratio", "context_switches_per_s"),
    *("interrupts_per_s", "remote_pages_ratio", "remote_loads_ratio"),
    *(f"cpu_{name}_ratio" for name, _ in CPU_CLASSES),
    *(f"cpu_{name}_ns_per_kib" for name, _ in CPU_CLASSES),
)
"""Outcomes that loads on disks have in common with those on networks."""

ONLY_OF_DISKS = frozenset(kind.name for kind in OF_DISKS)
NAMES_OF_DISKS = ONLY_OF_DISKS | frozenset(_SHARED)
"""Every outcome of a load on disks."""
