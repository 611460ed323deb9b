"""Outcomes: what is measured of a trial, and the estimate of it over the replicates of a point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from iodyno.core.warnings import Doubt


@dataclass(frozen=True)
class OutcomeKind:
    """One outcome. Its name carries its unit; `per_host` outcomes are prefixed `client.`, `server.`, ..."""

    name: str
    unit: str
    help: str
    per_host: bool = False
    better: Literal["higher", "lower", "none"] = "none"


OUTCOMES: Mapping[str, OutcomeKind] = {
    kind.name: kind
    for kind in (
        OutcomeKind(
            "goodput_bits_per_s",
            "bit/s",
            "Payload bits delivered to the receiving application per second of the measured window.",
            better="higher",
        ),
        OutcomeKind(
            "writes_per_s",
            "1/s",
            "Messages whose last byte the sender's kernel accepted (requests whose whole answer came), per second.",
            better="higher",
        ),
        OutcomeKind(
            "write_service_time_mean_ns",
            "ns",
            "Mean time from the first attempt to write a message to the acceptance of its last byte"
            " (request_response: to the last byte of the answer).",
            better="lower",
        ),
        OutcomeKind("write_service_time_p50_ns", "ns", "Median of the same.", better="lower"),
        OutcomeKind("write_service_time_p99_ns", "ns", "99th percentile of the same.", better="lower"),
        OutcomeKind("write_service_time_p999_ns", "ns", "99.9th percentile of the same.", better="lower"),
        OutcomeKind(
            "cpu_ns_per_kib",
            "ns/KiB",
            "CPU time of the host, less its background, per KiB delivered.",
            per_host=True,
            better="lower",
        ),
        OutcomeKind(
            "cycles_per_kbyte",
            "cycles/KiB",
            "CPU cycles of the host, less its background, per 1024 bytes delivered; the tier is in the method.",
            per_host=True,
            better="lower",
        ),
        OutcomeKind(
            "cpu_busy_ratio", "1", "Busy share of the host's CPUs in the measured window.", per_host=True
        ),
        OutcomeKind("cpu_usr_ratio", "1", "Share of the host's CPUs in user code.", per_host=True),
        OutcomeKind("cpu_sys_ratio", "1", "Share of the host's CPUs in system code.", per_host=True),
        OutcomeKind(
            "cpu_intr_ratio", "1", "Share of the host's CPUs in hard and soft interrupts.", per_host=True
        ),
        OutcomeKind("cpu_idle_ratio", "1", "Idle share of the host's CPUs.", per_host=True),
        OutcomeKind("context_switches_per_s", "1/s", "Context switches of the machine.", per_host=True),
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
            "segments_per_ack", "1", "Data segments sent per acknowledgement received.", better="higher"
        ),
        OutcomeKind(
            "rwnd_limited_ratio", "1", "Share of the flows' busy time limited by the receive window."
        ),
        OutcomeKind("sndbuf_limited_ratio", "1", "Share of the flows' busy time limited by the send buffer."),
        OutcomeKind(
            "start_skew_ns", "ns", "First operation of the last host minus that of the first.", better="lower"
        ),
    )
}
"""Every outcome, by name without host."""


@dataclass(frozen=True)
class Estimate:
    """A number with its uncertainty. `estimate` is None when it cannot be had; `missing` says why.

    `low` and `high` bound the 95 % interval made by `method` from `n` trials; None when there is no interval.
    """

    estimate: float | None
    low: float | None
    high: float | None
    n: int
    unit: str
    method: str
    assumptions: tuple[str, ...] = ()
    warnings: tuple[Doubt, ...] = ()
    missing: str | None = None
