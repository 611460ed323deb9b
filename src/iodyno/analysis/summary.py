"""What a campaign found: `analyse(dataset)` gives everything that a report shows, as values."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iodyno.analysis import cost, cpu_classes, observer, physics
from iodyno.analysis.cost import Background, CostBasis
from iodyno.analysis.cpu_classes import Accounting
from iodyno.analysis.dataset import Dataset, Trial
from iodyno.analysis.factors import FactorLevels, factors_of, label, labels_of
from iodyno.analysis.interval import estimate
from iodyno.analysis.limiter import verdict
from iodyno.analysis.limiter.elasticity import proofs_of
from iodyno.analysis.measured import Measured
from iodyno.analysis.outcomes import OF_HOST, OF_TRIAL, measure
from iodyno.analysis.steady_state import steady_state
from iodyno.analysis.timeline import Timeline, timeline
from iodyno.core.limiter import UNKNOWN, Finding, Verdict
from iodyno.core.outcome import OUTCOMES, Estimate
from iodyno.core.warnings import Doubt, WarningCode
from iodyno.core.workload import Level

BACKGROUND_CHANGE = 0.02
"""Points by which the background may differ before and after (chosen: as much as marks the split of CPU
time).
"""


@dataclass(frozen=True)
class HostSummary:
    """A host: what it is, how it was reached, its background, and what the instrument took there."""

    name: str
    role: str
    access: str
    cpus: tuple[int, ...]
    address: str | None
    facts: Mapping[str, Any]
    clock: Mapping[str, Any]
    write_overhead_ns: Mapping[str, float | None]
    capabilities: Sequence[Mapping[str, Any]]
    path: Mapping[str, Any]
    notes: tuple[str, ...]
    background: Background
    observer_ratio: float | None
    receive_shares: Mapping[int, float]


@dataclass(frozen=True)
class SocketSummary:
    """Socket options of one host at one point: asked for and obtained, by option."""

    host: str
    labels: Mapping[str, str]
    options: Mapping[str, tuple[Any, Any]]
    differing: int


@dataclass(frozen=True)
class TrialSummary:
    """A trial: its place in the design, how it went, and its outcomes (None where missing)."""

    name: str
    order: int
    attempt: int
    block: int
    replicate: int
    point: str
    labels: Mapping[str, str]
    status: str
    reason: str | None
    started_wall: str
    doubts: tuple[Doubt, ...]
    outcomes: Mapping[str, float | None]
    timeline: Timeline | None
    overhead_ns: int | None
    skew_ns: int | None


@dataclass(frozen=True)
class PointSummary:
    """A point of the design: its levels, an estimate of every outcome over its trials, and what limits there."""

    id: str
    levels: Mapping[str, Level]
    labels: Mapping[str, str]
    outcomes: Mapping[str, Estimate]
    doubts: tuple[Doubt, ...]
    planned: int
    finished: int
    limiter: Finding = field(default_factory=lambda: Finding(Verdict(UNKNOWN, trials=0)))


@dataclass(frozen=True)
class CampaignSummary:
    """Everything that a report shows. `asked`: the outcomes that the experiment names, in order."""

    name: str
    question: str
    folder: str
    created: str
    finished: bool
    quick: bool
    seed: int | None
    tool_version: str
    build_hash: str
    design: str
    workload: Mapping[str, Any]
    windows: Mapping[str, int]
    factors: tuple[FactorLevels, ...]
    factor_labels: Mapping[str, tuple[str, ...]]
    hosts: tuple[HostSummary, ...]
    tier: str
    asked: tuple[str, ...]
    points: tuple[PointSummary, ...]
    trials: tuple[TrialSummary, ...]
    planned: int
    sockets: tuple[SocketSummary, ...]
    doubts: tuple[Doubt, ...]
    preflight: Sequence[Mapping[str, Any]] = ()
    calibration: Mapping[str, Any] = field(default_factory=dict)
    experiment_text: str = ""
    accounting: Accounting = field(default_factory=Accounting)

    def host(self, role: str) -> HostSummary | None:
        """The host that sends (`send`) or receives (`receive`)."""
        return next((host for host in self.hosts if host.role == role), None)


def analyse(dataset: Dataset) -> CampaignSummary:
    """Outcomes with intervals of every point, doubts about them, and what is known of the hosts."""
    header = dataset.header
    finished = [trial for trial in dataset.trials if trial.finished]
    hello = {name: host.get("hello") or {} for name, host in dataset.hosts.items()}
    basis = _basis(dataset, finished, hello)
    measured = {trial.name: measure(trial, basis) for trial in finished}
    doubts = {
        trial.name: _trial_doubts(trial, measured.get(trial.name), hello, basis) for trial in dataset.trials
    }
    points = tuple(_points(dataset, finished, measured, basis, doubts))
    about_hosts = _host_doubts(dataset, basis, hello, finished)
    every = [*dataset.doubts, *about_hosts, *(d for found in doubts.values() for d in found)]
    every += [d for point in points for d in point.doubts]
    factors = factors_of(dataset)
    design = header.get("design") or {}
    return CampaignSummary(
        name=header.get("name", dataset.folder.name),
        question=dataset.experiment.get("question", ""),
        folder=str(dataset.folder),
        created=header.get("created", ""),
        finished=bool(header.get("finished")),
        quick=bool(header.get("quick")),
        seed=header.get("seed"),
        tool_version=header.get("tool_version", ""),
        build_hash=header.get("build_hash", ""),
        design=design.get("kind", ""),
        workload=dataset.experiment.get("workload") or {},
        windows=dataset.experiment.get("windows") or {},
        factors=factors,
        factor_labels={f.name: tuple(label(dataset, f.name, level) for level in f.levels) for f in factors},
        hosts=tuple(_host(dataset, name, basis, finished) for name in dataset.hosts),
        tier=basis.tier,
        asked=_asked(dataset),
        points=points,
        trials=tuple(_trial(dataset, t, measured.get(t.name), doubts[t.name], basis) for t in dataset.trials),
        planned=len(design.get("trials") or dataset.trials),
        sockets=tuple(_sockets(dataset, finished)),
        doubts=tuple(dict.fromkeys(every)),
        preflight=header.get("preflight") or (),
        calibration=header.get("calibration") or {},
        experiment_text=dataset.experiment_text,
        accounting=basis.accounting,
    )


def unit_of(outcome: str) -> str:
    """Unit of an outcome, with or without its host."""
    return OUTCOMES[outcome.rpartition(".")[2]].unit


def _basis(dataset: Dataset, finished: Sequence[Trial], hello: Mapping[str, Mapping[str, Any]]) -> CostBasis:
    rates = {name: (said.get("clock") or {}).get("tsc_hz") for name, said in hello.items()}
    accounting = cpu_classes.choose(finished, tuple(dataset.background.values()), hello)
    background = {name: cost.background(name, dataset.background, accounting) for name in dataset.hosts}
    return CostBasis(
        background=background,
        tier=cost.choose_tier(finished, dataset.background.values()),
        tsc_hz={name: hz for name, hz in rates.items() if hz},
        accounting=accounting,
        without_others=cost.others_gave_way(finished, background, accounting),
    )


def _points(
    dataset: Dataset,
    finished: Sequence[Trial],
    measured: Mapping[str, Mapping[str, Measured]],
    basis: CostBasis,
    doubts: Mapping[str, Sequence[Doubt]],
) -> list[PointSummary]:
    design = dataset.header.get("design") or {}
    planned: dict[str, int] = defaultdict(int)
    for trial in design.get("trials") or ():
        planned[trial["point"]] += 1
    levels = {point["id"]: point["levels"] for point in design.get("points") or ()}
    for trial in dataset.trials:
        if trial.point:
            levels.setdefault(trial.point, trial.levels)
    names = [*OF_TRIAL, *(f"{host}.{name}" for host in dataset.hosts for name in OF_HOST)]
    found = []
    for point, at in levels.items():
        labels = labels_of(dataset, at)
        where = ", ".join(f"{name} {text}" for name, text in labels.items())
        mine = [trial for trial in finished if trial.point == point]
        seed = zlib.crc32(f"{dataset.header.get('seed')}/{point}".encode())
        outcomes = {
            name: estimate(
                [measured[trial.name][name] for trial in mine if name in measured[trial.name]],
                unit_of(name),
                where=where,
                seed=seed,
            )
            for name in names
        }
        cpus = {host.name: len(host.cpus) for trial in mine for host in trial.hosts.values()}
        about = [*outcomes["goodput_bits_per_s"].warnings, *physics.check_point(outcomes, cpus, basis, where)]
        if len(mine) < planned[point]:
            text = f"{len(mine)} of {planned[point]} planned trials finished"
            about.append(Doubt(WarningCode.MISSING_TRIALS, text, where))
        mine_and_failed = [trial for trial in dataset.trials if trial.point == point]
        about += [doubt for trial in mine_and_failed for doubt in doubts[trial.name]]
        limiter = _limiter(dataset, point, mine)
        about = list(dict.fromkeys(about))
        found.append(
            PointSummary(point, at, labels, outcomes, tuple(about), planned[point], len(mine), limiter)
        )
    return found


def _limiter(dataset: Dataset, point: str, mine: Sequence[Trial]) -> Finding:
    """What limits at the point: by the evidence of its trials, and by those that tested it."""
    untestable = ((dataset.header.get("proof") or {}).get("untestable") or {}).get(point) or {}
    tests = [trial for trial in dataset.proofs if trial.point == point]
    return Finding(
        verdict.of_point([verdict.of_trial(trial) for trial in mine]), proofs_of(tests, untestable)
    )


def _trial_doubts(
    trial: Trial,
    measured: Mapping[str, Measured] | None,
    hello: Mapping[str, Mapping[str, Any]],
    basis: CostBasis,
) -> list[Doubt]:
    found = list(trial.doubts)
    if trial.attempt > 1 and not any(d.code is WarningCode.RETRIED for d in found):
        found.append(Doubt(WarningCode.RETRIED, f"attempt {trial.attempt} of this trial", trial.name))
    if measured is not None:
        unsteady = steady_state(measured["goodput_bits_per_s"].intervals, trial.name)
        found += [unsteady] if unsteady else []
        found += physics.check_trial(trial, hello, basis.accounting)
    return found


def _host_doubts(
    dataset: Dataset, basis: CostBasis, hello: Mapping[str, Mapping[str, Any]], finished: Sequence[Trial]
) -> list[Doubt]:
    found = []
    cpus = {host.name: host.cpus for trial in finished for host in trial.hosts.values()}
    boots = {name: (said.get("host") or {}).get("boot_id") for name, said in hello.items()}
    names = list(cpus)
    for position, one in enumerate(names):
        for other in names[position + 1 :]:
            both = sorted(set(cpus[one]) & set(cpus[other]))
            if both and boots[one] is not None and boots[one] == boots[other]:
                listed = ", ".join(map(str, both))
                text = f"{one} and {other} share CPU {listed}: the cost of each is the cost of both ends"
                found.append(Doubt(WarningCode.SHARED_CPUS, text, f"{one}, {other}"))
    if basis.without_others:
        text = f"{basis.without_others}; cost is that of the load's own tasks and of interrupts"
        found.append(Doubt(WarningCode.BACKGROUND, text))
    partly = physics.partly_exact(basis.accounting)
    found += [partly] if partly else []
    limit = (dataset.experiment.get("limits") or {}).get("background_ratio", 0.05)
    for name, known in basis.background.items():
        measured_ns = min((t.hosts[name].measured_ns for t in finished if name in t.hosts), default=0)
        ticks = physics.tick_accounting(name, basis.accounting, len(cpus.get(name, ())), measured_ns)
        found += [ticks] if ticks else []
        if known.ratio is None:
            found.append(Doubt(WarningCode.BACKGROUND, f"{name}: {known.missing}", name))
            continue
        if known.ratio > limit:
            text = f"{name}: the idle machine was {known.ratio:.1%} busy, over the limit of {limit:.0%}"
            found.append(Doubt(WarningCode.BACKGROUND, text, name))
        if known.before is not None and known.after is not None:
            moved = known.after - known.before
            if abs(moved) > BACKGROUND_CHANGE:
                text = f"{name}: background went from {known.before:.1%} to {known.after:.1%} meanwhile"
                found.append(Doubt(WarningCode.BACKGROUND, text, name))
    return found


def _host(dataset: Dataset, name: str, basis: CostBasis, finished: Sequence[Trial]) -> HostSummary:
    known = dataset.hosts[name]
    hello = known.get("hello") or {}
    data = [trial.hosts[name] for trial in finished if name in trial.hosts]
    each = [observer.cost_ratio(trial, name).value for trial in finished if name in trial.hosts]
    observed = [ratio for ratio in each if ratio is not None]
    path = known.get("path")
    notes = known.get("notes") or ()
    workload = dataset.experiment.get("workload") or {}
    roles = {str(workload.get("sender")): "send", str(workload.get("receiver")): "receive"}
    return HostSummary(
        name=name,
        role=data[0].role if data else roles.get(name, ""),
        access=known.get("access", ""),
        cpus=data[0].cpus if data else tuple(known.get("cpus") or ()),
        address=known.get("address"),
        facts=hello.get("host") or {},
        clock=hello.get("clock") or {},
        write_overhead_ns=(dataset.calibration.get(name) or {}).get("write_overhead_ns") or {},
        capabilities=hello.get("capabilities") or (),
        path=path if isinstance(path, Mapping) else ({"note": path} if path else {}),
        notes=tuple(notes) if not isinstance(notes, str) else (notes,),
        background=basis.background[name],
        observer_ratio=max(observed) if observed else None,
        receive_shares=_mean_shares(finished) if data and data[0].role == "receive" else {},
    )


def _mean_shares(trials: Sequence[Trial]) -> dict[int, float]:
    each = [shares for trial in trials if (shares := physics.receive_shares(trial))]
    cpus = sorted({cpu for shares in each for cpu in shares})
    return {cpu: sum(shares.get(cpu, 0.0) for shares in each) / len(each) for cpu in cpus}


def _sockets(dataset: Dataset, finished: Sequence[Trial]) -> list[SocketSummary]:
    """Options asked and obtained, one entry for every host and set of answers; labels of the first such
    point.
    """
    found: dict[str, SocketSummary] = {}
    for trial in finished:
        for host in trial.hosts.values():
            asked = (host.manifest.get("job") or {}).get("socket") or {}
            got = (host.manifest.get("ready") or {}).get("socket") or {}
            options = {name: (asked.get(name), got[name]) for name in got if name != "differing"}
            # Once per host and setting: which of the points had it does not matter.
            key = f"{host.name}/{sorted((name, str(pair)) for name, pair in options.items())}"
            labels = labels_of(dataset, trial.levels)
            found.setdefault(key, SocketSummary(host.name, labels, options, got.get("differing") or 0))
    return list(found.values())


def _trial(
    dataset: Dataset,
    trial: Trial,
    measured: Mapping[str, Measured] | None,
    doubts: Sequence[Doubt],
    basis: CostBasis,
) -> TrialSummary:
    return TrialSummary(
        name=trial.name,
        order=trial.order,
        attempt=trial.attempt,
        block=trial.block,
        replicate=trial.replicate,
        point=trial.point,
        labels=labels_of(dataset, trial.levels),
        status=trial.status,
        reason=trial.reason,
        started_wall=trial.started_wall,
        doubts=tuple(doubts),
        outcomes={name: one.value for name, one in (measured or {}).items()},
        timeline=timeline(trial, basis.accounting.tier),
        overhead_ns=trial.manifest.get("overhead_ns"),
        skew_ns=(trial.manifest.get("start") or {}).get("skew_ns"),
    )


def _asked(dataset: Dataset) -> tuple[str, ...]:
    """The outcomes that the experiment names; without any, goodput and the cost of every host."""
    hosts = list(dataset.hosts)
    known = [*OF_TRIAL, *(f"{host}.{name}" for host in hosts for name in OF_HOST)]
    named: list[str] = []
    for outcome in dataset.experiment.get("outcomes") or ():
        named += [outcome] if outcome in known else [f"{host}.{outcome}" for host in hosts]
    found = tuple(name for name in dict.fromkeys(named) if name in known)
    return found or ("goodput_bits_per_s", *(f"{host}.cycles_per_kbyte" for host in hosts))
