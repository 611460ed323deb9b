"""The rules of loads on storage. To add one: a line here, and its signal in `signals`, `storage_signals` or `storage_waits`.

A closed loop tells no saturated device from a small number of operations at a time by itself: with one operation in flight
it is the number, with two and more at a device that is never idle it is the device; a proof changes the one or the other.
"""

from __future__ import annotations

from iodyno.analysis.limiter import signals, storage_signals, storage_waits
from iodyno.analysis.limiter.rules import RULES, Criterion, Rule

ALONE = "alone"
_SHARED = ("steal", "cpu_quota", "memory", "softirq", "thread", "generator")
"""Limiters whose rules are those of the end that sends."""
_GREGG = "Gregg, Systems Performance, 2nd edition, 9.2 (disk utilisation and saturation)"
_BOUNDS = "Denning and Buzen 1978, asymptotic bounds: the rate can rise by one over it"
_BUSY = 0.90
_TICKS = (
    "block/blk-core.c, update_io_ticks: ticks at whose ends nothing is in flight are left out; chosen: the rate can rise by a"
    " ninth at most"
)
_LARGE_BYTES = 64 << 10
_SHORT_QUEUE = "Documentation/ABI/stable/sysfs-block, nr_requests"

_CPU_FREE = Criterion(
    "load_ratio_of_cpus", storage_signals.load_cpus, 0.90, "chosen: a tenth of the CPU is free", above=False
)
_FULL = Criterion(
    "idle_ratio_of_cpus", storage_signals.cpus_idle, 0.10, "chosen: as for a load on a network", above=False
)
_IDLES = Criterion(
    "idle_ratio_of_cpus", storage_signals.cpus_idle, 0.10, "chosen: a tenth of the CPUs is free"
)
_NEVER_IDLE = (
    Criterion("device_busy_ratio", storage_signals.device_busy, _BUSY, _TICKS),
    Criterion("device_depth", storage_signals.device_depth, 2.0, "chosen: one waits while another is served"),
    _CPU_FREE,
)
_ANOTHER_IDLES = Criterion(
    "idle_ratio_of_idlest_cpu", signals.cpu_idle_most, 0.20, "chosen: a fifth of a CPU is free"
)
_ONE_EACH = Criterion(
    "queue_depth", storage_signals.queue_depth, 1.0, "Denning and Buzen 1978: X R = N", above=False
)

_DEVICE_RESTS = Criterion(
    "device_busy_ratio",
    storage_signals.device_busy,
    0.95,
    "chosen: a twentieth of the time at least",
    above=False,
)
_SLEEPS = Criterion("asleep_ratio", signals.asleep, 0.5, "chosen: the load waits for it, not for a CPU")
_AT_DEVICE = Criterion(
    "in_device_ratio",
    storage_signals.in_device,
    storage_signals.IN_DEVICE_LEAST,
    "Little 1961; chosen: more is in it than above it",
)


def _alone(limiter: str, *criteria: Criterion) -> Rule:
    return Rule(limiter, criteria, (ALONE,))


def _thread_of(limiter: str, signal: signals.SignalOf) -> Rule:
    busiest = Criterion("busiest_thread_ratio_of_" + limiter.removesuffix("_thread"), signal, 0.90, _GREGG)
    return _alone(limiter, busiest, _ANOTHER_IDLES)


RULES_OF_STORAGE: tuple[Rule, ...] = (
    *(Rule(rule.limiter, rule.criteria, (ALONE,)) for rule in RULES if rule.limiter in _SHARED and "send" in rule.ends),
    *(Rule(rule.limiter, rule.criteria, (ALONE,)) for rule in RULES if rule.limiter == "cpu" and "receive" in rule.ends),
    _alone(
        "observer",
        Criterion("observer_ratio_of_cpus", storage_signals.observer, 0.10, "chosen: twice what marks a trial"),
        _FULL,
    ),
    _alone(
        "run_queue",
        Criterion("ready_and_waiting_ratio", storage_signals.run_delay, 0.20, "chosen: a fifth of the ready time is lost"),
        Criterion("others_cpu_ratio", storage_signals.others_cpu, 0.25, "chosen: a quarter of the CPU"),
        Criterion("nobody_ready_ratio", storage_signals.nobody_ready, 0.30, "chosen: as for a load on a network", above=False),
        _FULL,
    ),
    _alone(
        "run_queue",
        Criterion("waiting_for_cpu_ratio", storage_waits.waits_for_cpu, 0.40, "chosen: two fifths of each round of the loop"),
        Criterion("others_cpu_ratio", storage_signals.others_cpu, 0.25, "chosen: a quarter of the CPU"),
        Criterion("device_busy_ratio", storage_signals.device_busy, _BUSY, "chosen: as for concurrency", above=False),
        _FULL,
    ),
    _alone(
        "lock",
        Criterion("workers_in_lock_ratio", storage_signals.in_lock, 0.50, "chosen: more wait for it than do anything else"),
        _IDLES,
    ),
    _alone(
        "cpu",
        _FULL,
        Criterion(
            "load_and_servers_ratio_of_cpus", storage_signals.served_cpus, 0.75, "chosen: others have a quarter at most"
        ),
    ),
    _alone(
        "cpu",
        Criterion("load_and_servers_ratio_of_cpus", storage_signals.served_cpus, 0.75, _BOUNDS),
        Criterion("load_beside_other_stations", storage_signals.beside_other_stations, 0.50, "nothing else is busier"),
        Criterion("queue_depth", storage_signals.queue_depth, 2.0, "chosen: one waits while another is served"),
        Criterion("workers_in_lock_ratio", storage_signals.in_lock, 0.20, "chosen: few wait for each other", above=False),
    ),
    _thread_of("server_thread", storage_signals.server_thread),
    _thread_of("client_daemon_thread", storage_signals.daemon_thread),
    _alone(
        "application",
        Criterion(
            "in_flight_ratio", storage_waits.allowed_in_flight, 0.60, "Little 1961; chosen: as on a network", above=False
        ),
        Criterion("asleep_ratio", signals.asleep, 0.4, "chosen: as for a load on a network"),
    ),
    _alone(
        "disk_limit",
        Criterion("group_limit_used", storage_waits.group_limit_used, 0.90, "chosen: as of iodyno's own limit"),
        _CPU_FREE,
    ),
    _alone(
        "dirty_pages",
        Criterion("dirty_ratio", storage_waits.dirty, 0.90, "mm/page-writeback.c; chosen: read a moment after a writer was held"),
        _DEVICE_RESTS,
        _SLEEPS,
    ),
    _alone(
        "dirty_pages",
        # With little room the pages are gone again before they are seen.
        Criterion("written_over_dirty_room", storage_waits.written, 1.0, "mm/page-writeback.c, dirty_freerun_ceiling"),
        Criterion("in_flight_ratio", storage_waits.allowed_in_flight, 0.80, "Little 1961; chosen: hardly any pause"),
        _DEVICE_RESTS,
        Criterion("asleep_ratio", signals.asleep, 0.25, "chosen: copying large blocks takes most of the rest"),
    ),
    _alone(
        "io_scheduler",
        Criterion("in_scheduler_ratio", storage_waits.in_scheduler, 0.50, "chosen: more waits in it than is at the device"),
        Criterion(
            "driver_filled_ratio", storage_waits.driver_filled, 0.50, "chosen: the driver would take twice as many", above=False
        ),
        _SLEEPS,
    ),
    _alone(
        "disk_queue",
        Criterion("queue_filled_ratio", storage_waits.queue_filled, 0.60, "chosen: mostly full"),
        Criterion("queue_over_load", storage_waits.queue_short, 0.80, _SHORT_QUEUE, above=False),
        # A longer one is full where the device is slow, and not itself what stops it.
        Criterion("queue_room", storage_waits.queue_room, 32.0, "chosen: what a SATA disk takes at a time", above=False),
        _SLEEPS,
    ),
    _alone(
        "nfs_slots",
        Criterion(
            "waiting_for_slots", storage_waits.waiting_for_slots, 1.0, "net/sunrpc/xprt.c, bklog_u; chosen: there is always one"
        ),
        _CPU_FREE,
    ),
    _alone(
        "token_bucket",
        Criterion("bucket_fall_ratio", storage_waits.bucket_fall, 0.20, "chosen: as for the warning of a token bucket"),
        _CPU_FREE,
    ),
    _alone(
        "disk_bandwidth",
        *_NEVER_IDLE,
        Criterion("bytes_of_device_operation", storage_signals.device_bytes, _LARGE_BYTES, "chosen: 16 pages and more"),
    ),
    _alone("disk", *_NEVER_IDLE),
    _alone(
        "disk",
        Criterion(
            "device_limit_used", storage_signals.device_limit_used, 0.90, "chosen: a window may hold a slice of 0.1 s less"
        ),
        _CPU_FREE,
    ),
    _alone(
        "disk",
        Criterion(
            "in_device_ratio",
            storage_signals.in_device,
            storage_signals.IN_DEVICE_LEAST,
            "Little 1961; chosen: more waits above it than in it",
            above=False,
        ),
        _SLEEPS,
    ),
    _alone("concurrency", _ONE_EACH, _CPU_FREE, _IDLES),
    _alone(
        "concurrency",
        Criterion("in_flight_ratio", storage_waits.allowed_in_flight, 0.80, "Little 1961; chosen: hardly any pause"),
        Criterion("device_busy_ratio", storage_signals.device_busy, _BUSY, _BOUNDS, above=False),
        _AT_DEVICE,
        _CPU_FREE,
        _IDLES,
    ),
    _alone(
        "concurrency",
        Criterion("busiest_station_ratio", storage_signals.busiest_station, 0.75, _BOUNDS, above=False),
        _IDLES,
        Criterion(
            "workers_in_lock_ratio", storage_signals.in_lock, 0.20, "chosen: few wait for each other", above=False
        ),
    ),
    _alone(
        "offered_load",
        Criterion(
            "achieved_over_offered", storage_signals.offered_reached, 0.98, "chosen: 2 % for the ends of the window"
        ),
    ),
)  # fmt: skip
"""Every rule of a load on storage."""
