"""Every outcome of a trial, by name. To add one: describe it in `core/outcome.py`, and one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from iodyno.analysis import (
    arrivals,
    blocks,
    closed_loop,
    cost,
    cpu_classes,
    datagrams,
    fairness,
    flows,
    goodput,
    interrupt_rates,
    members,
    metrics,
    numa,
    observer,
    stalls,
)
from iodyno.analysis.cost import CostBasis, Unit
from iodyno.analysis.cpu_classes import BUSY_CLASSES
from iodyno.analysis.measured import Measured, missing
from iodyno.analysis.trial import Trial
from iodyno.core.outcome import OF_BYSTANDER, OF_MEMBER, OF_SEVERAL, OUTCOMES, not_of
from iodyno.core.volume import ROLES, SERVER
from iodyno.loads.disk.analysis import block_times, cache, classes, devices, memory, roles
from iodyno.loads.disk.core.outcomes import NAMES_OF_DISKS, SERVER_BYTES


def _start_skew(trial: Trial) -> Measured:
    start = trial.manifest.get("start") or {}
    skew = start.get("skew_ns")
    if skew is None:
        return missing("the start of a host is not known")
    return Measured(float(skew), assumptions=("clock offsets are known to within their stored error",))


def _cost(
    trial: Trial, host: str, basis: CostBasis, *, unit: Unit = "KiB", classes: tuple[str, ...] = ()
) -> Measured:
    return cost.cpu_time(trial, host, basis, unit, *classes)


def _ratio(trial: Trial, host: str, basis: CostBasis, *, classes: tuple[str, ...]) -> Measured:
    return cpu_classes.ratio(trial, host, basis.accounting, *classes)


def _syncs(trial: Trial) -> Measured:
    return classes.operations_per_s(trial, name="fsync")


def _from_cache(trial: Trial) -> Measured:
    share = cache.share_from_cache(trial)
    return (
        missing("the device under the target is not known, or nothing was read")
        if share is None
        else Measured(share)
    )


def _from_server_cache(trial: Trial) -> Measured:
    share = cache.share_from_server_cache(trial)
    return missing("what a server got from its disk is not known") if share is None else Measured(share)


def _of_client(measure_one: Callable[..., Measured]) -> Callable[[Trial, str, CostBasis], Measured]:
    return lambda trial, host, _: measure_one(trial, host)


def _cpu_us_per_io(trial: Trial, host: str, basis: CostBasis) -> Measured:
    return roles.of_all(trial, host, basis)


def _of_role(trial: Trial, host: str, _: CostBasis, *, role: str) -> Measured:
    return roles.of_processes(trial, host, role)


OF_TRIAL: Mapping[str, Callable[[Trial], Measured]] = {
    "goodput_bits_per_s": goodput.goodput,
    "writes_per_s": arrivals.operations,
    "messages_per_s": goodput.messages,
    "write_service_time_mean_ns": goodput.write_service_time_mean,
    "write_service_time_p50_ns": partial(goodput.write_service_time_quantile, q=0.5),
    "write_service_time_p99_ns": partial(goodput.write_service_time_quantile, q=0.99),
    "write_service_time_p999_ns": partial(goodput.write_service_time_quantile, q=0.999),
    "latency_mean_ns": goodput.write_service_time_mean,
    "latency_p50_ns": partial(goodput.write_service_time_quantile, q=0.5),
    "latency_p99_ns": partial(goodput.write_service_time_quantile, q=0.99),
    "latency_p999_ns": partial(goodput.write_service_time_quantile, q=0.999),
    "operations_per_s": arrivals.operations,
    "offered_operations_per_s": arrivals.offered,
    "achieved_operations_per_s": arrivals.achieved,
    "missed_arrivals_ratio": arrivals.missed_ratio,
    "response_time_mean_ns": arrivals.response_time_mean,
    "response_time_p50_ns": partial(arrivals.response_time_quantile, q=0.5),
    "response_time_p90_ns": partial(arrivals.response_time_quantile, q=0.9),
    "response_time_p99_ns": partial(arrivals.response_time_quantile, q=0.99),
    "response_time_p999_ns": partial(arrivals.response_time_quantile, q=0.999),
    "latency_from_schedule_mean_ns": arrivals.response_time_mean,
    "latency_from_schedule_p50_ns": partial(arrivals.response_time_quantile, q=0.5),
    "latency_from_schedule_p90_ns": partial(arrivals.response_time_quantile, q=0.9),
    "latency_from_schedule_p99_ns": partial(arrivals.response_time_quantile, q=0.99),
    "latency_from_schedule_p999_ns": partial(arrivals.response_time_quantile, q=0.999),
    "lateness_p50_ns": partial(arrivals.lateness_quantile, q=0.5),
    "messages_per_call_mean": arrivals.messages_per_call,
    "retransmits_per_segment": flows.retransmits_per_segment,
    "device_segment_bytes": flows.device_segment_bytes,
    "segments_per_ack": flows.segments_per_ack,
    "rwnd_limited_ratio": flows.rwnd_limited_ratio,
    "sndbuf_limited_ratio": flows.sndbuf_limited_ratio,
    "round_trip_mean_ns": closed_loop.round_trip_mean,
    "block_law_ratio": blocks.law_ratio,
    "datagrams_per_s": datagrams.datagrams_per_s,
    "loss_ratio": datagrams.loss_ratio,
    "connection_fairness": goodput.connection_fairness,
    "server_polls_per_s": datagrams.server_polls_per_s,
    "server_wakeups_per_s": datagrams.server_wakeups_per_s,
    "server_batch_mean": datagrams.server_batch_mean,
    "longest_gap_ns": stalls.longest_gap,
    "start_skew_ns": _start_skew,
    "observer_cost_ratio": observer.costliest_cost_ratio,
}


def _total(trial: Trial, basis: CostBasis, *, unit: Unit, name: str) -> Measured:
    """CPU time of both ends per unit; of an end that has several hosts, of all of them."""
    inside = {host for group in trial.groups.values() for host in group}
    ends = [*trial.groups, *(host for host in trial.hosts if host not in inside | {*trial.groups})]
    each = [
        cost.cpu_time(trial, end, basis, unit) if end in trial.hosts else _of_member(trial, end, name, basis)
        for end in ends
    ]
    return cost.together(trial, dict(zip(ends, each, strict=True)))


OF_ALL_HOSTS: Mapping[str, Callable[[Trial, CostBasis], Measured]] = {
    "total_cpu_ns_per_kib": partial(_total, unit="KiB", name="cpu_ns_per_kib"),
    "total_cpu_ns_per_operation": partial(_total, unit="operation", name="cpu_ns_per_operation"),
}
"""Costs of a trial between hosts, of all of them."""

OF_SEVERAL_HOSTS: Mapping[str, Callable[[Trial], Measured]] = {
    "fairness": fairness.fairness,
    "slowest_client_ratio": fairness.slowest_ratio,
    "fastest_client_ratio": fairness.fastest_ratio,
}
"""Outcomes of a trial on connections that has several hosts at an end."""

OF_HOST: Mapping[str, Callable[[Trial, str, CostBasis], Measured]] = {
    "cycles_per_kib": cost.cycles_per_kib,
    "bytes_per_cycle": cost.bytes_per_cycle,
    "cpu_ns_per_kib": cost.cpu_time,
    "cpu_ns_per_operation": partial(_cost, unit="operation"),
    "cpu_ns_per_packet": partial(_cost, unit="packet"),
    **{f"cpu_{kind}_ns_per_kib": partial(_cost, classes=(kind,)) for kind in BUSY_CLASSES},
    "cpu_busy_ratio": lambda trial, host, basis: cpu_classes.busy_ratio(trial, host, basis.accounting),
    **{f"cpu_{kind}_ratio": partial(_ratio, classes=(kind,)) for kind in (*BUSY_CLASSES, "idle")},
    "cpu_intr_ratio": partial(_ratio, classes=("irq", "softirq")),
    "cpu_steal_ratio": lambda trial, host, _: cpu_classes.steal_ratio(trial, host),
    "observer_cost_ratio": lambda trial, host, _: observer.cost_ratio(trial, host),
    "polls_per_s": lambda trial, host, _: datagrams.polls_per_s(trial, host),
    "context_switches_per_s": lambda trial, host, _: cost.context_switches(trial, host),
    "remote_pages_ratio": lambda trial, host, _: numa.remote_pages(trial, host),
    "remote_loads_ratio": lambda trial, host, _: numa.remote_loads(trial, host),
    "interrupts_per_s": lambda trial, host, _: interrupt_rates.all_together(trial, host),
}


_KINDS = {"": ("read", "write"), "read_": ("read",), "write_": ("write",)}


def _cpus_of_role(trial: Trial, host: str, _: CostBasis, *, role: str) -> Measured:
    return roles.cpus_busy(trial, host, role)


def _cache_of_role(trial: Trial, host: str, _: CostBasis, *, role: str) -> Measured:
    return memory.from_cache_of_role(trial, host, role)


def _bytes_of_server(trial: Trial, host: str, _: CostBasis, *, metric: str) -> Measured:
    return roles.bytes_per_s(trial, host, SERVER, metric)


def _device_time(
    measure_one: Callable[..., Measured], metric: str, operations: tuple[str, ...]
) -> Callable[[Trial, str, CostBasis], Measured]:
    return lambda trial, host, _: measure_one(trial, host, metric, operations)


_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}

OF_DISK_TRIAL: Mapping[str, Callable[[Trial], Measured]] = {
    # First, as some of these names are of something else here.
    **{name: OF_TRIAL[name] for name in OF_TRIAL if name in NAMES_OF_DISKS},
    "iops": classes.operations_per_s,
    "read_iops": partial(classes.operations_per_s, name="read"),
    "write_iops": partial(classes.operations_per_s, name="write"),
    "fsyncs_per_s": _syncs,
    "bytes_per_s": classes.bytes_per_s,
    "read_bytes_per_s": partial(classes.bytes_per_s, name="read"),
    "write_bytes_per_s": partial(classes.bytes_per_s, name="write"),
    "service_time_mean_ns": classes.service_time_mean,
    **{f"service_time_{n}_ns": partial(classes.service_time_quantile, q=q) for n, q in _QUANTILES.items()},
    **{
        f"{kind}_service_time_mean_ns": partial(classes.service_time_mean, name=kind)
        for kind in ("read", "write", "fsync")
    },
    **{
        f"{kind}_service_time_{n}_ns": partial(classes.service_time_quantile, q=q, name=kind)
        for kind in ("read", "write", "fsync")
        for n, q in _QUANTILES.items()
    },
    **{
        f"{kind}_response_time_{n}_ns": partial(classes.response_time_quantile, q=q, name=kind)
        for kind in ("read", "write")
        for n, q in _QUANTILES.items()
    },
    "errors_per_s": classes.errors_per_s,
    "fairness": fairness.fairness,
    "slowest_client_ratio": fairness.slowest_ratio,
    "read_from_cache_ratio": _from_cache,
    "server_cached_ratio": _from_server_cache,
}
"""Outcomes of a trial whose load needs no other end."""

_OF_CLIENT: Mapping[str, Callable[..., Measured]] = {
    name: measure_one
    for name, measure_one in OF_DISK_TRIAL.items()
    if OUTCOMES[name].per_host and name != "observer_cost_ratio"
}

OF_DISK_HOST: Mapping[str, Callable[[Trial, str, CostBasis], Measured]] = {
    **{name: _of_client(measure_one) for name, measure_one in _OF_CLIENT.items()},
    "cpu_us_per_io": _cpu_us_per_io,
    **{
        f"cpu_{kind}_ns_per_operation": partial(_cost, unit="operation", classes=(kind,))
        for kind in BUSY_CLASSES
    },
    "cpu_generator_us_per_io": roles.of_generator,
    **{f"cpu_{role}_us_per_io": partial(_of_role, role=role) for role in ROLES},
    "cpu_rest_us_per_io": roles.of_the_rest,
    "cpu_without_generator_us_per_io": roles.without_generator,
    **{name: OF_HOST[name] for name in OF_HOST if name in NAMES_OF_DISKS},
    **{f"{role}_cpus_busy": partial(_cpus_of_role, role=role) for role in ROLES},
    **{
        f"server_{name}_bytes_per_s": partial(_bytes_of_server, metric=f"role.{metric}_bytes")
        for name, metric in SERVER_BYTES
    },
    "server_network_bytes_per_s": lambda trial, host, _: roles.bytes_per_s(
        trial, host, SERVER, "role.sent_bytes", "role.received_bytes"
    ),
    "device_busy_ratio": lambda trial, host, _: devices.busy_ratio(trial, host),
    "device_depth": lambda trial, host, _: devices.depth(trial, host),
    "device_read_bytes_per_s": lambda trial, host, _: devices.per_second(trial, host, "disk.read_bytes"),
    "device_write_bytes_per_s": lambda trial, host, _: devices.per_second(trial, host, "disk.write_bytes"),
    "device_operations_per_s": lambda trial, host, _: block_times.per_second(trial, host, "block.operations"),
    "device_errors_per_s": lambda trial, host, _: block_times.per_second(trial, host, "block.errors"),
    "device_slow_operations_per_s": lambda trial, host, _: block_times.per_second(
        trial, host, "block.slow_operations"
    ),
    "device_merged_ratio": lambda trial, host, _: devices.merged_ratio(trial, host),
    **{
        f"device_{kind}service_time_mean_ns": _device_time(block_times.mean, block_times.SERVICE, operations)
        for kind, operations in _KINDS.items()
    },
    **{
        f"device_{kind}service_time_{n}_ns": _device_time(
            partial(block_times.quantile, q=q), block_times.SERVICE, operations
        )
        for kind, operations in _KINDS.items()
        for n, q in _QUANTILES.items()
    },
    "device_queue_time_mean_ns": _device_time(block_times.mean, block_times.QUEUE, _KINDS[""]),
    "device_queue_time_p99_ns": _device_time(
        partial(block_times.quantile, q=0.99), block_times.QUEUE, _KINDS[""]
    ),
    "cpu_block_softirq_us_per_io": lambda trial, host, _: roles.of_block_interrupts(trial, host),
    "cpu_irq_us_per_io": roles.of_hard_interrupts,
    "load_from_cache_ratio": lambda trial, host, _: memory.from_cache_of_load(trial, host),
    **{f"{role}_from_cache_ratio": partial(_cache_of_role, role=role) for role in ROLES},
    "dirtied_bytes_per_s": lambda trial, host, _: memory.per_second(trial, host, "writeback.dirtied_bytes"),
    "written_back_bytes_per_s": lambda trial, host, _: memory.per_second(
        trial, host, "writeback.written_bytes"
    ),
}
"""Outcomes of a host in such a trial: of a client, and of the machine that it is on."""


def measure(trial: Trial, basis: CostBasis) -> dict[str, Measured]:
    """Every outcome of a finished trial; those of a host are prefixed with its name, those of a bystander so."""
    return _measure(trial, basis) | metrics.outcomes(trial.metrics, trial.manifest.get("windows") or {})


def _measure(trial: Trial, basis: CostBasis) -> dict[str, Measured]:
    if trial.clients:
        return _measure_disks(trial, basis)
    others = not_of(trial.kind)
    found = {name: measure_one(trial) for name, measure_one in OF_TRIAL.items() if name not in others}
    found |= {name: measure_one(trial, basis) for name, measure_one in OF_ALL_HOSTS.items()}
    for host in trial.hosts:
        found |= {f"{host}.{name}": measure_one(trial, host, basis) for name, measure_one in OF_HOST.items()}
    if trial.groups:
        found |= {name: measure_one(trial) for name, measure_one in OF_SEVERAL_HOSTS.items()}
        for host in named_hosts(trial.hosts, trial.groups):
            members_have = [name for name in OF_MEMBER if name not in others]
            names = members_have if host in trial.hosts else (*members_have, *OF_HOST)
            found |= {f"{host}.{name}": _of_member(trial, host, name, basis) for name in names}
    for beside, its in trial.bystanders.items():
        found |= {
            f"{beside}.{name}": OF_TRIAL[name](its) for name in OF_BYSTANDER if name not in not_of(its.kind)
        }
    return found


def measure_named(trial: Trial, outcome: str, basis: CostBasis) -> Measured:
    """One outcome of a finished trial, by its name with its host."""
    if outcome in trial.metrics:
        return metrics.measured(trial.metrics[outcome], trial.manifest["windows"])
    host, _, name = outcome.rpartition(".")
    of_trial, of_host = (OF_DISK_TRIAL, OF_DISK_HOST) if trial.clients else (OF_TRIAL, OF_HOST)
    if trial.groups and name in (OF_MEMBER if host else OF_SEVERAL):
        return _of_member(trial, host, name, basis) if host else OF_SEVERAL_HOSTS[name](trial)
    if name not in (of_host if host else {*of_trial, *(() if trial.clients else OF_ALL_HOSTS)}):
        return missing(f"a load of this kind has no {outcome}")
    if not host:
        return OF_ALL_HOSTS[name](trial, basis) if name in OF_ALL_HOSTS else of_trial[name](trial)
    if host in trial.hosts:
        return of_host[name](trial, host, basis)
    if trial.groups:
        return _of_member(trial, host, name, basis)
    return _of_follower(trial, host, name, basis)


def named_hosts(hosts: Iterable[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Every name that an outcome of a load with several hosts at an end may have before it."""
    return list(dict.fromkeys((*hosts, *groups, *(name for group in groups.values() for name in group))))


def _of_member(trial: Trial, host: str, name: str, basis: CostBasis) -> Measured:
    """Of one of several hosts, or of all of them: what it counts itself, and what it costs where that can be told."""
    if name == "goodput_bits_per_s":
        return members.goodput(trial, host)
    if name in OF_MEMBER:
        return members.counted(trial, host, OF_TRIAL[name])
    return members.cost(trial, host, lambda one: OF_HOST[name](trial, one, basis), OUTCOMES[name].unit)


def _of_follower(trial: Trial, host: str, name: str, basis: CostBasis) -> Measured:
    """Of a client whose machine another one reads: what it counts itself."""
    if host not in trial.clients:
        return missing(f"{host} takes no part in this trial")
    if name in _OF_CLIENT:
        return OF_DISK_HOST[name](trial, host, basis)
    machine = trial.clients[host].machine
    reader = next((other for other, data in trial.hosts.items() if data.machine == machine), None)
    if reader is None:
        return missing(f"nobody read the machine of {host}")
    return missing(
        f"{host} is on one machine with {reader}: {reader}.{name} is that of the machine, for all clients on it"
    )


def _measure_disks(trial: Trial, basis: CostBasis) -> dict[str, Measured]:
    found = {name: measure_one(trial) for name, measure_one in OF_DISK_TRIAL.items()}
    for host in dict.fromkeys((*trial.hosts, *trial.clients)):
        for name, measure_one in OF_DISK_HOST.items():
            follows = host not in trial.hosts
            found[f"{host}.{name}"] = (
                _of_follower(trial, host, name, basis) if follows else measure_one(trial, host, basis)
            )
    return found
