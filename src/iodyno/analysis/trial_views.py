"""Every trial as a person looks at it: rate, latency, CPU by class and the signals of its limiter over time, and the times
of its operations as columns of histograms."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from iodyno.analysis import cpu_classes
from iodyno.analysis.cpu_classes import BUSY_CLASSES, ClassTier
from iodyno.analysis.dataset import Dataset
from iodyno.analysis.host_data import HostData
from iodyno.analysis.limiter import signals
from iodyno.analysis.limiter.rules import RULES, Criterion
from iodyno.analysis.limiter.storage_rules import ALONE, RULES_OF_STORAGE
from iodyno.analysis.operation_times import OperationTimes, of_all, times_of
from iodyno.analysis.results import CampaignSummary, TrialSummary
from iodyno.analysis.trial import Trial
from iodyno.core.limiter import Suspect

QUANTILES = ((0.5, "p50"), (0.99, "p99"), (1.0, "max"))
"""Of the times in an interval: what most operations see, what one in a hundred sees, and the worst."""
TRIALS_MOST = 100
"""Trials that are all shown over time (chosen: beyond them nobody looks at each)."""
POINTS_MOST = 20
"""Points of a larger campaign of which a trial and the heat maps are shown (chosen: what one can look through)."""
SHOWN_BY_ITSELF = (
    f"the median trial by rate of each point, of up to {POINTS_MOST} points spread evenly over the campaign's"
)
"""The rule of `shown_trials` for a large campaign, as a page says it."""
SIGNALS_MOST = 3
"""Signals drawn of a trial (chosen: those of the first suspects; the table of evidence has all)."""


@dataclass(frozen=True)
class Line:
    """One quantity of one host over a trial: ends of the intervals in seconds since the start, and values."""

    host: str
    seconds: tuple[float, ...]
    values: tuple[float, ...]
    windows: tuple[str, ...]


@dataclass(frozen=True)
class Strip:
    """One picture over the time of a trial: lines of one unit, or classes on top of each other.

    `threshold`: from where on a limiter's signal counts (`above`: upwards); None where there is none.
    """

    title: str
    unit: str
    lines: tuple[Line, ...]
    kind: Literal["line", "log", "stack"] = "line"
    threshold: float | None = None
    above: bool = True
    names: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Name of each line: its own, else its host's."""
        return self.names or tuple(line.host for line in self.lines)


@dataclass(frozen=True)
class TrialView:
    """A finished trial over time: seconds since its first record."""

    name: str
    point: str
    end_s: float
    measured: tuple[float, float]
    times: tuple[OperationTimes, ...]
    strips: tuple[Strip, ...]


@dataclass(frozen=True)
class TrialStudy:
    """Views of the finished trials by name, and of each point the times of its trials together."""

    views: Mapping[str, TrialView] = field(default_factory=dict)
    points: Mapping[str, tuple[OperationTimes, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Tell whether there is anything to see."""
        return bool(self.views)


def shown_trials(summary: CampaignSummary) -> tuple[str, ...]:
    """The trials that a page shows over time where nobody chose: all, or of a large campaign the median trial of each point by
    rate, of points evenly spread over the campaign's; of an even number the lower of both.
    """
    finished = [trial for trial in summary.trials if trial.status == "finished"]
    if len(finished) <= TRIALS_MOST:
        return tuple(trial.name for trial in finished)
    by_point: dict[str, list[TrialSummary]] = {}
    for trial in finished:
        by_point.setdefault(trial.point, []).append(trial)
    points = [by_point[point.id] for point in summary.points if point.id in by_point]
    count = min(POINTS_MOST, len(points))
    chosen = [points[place * (len(points) - 1) // max(1, count - 1)] for place in range(count)]
    return tuple(
        sorted(each, key=lambda t: (t.outcomes.get(summary.rate) or 0.0, t.order))[(len(each) - 1) // 2].name
        for each in chosen
    )


def shown_points(summary: CampaignSummary, shown: Collection[str] | None = None) -> frozenset[str] | None:
    """The points of these trials, else of those that a page shows by itself; None where the campaign is small: all."""
    if sum(trial.status == "finished" for trial in summary.trials) <= TRIALS_MOST:
        return None
    chosen = set(shown_trials(summary) if shown is None else shown)
    return frozenset(trial.point for trial in summary.trials if trial.name in chosen)


def study_trials(
    dataset: Dataset, summary: CampaignSummary, shown: Collection[str] | None = None
) -> TrialStudy:
    """The views of the trials `shown`, else of those that a page shows by itself, CPU time in the tier of the campaign; and the
    times at their points, all trials of each together.
    """
    chosen = set(shown_trials(summary) if shown is None else shown)
    suspects = {point.id: point.limiter.verdict.ranked for point in summary.points}
    views = {
        trial.name: view
        for trial in dataset.trials
        if trial.finished
        and trial.name in chosen
        and (view := view_of(trial, summary.accounting.tier, suspects.get(trial.point, ()))) is not None
    }
    wanted = {view.point for view in views.values()}
    by_point: dict[str, list[Trial]] = {}
    for trial in dataset.trials:
        if trial.finished and trial.point in wanted:
            by_point.setdefault(trial.point, []).append(trial)
    with dataset.of_sensors():
        points = {
            point: of_all(
                views[t.name].times if t.name in views else times_of(t) for t in dataset.in_turn(each)
            )
            for point, each in by_point.items()
        }
    return TrialStudy(views, points)


def view_of(trial: Trial, tier: ClassTier, suspects: Sequence[Suspect] = ()) -> TrialView | None:
    """The view of one trial, with signals of what is suspected to limit its point; None when it has no records."""
    shown = trial.end("receive") or trial.end("send") or next(iter(trial.hosts.values()), None)
    if shown is None or not shown.records:
        return None
    start, measured = shown.records[0].begin_ns, shown.measured
    times = times_of(trial)
    return TrialView(
        name=trial.name,
        point=trial.point,
        end_s=(shown.records[-1].end_ns - start) / 1e9,
        measured=((measured[0].begin_ns - start) / 1e9, (measured[-1].end_ns - start) / 1e9)
        if measured
        else (0.0, 0.0),
        times=times,
        strips=tuple(
            strip
            for strip in (
                *_rates(trial),
                *_quantiles(times),
                *_classes(trial, tier),
                *_limiter(trial, suspects),
                *_metrics(trial),
            )
            if any(line.values for line in strip.lines)
        ),
    )


def _rates(trial: Trial) -> Iterator[Strip]:
    receiver, sender = trial.end("receive"), trial.end("send")
    if receiver is not None:
        rates = {r.index: r.bytes * 8e9 / r.span_ns for r in receiver.records if r.span_ns}
        yield Strip("goodput", "bit/s", (_line(receiver, rates),))
    if sender is not None and (trial.clients or trial.settings.get("response_size") is not None):
        operations = {r.index: r.operations * 1e9 / r.span_ns for r in sender.records if r.span_ns}
        yield Strip("operations", "1/s", (_line(sender, operations),))
    if sender is not None and trial.clients:
        moved = {r.index: r.bytes * 1e9 / r.span_ns for r in sender.records if r.span_ns}
        yield Strip("bytes read and written", "B/s", (_line(sender, moved),))
    if sender is not None:
        again = {
            index: float(reading.values["tcp.retransmitted_segments", ""])
            for index, reading in sender.readings.get("tcp_info", {}).items()
            if ("tcp.retransmitted_segments", "") in reading.values
        }
        # Where nothing was sent again, a line at zero says less than no line.
        if any(again.values()):
            yield Strip("segments retransmitted per interval", "", (_line(sender, again),))


def _quantiles(times: Sequence[OperationTimes]) -> Iterator[Strip]:
    """Of the main operation, which is the first, by each of its clocks."""
    own = [each for each in times if not each.beside]
    for each in own:
        if each.operation != own[0].operation:
            continue
        lines = []
        for share, _ in QUANTILES:
            known = [(c, value) for c in each.columns if (value := c.times.quantile(share)) is not None]
            lines.append(
                Line(
                    each.hosts[0],
                    tuple(column.end_s for column, _ in known),
                    tuple(value for _, value in known),
                    tuple(column.window for column, _ in known),
                )
            )
        names = tuple(name for _, name in QUANTILES)
        yield Strip(f"{each.operation}, {each.clock} time", "ns", tuple(lines), "log", names=names)


def _classes(trial: Trial, tier: ClassTier) -> Iterator[Strip]:
    for host in trial.hosts.values():
        found = cpu_classes.spent(host, tier, every=True) or cpu_classes.spent(host, "tick", every=True)
        known = [kind for kind in BUSY_CLASSES if any(one.classes.get(kind) for one in found)]
        lines = tuple(
            _line(host, {one.index: max(0.0, one.classes.get(kind, 0.0) / one.span_ns) for one in found})
            for kind in known
        )
        yield Strip(f"busy CPUs of {host.name}", "CPU", lines, "stack", names=tuple(known))


def _limiter(trial: Trial, ranked: Sequence[Suspect]) -> Iterator[Strip]:
    """Signals of the first suspects, where they are known interval by interval and not only on the whole."""
    plotted: set[str] = set()
    for suspect in ranked:
        host_name, _, limiter = suspect.name.rpartition(".")
        for role in ("send", "receive", ALONE):
            view = signals.View.of(trial, role)
            if view is None or (host_name and view.host.name != host_name):
                continue
            for criterion in _criteria(limiter, role):
                words = ({"cpu": "CPU", "cpus": "CPUs"}.get(word, word) for word in criterion.name.split("_"))
                name = f"{view.host.name}: {' '.join(words)}"
                found = criterion.signal(view)
                if name in plotted or len(set(found.values.values())) < 2:
                    continue
                if len(plotted) == SIGNALS_MOST:
                    return
                plotted.add(name)
                yield Strip(
                    name,
                    "" if found.unit == "1" else found.unit,
                    (_line(view.host, found.values),),
                    threshold=criterion.threshold,
                    above=criterion.above,
                )


def _metrics(trial: Trial) -> Iterator[Strip]:
    """Metrics that other programs hold, a step to each reading."""
    windows = trial.manifest["windows"]
    measured = windows["warm_up_ns"], windows["warm_up_ns"] + windows["measured_ns"]
    load_ns = measured[1] + windows.get("drain_ns", 0)
    for name, metric in trial.metrics.items():
        # A reading at the end of the measured window comes some moments after it.
        steps = [
            (min(at, measured[1]) if at < measured[1] + metric.every_ns / 2 else at, value)
            for at, _, value in metric.steps()
            if 0 <= at <= load_ns
        ]
        yield Strip(
            f"{name} ({metric.source})",
            "" if metric.unit == "1" else metric.unit,
            (
                Line(
                    name.partition(".")[0],
                    tuple(at / 1e9 for at, _ in steps),
                    tuple(value for _, value in steps),
                    tuple(
                        "warm_up" if at <= measured[0] else "measured" if at <= measured[1] else "drain"
                        for at, _ in steps
                    ),
                ),
            ),
            threshold=metric.full,
        )


def _criteria(limiter: str, role: str) -> list[Criterion]:
    return [
        criterion
        for rule in (*RULES, *RULES_OF_STORAGE)
        if rule.limiter == limiter and role in rule.ends
        for criterion in rule.criteria
    ]


def _line(host: HostData, values: Mapping[int, float]) -> Line:
    start = host.records[0].begin_ns
    shown = [record for record in host.records if record.index in values]
    return Line(
        host=host.name,
        seconds=tuple((record.end_ns - start) / 1e9 for record in shown),
        values=tuple(values[record.index] for record in shown),
        windows=tuple(record.window for record in shown),
    )
