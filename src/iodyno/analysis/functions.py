"""Cost by function: which functions a KiB's CPU time goes into (of a load on disks, an operation's), at one point and on
one host.

Inclusive: the function and all that it calls. Exclusive: the function itself. A cost is the share of the samples
x the host's exact busy time per KiB delivered, so that it does not rest on how many of the samples asked for were
delivered. Where the time of each class is known exactly, it is made class by class: a timer's samples shun code with
interrupts off, and fall on what comes after it. Of the host's busy time, that of other programs is left out, but
where some of them serve the load, as servers and daemons of its volume do and the agents of other clients; the kernel's own
background is not.

A profile stands for no more than was sampled. Where the kernel lets an agent sample user code of its own threads only, the
samples are shares of the load's user time (class `usr`); where it lets it sample its own threads only, of busy time
without that of other tasks, as far as something tells it apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from iodyno.analysis import cpu_classes
from iodyno.analysis.cpu_classes import ClassTier
from iodyno.analysis.dataset import Dataset
from iodyno.analysis.factors import labels_of
from iodyno.analysis.host_data import HostData
from iodyno.analysis.interval import estimate
from iodyno.analysis.layers import LAYERS, layers_of
from iodyno.analysis.measured import Measured, missing
from iodyno.analysis.shares import Bounds, Numbers, SampledCosts
from iodyno.analysis.stacks import (
    EVEN,
    MODES,
    OWNERS,
    PARTS,
    REACHES,
    Function,
    Integers,
    Reach,
    StackTable,
    reach_of,
    read_stacks,
    what_lacks,
    why_no_profile,
)
from iodyno.analysis.trial import Trial
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import Warning, WarningCode
from iodyno.core.workload import Level
from iodyno.loads.disk.analysis import roles

LOST_MOST = 0.05
"""Share of lost samples over which a profile is warned of (chosen: as much as a small function's whole share)."""

FOREIGN_MOST = 0.05
"""Share of busy time in other programs over which it is warned of (chosen: as much as an idle host may be busy)."""

OWN_LEAST = 0.1
"""Share of a function of the load's own program in all that it calls from which on it does something itself (chosen)."""

PART_LEAST = 5
"""Samples of a part in a trial from which on they stand for its time (chosen: of fewer, one is too much of it)."""
_TOGETHER = (("irq", "softirq"), ("softirq", "irq"), ("softirq", "app"), ("other", "app"), ("app", "other"))
"""With which other part one is taken that has too few samples, in this order."""

Part = Literal["exclusive", "inclusive"]
Per = Literal["KiB", "operation"]
_ASSUMED = ("samples fall evenly over busy time", "samples are independent")
_ASSUMED_OF_PART = ("samples fall evenly over the time that was sampled", "samples are independent")


@dataclass(frozen=True)
class FunctionCost:
    """A function at one point. `owners`: of its inclusive samples, the share by whose task was on the CPU."""

    function: Function
    samples: int
    exclusive_ratio: Estimate
    inclusive_ratio: Estimate
    exclusive_ns_per_kib: Estimate
    inclusive_ns_per_kib: Estimate
    owners: Mapping[str, float]


@dataclass(frozen=True)
class ClassCost:
    """Cost of tasks of one owner in one mode: `app` in `kernel`, and so on. Owner `idle`: interrupts without a task."""

    owner: str
    mode: str
    ratio: Estimate
    ns_per_kib: Estimate


@dataclass(frozen=True)
class LayerCost:
    """Cost of a layer of the path by itself, such as `TCP send`: what its functions call of other layers is theirs."""

    layer: str
    ratio: Estimate
    ns_per_kib: Estimate


@dataclass(frozen=True)
class Sampling:
    """Sampling of a point, over its trials."""

    hz: int
    event: str
    samples: int
    idle_samples: int
    lost: int
    reader_ratio: float | None
    symbolise_ns: int


@dataclass(frozen=True)
class PointProfile:
    """All samples of a host at one point. `busy` is the time per KiB that the samples stand for; `basis` what told it.

    `rows`: the stacks of each trial; those of other programs are among `every` only. `reach`: what was sampled, so
    that `busy` is all busy time (`all`), that of the load with interrupts (`own`), or its user time (`user`). `lacks`: what the
    profile does not have and why, as agents said. `weights`: of each trial, what a sample of each part counts
    (`class_weights`). `per`: what a cost is of; where it is not a KiB, all costs `_per_kib` are of that. `with_programs`:
    whether other programs are in it too, as some of them serve the load and samples do not tell them from the rest.
    """

    point: str
    levels: Mapping[str, Level]
    labels: Mapping[str, str]
    host: str
    table: StackTable = field(repr=False)
    rows: tuple[Integers, ...] = field(repr=False)
    every: tuple[Integers, ...] = field(repr=False)
    busy: Estimate
    busy_by_trial: tuple[float, ...]
    basis: str
    sampling: Sampling
    weights: tuple[Numbers, ...]
    warnings: tuple[Warning, ...] = ()
    reach: Reach = "all"
    lacks: tuple[str, ...] = ()
    per: Per = "KiB"
    with_programs: bool = False

    @property
    def unit(self) -> str:
        """The unit of its costs."""
        return f"ns/{self.per}"

    @property
    def samples(self) -> int:
        """Samples of busy CPUs."""
        return self.sampling.samples

    @property
    def seen(self) -> int:
        """Samples that are not of other programs."""
        return sum(self.table.samples(rows) for rows in self.rows)

    @cached_property
    def samples_by_trial(self) -> tuple[int, ...]:
        """Samples of busy CPUs in each trial."""
        return tuple(self.table.samples(rows) for rows in self.every)

    @cached_property
    def whole(self) -> SampledCosts:
        """All rows, as if they were one function."""
        counts = np.asarray([[weighed.sum()] for weighed in map(self.table.weighed, self.rows, self.weights)])
        return replace(self._sampled(counts), reference=None)

    @cached_property
    def cost(self) -> Estimate:
        """CPU time per KiB of all rows: what the costs of all functions by themselves add up to."""
        return self.estimate(self.whole.cost_bounds(), 0, self.unit)

    @cached_property
    def foreign_ratio(self) -> float:
        """Share of the samples that are of other programs and left out."""
        if all(len(mine) == len(every) for mine, every in zip(self.rows, self.every, strict=True)):
            return 0.0
        weighed = sum(float(one.sum()) for one in map(self.table.weighed, self.rows, self.weights))
        return 1 - weighed / sum(self.samples_by_trial)

    @property
    def by_class(self) -> bool:
        """True where costs were made class by class."""
        return any(weights is not EVEN for weights in self.weights)

    @property
    def method(self) -> str:
        """Method by which the intervals are made."""
        trials = len(self.rows)
        if trials > 1:
            return f"the wider of Wilson's interval over {self.samples} samples and the t interval over {trials} trials"
        return f"Wilson's interval over {self.samples} samples of one trial"

    @cached_property
    def exclusive(self) -> SampledCosts:
        """Samples of every function of the campaign itself."""
        return self._sampled(self._own)

    @cached_property
    def inclusive(self) -> SampledCosts:
        """Samples of every function of the campaign and all that it calls."""
        return self.exclusive.with_counts(self._with_calls[0])

    def functions(self, by: Part = "exclusive", top: int | None = None) -> list[FunctionCost]:
        """The functions that were seen, the costliest first."""
        ordered = np.argsort(-(self.exclusive if by == "exclusive" else self.inclusive).cost, kind="stable")
        owners = self._owners
        seen = owners.sum(axis=0)
        folded = self.folded if by == "inclusive" else frozenset[int]()
        wanted = [number for number in ordered.tolist() if seen[number] > 0 and number not in folded][:top]
        exclusive, inclusive = self.exclusive.of(wanted), self.inclusive.of(wanted)
        own_share, share = exclusive.share_bounds(), inclusive.share_bounds()
        own_cost, cost_of = exclusive.cost_bounds(), inclusive.cost_bounds()
        return [
            FunctionCost(
                function=self.table.functions[number],
                samples=int(seen[number]),
                exclusive_ratio=self.estimate(own_share, place, "1"),
                inclusive_ratio=self.estimate(share, place, "1"),
                exclusive_ns_per_kib=self.estimate(own_cost, place, self.unit),
                inclusive_ns_per_kib=self.estimate(cost_of, place, self.unit),
                owners={
                    owner: float(of_owner[number] / seen[number])
                    for owner, of_owner in zip(OWNERS, owners, strict=True)
                    if of_owner[number]
                },
            )
            for place, number in enumerate(wanted)
        ]

    def let_go(self) -> None:
        """Lets go of the sums of every function in every trial, which are worked out anew when somebody asks again."""
        for name in ("exclusive", "inclusive", "_own", "_with_calls"):
            self.__dict__.pop(name, None)

    @cached_property
    def folded(self) -> frozenset[int]:
        """Functions of the load's own threads that only call others: all of its time is in each of them, from the begin of a
        thread on, which says nothing.
        """
        own, whole, owners = self.exclusive.cost, self.inclusive.cost, self._owners
        load = owners[OWNERS.index("app")]
        return frozenset(
            number
            for number, function in enumerate(self.table.functions)
            if function.space == "user"
            and load[number] > 0
            and load[number] == owners[:, number].sum()
            and own[number] < OWN_LEAST * whole[number]
        )

    def layers(self) -> list[LayerCost]:
        """The time by layer, in the order of the path; together they are all of it."""
        counts = np.zeros((len(self.rows), len(LAYERS)))
        for trial, (rows, weights) in enumerate(zip(self.rows, self.weights, strict=True)):
            np.add.at(counts[trial], layers_of(self.table, rows), self.table.weighed(rows, weights))
        sampled = replace(self._sampled(counts), reference=None)
        shares, costs = sampled.share_bounds(), sampled.cost_bounds()
        return [
            LayerCost(layer, self.estimate(shares, place, "1"), self.estimate(costs, place, self.unit))
            for place, layer in enumerate(LAYERS)
            if counts[:, place].sum()
        ]

    def classes(self) -> list[ClassCost]:
        """The host's busy time by whose task was on the CPU and what it executed."""
        counts = np.zeros((len(self.every), len(OWNERS) * len(MODES)))
        for trial, (rows, weights) in enumerate(zip(self.every, self.weights, strict=True)):
            kind = self.table.owner[rows] * len(MODES) + self.table.mode[rows]
            np.add.at(counts[trial], kind, self.table.weighed(rows, weights))
        sampled = replace(self._sampled(counts), reference=None)
        shares, costs = sampled.share_bounds(), sampled.cost_bounds()
        return [
            ClassCost(
                OWNERS[number // len(MODES)],
                MODES[number % len(MODES)],
                self.estimate(shares, number, "1"),
                self.estimate(costs, number, self.unit),
            )
            for number in range(counts.shape[1])
            if counts[:, number].sum()
        ]

    def estimate(self, found: Bounds, number: int, unit: str) -> Estimate:
        """One of many values as an estimate."""
        return Estimate(
            float(found.value[number]),
            float(found.low[number]),
            float(found.high[number]),
            len(self.rows),
            unit,
            self.method,
            _ASSUMED if self.reach == "all" else _ASSUMED_OF_PART,
            self.busy.warnings,
        )

    @cached_property
    def _own(self) -> Numbers:
        return np.asarray(list(map(self.table.exclusive, self.rows, self.weights)))

    @property
    def _owners(self) -> Numbers:
        """Samples of each function and all that it calls, by whose task was on the CPU."""
        return self._with_calls[1]

    @cached_property
    def _with_calls(self) -> tuple[Numbers, Numbers]:
        """Samples of each function and all that it calls: weighed by trial, and by owner. What both are made of, the functions of
        every stack, takes more room than all else of a profile."""
        shape = len(OWNERS), len(self.table.functions)
        weighed, owners = np.zeros((len(self.rows), shape[1])), np.zeros(shape)
        for trial, (rows, weights) in enumerate(zip(self.rows, self.weights, strict=True)):
            places, functions = self.table.members(rows)
            weighed[trial] = np.bincount(functions, self.table.weighed(rows, weights)[places], shape[1])
            each = self.table.owner[rows][places] * shape[1] + functions
            owners += np.bincount(each, self.table.count[rows][places], shape[0] * shape[1]).reshape(shape)
        return weighed, owners

    def _sampled(self, counts: Numbers) -> SampledCosts:
        samples = np.asarray(self.samples_by_trial, dtype=float)
        low, high = (self.busy.low, self.busy.high) if len(self.rows) == 1 else (None, None)
        # Functions by themselves share no samples, so that they are the better witnesses of what varies.
        most = np.asarray([weights.max() for weights in self.weights])
        return SampledCosts(counts, samples, np.asarray(self.busy_by_trial), low, high, self._own, most)


@dataclass(frozen=True)
class Profiles:
    """The profiles of a campaign by point and host, and why one is not there."""

    found: Mapping[tuple[str, str], PointProfile]
    missing: Mapping[tuple[str, str], str]

    def __bool__(self) -> bool:
        return bool(self.found)

    def __or__(self, others: Profiles) -> Profiles:
        return Profiles({**self.found, **others.found}, {**self.missing, **others.missing})


def read_profiles(dataset: Dataset, points: Iterable[str] | None = None) -> Profiles:
    """The profiles of all points, or of some."""
    table = read_stacks(dataset)
    finished: dict[str, list[Trial]] = {}
    for trial in dataset.trials:
        if trial.finished:
            finished.setdefault(trial.point, []).append(trial)
    profiles = Profiles({}, {})
    for point in finished if points is None else points:
        profiles |= profiles_at(dataset, table, point, finished.get(point, []))
    return profiles


def profiles_at(dataset: Dataset, table: StackTable, point: str, trials: Sequence[Trial]) -> Profiles:
    """The profiles of the hosts at one point."""
    each = {(point, host): point_profile(dataset, table, trials, host) for host in dataset.hosts}
    return Profiles(
        {key: found for key, found in each.items() if not isinstance(found, str)},
        {key: why for key, why in each.items() if isinstance(why, str)},
    )


def point_profile(
    dataset: Dataset, table: StackTable, trials: Sequence[Trial], host: str
) -> PointProfile | str:
    """The profile of a host over the trials of a point, or why there is none."""
    sampled = [trial for trial in trials if table.samples(table.rows(trial.name, host))]
    reasons = [why_no_profile(trial, host) for trial in trials if trial not in sampled]
    # Shares of all busy time and shares of user time are never mixed: what reaches furthest counts.
    reach: Reach = min((reach_of(trial, host) for trial in sampled), key=REACHES.index, default="all")
    taken = []
    for trial in dataset.in_turn(sampled):
        busy, basis = _TIMES[reach](trial, host)
        if reach_of(trial, host) != reach:
            reasons.append(what_lacks(trial, host))
        elif busy.value is None:
            reasons.append(busy.missing or f"nothing is known of the CPU time of {host}")
        else:
            taken.append((trial, table.rows(trial.name, host), busy, basis))
    # A trial of few ticks may have none in user code: it counts as one of no cost, or those that have some would seem costly.
    if not any(busy.value for _, _, busy, _ in taken):
        idle = f"no CPU time of {host} was seen" if reach == "user" else f"{host} was not busy"
        reasons += [idle] if taken else []
        return "; ".join(sorted(set(reasons))) or "the point has no finished trial"
    labels = labels_of(dataset, trials[0].levels)
    where = ", ".join(f"{name} {text}" for name, text in labels.items())
    sampling = _sampling(
        [trial.hosts[host] for trial, *_ in taken], sum(table.samples(r) for _, r, *_ in taken)
    )
    lacks = tuple(dict.fromkeys(text for trial, *_ in taken if (text := what_lacks(trial, host))))
    warnings = [Warning(WarningCode.SENSOR_MISSING, f"{host}: {text}", where) for text in lacks]
    if sampling.lost > LOST_MOST * (sampling.samples + sampling.idle_samples + sampling.lost):
        text = f"{host}: {sampling.lost} samples were lost beside {sampling.samples} that count"
        warnings.append(Warning(WarningCode.SENSOR_MISSING, text, where))
    if reasons:
        text = f"{host}: {len(reasons)} of {len(trials)} trials have no profile: {'; '.join(sorted(set(reasons)))}"
        warnings.append(Warning(WarningCode.SENSOR_MISSING, text, where))
    per = per_what(trials[0])
    with_programs = any(roles.are_known(trial.hosts[host]) for trial, *_ in taken)
    kept = tuple(rows if with_programs else rows[~table.foreign[rows]] for _, rows, *_ in taken)
    weights = tuple(
        class_weights(table.by_part(rows), _class_times(trial.hosts[host], reach))
        for trial, rows, *_ in taken
    )
    if not sum(map(table.samples, kept)):
        return f"all samples of {host} are of other programs"
    foreign = 1 - sum(float(one.sum()) for one in map(table.weighed, kept, weights)) / sampling.samples
    if foreign > FOREIGN_MOST:
        text = f"{host}: {foreign:.0%} of its busy time went into other programs, which is left out of the cost by function"
        warnings.append(Warning(WarningCode.HOST_BUSY, text, where))
    return PointProfile(
        point=trials[0].point,
        levels=trials[0].levels,
        labels=labels,
        host=host,
        table=table,
        rows=kept,
        every=tuple(rows for _, rows, *_ in taken),
        busy=estimate([busy for _, _, busy, _ in taken], f"ns/{per}", where=where),
        busy_by_trial=tuple(busy.value or 0.0 for _, _, busy, _ in taken),
        basis=" and ".join(sorted({basis for *_, basis in taken})),
        sampling=sampling,
        weights=weights,
        warnings=tuple(warnings),
        reach=reach,
        lacks=lacks,
        per=per,
        with_programs=with_programs,
    )


def class_weights(samples: Integers, times: Numbers | None) -> Numbers:
    """Return the weight of a sample of each part, so that all of a part stand for its exact time (post-stratification, Holt and
    Smith 1979); on the mean they count 1. A part of too few samples is taken together with the one that its time shows in.
    """
    if times is None or not times.sum() or not samples.sum():
        return EVEN
    group = np.arange(len(PARTS))
    for part, other in _TOGETHER:
        mine, theirs = group[PARTS.index(part)], group[PARTS.index(other)]
        if samples[group == mine].sum() < PART_LEAST:
            group[group == mine] = theirs
    found = np.ones(len(PARTS))
    for one in np.unique(group):
        seen = samples[group == one].sum()
        if seen:
            found[group == one] = times[group == one].sum() / times.sum() * samples.sum() / seen
    return found


def _class_times(host: HostData, reach: Reach) -> Numbers | None:
    """Exact time of each part in the measured window, of those that were sampled; None: not known."""
    found = cpu_classes.spent(host, "bpf")
    if reach == "user" or not found or len(found) != len(host.measured):
        return None
    others = 0.0 if reach == "own" else sum(one.classes["other"] for one in found)
    irq, softirq = (sum(one.classes[name] for one in found) for name in ("irq", "softirq"))
    return np.asarray([sum(one.app_ns for one in found), irq, softirq, others])


def per_what(trial: Trial) -> Per:
    """Return the unit that a cost of a trial is of: a load on disks is asked for operations, of which not all move bytes."""
    return "operation" if trial.clients else "KiB"


def _work(trial: Trial, spans_ns: Mapping[int, int]) -> list[tuple[float, int]]:
    """Return the load's work in each measured interval, in KiB or operations, with its length beside readings of `spans_ns`."""
    by_operation = per_what(trial) == "operation"
    end = trial.end("send" if by_operation else "receive")
    if end is None:
        return []
    lengths = trial.beside_readings(end, spans_ns)
    return [
        (float(record.operations) if by_operation else record.bytes / 1024, lengths[record.index])
        for record in end.measured
    ]


def busy_per_kib(trial: Trial, name: str) -> tuple[Measured, str]:
    """Busy CPU nanoseconds of a host per KiB delivered or operation, background included, and what told that it was busy."""
    return _per_kib(
        trial,
        name,
        {
            "bpf": "all time less idle time from the scheduler's own switches (cpu_exact)",
            "tick": "all time less idle time from /proc/stat",
        },
        lambda one: one.busy_ns,
    )


def _own_per_kib(trial: Trial, name: str) -> tuple[Measured, str]:
    """Busy CPU nanoseconds of a host per KiB delivered without that of other tasks, and what told them apart."""
    return _per_kib(
        trial,
        name,
        {
            "bpf": "all time less idle time and that of other tasks from the scheduler's own switches (cpu_exact)",
            "tick": "all time less idle time from /proc/stat, with that of other tasks, which it does not tell apart",
        },
        lambda one: one.busy_ns - one.classes.get("other", 0.0),
    )


def _user_per_kib(trial: Trial, name: str) -> tuple[Measured, str]:
    """CPU nanoseconds per KiB delivered that user code took, and what told it: of the load, or of all tasks of its CPUs."""
    return _per_kib(
        trial,
        name,
        {
            "bpf": "that of the load, told from its system time by samples (cpu_exact)",
            "tick": "that of all tasks of the host's CPUs from /proc/stat, sampled at the timer tick",
        },
        lambda one: one.classes.get("usr"),
    )


_TIMES: Mapping[Reach, Callable[[Trial, str], tuple[Measured, str]]] = {
    "all": busy_per_kib,
    "own": _own_per_kib,
    "user": _user_per_kib,
}
"""Time that the samples of a trial stand for, by their reach."""


def _per_kib(
    trial: Trial,
    name: str,
    bases: Mapping[ClassTier, str],
    part_ns: Callable[[cpu_classes.Spent], float | None],
) -> tuple[Measured, str]:
    """A part of a host's CPU time per KiB delivered or operation, by the first of the tiers that knows it, and what that tier
    goes by."""
    host = trial.hosts.get(name)
    if host is None:
        return missing(f"the trial has no host {name}"), ""
    if not sum(done for done, _ in _work(trial, {})):
        done = "completed" if trial.clients else "delivered"
        return missing(f"nothing was {done} in the measured window"), ""
    parts: list[tuple[float, float]] = []
    spans_ns: dict[int, int] = {}
    basis = ""
    for tier, said in bases.items():
        found = cpu_classes.spent(host, tier)
        known = [(part, one.whole_ns) for one in found if (part := part_ns(one)) is not None]
        if known and len(known) == len(host.measured if tier == "bpf" else found):
            parts, basis, spans_ns = known, said, {one.index: one.span_ns for one in found}
            break
    if not parts:
        return missing(host.why_missing(cpu_classes.CPU_TIMES)), ""
    busy, whole = (sum(part) for part in zip(*parts, strict=True))
    work = _work(trial, spans_ns)
    rate = sum(done for done, _ in work) / sum(span_ns for _, span_ns in work)
    rates = [done / span_ns for done, span_ns in work]
    cpus = len(host.cpus)
    return (
        Measured(
            busy / whole * cpus / rate,
            tuple(b / w * cpus / r for (b, w), r in zip(parts, rates, strict=False) if r),
            note=basis,
        ),
        basis,
    )


def _sampling(hosts: Sequence[HostData], samples: int) -> Sampling:
    said = [host.manifest.get("profile") or {} for host in hosts]
    window = sum(max(0, int(p.get("end_ns", 0)) - int(p.get("begin_ns", 0))) for p in said)
    return Sampling(
        hz=max((int(p.get("hz", 0)) for p in said), default=0),
        event=" and ".join(sorted({str(p["event"]) for p in said if p.get("event")})),
        samples=samples,
        idle_samples=sum(int(p.get("idle_samples", 0)) for p in said),
        lost=sum(int(p.get("lost", 0)) for p in said),
        reader_ratio=sum(int(p.get("cost_ns", 0)) for p in said) / window if window else None,
        symbolise_ns=sum(int(p.get("symbolise_ns", 0)) for p in said),
    )
