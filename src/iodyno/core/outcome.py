"""Outcomes: what is measured of a trial, and the estimate of it over the replicates of a point."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from iodyno.core.outcome_kind import OutcomeKind as OutcomeKind
from iodyno.core.warnings import Warning
from iodyno.core.workload import EXCHANGES
from iodyno.loads.disk.core.outcomes import OF_DISKS

OUTCOMES: Mapping[str, OutcomeKind] = {
    kind.name: kind
    for kind in (
        OutcomeKind(
            "goodput_bits_per_s",
            "bit/s",
            "Payload delivered to the receiving application; of requests, at both ends.",
            better="higher",
        ),
        OutcomeKind(
            "writes_per_s",
            "1/s",
            "Messages whose last byte the sender's kernel accepted; requests whose whole answer came.",
            better="higher",
        ),
        OutcomeKind(
            "messages_per_s",
            "1/s",
            "Messages (or requests) that the receiving application got: its bytes over the message size.",
            better="higher",
        ),
        OutcomeKind(
            "write_service_time_mean_ns",
            "ns",
            "Mean time from the first attempt to write a message to the acceptance of its last byte.",
            better="lower",
        ),
        OutcomeKind("write_service_time_p50_ns", "ns", "Median of the same.", better="lower"),
        OutcomeKind("write_service_time_p99_ns", "ns", "99th percentile of the same.", better="lower"),
        OutcomeKind("write_service_time_p999_ns", "ns", "99.9th percentile of the same.", better="lower"),
        OutcomeKind(
            "latency_mean_ns",
            "ns",
            "Mean time from the first byte of a request to the last byte of its response.",
            better="lower",
        ),
        OutcomeKind("latency_p50_ns", "ns", "Median of the same.", better="lower"),
        OutcomeKind("latency_p99_ns", "ns", "99th percentile of the same.", better="lower"),
        OutcomeKind("latency_p999_ns", "ns", "99.9th percentile of the same.", better="lower"),
        OutcomeKind(
            "operations_per_s",
            "1/s",
            "Operations that the sender completed: writes, or requests whose whole answer came.",
            better="higher",
        ),
        OutcomeKind(
            "offered_operations_per_s",
            "1/s",
            "Operations that were due (open loops, as what follows to `lateness_p50_ns`).",
        ),
        OutcomeKind(
            "achieved_operations_per_s", "1/s", "Operations completed, of those due.", better="higher"
        ),
        OutcomeKind(
            "missed_arrivals_ratio",
            "1",
            "Share of the arrivals not begun when the load stopped.",
            better="lower",
        ),
        *(
            OutcomeKind(f"response_time_{name}_ns", "ns", help, better="lower")
            for name, help in (
                ("mean", "Mean time from when an operation was due to its end."),
                ("p50", "Median of the same."),
                ("p90", "90th percentile of the same."),
                ("p99", "99th percentile of the same."),
                ("p999", "99.9th percentile of the same."),
            )
        ),
        *(
            OutcomeKind(f"latency_from_schedule_{name}_ns", "ns", help, better="lower")
            for name, help in (
                (
                    "mean",
                    "Mean time from when a request was due to the last byte of its response.",
                ),
                ("p50", "Median of the same."),
                ("p90", "90th percentile of the same."),
                ("p99", "99th percentile of the same."),
                ("p999", "99.9th percentile of the same."),
            )
        ),
        OutcomeKind(
            "lateness_p50_ns",
            "ns",
            "Median time from when an operation was due, and a connection free, to its begin.",
            better="lower",
        ),
        OutcomeKind(
            "messages_per_call_mean",
            "1",
            "Messages of one call of the sender of a stream, on average.",
        ),
        OutcomeKind(
            "cpu_ns_per_kib",
            "ns/KiB",
            "CPU time, less the background, per KiB delivered (of requests, at both ends).",
            per_host=True,
            better="lower",
        ),
        OutcomeKind(
            "cpu_ns_per_operation",
            "ns/operation",
            "CPU time, less the background, per message that the sender's kernel accepted.",
            per_host=True,
            better="lower",
        ),
        *(
            OutcomeKind(
                f"total_cpu_ns_per_{per}",
                f"ns/{unit}",
                f"cpu_ns_per_{per} of both ends together.",
                better="lower",
            )
            for per, unit in (("kib", "KiB"), ("operation", "operation"))
        ),
        OutcomeKind(
            "cpu_ns_per_packet",
            "ns/packet",
            "CPU time, less the background, per packet of the data device, both ways.",
            per_host=True,
            better="lower",
        ),
        *(
            OutcomeKind(
                f"cpu_{name}_ns_per_kib",
                "ns/KiB",
                f"Part of cpu_ns_per_kib in {where}"
                f"{'; below 0 where they had less under load' if name == 'other' else ''}.",
                per_host=True,
                better="lower",
            )
            for name, where in (
                ("usr", "user code of the load"),
                ("sys", "system code of the load"),
                ("irq", "hard interrupts"),
                ("softirq", "soft interrupts"),
                ("other", "other tasks"),
            )
        ),
        OutcomeKind(
            "cycles_per_kib",
            "cycles/KiB",
            "CPU cycles, less the background, per KiB delivered.",
            per_host=True,
            better="lower",
        ),
        OutcomeKind(
            "bytes_per_cycle",
            "B/cycle",
            "Bytes delivered per CPU cycle.",
            per_host=True,
            better="higher",
        ),
        OutcomeKind(
            "cpu_busy_ratio", "1", "Busy share of the host's CPUs in the measured window.", per_host=True
        ),
        *(
            OutcomeKind(f"cpu_{name}_ratio", "1", help, per_host=True)
            for name, help in (
                ("usr", "Share of the host's CPUs in user code of the load."),
                ("sys", "Share of the host's CPUs in system code of the load."),
                ("irq", "Share of the host's CPUs in hard interrupts."),
                ("softirq", "Share of the host's CPUs in soft interrupts."),
                ("intr", "Share of the host's CPUs in hard and soft interrupts."),
                ("other", "Share of the host's CPUs in tasks that are not the load's."),
                ("idle", "Idle share of the host's CPUs."),
            )
        ),
        OutcomeKind(
            "cpu_steal_ratio",
            "1",
            "Share of the host's CPUs that the hypervisor took; it is in the other shares.",
            per_host=True,
        ),
        OutcomeKind(
            "observer_cost_ratio",
            "1",
            "Share of one CPU that the instrument took; without a host: where most.",
            per_host=True,
            of_trial=True,
            better="lower",
        ),
        OutcomeKind("context_switches_per_s", "1/s", "Context switches of the machine.", per_host=True),
        OutcomeKind(
            "remote_pages_ratio",
            "1",
            "Share of pages that CPUs were given from another NUMA node's memory.",
            per_host=True,
        ),
        OutcomeKind(
            "remote_loads_ratio",
            "1",
            "Share of loads from memory that another NUMA node's answered, where the CPU counts them.",
            per_host=True,
        ),
        OutcomeKind(
            "interrupts_per_s", "1/s", "Interrupts of the machine, of devices and CPUs.", per_host=True
        ),
        OutcomeKind(
            "retransmits_per_segment", "1", "Retransmitted share of the data segments sent.", better="lower"
        ),
        OutcomeKind(
            "device_segment_bytes",
            "B",
            "Bytes per segment that the sender handed to its network device.",
            better="higher",
        ),
        OutcomeKind(
            "segments_per_ack",
            "1",
            "Data segments per acknowledgement, where no payload comes back.",
            better="higher",
        ),
        OutcomeKind(
            "rwnd_limited_ratio", "1", "Share of the flows' busy time limited by the receive window."
        ),
        OutcomeKind("sndbuf_limited_ratio", "1", "Share of the flows' busy time limited by the send buffer."),
        OutcomeKind(
            "round_trip_mean_ns",
            "ns",
            "Requests in flight over requests answered per second, in a closed loop (Little's law).",
            better="lower",
        ),
        OutcomeKind(
            "block_law_ratio",
            "1",
            "Rate over N / T where a TPACKET_V3 block never gets full: 1 by law.",
        ),
        OutcomeKind(
            "datagrams_per_s",
            "1/s",
            "Datagrams that the receiver got, each once.",
            better="higher",
        ),
        OutcomeKind(
            "loss_ratio",
            "1",
            "Lost share of the datagrams: requests without an answer in time, gaps in a stream.",
            better="lower",
        ),
        OutcomeKind(
            "connection_fairness",
            "1",
            "Jain's index of what the connections carried: 1 when all the same, 1/n when one all.",
            better="higher",
        ),
        OutcomeKind(
            "server_polls_per_s",
            "1/s",
            "Times that the server of datagrams found nothing and waited.",
        ),
        OutcomeKind("server_wakeups_per_s", "1/s", "Times that something came while it waited."),
        OutcomeKind("server_batch_mean", "1", "Messages of one call, or of one look at a ring, on average."),
        OutcomeKind("polls_per_s", "1/s", "server_polls_per_s, by the host's name.", per_host=True),
        OutcomeKind(
            "longest_gap_ns",
            "ns",
            "Longest time without a byte or operation completed, to within a fiftieth of the window and 20 ms; of several"
            " clients the longest.",
            better="lower",
        ),
        OutcomeKind(
            "start_skew_ns",
            "ns",
            "First operation of the last host less that of the first; of disks in an open loop, of when they began to wait.",
            better="lower",
        ),
        OutcomeKind(
            "fastest_client_ratio",
            "1",
            "Rate of the fastest host of an end over the mean of all.",
        ),
        *OF_DISKS,
    )
}
"""Every outcome, by name without host."""

TIMES_OF_REQUESTS: Mapping[str, str] = {
    **{f"write_service_time_{name}_ns": f"latency_{name}_ns" for name in ("mean", "p50", "p99", "p999")},
    **{
        f"response_time_{name}_ns": f"latency_from_schedule_{name}_ns"
        for name in ("mean", "p50", "p90", "p99", "p999")
    },
}
"""Outcomes that are times of an operation, and their names where it is a request with its response."""


def not_of(kind: str) -> Collection[str]:
    """Return the outcomes of networks that a workload of this kind does not have, as it has them by another name.

    >>> "latency_p99_ns" in not_of("stream"), "response_time_p99_ns" in not_of("request_response")
    (True, True)
    """
    return TIMES_OF_REQUESTS.keys() if kind in EXCHANGES else TIMES_OF_REQUESTS.values()


BYSTANDER = "bystander"
"""Prefix of the name of an outcome, and of a point, of the workload beside; of several, with its number."""
BYSTANDER_NAME = re.compile(rf"{BYSTANDER}(?:-[0-9]+)?")
"""Names of bystanders, which no host may have."""


def bystander_names(count: int) -> tuple[str, ...]:
    """Names of so many bystanders.

    >>> bystander_names(1), bystander_names(2)
    (('bystander',), ('bystander-1', 'bystander-2'))
    """
    return (BYSTANDER,) if count == 1 else tuple(f"{BYSTANDER}-{number + 1}" for number in range(count))


def split_beside(name: str) -> tuple[str, str]:
    """The bystander that the name of an outcome or of a host begins with, and the rest; the first is empty where there is none.

    >>> split_beside("bystander-2.loss_ratio"), split_beside("client.cycles_per_kib")
    (('bystander-2', 'loss_ratio'), ('', 'client.cycles_per_kib'))
    """
    first, dot, rest = name.partition(".")
    return (first, rest) if dot and BYSTANDER_NAME.fullmatch(first) else ("", name)


def bystanders_of(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """The bystanders of an experiment or a trial as they are stored, by name; earlier versions had one at most."""
    one = stored.get(BYSTANDER)
    return stored.get("bystanders") or ({BYSTANDER: one} if one else {})


OF_BYSTANDER = (
    *("goodput_bits_per_s", "messages_per_s", "operations_per_s", "achieved_operations_per_s", "loss_ratio"),
    "connection_fairness",
    *TIMES_OF_REQUESTS,
    *TIMES_OF_REQUESTS.values(),
)
"""The outcomes that a bystander has: what its two ends count. What is read of a host is of both workloads."""


OF_SEVERAL = ("fairness", "slowest_client_ratio", "fastest_client_ratio")
"""The outcomes of a load on connections that has several hosts at an end, beside those of others."""

OF_MEMBER = (
    *("goodput_bits_per_s", "operations_per_s"),
    *(f"write_service_time_{name}_ns" for name in ("mean", "p50", "p99")),
    *(f"response_time_{name}_ns" for name in ("mean", "p50", "p99")),
    *(f"latency_{name}_ns" for name in ("mean", "p50", "p99")),
    *(f"latency_from_schedule_{name}_ns" for name in ("mean", "p50", "p99")),
)
"""The outcomes of each of several hosts of an end, and of all of them: what it counts itself."""


@dataclass(frozen=True)
class Spread:
    """Spread of the trials of a campaign about their points: `sd` of an outcome's logarithm, pooled over the `points`, with
    the degrees of `freedom` of all of them.
    """

    sd: float
    freedom: int
    points: int


@dataclass(frozen=True)
class Median:
    """Median of the trials between two of them in order, whatever their law: that holds the true one with the chance `level`."""

    estimate: float
    low: float
    high: float
    level: float


@dataclass(frozen=True)
class Estimate:
    """A number with its uncertainty. `estimate` is None when it cannot be had; `missing` says why.

    `low` and `high` bound the 95 % interval made by `method` from `n` trials; None when there is no interval.
    `counting`: the standard uncertainty that all trials have in common because whole operations were counted, `shared`: that
    for another reason. `spread`: that of all trials of the campaign, where one is known. `median`: of five trials or more.
    """

    estimate: float | None
    low: float | None
    high: float | None
    n: int
    unit: str
    method: str
    assumptions: tuple[str, ...] = ()
    warnings: tuple[Warning, ...] = ()
    missing: str | None = None
    counting: float = 0.0
    shared: float = 0.0
    spread: Spread | None = None
    median: Median | None = None

    @property
    def reach(self) -> float | None:
        """The longer side of the interval, in the unit: its half-width before an end was cut off; None without one."""
        if self.estimate is None or self.low is None or self.high is None:
            return None
        return max(self.estimate - self.low, self.high - self.estimate)
