"""What a transmitted KiB costs a host in CPU.

Busy time is span less idle time (`cpu.idle_ns` and `cpu.iowait_ns`), over the CPUs of the host in the
measured window. Idle time is exact where the split into user, system and interrupts is sampled, so that the
cost is sound even where the split is not. The busy time of the idle machine, measured before and after the
campaign, is subtracted and stays visible as `Background`.

cycles/KByte = busy seconds x Hz / KiB, as the tables of 2008 were made: (1 - idle) x Hz x CPUs / (KiB/s). The
tier says what counted the cycles:
`pmu`  hardware cycles (`cycles.count`);
`tsc`  busy time x the frequency of the time-stamp counter, measured by the agent when it started.
A campaign uses one tier for all its numbers, the best that every host had in every trial.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from iodyno.analysis.dataset import HostData, Reading, Trial
from iodyno.analysis.measured import Measured, missing, total_ratio

Tier = Literal["pmu", "tsc"]
CPU_TIMES = "cpu_times"
CYCLES = "cycles"
STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
SPLIT: Mapping[str, tuple[str, ...]] = {
    "usr": ("user", "nice"),
    "sys": ("system",),
    "intr": ("irq", "softirq"),
    "idle": ("idle", "iowait"),
}
_IDLE = SPLIT["idle"]
_TICK_NS = 10_000_000
"""What /proc/stat counts in: USER_HZ is 100 on every architecture that Linux runs on today."""


@dataclass(frozen=True)
class Background:
    """What a host does when no load runs.

    `ratio` is the busy share of its CPUs, the mean of the idle measurements; `error` how far it may be off because
    the kernel reports idle time in ticks of 10 ms (twice the standard deviation of the difference of two such).
    """

    host: str
    ratio: float | None
    before: float | None
    after: float | None
    cycles_per_s: float | None = None
    error: float = 0.0
    missing: str | None = None


@dataclass(frozen=True)
class CostBasis:
    """What cost is reckoned against: the background of each host, and what counts as a cycle."""

    background: Mapping[str, Background] = field(default_factory=dict)
    tier: Tier = "tsc"
    tsc_hz: Mapping[str, int] = field(default_factory=dict)

    def assumption(self, host: str) -> str:
        """What the subtraction assumes."""
        known = self.background.get(host)
        if known is None or known.ratio is None:
            return "the machine does nothing else: its background was not measured"
        return (
            f"the background under load is that of the idle machine, known to {100 * known.error:.1f} points"
        )

    def background_of(self, host: str) -> float:
        """Busy share to subtract; 0 when the background was not measured (which is then said)."""
        known = self.background.get(host)
        return known.ratio if known and known.ratio is not None else 0.0


def demand_ns(busy_ratio: float, cpus: int, kib_per_s: float) -> float:
    """CPU nanoseconds per KiB of a host whose `cpus` are busy to that share at that rate.

    The service demand of operational analysis, D = U / X (Denning and Buzen 1978), over all CPUs.
    """
    return busy_ratio * cpus * 1e9 / kib_per_s


def cycles(time_ns: float, hz: float) -> float:
    """Cycles that a clock of `hz` makes in a time."""
    return time_ns * hz / 1e9


def normalised_ratio(share: float, rate: float, other_share: float, other_rate: float) -> float:
    """How much more CPU one load takes than another for the same bytes: shares of CPU over rates in any one unit."""
    return (share / rate) / (other_share / other_rate)


def busy_parts(host: HostData) -> list[tuple[float, float]]:
    """Per measured record with complete readings: (busy, in all) CPU nanoseconds of the host's CPUs."""
    parts = []
    for reading in host.measured_readings(CPU_TIMES):
        idle = sum_over_cpus(reading, host, _IDLE)
        if idle is not None and reading.span_ns > 0:
            whole = reading.span_ns * len(host.cpus)
            parts.append((whole - idle, float(whole)))
    return parts


def busy_ratio(trial: Trial, name: str) -> Measured:
    """Busy share of the host's CPUs, background included."""
    host = trial.hosts[name]
    return total_ratio(busy_parts(host), nothing=_why_not(host))


def split_ratio(trial: Trial, name: str, column: str) -> Measured:
    """Share of the host's CPUs in one column of the table: `usr`, `sys`, `intr` or `idle`."""
    host = trial.hosts[name]
    parts = []
    for reading in host.measured_readings(CPU_TIMES):
        spent = sum_over_cpus(reading, host, SPLIT[column])
        if spent is not None and reading.span_ns > 0:
            parts.append((spent, float(reading.span_ns * len(host.cpus))))
    return total_ratio(parts, nothing=_why_not(host))


def context_switches(trial: Trial, name: str) -> Measured:
    """Context switches per second of the machine that the host is on."""
    host = trial.hosts[name]
    key = ("sched.context_switches", "")
    readings = [r for r in host.measured_readings("context_switches") if key in r.values]
    return total_ratio(
        [(r.values[key], r.span_ns) for r in readings],
        scale=1e9,
        nothing=host.why_missing("context_switches"),
    )


def cpu_per_kib(trial: Trial, name: str, basis: CostBasis) -> Measured:
    """CPU nanoseconds of the host, less its background, per KiB delivered to the receiver."""
    host, receiver = trial.hosts[name], trial.end("receive")
    parts = busy_parts(host)
    if not parts:
        return missing(_why_not(host))
    if receiver is None or not receiver.measured_bytes:
        return missing("nothing was delivered in the measured window")
    background = basis.background_of(name)
    # Cores kept busy by the load, over KiB per nanosecond: the two windows need not be equally long.
    cores = [(busy / whole - background) * len(host.cpus) for busy, whole in parts]
    rates = [record.bytes / 1024 / record.span_ns for record in receiver.measured]
    busy, whole = (sum(part) for part in zip(*parts, strict=True))
    kib_per_s = receiver.measured_bytes / 1024 / receiver.measured_ns * 1e9
    return Measured(
        value=demand_ns(busy / whole - background, len(host.cpus), kib_per_s),
        intervals=tuple(core / rate for core, rate in zip(cores, rates, strict=False) if rate),
        note=f"background of {background:.2%} of {_cpus(host)} subtracted",
        assumptions=(basis.assumption(name),),
    )


def cycles_per_kbyte(trial: Trial, name: str, basis: CostBasis) -> Measured:
    """CPU cycles of the host, less its background, per KiB delivered to the receiver."""
    if basis.tier == "pmu":
        return _pmu_cycles(trial, name, basis)
    hz = basis.tsc_hz.get(name)
    if not hz:
        return missing(
            f"{name} has neither a hardware counter of cycles nor a constant time-stamp counter; "
            "CPU time per KiB is there"
        )
    cpu = cpu_per_kib(trial, name, basis)
    return Measured(
        value=None if cpu.value is None else cycles(cpu.value, hz),
        intervals=tuple(cycles(value, hz) for value in cpu.intervals),
        missing=cpu.missing,
        note=f"tier tsc: reference cycles = busy time x {hz / 1e9:.3f} GHz; {cpu.note}",
        assumptions=(*cpu.assumptions, "reference cycles: turbo, power states and SMT sharing are not seen"),
    )


def _pmu_cycles(trial: Trial, name: str, basis: CostBasis) -> Measured:
    host, receiver = trial.hosts[name], trial.end("receive")
    parts = _cycle_parts(host)
    if not parts:
        return missing(host.why_missing(CYCLES))
    if receiver is None or not receiver.measured_bytes:
        return missing("nothing was delivered in the measured window")
    known = basis.background.get(name)
    background = (known.cycles_per_s if known else None) or 0.0
    rates = [record.bytes / 1024 / record.span_ns * 1e9 for record in receiver.measured]
    counted = [count / span * 1e9 - background for count, span in parts]
    total = sum(count for count, _ in parts) / sum(span for _, span in parts) * 1e9 - background
    return Measured(
        value=total / (receiver.measured_bytes / 1024 / receiver.measured_ns * 1e9),
        intervals=tuple(count / rate for count, rate in zip(counted, rates, strict=False) if rate),
        note=f"tier pmu: hardware cycles; background of {background / 1e6:.3g} M cycles/s subtracted",
        assumptions=(basis.assumption(name),),
    )


def background(name: str, idle: Mapping[str, Trial]) -> Background:
    """The background of a host from the idle measurements `before` and `after`, whichever there are."""
    ratios: dict[str, float] = {}
    cycles: list[tuple[float, float]] = []
    whole = 0.0
    readings = 0
    for moment, trial in idle.items():
        host = trial.hosts.get(name)
        parts = busy_parts(host) if host else []
        if host and parts:
            ratios[moment] = sum(busy for busy, _ in parts) / sum(whole for _, whole in parts)
            cycles += _cycle_parts(host)
            whole += sum(part for _, part in parts)
            readings += len(host.cpus)
    span = sum(part for _, part in cycles)
    return Background(
        host=name,
        ratio=sum(ratios.values()) / len(ratios) if ratios else None,
        before=ratios.get("before"),
        after=ratios.get("after"),
        cycles_per_s=sum(count for count, _ in cycles) / span * 1e9 if span else None,
        # The difference of two readings of a clock in ticks has a standard deviation of tick / sqrt(6).
        error=2 * _TICK_NS / math.sqrt(6) * math.sqrt(readings) / whole if whole else 0.0,
        missing=None if ratios else "the idle machine was not measured; nothing is subtracted",
    )


def choose_tier(trials: Iterable[Trial], idle: Iterable[Trial]) -> Tier:
    """`pmu` when every host counted cycles in every trial and in every idle measurement, else `tsc`."""
    hosts = [host for trial in (*trials, *idle) for host in trial.hosts.values()]
    complete = hosts and all(len(_cycle_parts(host)) == len(host.measured) for host in hosts)
    return "pmu" if complete else "tsc"


def _cycle_parts(host: HostData) -> list[tuple[float, float]]:
    """Per measured record: (cycles of all CPUs of the host, nanoseconds)."""
    parts = []
    for reading in host.measured_readings(CYCLES):
        counts = [reading.values.get(("cycles.count", f"cpu={cpu}")) for cpu in host.cpus]
        known = [count for count in counts if count is not None]
        if known and len(known) == len(counts) and reading.span_ns > 0:
            parts.append((float(sum(known)), float(reading.span_ns)))
    return parts


def sum_over_cpus(reading: Reading, host: HostData, states: Iterable[str]) -> float | None:
    """Nanoseconds in `states` over the CPUs of `host`; None unless every CPU reported every state."""
    keys = [(f"cpu.{state}_ns", f"cpu={cpu}") for state in states for cpu in host.cpus]
    found = [reading.values[key] for key in keys if key in reading.values]
    return float(sum(found)) if keys and len(found) == len(keys) else None


def _why_not(host: HostData) -> str:
    return host.why_missing(CPU_TIMES) if host.cpus else f"the CPUs of {host.name} are not known"


def _cpus(host: HostData) -> str:
    return "1 CPU" if len(host.cpus) == 1 else f"{len(host.cpus)} CPUs"
