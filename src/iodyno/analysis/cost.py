"""CPU cost of a transmitted KiB, an operation and a packet on a host, in all and by class.

Busy time is wall time less idle time, over the CPUs of the host in the measured window. The classes and their tier
are those of `cpu_classes`; idle time is exact in every tier, so that the cost in all is sound even where the split
is not. The busy time of the idle machine, measured before and after the campaign, is subtracted, of each class its
own, and stays visible as `Background`. Other tasks are part of the cost, as kernel threads work for the load; but
where neighbours gave way to the load, their time when the machine was idle says nothing of the load, and exact classes
let the cost do without it: `CostBasis.without_others`. How far the background may have been off is part of every interval.
A cost that is less than its own parts, or of which nobody can say what it took from whom, is missing with the reason.

cycles/KByte = busy seconds x Hz / KiB, as the tables of 2008 were made: (1 - idle) x Hz x CPUs / (KiB/s). The
tier says what counted the cycles:
`pmu`  hardware cycles (`cycles.count`);
`tsc`  busy time x the frequency of the time-stamp counter, measured by the agent when it started.
A campaign uses one tier for all its numbers, the best that every host had in every trial.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from iodyno.analysis import cpu_classes, flows
from iodyno.analysis.cpu_classes import BUSY_CLASSES, TIER_NOTES, Accounting, Spent
from iodyno.analysis.goodput import bytes_at_once
from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.trial import Trial, clients_together
from iodyno.core.path import CARRIED_BY_OTHERS
from iodyno.loads.script.analysis.bytes import operations_of

Tier = Literal["pmu", "tsc"]
Unit = Literal["KiB", "operation", "packet"]
CYCLES = "cycles"
OTHERS_POINTS = 0.02
"""Points by which other tasks may have less CPU time under load than without, and idle time below which CPUs count as full
(chosen: as much as the background may move before it is a warning)."""
TOLERANCE = 0.1
"""Share of a cost by which its parts may be off (chosen: what a background that wanders makes of a small load)."""
_KIB_BYTES = 1024
_TICK_NS = 10_000_000
"""Unit in which /proc/stat counts: USER_HZ is 100 on every architecture that Linux runs on today."""


@dataclass(frozen=True)
class Share:
    """A share of a host's CPUs, and its standard uncertainty."""

    value: float
    uncertainty: float


@dataclass(frozen=True)
class Background:
    """Activity of a host when no load runs.

    `ratio` is the busy share of its CPUs, the mean of the idle measurements; `error` how far it may be off because
    /proc/stat tells idle time in ticks of 10 ms (twice the standard deviation of the difference of two such; 0
    where the kernel's switches were timed). `classes` is the share of each class, `without_others` that of all but
    other tasks, where they are told apart.
    """

    host: str
    ratio: float | None
    before: float | None
    after: float | None
    cycles_per_s: float | None = None
    error: float = 0.0
    missing: str | None = None
    classes: Mapping[str, Share] = field(default_factory=dict)
    without_others: Share | None = None

    @property
    def busy(self) -> Share:
        """Share that is subtracted from the busy share; 0 when it was not measured (which is then said)."""
        each = [ratio for ratio in (self.before, self.after) if ratio is not None]
        return Share(self.ratio or 0.0, _uncertainty(each, self.error / 2))


@dataclass(frozen=True)
class CostBasis:
    """Basis that cost is reckoned against: the background of each host, what counts as a cycle, how time was told apart.

    `without_others`: why the cost leaves other tasks out, in all numbers of the campaign; empty when it does not.
    """

    background: Mapping[str, Background] = field(default_factory=dict)
    tier: Tier = "tsc"
    tsc_hz: Mapping[str, int] = field(default_factory=dict)
    accounting: Accounting = field(default_factory=Accounting)
    without_others: str = ""

    def assumption(self, host: str) -> str:
        """State what the subtraction assumes."""
        known = self.background.get(host)
        if known is None or known.ratio is None:
            return "the machine does nothing else: its background was not measured"
        return f"the background under load is that of the idle machine, ±{200 * known.busy.uncertainty:.2g} points"

    def background_of(self, host: str, classes: Sequence[str] = ()) -> Share:
        """Share to subtract: of what counts as busy, or of these classes."""
        known = self.background.get(host)
        if known is None:
            return Share(0.0, 0.0)
        if not classes:
            return known.without_others or Share(0.0, 0.0) if self.without_others else known.busy
        each = [known.classes.get(name, Share(0.0, 0.0)) for name in classes]
        return Share(sum(one.value for one in each), math.hypot(*(one.uncertainty for one in each)))


@dataclass(frozen=True)
class _Rate:
    """Units per ns: over the measured window, and in each of its records. `resolution`: share of it that is counted at once."""

    per_ns: float
    by_record: Mapping[int, float]
    note: str = ""
    resolution: float = 0.0


def demand_ns(busy_ratio: float, cpus: int, kib_per_s: float) -> float:
    """CPU nanoseconds per KiB of a host whose `cpus` are busy to that share at that rate.

    The service demand of operational analysis, D = U / X (Denning and Buzen 1978), over all CPUs.
    """
    return busy_ratio * cpus * 1e9 / kib_per_s


def cycles(time_ns: float, hz: float) -> float:
    """Cycles that a clock of `hz` makes in a time."""
    return time_ns * hz / 1e9


def normalised_ratio(share: float, rate: float, other_share: float, other_rate: float) -> float:
    """Return the ratio of the CPU that two loads take for the same bytes: shares of CPU over rates in any one unit."""
    return (share / rate) / (other_share / other_rate)


def context_switches(trial: Trial, name: str) -> Measured:
    """Context switches per second of the machine that the host is on."""
    host = trial.hosts[name]
    key = ("sched.context_switches", "")
    readings = [r for r in host.measured_readings("context_switches") if key in r.values]
    return total_ratio(
        [(r.values[key], r.span_ns) for r in readings],
        scale=1e9,
        nothing=host.why_missing("context_switches"),
        at_once=1,
    )


def cpu_time(trial: Trial, name: str, basis: CostBasis, unit: Unit = "KiB", *classes: str) -> Measured:
    """CPU nanoseconds of the host, less its background, per unit; of `classes`, or in all.

    A KiB is one delivered to the receiver, an operation one message that the sender's kernel accepted, a packet one
    that the host's own data device sent or received (with segmentation offload it may hold 64 KiB). Cycles and their inverse are
    made of the same: it is worked out once.
    """
    host = trial.hosts[name]
    key = ("cpu time", unit, *classes)
    kept: tuple[Trial, CostBasis, Measured] | None = host.derived.get(key)
    if kept is None or kept[0] is not trial or kept[1] is not basis:
        kept = host.derived[key] = trial, basis, _cpu_time(trial, name, basis, unit, classes)
    return kept[2]


def together(trial: Trial, costs: Mapping[str, Measured]) -> Measured:
    """Sum of the costs of hosts per the same unit, each on CPUs of its own."""
    lacking = next((found.missing for found in costs.values() if found.value is None), None)
    places = [(host.machine, cpu) for host in trial.hosts.values() for cpu in host.cpus]
    if lacking is None and len(set(places)) < len(places):
        lacking = "hosts use the same CPUs: the cost of each is that of all"
    if lacking:
        return missing(lacking)
    each = list(costs.values())
    alike = len({len(found.intervals) for found in each}) == 1
    return Measured(
        sum(found.value or 0.0 for found in each),
        tuple(map(sum, zip(*(found.intervals for found in each), strict=True))) if alike else (),
        note=f"total CPU time: sum of {' and '.join(costs)}",
        assumptions=tuple(dict.fromkeys(text for found in each for text in found.assumptions)),
        sampling_error=math.hypot(*(found.sampling_error for found in each)),
        # Hosts of one machine have one idle machine: its errors may have one direction.
        shared_error=sum(found.shared_error for found in each),
        resolution=sum(found.resolution for found in each),
    )


def _cpu_time(trial: Trial, name: str, basis: CostBasis, unit: Unit, classes: tuple[str, ...]) -> Measured:
    host, accounting = trial.hosts[name], basis.accounting
    found = cpu_classes.spent(host, accounting.tier)
    lacking = cpu_classes.why_lacking(host, accounting, found, classes)
    if lacking is None and basis.without_others and "other" in classes:
        lacking = basis.without_others
    carrier = CARRIED_BY_OTHERS.get(str(trial.settings.get("path")))
    if lacking is None and basis.without_others and carrier and not classes:
        lacking = (
            f"{carrier} is one of the other tasks, and cannot be told from neighbours: {basis.without_others}"
        )
    if lacking:
        return missing(lacking)
    rate = _rate(trial, host, unit, {one.index: one.span_ns for one in found})
    if isinstance(rate, str):
        return missing(rate)
    background, cpus = _to_subtract(basis, name, found, classes), len(host.cpus)
    left_out = ("other",) if basis.without_others else ()
    taken = [
        sum(one.classes[c] for c in classes)
        if classes
        else one.busy_ns - sum(one.classes[c] for c in left_out)
        for one in found
    ]
    whole = sum(one.whole_ns for one in found)
    busy = sum(taken) / whole
    lacking = _untold(basis, name, found, classes, busy, background.value)
    if lacking:
        return missing(lacking)
    of_class = " in this class" if classes else ", other tasks left out," if left_out else ""
    # What is left of a class may be less than nothing, where the idle machine had more of it: then none is the load's.
    none_left = bool(classes) and busy < background.value
    lowest = 0.0 if none_left else -math.inf
    less = (
        f"{name} had {background.value:.2%} of its CPUs in this class idle, and {busy:.2%} under load: 0"
        if none_left
        else ""
    )
    return Measured(
        value=max(lowest, demand_ns(busy - background.value, cpus, rate.per_ns * 1e9)),
        # Cores kept busy by the load over units per ns: the windows of two hosts need not be equally long.
        intervals=tuple(
            max(lowest, (ns / one.whole_ns - background.value) * cpus / at)
            for ns, one in zip(taken, found, strict=True)
            if (at := rate.by_record.get(one.index))
        ),
        note="; ".join(
            filter(
                None, (TIER_NOTES[accounting.tier], _subtracted(background, host, of_class), less, rate.note)
            )
        ),
        assumptions=(basis.assumption(name),),
        sampling_error=demand_ns(
            cpu_classes.sampling_error_ns(host, accounting, found, classes or ("idle",)) / whole,
            cpus,
            rate.per_ns * 1e9,
        ),
        shared_error=demand_ns(background.uncertainty, cpus, rate.per_ns * 1e9),
        resolution=rate.resolution * demand_ns(abs(busy - background.value), cpus, rate.per_ns * 1e9),
    )


def _untold(
    basis: CostBasis,
    name: str,
    found: Sequence[Spent],
    classes: Sequence[str],
    busy: float,
    background: float,
) -> str | None:
    """Why what the load took cannot be told from what others gave up, as a sentence; None when it can.

    The load did run: where its cost is not above nothing, or below that of its own tasks, which are timed, or where full
    CPUs leave less to it than was taken off, the background under load was not that of the idle machine.
    """
    exact = basis.accounting.tier == "bpf"
    if classes and (exact or not {"usr", "sys"} & set(classes)):
        return None
    try_this = (
        "what the load took cannot be told from what others gave up; try a machine that does nothing else"
    )
    whole = sum(one.whole_ns for one in found)
    full, taken = 1 - OTHERS_POINTS, sum(one.busy_ns for one in found) / whole
    if not classes and busy <= background:
        return f"{name} was {busy:.1%} busy under load and {background:.1%} without: {try_this}"
    if not exact:
        idle_machine = basis.background_of(name).value
        if taken > full and idle_machine > taken - idle_machine:
            return f"{name} had no idle time left under load, and was {idle_machine:.1%} busy without: {try_this}"
        return None
    own = sum(one.app_ns for one in found) / whole - basis.background_of(name, ("usr", "sys")).value
    if busy - background < (1 - TOLERANCE) * own:
        return (
            f"the load's own tasks took {own:.2%} of the CPUs of {name}, and all that counts, less the background, "
            f"{busy - background:.2%}: {try_this}"
        )
    return None


def _to_subtract(basis: CostBasis, name: str, found: Sequence[Spent], classes: Sequence[str]) -> Share:
    """The share to subtract. Where nothing tells other tasks from the load and full CPUs had no room for both, the
    background under load may have been anything down to nothing: of a rectangular distribution about its upper end the
    root mean square is its width / sqrt(3).
    """
    known = basis.background_of(name, classes)
    whole = sum(one.whole_ns for one in found)
    if basis.accounting.tier == "bpf" or sum(one.busy_ns for one in found) < (1 - OTHERS_POINTS) * whole:
        return known
    return Share(known.value, max(known.uncertainty, known.value / math.sqrt(3)))


def cycles_per_kib(trial: Trial, name: str, basis: CostBasis) -> Measured:
    """CPU cycles of the host, less its background, per KiB delivered to the receiver."""
    if basis.tier == "pmu":
        return _pmu_cycles(trial, name, basis)
    hz = basis.tsc_hz.get(name)
    if not hz:
        return missing(
            f"{name} has neither a hardware counter of cycles nor a constant time-stamp counter; "
            "CPU time per KiB is there"
        )
    cpu = cpu_time(trial, name, basis)
    return Measured(
        value=None if cpu.value is None else cycles(cpu.value, hz),
        intervals=tuple(cycles(value, hz) for value in cpu.intervals),
        missing=cpu.missing,
        note=f"tier tsc: reference cycles = busy time x {hz / 1e9:.3f} GHz; {cpu.note}",
        assumptions=(*cpu.assumptions, "reference cycles: turbo, power states and SMT sharing are not seen"),
        shared_error=cycles(cpu.shared_error, hz),
        resolution=cycles(cpu.resolution, hz),
    )


def bytes_per_cycle(trial: Trial, name: str, basis: CostBasis) -> Measured:
    """Bytes delivered to the receiver per CPU cycle of the host, less its background."""
    found = cycles_per_kib(trial, name, basis)
    if found.value is None:
        return missing(found.missing or "the cost is not known")
    if found.value <= 0:
        return missing("the host took no more cycles than on its own, so that bytes per cycle have no bound")
    # Of 1/x, errors are those of x relative to its square, in first order.
    slope = _KIB_BYTES / found.value**2
    return Measured(
        value=_KIB_BYTES / found.value,
        intervals=tuple(_KIB_BYTES / value for value in found.intervals if value > 0),
        note=found.note,
        assumptions=found.assumptions,
        sampling_error=slope * found.sampling_error,
        shared_error=slope * found.shared_error,
        resolution=slope * found.resolution,
    )


def _pmu_cycles(trial: Trial, name: str, basis: CostBasis) -> Measured:
    host = trial.hosts[name]
    parts = _cycle_parts(host)
    if not parts:
        return missing(host.why_missing(CYCLES))
    if basis.without_others:
        return missing(f"hardware cycles are not told apart by task, and {basis.without_others}")
    rate = _rate(trial, host, "KiB", {index: round(span) for index, _, span in parts})
    if isinstance(rate, str):
        return missing(rate)
    known = basis.background.get(name)
    background = (known.cycles_per_s if known else None) or 0.0
    total = sum(count for _, count, _ in parts) / sum(span for _, _, span in parts) * 1e9 - background
    each = total / (rate.per_ns * 1e9)
    return Measured(
        value=each,
        intervals=tuple(
            (count / span - background / 1e9) / at
            for index, count, span in parts
            if (at := rate.by_record.get(index))
        ),
        note=f"tier pmu: hardware cycles; background of {background / 1e6:.3g} M cycles/s subtracted",
        assumptions=(basis.assumption(name),),
        resolution=rate.resolution * abs(each),
    )


def background(name: str, idle: Mapping[str, Trial], accounting: Accounting) -> Background:
    """The background of a host from the idle measurements `before` and `after`, whichever there are."""
    ratios: dict[str, float] = {}
    shares: dict[str, list[float]] = {}
    without: list[float] = []
    counted: list[tuple[int, float, float]] = []
    together: list[Spent] = []
    readings = 0
    for moment, trial in idle.items():
        host = trial.hosts.get(name)
        found = cpu_classes.spent(host, accounting.tier) if host else []
        if not host or not found:
            continue
        whole = sum(one.whole_ns for one in found)
        ratios[moment] = sum(one.busy_ns for one in found) / whole
        for kind in BUSY_CLASSES:
            if all(kind in one.classes for one in found):
                shares.setdefault(kind, []).append(sum(one.classes[kind] for one in found) / whole)
        if len(shares.get("other", ())) == len(ratios):
            without.append(ratios[moment] - shares["other"][-1])
        counted += _cycle_parts(host)
        together += found
        readings += len(host.cpus)
    measured = next((trial.hosts[name] for trial in idle.values() if name in trial.hosts), None)
    whole = sum(one.whole_ns for one in together)
    span = sum(part for _, _, part in counted)
    damaged = any(trial.status == "damaged" for trial in idle.values())
    state = (
        "what was stored of the idle machine is damaged" if damaged else "the idle machine was not measured"
    )
    return Background(
        host=name,
        ratio=sum(ratios.values()) / len(ratios) if ratios else None,
        before=ratios.get("before"),
        after=ratios.get("after"),
        cycles_per_s=sum(count for _, count, _ in counted) / span * 1e9 if span else None,
        # The difference of two readings of a clock in ticks has a standard deviation of tick / sqrt(6).
        error=2 * _TICK_NS / math.sqrt(6) * math.sqrt(readings) / whole
        if whole and accounting.tier != "bpf"
        else 0.0,
        missing=None if ratios else f"{state}; nothing is subtracted",
        classes={
            kind: Share(
                sum(each) / len(each),
                _uncertainty(
                    each, cpu_classes.sampling_error_ns(measured, accounting, together, (kind,)) / whole
                ),
            )
            for kind, each in shares.items()
            if measured and len(each) == len(ratios)
        },
        without_others=Share(sum(without) / len(without), _uncertainty(without, 0.0)) if without else None,
    )


def others_gave_way(
    trials: Iterable[Trial], background: Mapping[str, Background], accounting: Accounting
) -> str:
    """Return a sentence where other tasks had less CPU time under load than on the idle machine; empty when they had not.

    What was subtracted for them was not there then. In one trial is enough: costs are compared with each other. A load that
    takes little of a machine with neighbours takes no points from them that could be seen, but all that it takes: there it
    counts how much of the load's own time they lost.
    """
    if accounting.tier != "bpf":
        return ""
    worst: tuple[float, str] = (0.0, "")
    for trial in trials:
        for name, host in trial.hosts.items():
            known, rest = background[name].classes.get("other"), background[name].without_others
            found = cpu_classes.look(host)
            if known is None or rest is None or known.value <= OTHERS_POINTS or not found.whole_ns:
                continue
            share = found.other_ns / found.whole_ns
            own = found.busy_ns / found.whole_ns - share - rest.value
            if known.value - share <= min(OTHERS_POINTS, TOLERANCE * max(0.0, own)):
                continue
            text = (
                f"other tasks gave way to the load: {share:.1%} of the CPUs of {name}, "
                f"{known.value:.1%} on the idle machine; worst in trial {trial.name}"
            )
            worst = max(worst, (known.value - share, text))
    return worst[1]


def choose_tier(trials: Iterable[Trial], idle: Iterable[Trial]) -> Tier:
    """`pmu` when every host counted cycles in every trial and in every idle measurement, else `tsc`."""
    hosts = [host for trial in (*trials, *idle) for host in trial.hosts.values()]
    return "pmu" if hosts and all(map(counts_cycles, hosts)) else "tsc"


def counts_cycles(host: HostData) -> bool:
    """Tell whether a host counted its cycles in every measured record. The answer is kept, as by `cpu_classes.look`."""
    if "cycles" not in host.kept:
        host.kept["cycles"] = len(_cycle_parts(host)) == len(host.measured)
    return bool(host.kept["cycles"])


def _uncertainty(each: Sequence[float], known: float) -> float:
    """Standard uncertainty of a background that was `each` of these when it was measured.

    While the load ran it may have been anything between them: a rectangular distribution, whose standard deviation is
    its width / sqrt(12) (JCGM 100:2008, 4.3.7). `known` is the standard error of the measurement itself.
    """
    width = max(each) - min(each) if each else 0.0
    return math.hypot(width / math.sqrt(12), known)


def _rate(trial: Trial, host: HostData, unit: Unit, spans_ns: Mapping[int, int]) -> _Rate | str:
    """Units per ns, for readings that are of `spans_ns` each; a sentence when there were none."""
    if unit == "packet":
        device, packets = flows.device_packets(trial, host)
        if device is None:
            return host.why_missing(flows.DEVICES)
        total, span = (sum(part) for part in zip(*((count, ns) for _, count, ns in packets), strict=True))
        if not total:
            return f"{device} carried no packet in the measured window"
        return _Rate(
            total / span,
            {index: count / ns for index, count, ns in packets},
            f"packets of {device}",
            1 / total,
        )
    end = (
        clients_of(trial, host) if trial.clients else trial.end("send" if unit == "operation" else "receive")
    )
    shares = any(other.machine == host.machine for other in trial.hosts.values() if other is not host)
    counts_own = host.role == "send" or (host.role == "receive" and unit != "operation")
    if counts_own and trial.several(host.role) and not shares:
        # Of several with CPUs of their own, each has what passed between it and the other ends.
        end = trial.share_of(host)
    if end is None:
        return "the trial has no sender" if unit == "operation" else "the trial has no receiver"
    counts = {
        record.index: record.operations if unit == "operation" else record.bytes / 1024
        for record in end.measured
    }
    if not any(counts.values()) or not end.measured_ns:
        did = "written" if unit == "operation" else "delivered"
        did = "done" if trial.clients else did
        return f"nothing was {did} in the measured window"
    lengths = trial.beside_readings(end, spans_ns)
    by_record = {index: counts[index] / length_ns for index, length_ns in lengths.items() if length_ns}
    total = sum(counts.values())
    at_once = 1 if unit == "operation" else bytes_at_once(trial) / 1024
    whole = unit == "operation" and operations_of(end.manifest)
    return _Rate(total / sum(lengths.values()), by_record, resolution=0.0 if whole else at_once / total)


def clients_of(trial: Trial, host: HostData) -> HostData:
    """The clients whose load the CPUs of the host carry: those on its machine; all, where it has none (it serves)."""
    mine = {name: client for name, client in trial.clients.items() if client.machine == host.machine}
    return clients_together(mine or trial.clients)


def _cycle_parts(host: HostData) -> list[tuple[int, float, float]]:
    """Per measured record: (its index, cycles of all CPUs of the host, nanoseconds)."""
    readings = host.readings.get(CYCLES, {})
    parts = []
    for record in host.measured:
        reading = readings.get(record.index)
        if reading is None or reading.span_ns <= 0:
            continue
        counted = cpu_classes.sum_over_cpus(reading, host.cpus, ("cycles.count",))
        if counted is not None:
            parts.append((record.index, counted, float(reading.span_ns)))
    return parts


def _subtracted(background: Share, host: HostData, of_class: str) -> str:
    cpus = "1 CPU" if len(host.cpus) == 1 else f"{len(host.cpus)} CPUs"
    return f"background of {background.value:.2%} of {cpus}{of_class} subtracted"
