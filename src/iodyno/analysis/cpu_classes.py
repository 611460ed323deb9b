"""CPU time of a host by class: every nanosecond of its CPUs in one class.

`usr`, `sys`  the load: tasks of the agent, in user and in kernel mode
`irq`         hard interrupts
`softirq`     soft interrupts; most of receiving, and of transmitting after an acknowledgement
`other`       other tasks: kernel threads, neighbours
`idle`        nothing to run
Beside them stands `steal`, what the hypervisor took: a switch in the kernel cannot show it, so that it lies in the
other classes; /proc/stat keeps it apart, and busy time holds it.

The tier says how the classes were told apart:
`bpf`       sensor `cpu_exact`: the kernel's own switches between classes, each timed. Only the line between user
            and system code of the load may be sampled there; its standard error is then said.
`irq_time`  /proc/stat of a kernel that times interrupts (CONFIG_IRQ_TIME_ACCOUNTING); user and system are sampled.
`tick`      /proc/stat, all sampled at the timer tick: hard interrupts always are 0 there, and work that is in step
            with the tick is not seen at all. Idle time is exact, so that the cost is sound even here.
/proc/stat does not tell the load from other tasks: `usr` and `sys` hold all tasks, and `other` is missing.
A campaign uses one tier for all its numbers: see `choose`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing, share, total_ratio
from iodyno.analysis.readings import Reading
from iodyno.analysis.trial import Trial

ClassTier = Literal["bpf", "irq_time", "tick"]
CPU_EXACT = "cpu_exact"
CPU_TIMES = "cpu_times"
BUSY_CLASSES = ("usr", "sys", "irq", "softirq", "other")
"""The classes that make up busy time, in the order of the tables."""
NAMES: Mapping[str, str] = {
    "usr": "user",
    "sys": "system",
    "irq": "hard interrupts",
    "softirq": "soft interrupts",
    "other": "other tasks",
    "idle": "idle",
}
"""Each class as people say it."""
STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""States of /proc/stat that sum to wall time (proc_stat(5); guest time is in user and nice)."""
TRIALS_LEAST = 2
"""Trials of a point that exact classes must have (chosen: the fewest that have an interval; all when there is one)."""
TICK_HZ = 250
"""Timer ticks per second where the host does not tell its own (chosen: Debian's and Ubuntu's kernels)."""
TICK_NS = 1e7
"""Each state of /proc/stat is reported in ticks of 10 ms."""
SPLIT_POINTS = 0.02
"""States that sum to 100 % within less are taken for whole (chosen: sound splits were off by 1 point)."""
EXACT_SPLIT = 0.001
"""The same of classes that were timed at every switch (chosen: they were off by 0.07 % at most; what is more is a
defect)."""
TIER_NOTES: Mapping[ClassTier, str] = {
    "bpf": "tier bpf: every switch timed",
    "irq_time": "tier irq_time: /proc/stat, interrupts timed",
    "tick": "tier tick: /proc/stat",
}
"""Note of a method on its tier."""
_OF_STATES: Mapping[str, tuple[str, ...]] = {
    "usr": ("user", "nice"),
    "sys": ("system",),
    "irq": ("irq",),
    "softirq": ("softirq",),
    "idle": ("idle", "iowait"),
}
_NO_OTHER = "/proc/stat does not tell the load from other tasks: user and system hold both"


@dataclass(frozen=True)
class Accounting:
    """Method by which the CPU time of a campaign was told apart.

    `why` a trial had no exact classes; `partly`: some had them and some had not; `tick_hz`: timer ticks per second by
    host, where they are known.
    """

    tier: ClassTier = "tick"
    why: str = ""
    partly: bool = False
    tick_hz: Mapping[str, float] | None = None

    def hz(self, host: str) -> float:
        """Timer ticks per second of a host."""
        return (self.tick_hz or {}).get(host) or TICK_HZ


@dataclass(frozen=True)
class Look:
    """Facts about a host's CPU time that the choice of a tier needs. `read`: it looked at its CPUs; `exact`: it has exact classes
    of the whole measured window, or nothing was measured; `why_not` otherwise; the times are the exact ones.
    """

    read: bool
    exact: bool
    why_not: str
    whole_ns: float
    busy_ns: float
    other_ns: float


@dataclass(frozen=True)
class Spent:
    """CPU time of a host in one interval, all its CPUs together, in ns. A class that is not known is absent.

    `whole_ns` is wall time x CPUs. `user_samples` and `app_ns` are what the line between `usr` and `sys` rests
    on: samples taken, and time of the load that they were taken from; no samples means that the line is exact.
    """

    index: int
    span_ns: int
    whole_ns: float
    classes: Mapping[str, float]
    user_samples: int = 0
    app_ns: float = 0.0

    @property
    def busy_ns(self) -> float:
        """Time that is not idle."""
        return self.whole_ns - self.classes["idle"]


def choose(
    trials: Sequence[Trial], idle: Sequence[Trial], hello: Mapping[str, Mapping[str, Any]]
) -> Accounting:
    """The best tier that every host had in the idle machine and in at least `TRIALS_LEAST` trials of every point.

    Trials without it then have no CPU numbers: a sensor that withdraws from a busy trial must not take the exact
    classes from all others. Tiers are never mixed.
    """
    facts = {name: said.get("host") or {} for name, said in hello.items()}
    tick_hz = {name: float(fact["tick_hz"]) for name, fact in facts.items() if fact.get("tick_hz")}
    with_it: dict[tuple[str, str], list[bool]] = {}
    trials_by_reason: dict[str, set[str]] = {}
    for place, trial in [*((t.point, t) for t in trials), *(("idle machine", t) for t in idle)]:
        for host in _that_read(trial):
            seen = look(host)
            with_it.setdefault((place, host.name), []).append(seen.exact)
            if not seen.exact:
                trials_by_reason.setdefault(f"{host.name}: {seen.why_not}", set()).add(trial.name)
    loaded, still = {trial.name for trial in trials}, {trial.name for trial in idle}
    why = "; ".join(
        reason + _how_often(names, loaded, still) for reason, names in sorted(trials_by_reason.items())
    )
    # Of the idle machine one measurement will do.
    enough = all(
        sum(each) >= (1 if place == "idle machine" else min(TRIALS_LEAST, len(each)))
        for (place, _), each in with_it.items()
    )
    if with_it and enough:
        return Accounting("bpf", why, bool(why), tick_hz)
    timed = facts and all(fact.get("irq_time_accounting") is True for fact in facts.values())
    partly = any(any(each) for each in with_it.values())
    return Accounting("irq_time" if timed else "tick", why, partly, tick_hz)


def _how_often(names: set[str], trials: set[str], idle: set[str]) -> str:
    """In how many trials something was so; measurements of the idle machine are no trials. Empty: in all of both."""
    if names >= trials | idle:
        return ""
    of_idle = f"{len(names & idle)} of {len(idle)} measurements of the idle machine"
    of_trials = f"{len(names & trials)} of {len(trials)} trials"
    parts = [text for text, among in ((of_trials, trials), (of_idle, idle)) if names & among]
    return f" (in {' and '.join(parts)})"


def _that_read(trial: Trial) -> list[HostData]:
    """The hosts that look at their CPUs: of several on the same CPUs of a machine the first looks for all."""
    looked = [host for host in trial.hosts.values() if look(host).read]
    machines = {host.machine for host in looked if host.machine}
    return [host for host in trial.hosts.values() if host in looked or host.machine not in machines]


def look(host: HostData) -> Look:
    """Return the facts that tell the tier of a campaign. They are kept: all trials are looked at before one is measured."""
    found: Look | None = host.kept.get("cpu")
    if found is None:
        each = spent(host, "bpf")
        exact = bool(each) or not host.measured
        found = host.kept["cpu"] = Look(
            bool({CPU_EXACT, CPU_TIMES} & host.readings.keys()),
            exact,
            "" if exact else _why_not_exact(host),
            sum(one.whole_ns for one in each),
            sum(one.busy_ns for one in each),
            sum(one.classes["other"] for one in each),
        )
    return found


def spent(host: HostData, tier: ClassTier, *, every: bool = False) -> list[Spent]:
    """CPU time by class in each measured record (with `every`: each record) whose reading is complete."""
    key = ("spent", tier, every)
    if key not in host.derived:
        host.derived[key] = _spent(host, tier, every)
    found: list[Spent] = host.derived[key]
    return found


def _spent(host: HostData, tier: ClassTier, every: bool) -> list[Spent]:
    readings = host.readings.get(CPU_EXACT if tier == "bpf" else CPU_TIMES, {})
    records = host.records if every else host.measured
    known = [(r.index, readings[r.index]) for r in records if r.index in readings]
    make = _exact if tier == "bpf" else _of_states
    found = [made for index, reading in known if (made := make(index, reading, host.cpus))]
    # A sensor that withdrew in the middle has not seen what the trial took.
    if tier == "bpf" and not every and len(found) < len(records):
        return []
    return _with_user(found, readings, host.cpus) if tier == "bpf" else found


def sum_over_cpus(reading: Reading, cpus: Sequence[int], metrics: Iterable[str]) -> float | None:
    """Nanoseconds of `metrics` over `cpus`; None unless every CPU reported every one."""
    labels, found = [f"cpu={cpu}" for cpu in cpus], 0
    for metric in metrics:
        of_metric = reading.values.sum_of(metric, labels)
        if of_metric is None:
            return None
        found += of_metric
    return float(found) if labels else None


def by_cpu(reading: Reading, metrics: Iterable[str], *needed: str) -> dict[int, int]:
    """Nanoseconds in `metrics` of sensor `cpu_exact` on each accounted CPU that has all that is `needed`, vectors
    summed.
    """
    labels = set(reading.values.of(EXACT["idle"]))
    for metric in needed:
        labels &= set(reading.values.of(metric))
    found = {_cpu_and_vector(label)[0]: 0 for label in labels}
    for metric in metrics:
        for label, value in reading.values.of(metric).items():
            cpu, _ = _cpu_and_vector(label)
            if cpu in found:
                found[cpu] += value
    return found


def ratio(trial: Trial, name: str, accounting: Accounting, *classes: str) -> Measured:
    """Share of the host's CPUs in the sum of `classes`."""
    host = trial.hosts[name]
    found = spent(host, accounting.tier)
    lacking = why_lacking(host, accounting, found, classes)
    if lacking:
        return missing(lacking)
    parts = [(sum(one.classes[c] for c in classes), one.whole_ns) for one in found]
    whole = sum(one.whole_ns for one in found)
    measured = total_ratio(
        parts,
        note=TIER_NOTES[accounting.tier],
        sampling_error=sampling_error_ns(host, accounting, found, classes) / whole,
    )
    return share(measured, _resolution(accounting, host, whole))


def busy_ratio(trial: Trial, name: str, accounting: Accounting) -> Measured:
    """Busy share of the host's CPUs, background and the observer's own time included."""
    host = trial.hosts[name]
    parts = [(one.busy_ns, one.whole_ns) for one in spent(host, accounting.tier)]
    measured = total_ratio(parts, note=TIER_NOTES[accounting.tier], nothing=why_not(host, accounting))
    return share(measured, _resolution(accounting, host, sum(whole for _, whole in parts)))


def _resolution(accounting: Accounting, host: HostData, whole_ns: float) -> float:
    """Return the error that a share of the CPUs may have from the clocks behind it; `whole_ns`: time x CPUs."""
    if accounting.tier == "bpf":
        return EXACT_SPLIT
    return max(SPLIT_POINTS, 2 * TICK_NS * len(host.cpus) / whole_ns if whole_ns else 0.0)


def steal_ratio(trial: Trial, name: str) -> Measured:
    """Share of the host's CPUs that the hypervisor took; the classes hold it, as they cannot see it."""
    host = trial.hosts[name]
    parts = []
    for reading in host.measured_readings(CPU_TIMES):
        taken = sum_over_cpus(reading, host.cpus, ("cpu.steal_ns",))
        if taken is not None and reading.span_ns > 0:
            parts.append((taken, float(reading.span_ns * len(host.cpus))))
    nothing = host.why_missing(CPU_TIMES) if host.cpus else _no_cpus(host)
    return total_ratio(parts, note="steal of /proc/stat", nothing=nothing)


def why_lacking(
    host: HostData, accounting: Accounting, found: Sequence[Spent], classes: Iterable[str]
) -> str | None:
    """Why one of `classes` is not known of `host`; None when all are."""
    if not found:
        return why_not(host, accounting)
    for name in classes:
        if any(name not in one.classes for one in found):
            if accounting.tier != "bpf":
                return _NO_OTHER
            return f"{host.name}: nothing tells user code of the load from system code"
    return None


def why_not(host: HostData, accounting: Accounting) -> str:
    """Why nothing is known of the CPU time of `host`."""
    if not host.cpus:
        return _no_cpus(host)
    return host.why_missing(CPU_EXACT if accounting.tier == "bpf" else CPU_TIMES)


def sampling_error_ns(
    host: HostData, accounting: Accounting, found: Sequence[Spent], classes: Sequence[str]
) -> float:
    """Standard error of the time in the sum of `classes` that comes from sampling; 0 where it is exact.

    A share p of n samples has sqrt(p (1 - p) / n). The share is taken with two samples more of each kind, so that
    none of few is not taken for never (Agresti and Coull 1998).
    """
    whole = sum(one.whole_ns for one in found)
    if not whole:
        return 0.0
    if accounting.tier == "bpf":
        split = {"usr", "sys"} & set(classes)
        samples = sum(one.user_samples for one in found)
        if len(split) != 1 or not samples:
            return 0.0
        app = sum(one.app_ns for one in found)
        hits = samples * sum(one.classes["usr"] for one in found) / app if app else 0.0
        return app * _standard_error(hits, samples)
    timed = {"idle", "irq", "softirq"} if accounting.tier == "irq_time" else {"idle"}
    if set(classes) <= timed:
        return 0.0
    ticks = accounting.hz(host.name) * whole / 1e9
    hits = sum(one.classes[c] for one in found for c in classes) / whole * ticks
    return whole * _standard_error(hits, ticks)


def _standard_error(hits: float, samples: float) -> float:
    # Ticks and samples are not of the same times as the classes: a little more than all may be of one.
    share = (min(hits, samples) + 2) / (samples + 4)
    return math.sqrt(share * (1 - share) / (samples + 4))


EXACT = {
    name: f"exact.{metric}_ns"
    for name, metric in (("app", "app"), ("irq", "hardirq"), ("other", "other"), ("idle", "idle"))
}
"""Classes that each accounted CPU has, by name."""


def _exact(index: int, reading: Reading, cpus: Sequence[int]) -> Spent | None:
    """The classes of sensor `cpu_exact`, without the line between user and system."""
    labels, known = [f"cpu={cpu}" for cpu in cpus], {}
    for name, metric in EXACT.items():
        value = reading.values.sum_of(metric, labels) if labels and reading.span_ns > 0 else None
        if value is None:
            return None
        known[name] = float(value)
    app = known.pop("app")
    # A vector that did not run has no value.
    soft = sum(value for _, value in softirqs(reading, cpus))
    return Spent(
        index, reading.span_ns, float(reading.span_ns * len(cpus)), known | {"softirq": soft}, app_ns=app
    )


def softirqs(reading: Reading, cpus: Sequence[int]) -> list[tuple[str, int]]:
    """Vector and ns in it, for each CPU of `cpus` on which it ran."""
    found = []
    for label, value in reading.values.of("exact.softirq_ns").items():
        cpu, vector = _cpu_and_vector(label)
        if cpu in cpus:
            found.append((vector, value))
    return found


@cache
def _cpu_and_vector(label: str) -> tuple[int, str]:
    cpu, _, vector = label.partition(",")
    return int(cpu.removeprefix("cpu=")), vector.removeprefix("vector=")


def _with_user(found: Sequence[Spent], readings: Mapping[int, Reading], cpus: Sequence[int]) -> list[Spent]:
    """Draws the line between user and system.

    Where a CPU had no sample in an interval, the share of all other CPUs and intervals stands in; without any,
    user and system stay unknown.
    """
    keys = [(("exact.app_ns", f"cpu={cpu}"), ("exact.app_user_ns", f"cpu={cpu}")) for cpu in cpus]
    user, of = 0.0, 0.0
    for one in found:
        values = readings[one.index].values
        for app, mine in keys:
            if mine in values:
                user, of = user + values[mine], of + values[app]
    share = user / of if of else None
    done = []
    for one in found:
        values = readings[one.index].values
        unknown = sum(values[app] for app, mine in keys if mine not in values)
        if unknown and share is None:
            done.append(one)
            continue
        usr = sum(values.get(mine, 0) for _, mine in keys) + unknown * (share or 0.0)
        samples = sum(values.get(("exact.split_samples", f"cpu={cpu}"), 0) for cpu in cpus)
        classes = {**one.classes, "usr": float(usr), "sys": one.app_ns - usr}
        done.append(Spent(one.index, one.span_ns, one.whole_ns, classes, samples, one.app_ns))
    return done


def _of_states(index: int, reading: Reading, cpus: Sequence[int]) -> Spent | None:
    """The classes of /proc/stat."""
    sums = {
        name: sum_over_cpus(reading, cpus, (f"cpu.{state}_ns" for state in states))
        for name, states in _OF_STATES.items()
    }
    if reading.span_ns <= 0 or sums["idle"] is None:
        return None
    known = {name: value for name, value in sums.items() if value is not None}
    return Spent(index, reading.span_ns, float(reading.span_ns * len(cpus)), known)


def _why_not_exact(host: HostData) -> str:
    said = host.readings.get(CPU_EXACT, {}).values()
    if said and not any(reading.missing for reading in said):
        return f"sensor {CPU_EXACT} did not tell all of the trial's CPUs in every interval"
    return host.why_missing(CPU_EXACT) if host.cpus else _no_cpus(host)


def _no_cpus(host: HostData) -> str:
    return f"the CPUs of {host.name} are not known"
