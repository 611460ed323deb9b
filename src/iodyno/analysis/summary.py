"""Results of a campaign: `analyse(dataset)` gives everything that a report shows, as values."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from iodyno.analysis import cost, cpu_classes, file_systems, physics
from iodyno.analysis.bystander import Trade, trades
from iodyno.analysis.cost import CostBasis
from iodyno.analysis.cost_model.study import study_costs
from iodyno.analysis.dataset import Dataset, read_dataset
from iodyno.analysis.factors import FactorLevels, factors_of, label, labels_of, moving_together
from iodyno.analysis.file_systems import FileOperations
from iodyno.analysis.finite_buffer import finite_buffer_of
from iodyno.analysis.fitting.campaign import fits_of
from iodyno.analysis.goal_results import load_trials_of, search_of
from iodyno.analysis.interrupt_rates import InterruptRate, rates
from iodyno.analysis.interval import estimate
from iodyno.analysis.limiter import verdict
from iodyno.analysis.limiter.elasticity import proof_by_design, proofs_of
from iodyno.analysis.measured import Measured
from iodyno.analysis.placement import Apart, Row, contrasts_of, take_apart
from iodyno.analysis.planned import decision_of, lacks, planned_trials, until_of
from iodyno.analysis.pooled_spread import pooled_spread
from iodyno.analysis.results import (
    CampaignSummary,
    HostSummary,
    MetricSummary,
    PointSummary,
    SocketSummary,
    TrialSummary,
)
from iodyno.analysis.seen_trials import Seen, look_at, trial_warnings
from iodyno.analysis.stacks import what_lacks
from iodyno.analysis.trial import Trial
from iodyno.analysis.two_processes import in_halves
from iodyno.analysis.wall import walls_of
from iodyno.core.experiment import stored_ends
from iodyno.core.limiter import Finding, Verdict
from iodyno.core.metric_source import names_of, outcome_kinds
from iodyno.core.outcome import OUTCOMES, Estimate, bystanders_of
from iodyno.core.warnings import Warning, WarningCode, shared_cpus
from iodyno.loads.base.analysis import load_of
from iodyno.loads.disk.analysis import targets
from iodyno.loads.files.analysis.flowops import programs_of
from iodyno.loads.script.analysis.results import scripts_of

BACKGROUND_CHANGE = 0.02
"""Points by which the background may differ before and after (chosen: as much as marks the split of CPU time)."""


def analyse(dataset: Dataset) -> CampaignSummary:
    """Outcomes with intervals of every point, warnings about them, what is known of the hosts, and a model of the cost."""
    summary = _summarise(dataset)
    return replace(summary, costs=study_costs(summary), placement=_placement(dataset, summary))


def analyse_campaign(folder: Path) -> CampaignSummary:
    """The same of the campaign in a folder. Raises StoreError."""
    return analyse(read_dataset(folder))


def _summarise(dataset: Dataset) -> CampaignSummary:
    header = dataset.header
    finished = [trial for trial in dataset.trials if trial.finished]
    hello = _hello(dataset)
    basis = basis_of(dataset)
    seen = _seen(dataset, finished, hello, basis)
    measured = {name: one.measured for name, one in seen.items()}
    warnings = {
        trial.name: seen[trial.name].warnings
        if trial.finished
        else tuple(trial_warnings(trial, None, hello, basis))
        for trial in dataset.trials
    }
    points = tuple(_points(dataset, finished, seen, warnings))
    about_hosts = _host_warnings(dataset, basis, hello, finished, seen)
    every = [*dataset.warnings, *about_hosts, *(d for found in warnings.values() for d in found)]
    every += [d for point in points for d in point.warnings]
    factors = factors_of(dataset)
    every += moving_together(factors, [point.levels for point in points if not point.skipped])
    design = header.get("design") or {}
    return CampaignSummary(
        name=header.get("name", dataset.folder.name),
        question=dataset.experiment.get("question", ""),
        folder=str(dataset.folder),
        created=header.get("created", ""),
        finished=bool(header.get("finished")),
        lacks=lacks(dataset),
        quick=bool(header.get("quick")),
        seed=header.get("seed"),
        tool_version=header.get("tool_version", ""),
        build_hash=header.get("build_hash", ""),
        design=design.get("kind", ""),
        plots={trial["order"]: trial["plot"] for trial in design.get("trials") or [] if "plot" in trial},
        workload=dataset.experiment.get("workload") or {},
        windows=dataset.experiment.get("windows") or {},
        factors=factors,
        factor_labels={f.name: tuple(label(dataset, f.name, level) for level in f.levels) for f in factors},
        hosts=tuple(_host(dataset, name, basis, finished, seen) for name in dataset.hosts),
        tier=basis.tier,
        asked=asked_outcomes(dataset),
        named=tuple(dict.fromkeys((*_named_outcomes(dataset), *outcome_kinds(dataset.experiment)))),
        metrics=_metrics(dataset),
        points=points,
        trials=tuple(_trial(dataset, t, measured.get(t.name), warnings[t.name]) for t in dataset.trials),
        planned=len(planned_trials(dataset) or dataset.trials),
        sockets=tuple(_sockets(dataset, finished)),
        warnings=tuple(dict.fromkeys(every)),
        preflight=header.get("preflight") or (),
        calibration=header.get("calibration") or {},
        experiment_text=dataset.experiment_text,
        accounting=basis.accounting,
        scripts=scripts_of(dataset),
        programs=programs_of(dataset),
        notes=tuple(dataset.experiment.get("notes") or ()),
        walls=walls_of(dataset, finished, measured, factors),
        trades=_trades(dataset, points, factors),
        decision=decision_of(dataset),
        until=until_of(dataset),
        finite_buffer=finite_buffer_of(dataset, finished, measured, {p.id: p.outcomes for p in points}),
        fits=fits_of(dataset, measured, factors),
        search=(searched := search_of(dataset))[0],
        goal_results=searched[1],
        load_trials=load_trials_of(dataset),
    )


def _seen(
    dataset: Dataset, finished: Sequence[Trial], hello: Mapping[str, Mapping[str, Any]], basis: CostBasis
) -> dict[str, Seen]:
    """Look at the trials, those on a pair of machines with the clock rates and facts of that pair."""
    pairs = dataset.header.get("pairs") or {}
    found: dict[str, Seen] = {}
    for pair in dict.fromkeys(trial.manifest.get("pair") for trial in finished):
        own = [trial for trial in finished if trial.manifest.get("pair") == pair]
        if pair in pairs:
            its = {name: host.get("hello") or {} for name, host in pairs[pair].items()}
            found |= look_at(dataset, own, its, replace(basis, tsc_hz=_clock_rates(its)))
        else:
            found |= look_at(dataset, own, hello, basis)
    return found


def _clock_rates(hello: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    rates = {name: (said.get("clock") or {}).get("tsc_hz") for name, said in hello.items()}
    return {name: hz for name, hz in rates.items() if hz}


def _placement(dataset: Dataset, summary: CampaignSummary) -> tuple[Apart, ...]:
    """Outcomes that were asked for, taken apart into setting and machine; none without pairs of machines."""
    if not dataset.experiment.get("placement"):
        return ()
    contrasts = contrasts_of(summary.factors, {point.id: point.levels for point in summary.points})
    places = {
        "+".join(pair["machines"].values()): at for at, pair in enumerate(dataset.experiment["placement"])
    }
    finished = [trial for trial in summary.trials if trial.status == "finished" and trial.pair in places]
    finished.sort(key=lambda trial: places[trial.pair])
    found = []
    for outcome in dict.fromkeys((rate_outcome(dataset), *summary.asked)):
        told = ((trial, trial.outcomes.get(outcome)) for trial in finished)
        rows = [Row(trial.point, trial.pair, value) for trial, value in told if value is not None]
        found.append(take_apart(outcome, rows, contrasts))
    return tuple(found)


def _by_pair(trials: Sequence[Trial], measured: Sequence[Measured]) -> list[Measured]:
    """The outcome of each trial; of several on one pair of machines their mean, as these vary less than pairs do."""
    pairs: dict[str, list[Measured]] = defaultdict(list)
    for trial, one in zip(trials, measured, strict=True):
        if one.value is not None:
            pairs[trial.manifest.get("pair") or trial.name].append(one)
    if all(len(own) == 1 for own in pairs.values()):
        return list(measured)
    return [
        replace(own[0], value=fmean(one.value for one in own if one.value is not None))
        for own in pairs.values()
    ]


def _trades(
    dataset: Dataset, points: Sequence[PointSummary], factors: Sequence[FactorLevels]
) -> tuple[Trade, ...]:
    felt = load_of(dataset.experiment.get("workload")).felt
    levels = {factor.name: factor.levels for factor in factors if factor.varies}
    measured = [(p.levels, p.labels, p.outcomes) for p in points]
    beside = {name: load_of(its).felt for name, its in bystanders_of(dataset.experiment).items()}
    return tuple(
        trade for name, its in beside.items() for trade in trades(measured, levels, (felt, its), name)
    )


def _hello(dataset: Dataset) -> dict[str, Mapping[str, Any]]:
    return {name: host.get("hello") or {} for name, host in dataset.hosts.items()}


def unit_of(outcome: str, found: Iterable[Estimate] = ()) -> str:
    """Unit of an outcome, with or without its host; of a metric that another program holds by what was `found` of it."""
    kind = OUTCOMES.get(outcome.rpartition(".")[2])
    return kind.unit if kind else next((estimate.unit for estimate in found), "1")


def basis_of(dataset: Dataset) -> CostBasis:
    """Return the basis for the cost of every trial of the campaign: background, clock rates, tiers."""

    def look(each: Sequence[Trial]) -> dict[str, dict[str, dict[str, Any]]]:
        for host in (host for trial in dataset.in_turn(each) for host in trial.hosts.values()):
            cpu_classes.look(host)
            cost.counts_cycles(host)
        return {trial.name: {name: host.kept for name, host in trial.hosts.items()} for trial in each}

    hello = _hello(dataset)
    finished = [trial for trial in dataset.trials if trial.finished]
    with dataset.of_sensors(cpu_classes.CPU_EXACT, cpu_classes.CPU_TIMES, cost.CYCLES, times=False):
        looked = in_halves(look, finished) if dataset.can_be_shared() else look(finished)
        for trial in finished:
            for name, host in trial.hosts.items():
                host.kept.update(looked[trial.name][name])
    accounting = cpu_classes.choose(finished, tuple(dataset.background.values()), hello)
    background = {name: cost.background(name, dataset.background, accounting) for name in dataset.hosts}
    return CostBasis(
        background=background,
        tier=cost.choose_tier(finished, dataset.background.values()),
        tsc_hz=_clock_rates(hello),
        accounting=accounting,
        without_others=cost.others_gave_way(finished, background, accounting),
    )


def _points(
    dataset: Dataset,
    finished: Sequence[Trial],
    seen: Mapping[str, Seen],
    warnings: Mapping[str, Sequence[Warning]],
) -> list[PointSummary]:
    design = dataset.header.get("design") or {}
    planned: dict[str, int] = defaultdict(int)
    for due in planned_trials(dataset):
        planned[due["point"]] += 1
    # Those of a search are found as it goes; the design's are where it begins.
    searches = bool(dataset.experiment.get("search"))
    levels = {point["id"]: point["levels"] for point in (() if searches else design.get("points") or ())}
    for trial in dataset.trials:
        if trial.point:
            levels.setdefault(trial.point, trial.levels)
    own = outcome_kinds(dataset.experiment)
    kinds = {n: own.get(n) or OUTCOMES[n.rpartition(".")[2]] for n in (*_known_outcomes(dataset), *own)}
    skipped = dataset.header.get("skipped") or {}
    by_point: dict[str, list[Trial]] = defaultdict(list)
    for trial in dataset.trials:
        by_point[trial.point].append(trial)
    machines = _first_of_each_machine(dataset)
    found = []
    for point, at in levels.items():
        labels = labels_of(dataset, at)
        where = ", ".join(f"{name} {text}" for name, text in labels.items())
        mine = [trial for trial in by_point[point] if trial.finished]
        outcomes = {
            name: estimate(
                _by_pair(
                    having := [t for t in mine if name in seen[t.name].measured],
                    [seen[t.name].measured[name] for t in having],
                ),
                kind.unit,
                where=where,
                possible=kind.possible,
            )
            for name, kind in kinds.items()
        }
        why_skipped = None if mine else skipped.get(point)
        if why_skipped:
            outcomes = {name: replace(e, missing=f"skipped: {why_skipped}") for name, e in outcomes.items()}
        about = list(outcomes[rate_outcome(dataset)].warnings)
        if len(mine) < planned[point] and not why_skipped:
            text = f"{len(mine)} of {planned[point]} planned trials finished"
            about.append(Warning(WarningCode.MISSING_TRIALS, text, where))
        about += [warning for trial in by_point[point] for warning in warnings[trial.name]]
        about += _observers(where, mine, seen, outcomes)
        limiter = _limiter(dataset, point, [seen[trial.name].verdict for trial in mine])
        about = list(dict.fromkeys(about))
        found.append(
            PointSummary(
                point,
                at,
                labels,
                outcomes,
                tuple(about),
                planned[point],
                len(mine),
                limiter,
                why_skipped,
                _interrupts([seen[trial.name] for trial in mine], machines),
                targets.results([seen[trial.name].targets for trial in mine]),
                _file_operations([seen[trial.name] for trial in mine], machines),
                labels_of(dataset, next((t.settings for t in by_point[point] if t.settings), {})),
            )
        )
    return _with_spreads(found, finished, {name: one.measured for name, one in seen.items()})


def _first_of_each_machine(dataset: Dataset) -> list[str]:
    """A host of each machine: its interrupts are those of all hosts there."""
    found: dict[str, str] = {}
    for name, known in dataset.hosts.items():
        found.setdefault(((known.get("hello") or {}).get("host") or {}).get("boot_id") or name, name)
    return list(found.values())


def _interrupts(seen: Sequence[Seen], machines: Sequence[str]) -> tuple[InterruptRate, ...]:
    """The interrupts of each machine at a point."""
    each = (
        rates(name, [one.interrupts[name] for one in seen if name in one.interrupts]) for name in machines
    )
    return tuple(rate for of_host in each for rate in of_host)


def _file_operations(seen: Sequence[Seen], machines: Sequence[str]) -> tuple[FileOperations, ...]:
    """The operations of the file systems of each machine at a point."""
    each = (file_systems.results(name, [one.file_systems.get(name, {}) for one in seen]) for name in machines)
    return tuple(one for of_host in each for one in of_host)


def _observers(
    where: str, trials: Sequence[Trial], seen: Mapping[str, Seen], outcomes: Mapping[str, Estimate]
) -> Iterator[Warning]:
    """The warnings about what the instrument took at a point."""
    for name in dict.fromkeys(name for trial in trials for name in trial.hosts):
        mine = [trial for trial in trials if name in trial.hosts]
        busy = [
            value * len(trial.hosts[name].cpus)
            for trial in mine
            if (known := seen[trial.name].measured.get(f"{name}.cpu_busy_ratio"))
            and (value := known.value) is not None
        ]
        taken = [seen[trial.name].observer[name] for trial in mine]
        yield from physics.observer_cost(name, where, taken, busy, outcomes)


def _with_spreads(
    points: Sequence[PointSummary], finished: Sequence[Trial], measured: Mapping[str, Mapping[str, Measured]]
) -> list[PointSummary]:
    """The points, each outcome with the spread of its trials over all of them."""
    trials: dict[str, list[str]] = defaultdict(list)
    for trial in finished:
        trials[trial.point].append(trial.name)

    def values(point: str, outcome: str) -> list[float]:
        each = (measured[name].get(outcome) for name in trials[point])
        return [one.value for one in each if one and one.value is not None]

    names = dict.fromkeys(name for point in points for name in point.outcomes)
    spreads = {name: pooled_spread([values(point.id, name) for point in points]) for name in names}
    return [
        replace(p, outcomes={name: replace(e, spread=spreads[name]) for name, e in p.outcomes.items()})
        for p in points
    ]


def _limiter(dataset: Dataset, point: str, mine: Sequence[Verdict]) -> Finding:
    """Judge what limits at the point: by the evidence of its trials, and by those that tested it."""
    untestable = ((dataset.header.get("proof") or {}).get("untestable") or {}).get(point) or {}
    tests = [trial for trial in dataset.proofs if trial.point == point]
    proofs = proofs_of(tests, untestable)
    design = [trial for trial in dataset.trials if trial.finished and trial.clients]
    by_design = proof_by_design(design, [trial for trial in design if trial.point == point])
    if by_design and all(proof.limiter != by_design.limiter for proof in proofs):
        proofs = (*proofs, by_design)
    return Finding(verdict.of_point(mine), proofs)


def _host_warnings(
    dataset: Dataset,
    basis: CostBasis,
    hello: Mapping[str, Mapping[str, Any]],
    finished: Sequence[Trial],
    seen: Mapping[str, Seen],
) -> list[Warning]:
    found = []
    damaged = {name: trial.reason for name, trial in dataset.background.items() if trial.status == "damaged"}
    if damaged:
        # The first of its code: the terminal shows no more than one of each.
        text = "; ".join(
            f"the one {when} the trials is damaged: {reason}" for when, reason in damaged.items()
        )
        found.append(Warning(WarningCode.BACKGROUND, text, f"background {' and '.join(damaged)}"))
    cpus = {host.name: host.cpus for trial in finished for host in trial.hosts.values()}
    boots = {name: (said.get("host") or {}).get("boot_id") for name, said in hello.items()}
    sharing: dict[str, dict[str, None]] = defaultdict(dict)
    for one, other in combinations(cpus, 2):
        boot = boots[one]
        if boot is not None and boot == boots[other] and set(cpus[one]) & set(cpus[other]):
            sharing[boot].update({one: None, other: None})
    # A lab that divides the CPUs of a machine has said it before.
    said = " ".join(each.text for each in dataset.warnings if each.code is WarningCode.SHARED_CPUS)
    told = set(re.findall(r"[\w.-]+", said))
    found += [shared_cpus(tuple(hosts), cpus) for hosts in sharing.values() if not told & set(hosts)]
    if basis.without_others:
        text = f"{basis.without_others}; cost is that of the load's own tasks and of interrupts"
        found.append(Warning(WarningCode.BACKGROUND, text))
    partly = physics.partly_exact(basis.accounting)
    found += [partly] if partly else []
    lacks = ((host, what_lacks(trial, host)) for trial in finished for host in trial.hosts)
    for host, text in dict.fromkeys(pair for pair in lacks if pair[1]):
        found.append(Warning(WarningCode.SENSOR_MISSING, f"call stacks: {text}", f"host {host}"))
    limit = (dataset.experiment.get("limits") or {}).get("background_ratio", 0.05)
    # Of these it was said before the first trial.
    busy = {warning.where for warning in dataset.warnings if warning.code is WarningCode.HOST_BUSY}
    loaded = {name for trial in finished for name in trial.hosts}
    for name, known in basis.background.items() if dataset.experiment.get("sensors") != "off" else ():
        # Of hosts on one machine, the first reads it for all.
        if name not in loaded and any(name in trial.clients for trial in finished):
            continue
        measured_ns = min(
            (one.measured_ns[name] for one in seen.values() if name in one.measured_ns), default=0
        )
        ticks = physics.tick_accounting(name, basis.accounting, len(cpus.get(name, ())), measured_ns)
        found += [ticks] if ticks else []
        if known.ratio is None:
            found.append(Warning(WarningCode.BACKGROUND, f"{name}: {known.missing}", name))
            continue
        if known.ratio > limit and f"host {name}" not in busy:
            text = f"{name}: the idle machine was {known.ratio:.1%} busy, over the limit of {limit:.0%}"
            found.append(Warning(WarningCode.BACKGROUND, text, name))
        if known.before is not None and known.after is not None:
            moved = known.after - known.before
            if abs(moved) > BACKGROUND_CHANGE:
                text = f"{name}: background went from {known.before:.1%} to {known.after:.1%} meanwhile"
                found.append(Warning(WarningCode.BACKGROUND, text, name))
        else:
            when, lacks_when = ("before", "after") if known.after is None else ("after", "before")
            text = (
                f"{name}: the background is that {when} the trials; it is not known {lacks_when} them, and what it changed by"
                " meanwhile is in no interval"
            )
            found.append(Warning(WarningCode.BACKGROUND, text, name))
    return found


def _host(
    dataset: Dataset, name: str, basis: CostBasis, finished: Sequence[Trial], seen: Mapping[str, Seen]
) -> HostSummary:
    known = dataset.hosts[name]
    hello = known.get("hello") or {}
    data = [trial.hosts[name] for trial in finished if name in trial.hosts]
    observed = [one.observer[name] for one in seen.values() if name in one.observer]
    path = known.get("path")
    notes = known.get("notes") or ()
    workload = dataset.experiment.get("workload") or {}
    senders, receivers = stored_ends(workload)
    roles = dict.fromkeys(senders, "send") | dict.fromkeys(receivers, "receive")
    roles |= dict.fromkeys(workload.get("hosts") or (), "alone")
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
        observer=max(observed, key=lambda parts: sum(parts.values()), default={}),
        receive_shares=_mean_shares(seen.values()) if data and data[0].role == "receive" else {},
    )


def _mean_shares(seen: Iterable[Seen]) -> dict[int, float]:
    each = [one.shares for one in seen if one.shares]
    cpus = sorted({cpu for shares in each for cpu in shares})
    return {cpu: sum(shares.get(cpu, 0.0) for shares in each) / len(each) for cpu in cpus}


def _sockets(dataset: Dataset, finished: Sequence[Trial]) -> list[SocketSummary]:
    """Options asked and obtained, one entry for every host and set of answers; labels of the first such
    point.
    """
    found: dict[str, SocketSummary] = {}
    for trial in finished:
        for host in trial.hosts.values() if not trial.clients else ():
            asked = host.job.get("socket") or {}
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
    warnings: Sequence[Warning],
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
        warnings=tuple(warnings),
        outcomes={name: one.value for name, one in (measured or {}).items()},
        overhead_ns=trial.manifest.get("overhead_ns"),
        skew_ns=(trial.manifest.get("start") or {}).get("skew_ns"),
        pair=trial.manifest.get("pair") or "",
    )


def _known_outcomes(dataset: Dataset) -> list[str]:
    load = load_of(dataset.experiment.get("workload"))
    return load.known(list(dataset.hosts), bystanders_of(dataset.experiment), dataset.members)


def asked_outcomes(dataset: Dataset) -> tuple[str, ...]:
    """The outcomes that the experiment names; without any, goodput and the cost of every host."""
    return _named_outcomes(dataset) or load_of(dataset.experiment.get("workload")).usual(list(dataset.hosts))


def _named_outcomes(dataset: Dataset) -> tuple[str, ...]:
    """The outcomes that the experiment names; one of every host that is named without a host is that of each."""
    known = [*_known_outcomes(dataset), *outcome_kinds(dataset.experiment)]
    named: list[str] = []
    for outcome in dataset.experiment.get("outcomes") or ():
        named += [outcome] if outcome in known else [f"{host}.{outcome}" for host in dataset.hosts]
    return tuple(name for name in dict.fromkeys(named) if name in known)


def _metrics(dataset: Dataset) -> tuple[MetricSummary, ...]:
    """The metrics that other programs hold, and how near the times of what was read are."""
    found = []
    for name, about, value in names_of(dataset.experiment):
        mine = [trial.metrics[name] for trial in dataset.trials if name in trial.metrics]
        clocks = (
            (trial.manifest.get("metrics") or {}).get(name.partition(".")[0]) for trial in dataset.trials
        )
        found.append(
            MetricSummary(
                name,
                about["source"],
                value["kind"],
                value["unit"],
                about["every_ns"],
                max((r.after_ns - r.before_ns for one in mine for r in one.readings), default=0),
                tuple(clock for clock in clocks if clock),
            )
        )
    return tuple(found)


def rate_outcome(dataset: Dataset) -> str:
    """The outcome that is the rate of the load: what it delivers, or does."""
    return load_of(dataset.experiment.get("workload")).rate
