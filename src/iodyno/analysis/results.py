"""Results of a campaign as values: everything that a report shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from iodyno.analysis.alike import groups_of
from iodyno.analysis.bystander import Trade
from iodyno.analysis.cost import Background
from iodyno.analysis.cost_model.shown import CostStudy
from iodyno.analysis.cpu_classes import Accounting
from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.file_systems import FileOperations
from iodyno.analysis.finite_buffer import FiniteBuffer
from iodyno.analysis.fitting.campaign import LineFit
from iodyno.analysis.interrupt_rates import InterruptRate
from iodyno.analysis.placement import Apart
from iodyno.analysis.trial import Trial
from iodyno.analysis.wall import Wall
from iodyno.core.decision import Standing, UntilSpec
from iodyno.core.limiter import UNKNOWN, Finding, Verdict
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import counted
from iodyno.core.search import GoalResult, LoadTrial, SearchSpec
from iodyno.core.warnings import Warning
from iodyno.core.workload import Level
from iodyno.loads.base.analysis import load_of
from iodyno.loads.disk.analysis.targets import TargetResult
from iodyno.loads.files.analysis.flowops import FoundProgram
from iodyno.loads.script.analysis.results import FoundScript


@dataclass(frozen=True)
class HostSummary:
    """A host: what it is, how it was reached, its background, and the CPUs that each part of the instrument took at most."""

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
    observer: Mapping[str, float]
    receive_shares: Mapping[int, float]


@dataclass(frozen=True)
class MetricSummary:
    """A metric that another program holds: its source, the unit of its outcome, how near the time of a value is known, and the
    clocks of a source that has times of its own, as trials found them.
    """

    name: str
    source: str
    kind: str
    unit: str
    every_ns: int
    within_ns: int
    clocks: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class SocketSummary:
    """Socket options of one host at one point: asked for and obtained, by option."""

    host: str
    labels: Mapping[str, str]
    options: Mapping[str, tuple[Any, Any]]
    differing: int


@dataclass(frozen=True)
class TrialSummary:
    """A trial: its place in the design, how it went, and its outcomes (None where missing). `pair`: its machines."""

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
    warnings: tuple[Warning, ...]
    outcomes: Mapping[str, float | None]
    overhead_ns: int | None
    skew_ns: int | None
    pair: str = ""


def lost_trials(trials: Iterable[TrialSummary | Trial]) -> Iterator[str]:
    """Yield which trials do not count because their files are damaged or no attempt went well, and why."""
    trials = list(trials)
    whole = {trial.order for trial in trials if trial.status == "finished"}
    for trial in trials:
        if trial.order not in whole and trial.status in ("damaged", "failed"):
            state = "is damaged" if trial.status == "damaged" else "failed"
            yield f"trial {trial.name} {state}: {trial.reason or 'no reason was given'}"


def lost_note(folder: Path | str, trials: Iterable[TrialSummary | Trial]) -> str:
    """Return which trials of a campaign do not count, in a line; nothing where all do."""
    lost = list(lost_trials(trials))
    more = f"; and {counted(len(lost) - 1, 'more trial')} damaged or failed" if len(lost) > 1 else ""
    return f"{folder}: {lost[0]}{more}" if lost else ""


@dataclass(frozen=True)
class PointSummary:
    """A point of the design: its levels, an estimate of every outcome over its trials, and what limits there.

    `skipped`: why this machine could not have it; None: it could. `interrupts`: those of each host, where they were counted.
    `targets`: what was done to each target of a client that has several. `file_operations`: of file systems of each machine.
    `settings`: all that was set there, as people write it; empty where it has no trial.
    """

    id: str
    levels: Mapping[str, Level]
    labels: Mapping[str, str]
    outcomes: Mapping[str, Estimate]
    warnings: tuple[Warning, ...]
    planned: int
    finished: int
    limiter: Finding = field(default_factory=lambda: Finding(Verdict(UNKNOWN, trials=0)))
    skipped: str | None = None
    interrupts: tuple[InterruptRate, ...] = ()
    targets: tuple[TargetResult, ...] = ()
    file_operations: tuple[FileOperations, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    def knows(self, outcome: str) -> bool:
        """Tell whether there is a number of this outcome."""
        found = self.outcomes.get(outcome)
        return found is not None and found.estimate is not None


@dataclass(frozen=True)
class CampaignSummary:
    """Everything that a report shows.

    `named`: the outcomes that the experiment names, in order, then its metrics; `asked`: those, or the usual ones where it names
    none.
    `found`: where the search of each point of the design ended, of an experiment that searches. `walls`: of every line
    of a closed loop of requests at several numbers of clients. `trades`: what the factors do to workload and bystander.
    `until` and `decision`: the rule for stopping, and where it ended. `finite_buffer`: of a port with few buffers.
    `fits`: the models of every line along a load.
    `costs`: the linear model of the sender's cost, where two factors vary and the trials carry one. `plots`: the whole
    plot of each trial by its order, of a design with slow factors. `placement`: of trials on pairs of machines, each outcome
    taken apart into setting and machine. `lacks`: what is left to do of a campaign that is not finished, beside trials.
    """

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
    warnings: tuple[Warning, ...]
    preflight: Sequence[Mapping[str, Any]] = ()
    calibration: Mapping[str, Any] = field(default_factory=dict)
    experiment_text: str = ""
    accounting: Accounting = field(default_factory=Accounting)
    scripts: tuple[FoundScript, ...] = ()
    programs: tuple[FoundProgram, ...] = ()
    notes: tuple[str, ...] = ()
    search: SearchSpec | None = None
    goal_results: tuple[GoalResult, ...] = ()
    load_trials: Mapping[str, tuple[LoadTrial, ...]] = field(default_factory=dict)
    walls: tuple[Wall, ...] = ()
    trades: tuple[Trade, ...] = ()
    decision: Standing | None = None
    until: UntilSpec | None = None
    finite_buffer: FiniteBuffer | None = None
    fits: tuple[LineFit, ...] = ()
    costs: CostStudy | None = None
    plots: Mapping[int, int] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    metrics: tuple[MetricSummary, ...] = ()
    placement: tuple[Apart, ...] = ()
    lacks: str = ""

    @property
    def rate(self) -> str:
        """The outcome that is the rate of the load."""
        return load_of(self.workload).rate

    def name_of(self, point: PointSummary) -> str:
        """A point as it is written: the factors that vary, or all where none does."""
        names = [f.name for f in self.factors if f.varies] or list(point.labels)
        return ",".join(f"{name}={point.labels[name]}" for name in names if name in point.labels) or point.id

    @property
    def shown_hosts(self) -> tuple[HostSummary, ...]:
        """The hosts as tables and sentences have them: an end that has several is one, with its name and facts of the first."""
        named = {host: name for name, hosts in groups_of(self.workload).items() for host in hosts}
        # Several on one machine have the name of the first of them.
        names = [named.get(host.name.partition("+")[0], host.name) for host in self.hosts]
        last = {n: replace(h, name=n) for n, h in reversed(tuple(zip(names, self.hosts, strict=True)))}
        return tuple(last[name] for name in dict.fromkeys(names))

    def host(self, role: str) -> HostSummary | None:
        """The host that sends (`send`) or receives (`receive`); of a load that needs no other end, the first client."""
        role = load_of(self.workload).first_role if role == "send" else role
        return next((host for host in self.shown_hosts if host.role == role), None)
